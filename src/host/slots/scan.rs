//! A pool as its locks and records show it.

use std::io;
use std::path::Path;

use super::records::{self, Flush, PartyRecord, QuarantineRecord};
use super::{Pool, STALLED, SlotError, Stated, system};
use crate::core::moment::{Moment, Secs, Wall};
use crate::core::slot::{Holder, MOST_SLOTS, PoolView, Quarantine, Slot, Standing, Waiter};
use crate::host::process;

/// How long a quarantine stands whose record cannot be read.
const UNREADABLE_STANDS: Secs = Secs::from_secs(1800);

/// What a probe of a lock found.
enum Probed {
    Held,
    Nobody,
}

impl Pool {
    /// Looks and changes nothing.
    pub(super) fn scan(&self, now: Moment) -> Result<PoolView, SlotError> {
        let stated = self.stated();
        let is_damaged = stated == Stated::Damaged;
        let capacity = stated.capacity().map_or(1, |capacity| capacity.clamp(1, MOST_SLOTS));
        let mut view = PoolView { name: self.name.clone(), capacity, is_damaged, slots: Vec::new(), waiters: Vec::new() };
        for name in self.names()? {
            if let Some(number) = numbered::<u32>(&name, "slot-", ".lock") {
                view.slots.push(self.slot(number, now)?);
            } else if let Some(ticket) = numbered::<u64>(&name, "wait-", ".lock") {
                view.waiters.extend(self.waiter(ticket, now)?);
            }
        }
        view.slots.sort_by_key(|slot| slot.number);
        view.waiters.sort_by_key(|waiter| waiter.ticket);
        Ok(view)
    }

    /// As `scan`, under the gate: what is over is put away.
    pub(super) fn scan_and_tidy(&self, now: Moment) -> Result<PoolView, SlotError> {
        let view = self.scan(now)?;
        // Only a holder writes such a record, and under the gate nobody becomes one.
        for slot in view.slots.iter().filter(|slot| slot.holder.is_none()) {
            let path = self.slot_path(slot.number, "kept");
            match (&slot.quarantine, path.exists()) {
                (None, true) => records::remove(&path),
                (Some(kept), true) if records::read::<QuarantineRecord>(&path).is_none_or(|old| old.quarantine() != *kept) => {
                    // Damaged, or written under a clock that ran ahead: from now on it has an end.
                    records::write(&path, &QuarantineRecord::of(kept), Flush::ToDisk)?;
                }
                _ => {}
            }
        }
        for name in self.names()? {
            let ticket = numbered::<u64>(&name, "wait-", ".lock");
            if let Some(ticket) = ticket.filter(|ticket| view.waiters.iter().all(|waiter| waiter.ticket != *ticket)) {
                records::remove(&self.wait_path(ticket, "who"));
                records::remove(&self.wait_path(ticket, "lock"));
            }
        }
        Ok(view)
    }

    fn names(&self) -> Result<Vec<String>, SlotError> {
        let failed = |source| SlotError::Folder { path: self.folder.clone(), source };
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.folder).map_err(failed)? {
            names.extend(entry.map_err(failed)?.file_name().into_string());
        }
        Ok(names)
    }

    /// The lock first: a holder puts its slot away before it lets go, so a lock that is free has its record beside it already.
    fn slot(&self, number: u32, now: Moment) -> Result<Slot, SlotError> {
        let holder = match probe(&self.slot_path(number, "lock"))? {
            Probed::Nobody => None,
            Probed::Held => {
                let party = records::read::<PartyRecord>(&self.slot_path(number, "holder")).map(|record| record.party());
                let is_tracked = party.as_ref().is_some_and(|party| process::is_alive(party.id));
                Some(Holder { party, is_tracked })
            }
        };
        Ok(Slot { number, holder, quarantine: self.quarantine(number, now) })
    }

    fn quarantine(&self, number: u32, now: Moment) -> Option<Quarantine> {
        let path = self.slot_path(number, "kept");
        let Some(record) = records::read::<QuarantineRecord>(&path) else {
            return standing(unreadable(&path, now.wall)?, now.wall);
        };
        standing(record.quarantine(), now.wall)
    }

    /// A waiter whose lock is free is dead, whatever its record says.
    fn waiter(&self, ticket: u64, now: Moment) -> Result<Option<Waiter>, SlotError> {
        if let Probed::Nobody = probe(&self.wait_path(ticket, "lock"))? {
            return Ok(None);
        }
        let record = records::read::<PartyRecord>(&self.wait_path(ticket, "who"));
        let looked = record.as_ref().and_then(|record| record.looked_mono_ms).unwrap_or(now.mono_ms);
        let is_stalled = now.mono_ms.saturating_sub(looked) > STALLED.millis();
        Ok(Some(Waiter { ticket, party: record.map(|record| record.party()), is_stalled }))
    }
}

fn standing(kept: Quarantine, now: Wall) -> Option<Quarantine> {
    match kept.standing(now) {
        Standing::Stands => Some(kept),
        Standing::Rebased(anew) => Some(anew),
        Standing::Expired => None,
    }
}

/// A record that cannot be read still says that the slot was kept, and its file says since when: counted from the look, it would never end.
fn unreadable(path: &Path, now: Wall) -> Option<Quarantine> {
    let written = path.symlink_metadata().ok()?.modified().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    let written = written.and_then(|since| i64::try_from(since.as_millis()).ok()).map_or(now, Wall);
    Some(Quarantine::begin("its record cannot be read".to_owned(), written.min(now), UNREADABLE_STANDS))
}

/// Whether anybody holds this lock. A shared lock for a moment disturbs no other probe, and an admission is kept out by the gate.
fn probe(path: &Path) -> Result<Probed, SlotError> {
    let failed = |source| SlotError::File { path: path.to_owned(), source };
    let file = match system::open_to_read(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Probed::Nobody),
        Err(error) => return Err(failed(error)),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(Probed::Nobody),
        Err(std::fs::TryLockError::WouldBlock) => Ok(Probed::Held),
        Err(std::fs::TryLockError::Error(source)) => Err(failed(source)),
    }
}

fn numbered<N: std::str::FromStr>(name: &str, before: &str, after: &str) -> Option<N> {
    name.strip_prefix(before)?.strip_suffix(after)?.parse().ok()
}
