//! A slot that is held.

use std::fs::File;

use super::records::{self, Flush, PartyRecord, QuarantineRecord};
use super::{Pool, SlotError};
use crate::core::slot::{Party, Quarantine};

/// What a holder writes down of itself.
#[derive(Debug)]
pub struct Signature(PartyRecord);

impl Signature {
    pub fn of(party: &Party) -> Self {
        Self(PartyRecord::of(party, None))
    }
}

/// A held slot. The lock is the slot: dropping this, or the end of the process, gives it back.
#[derive(Debug)]
pub struct Held {
    pool: Pool,
    number: u32,
    /// `Some` until it is given back.
    lock: Option<File>,
}

impl Held {
    pub(super) fn sign(pool: &Pool, number: u32, lock: File, signature: Signature) -> Self {
        // Without its record the slot is held all the same, by a process that has not signed for it.
        if let Err(error) = records::write(&pool.slot_path(number, "holder"), &signature.0, Flush::No) {
            tracing::warn!(%error, "a holder's record was not written");
        }
        Self { pool: pool.clone(), number, lock: Some(lock) }
    }

    pub fn number(&self) -> u32 {
        self.number
    }

    /// Puts the slot away: nobody is let in before the record's end. To be called before the release, so that nobody comes between.
    pub fn quarantine(&self, kept: &Quarantine) -> Result<(), SlotError> {
        records::write(&self.pool.slot_path(self.number, "kept"), &QuarantineRecord::of(kept), Flush::ToDisk)
    }

    /// Gives the slot back, now.
    pub fn release(mut self) {
        self.give_back();
    }

    fn give_back(&mut self) {
        if let Some(lock) = self.lock.take() {
            records::remove(&self.pool.slot_path(self.number, "holder"));
            drop(lock);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.give_back();
    }
}
