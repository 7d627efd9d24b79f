//! A slot that is kept on purpose: its device may still run. It has a reason and an end, and everybody can read both.

use crate::core::moment::{Secs, Wall};

/// A clock that was this far ahead when the record was written was set since.
const CLOCK_SLACK: Secs = Secs::from_secs(60);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quarantine {
    pub reason: String,
    pub since: Wall,
    pub expires: Wall,
}

/// What a quarantine is worth at some time.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Standing {
    Stands,
    Expired,
    /// It was written under a clock that ran ahead, and would stand for as long as that clock was wrong: this one replaces it.
    Rebased(Quarantine),
}

impl Quarantine {
    pub fn begin(reason: String, now: Wall, lasts: Secs) -> Self {
        Self { reason, since: now, expires: now.plus(lasts) }
    }

    pub fn standing(&self, now: Wall) -> Standing {
        if now >= self.expires {
            return Standing::Expired;
        }
        if self.since > now.plus(CLOCK_SLACK) {
            return Standing::Rebased(Self::begin(self.reason.clone(), now, self.expires.since(self.since)));
        }
        Standing::Stands
    }
}
