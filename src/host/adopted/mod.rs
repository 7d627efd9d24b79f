//! What is a child of ledger itself: its owners, and orphans that landed on it when an owner ended before its tree.
//!
//! Orphans are reaped here, each by its number. Nothing here waits for "any child": that would steal statuses.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub use linux::{has_company, launch, orphans, reap_one, take_in};
#[cfg(windows)]
mod windows;
#[cfg(windows)]
pub use windows::reap_one;
#[cfg(target_os = "macos")]
mod macos;
#[cfg(target_os = "macos")]
pub use macos::{launch, reap_one, take_in};

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::core::process::ProcessId;

/// Who is whose. One table per process, because children belong to the process.
#[derive(Default)]
struct Family {
    owners: BTreeSet<i32>,
    /// Processes that a sweep left alive: they become children of ledger when their owner ends.
    expected: BTreeSet<ProcessId>,
    /// There were some at some time, and what they have started lands here too.
    spared_any: bool,
}

static FAMILY: Mutex<Option<Family>> = Mutex::new(None);

fn family<T>(act: impl FnOnce(&mut Family) -> T) -> T {
    let mut guard: MutexGuard<'_, Option<Family>> = FAMILY.lock().unwrap_or_else(PoisonError::into_inner);
    act(guard.get_or_insert_default())
}

#[cfg(unix)]
pub fn remove_owner(pid: i32) {
    family(|family| family.owners.remove(&pid));
}

/// Whether this is an owner of this ledger.
pub fn is_owner(pid: i32) -> bool {
    family(|family| family.owners.contains(&pid))
}

/// These will be orphaned onto ledger.
pub fn expect(survivors: &[ProcessId]) {
    family(|family| {
        family.spared_any |= !survivors.is_empty();
        family.expected.extend(survivors);
    });
}

/// Whether a sweep left this process alive on purpose or for want of power.
pub fn is_expected(id: ProcessId) -> bool {
    family(|family| family.expected.contains(&id))
}

pub fn expected() -> BTreeSet<ProcessId> {
    family(|family| family.expected.clone())
}
