//! macOS: there are no subreapers. What an owner orphans goes to launchd, which waits for it, so nothing lands on ledger.

use super::family;
use crate::core::process::ProcessId;

pub fn add_owner(owner: ProcessId) {
    family(|family| family.owners.insert(owner.pid));
}

/// Nothing has landed here.
pub fn take_in() {}

/// Takes in one child that has ended; does nothing if it lives or is not ours.
pub fn reap_one(pid: i32) {
    let _ = rustix::process::waitpid(rustix::process::Pid::from_raw(pid), rustix::process::WaitOptions::NOHANG);
}
