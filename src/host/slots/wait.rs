//! A place in the queue, and the looks that end in a slot.

use std::fs::File;
use std::path::PathBuf;

use super::hold::{Held, Signature};
use super::records::{self, Flush, PartyRecord, PoolRecord};
use super::{Pool, SlotError, Stated, Tried, try_lock};
use crate::core::moment::{Moment, Secs};
use crate::core::slot::{Admission, Party, PoolView, admit};

/// A waiter renews its record this often; it is passed over after ten times that.
const RENEW: Secs = Secs::from_secs(1);

/// Who asks, and for how many slots the pool is stated to have.
#[derive(Debug, Clone)]
pub struct Claim {
    pub party: Party,
    /// `None` leaves the pool's capacity as it is; a pool that never had one has one slot.
    pub capacity: Option<u32>,
}

/// What came of a look.
#[derive(Debug)]
pub enum Attempt {
    Taken(Held),
    /// Nothing is free for this one; this is how the pool stands.
    Wait(PoolView),
    /// Somebody else is looking. Worth another try within milliseconds.
    GateBusy,
}

/// One that wants a slot. Dropping it gives way: its place goes to whoever is behind.
#[derive(Debug)]
pub struct Waiting {
    pool: Pool,
    claim: Claim,
    place: Option<Place>,
    stated: bool,
    mended: Option<u32>,
}

#[derive(Debug)]
struct Place {
    ticket: u64,
    lock_path: PathBuf,
    who_path: PathBuf,
    renewed_mono_ms: u64,
    /// Locked for as long as this lives.
    _lock: File,
}

impl Waiting {
    pub fn new(pool: Pool, claim: Claim) -> Self {
        Self { pool, claim, place: None, stated: false, mended: None }
    }

    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// `None` until it has looked once and not been let in.
    pub fn ticket(&self) -> Option<u64> {
        self.place.as_ref().map(|place| place.ticket)
    }

    /// The capacity that was written where the pool's record was damaged; told once.
    pub fn take_mended(&mut self) -> Option<u32> {
        self.mended.take()
    }

    /// Looks once, and takes a slot if one is due. Never waits.
    pub fn attempt(&mut self, now: Moment) -> Result<Attempt, SlotError> {
        let gate_path = self.pool.gate_path();
        // Opened anew each time, because closing it gives the lock back on every system. (Wine answers a whole unlock with an error.)
        let gate = self.pool.open_file(&gate_path)?;
        match try_lock(&gate, &gate_path)? {
            Tried::HeldByAnother => Ok(Attempt::GateBusy),
            Tried::Locked => self.under_gate(now),
        }
    }

    fn under_gate(&mut self, now: Moment) -> Result<Attempt, SlotError> {
        self.state_capacity()?;
        let view = self.pool.scan_and_tidy(now)?;
        // Behind everybody who waits: a ticket of a waiter that died may be given anew, because nobody that lives is behind it.
        let next = view.waiters.last().map_or(1, |last| last.ticket + 1);
        let ticket = self.ticket().unwrap_or(next);
        if let Admission::Take(number) = admit(&view, ticket)
            && let Some(held) = self.take(number)?
        {
            self.place = None;
            return Ok(Attempt::Taken(held));
        }
        if let Some(place) = &mut self.place {
            place.renew(&self.claim.party, now);
            return Ok(Attempt::Wait(view));
        }
        self.queue_up(ticket, now)?;
        Ok(Attempt::Wait(self.pool.scan(now)?))
    }

    fn state_capacity(&mut self) -> Result<(), SlotError> {
        let stated = self.pool.stated();
        // A record that was damaged since is written anew by whoever looks next.
        if self.stated && stated != Stated::Damaged {
            return Ok(());
        }
        let path = self.pool.folder.join("pool.json");
        let old = stated.capacity();
        let capacity = self.claim.capacity.or(old).unwrap_or(1);
        if old != Some(capacity) {
            records::write(&path, &PoolRecord::new(&self.pool.name, capacity), Flush::ToDisk)?;
        }
        if stated == Stated::Damaged {
            self.mended = Some(capacity);
        }
        self.stated = true;
        Ok(())
    }

    /// `None` where a look of somebody else's holds the lock for this very moment: the next attempt gets it.
    fn take(&self, number: u32) -> Result<Option<Held>, SlotError> {
        let path = self.pool.slot_path(number, "lock");
        let file = self.pool.open_file(&path)?;
        match try_lock(&file, &path)? {
            Tried::HeldByAnother => Ok(None),
            Tried::Locked => Ok(Some(Held::sign(&self.pool, number, file, Signature::of(&self.claim.party)))),
        }
    }

    fn queue_up(&mut self, ticket: u64, now: Moment) -> Result<(), SlotError> {
        let lock_path = self.pool.wait_path(ticket, "lock");
        let lock = self.pool.open_file(&lock_path)?;
        if let Tried::HeldByAnother = try_lock(&lock, &lock_path)? {
            // A look of somebody else's has it for this moment; the next attempt queues up.
            return Ok(());
        }
        let who_path = self.pool.wait_path(ticket, "who");
        let mut place = Place { ticket, lock_path, who_path, renewed_mono_ms: 0, _lock: lock };
        place.renew(&self.claim.party, now);
        self.place = Some(place);
        Ok(())
    }
}

impl Place {
    fn renew(&mut self, party: &Party, now: Moment) {
        if self.renewed_mono_ms != 0 && now.mono_ms.saturating_sub(self.renewed_mono_ms) < RENEW.millis() {
            return;
        }
        self.renewed_mono_ms = now.mono_ms.max(1);
        // On a full disk the place counts all the same: the lock is what counts.
        if let Err(error) = records::write(&self.who_path, &PartyRecord::of(party, Some(now.mono_ms)), Flush::No) {
            tracing::warn!(%error, "a waiter's record was not written");
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        records::remove(&self.who_path);
        records::remove(&self.lock_path);
    }
}
