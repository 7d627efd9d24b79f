//! Slots: who may go in, what a holder does until it lets go, what stays behind, and what people are told.
//!
//! A slot itself is a lock that `host::slots` takes; this module decides on what it is shown and never looks for itself.
//!
//! ```text
//!            admit: occupied < capacity, and no live waiter ahead that a free slot is needed for
//!  Waiting ────────────────▶ Running ──ok──────────────▶ Ending ──clean──────────────────────────▶ Released
//!     │ cancelled, or           │ failure, deadline,        │ else                                    ▲
//!     │ done elsewhere          │ cancelled                 ▼        gone (0), not mine (75)          │
//!     ▼                         └──────────▶ Ending ──▶ Destroying ──────────────────────────────────┘
//!  GaveWay                                                  │ anything else, no answer
//!                                                           ▼
//!                                                     Quarantined: a record with a reason and an end, written first; then released
//! ```
//!
//! Whatever happens, a hold ends with exactly one `Release` or `GiveWay`. A killed process needs neither: its lock dies with it.

mod admission;
mod hold;
mod name;
mod pacing;
mod quarantine;
mod status;
mod words;

#[cfg(test)]
mod explore;
#[cfg(test)]
mod tests;

pub use admission::{Admission, admit};
pub use hold::{Answer, Effect, End, Hold, Illegal, Input, Phase, Reason, Teardown, Why};
pub use name::{PoolName, PoolNameError};
pub use pacing::{Due, Pacing};
pub use quarantine::{Quarantine, Standing};
pub use status::{PoolRow, PoolsDocument, is_black_hole};
pub use words::{damaged, holders, mended, standing, waiting};

use super::moment::Wall;
use super::process::ProcessId;

/// More slots than this on one host is a slip of the keyboard.
pub const MOST_SLOTS: u32 = 1000;

/// Who holds a slot or waits for one, as others may read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Party {
    pub id: ProcessId,
    pub run_id: Option<String>,
    pub leg: Option<String>,
    pub since: Wall,
}

/// What is behind a lock that is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// `None` where the lock is held and nobody has signed for it.
    pub party: Option<Party>,
    /// The process that signed is alive. A lock that is held without it is held by something that nobody tracks.
    pub is_tracked: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// From 1.
    pub number: u32,
    pub holder: Option<Holder>,
    pub quarantine: Option<Quarantine>,
}

impl Slot {
    pub fn is_free(&self) -> bool {
        self.holder.is_none() && self.quarantine.is_none()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiter {
    /// Grows in the order of arrival.
    pub ticket: u64,
    pub party: Option<Party>,
    /// It has not looked for a while: stopped, or its machine sleeps. It keeps its ticket and is passed over.
    pub is_stalled: bool,
}

/// One pool, out of the locks themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolView {
    pub name: String,
    pub capacity: u32,
    /// The record that states the capacity cannot be read; whoever takes a slot next writes it anew.
    pub is_damaged: bool,
    /// Slots that were ever used, in order; also those above a capacity that has shrunk.
    pub slots: Vec<Slot>,
    /// Live waiters, in the order of their tickets.
    pub waiters: Vec<Waiter>,
}

impl PoolView {
    /// Held slots, those above the capacity included.
    pub fn held(&self) -> u32 {
        count(self.slots.iter().filter(|slot| slot.holder.is_some()))
    }

    /// Slots that are kept on purpose and held by nobody.
    pub fn quarantined(&self) -> u32 {
        count(self.slots.iter().filter(|slot| slot.holder.is_none() && slot.quarantine.is_some()))
    }

    /// How many more may go in.
    pub fn free(&self) -> u32 {
        self.capacity.saturating_sub(self.held() + self.quarantined())
    }

    /// Live waiters that would be admitted before this one.
    pub fn ahead_of(&self, ticket: u64) -> u32 {
        count(self.waiters.iter().filter(|waiter| waiter.ticket < ticket && !waiter.is_stalled))
    }
}

fn count<T>(items: impl Iterator<Item = T>) -> u32 {
    u32::try_from(items.count()).unwrap_or(u32::MAX)
}
