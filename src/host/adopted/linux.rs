//! Linux: ledger is a child-subreaper, so the orphans of an owner that died land on it and have to be waited for.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::process::Child;
use std::sync::{Mutex, PoisonError};

use super::family;
use crate::core::process::ProcessId;
use crate::host::process::Unread;
use crate::host::{clock, process};

/// Everybody in ledger who starts a child of another kind waits for it at once; a zombie this old was orphaned onto us.
const UNCLAIMED_MS: u64 = 10_000;

/// What there was before the first owner: whoever became ledger by `exec` may have had children, and they are nobody's orphans.
struct Before {
    inherited: BTreeSet<ProcessId>,
    /// When the first owner was born, in the system's own unit.
    first_owner: Option<u64>,
}

static BEFORE: Mutex<Before> = Mutex::new(Before { inherited: BTreeSet::new(), first_owner: None });

fn before<T>(act: impl FnOnce(&mut Before) -> T) -> T {
    act(&mut BEFORE.lock().unwrap_or_else(PoisonError::into_inner))
}

/// When a zombie that nobody claims was first seen, in monotonic milliseconds.
static ZOMBIES: Mutex<BTreeMap<ProcessId, u64>> = Mutex::new(BTreeMap::new());

/// Makes orphans of a dead owner land on ledger, where they can be found, and takes in those that have ended.
pub fn take_in() {
    let _ = rustix::process::set_child_subreaper(rustix::process::Pid::from_raw(1));
    let Ok(children) = process::children(std::process::id() as i32) else { return };
    let is_first = before(|before| before.first_owner.is_none());
    if is_first {
        let inherited = children.iter().filter_map(|&pid| process::stat(pid).ok()).map(|stat| stat.id).collect();
        before(|before| before.inherited = inherited);
    }
    reap(children);
}

/// Starts an owner. Whoever lists orphans meanwhile waits, for a moment, so that it is never taken for one.
pub fn launch(spawn: impl FnOnce() -> io::Result<Child>) -> io::Result<Child> {
    family(|family| {
        let child = spawn()?;
        let pid = child.id() as i32;
        family.owners.insert(pid);
        if let Ok(stat) = process::stat(pid) {
            before(|before| {
                before.first_owner.get_or_insert(stat.id.start);
            });
        }
        Ok(child)
    })
}

/// The children of ledger that are neither its owners, nor spared, nor older than them.
pub fn orphans() -> Result<Vec<i32>, Unread> {
    family(|family| {
        let mut children = process::children(std::process::id() as i32)?;
        let counts = |id: ProcessId| !family.expected.contains(&id) && !is_inherited(id);
        children.retain(|pid| !family.owners.contains(pid) && process::stat(*pid).is_ok_and(|stat| counts(stat.id)));
        Ok(children)
    })
}

/// Whether others than lost owners may have orphaned a process onto ledger: what it came with, or whom a sweep has left alive.
pub fn has_company() -> bool {
    before(|before| !before.inherited.is_empty()) || family(|family| family.spared_any)
}

/// Whether ledger, or the program that became ledger, had this child before any owner, or whether it is older than all owners: what a
/// child of that kind orphans lands on ledger too.
fn is_inherited(id: ProcessId) -> bool {
    before(|before| before.inherited.contains(&id) || before.first_owner.is_some_and(|first| id.start < first))
}

fn reap(children: Vec<i32>) {
    let now = clock::now().mono_ms;
    let mut before = ZOMBIES.lock().unwrap_or_else(PoisonError::into_inner);
    let mut zombies = BTreeMap::new();
    family(|family| {
        for pid in children.into_iter().filter(|pid| !family.owners.contains(pid)) {
            let Ok(stat) = process::stat(pid) else { continue };
            if !stat.is_gone() {
                continue;
            }
            let since = before.get(&stat.id).copied().unwrap_or(now);
            if family.expected.remove(&stat.id) || now.saturating_sub(since) >= UNCLAIMED_MS {
                reap_one(pid);
            } else {
                zombies.insert(stat.id, since);
            }
        }
    });
    *before = zombies;
}

/// Takes in one child that has ended; does nothing if it lives or is not ours.
pub fn reap_one(pid: i32) {
    let _ = rustix::process::waitpid(rustix::process::Pid::from_raw(pid), rustix::process::WaitOptions::NOHANG);
}
