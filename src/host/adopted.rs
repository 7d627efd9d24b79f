//! What is a child of ledger itself: its owners, and orphans that landed on it when an owner ended before its tree.
//!
//! Orphans are reaped here, each by its number. Nothing here waits for "any child": that would steal statuses.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::core::process::ProcessId;
use crate::host::{clock, process};

/// Who is whose. One table per process, because children belong to the process.
#[derive(Default)]
struct Family {
    owners: BTreeSet<i32>,
    /// Processes that a sweep left alive: they become children of ledger when their owner ends.
    expected: BTreeSet<ProcessId>,
    /// When a zombie that nobody claims was first seen, in monotonic milliseconds.
    zombies: BTreeMap<ProcessId, u64>,
}

static FAMILY: Mutex<Option<Family>> = Mutex::new(None);

/// Everybody in ledger who starts a child of another kind waits for it at once; a zombie this old was orphaned onto us.
const UNCLAIMED_MS: u64 = 10_000;

fn family<T>(act: impl FnOnce(&mut Family) -> T) -> T {
    let mut guard: MutexGuard<'_, Option<Family>> = FAMILY.lock().unwrap_or_else(PoisonError::into_inner);
    act(guard.get_or_insert_default())
}

/// Makes orphans of a dead owner land on ledger, where they can be found.
pub fn become_subreaper() {
    let _ = rustix::process::set_child_subreaper(rustix::process::Pid::from_raw(1));
}

pub fn add_owner(pid: i32) {
    family(|family| family.owners.insert(pid));
}

pub fn remove_owner(pid: i32) {
    family(|family| family.owners.remove(&pid));
}

pub fn owners() -> BTreeSet<i32> {
    family(|family| family.owners.clone())
}

/// These will be orphaned onto ledger.
pub fn expect(survivors: &[ProcessId]) {
    family(|family| family.expected.extend(survivors));
}

/// Whether a sweep left this process alive on purpose or for want of power.
pub fn is_expected(id: ProcessId) -> bool {
    family(|family| family.expected.contains(&id))
}

pub fn expected() -> BTreeSet<ProcessId> {
    family(|family| family.expected.clone())
}

/// Takes in what has ended among the orphans.
pub fn reap() {
    let Ok(children) = process::children(std::process::id() as i32) else { return };
    let now = clock::now().mono_ms;
    family(|family| {
        let mut zombies = BTreeMap::new();
        for pid in children.into_iter().filter(|pid| !family.owners.contains(pid)) {
            let Ok(stat) = process::stat(pid) else { continue };
            if !stat.is_gone() {
                continue;
            }
            let since = family.zombies.get(&stat.id).copied().unwrap_or(now);
            if family.expected.remove(&stat.id) || now.saturating_sub(since) >= UNCLAIMED_MS {
                reap_one(pid);
            } else {
                zombies.insert(stat.id, since);
            }
        }
        family.zombies = zombies;
    });
}

/// Takes in one child that has ended; does nothing if it lives or is not ours.
pub fn reap_one(pid: i32) {
    let _ = rustix::process::waitpid(rustix::process::Pid::from_raw(pid), rustix::process::WaitOptions::NOHANG);
}
