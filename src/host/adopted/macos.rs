//! macOS: there are no subreapers. What an owner orphans goes to launchd, which waits for it, so nothing lands on ledger.

use std::io;
use std::process::Child;

use super::family;

/// Starts an owner, which is no orphan from the start.
pub fn launch(spawn: impl FnOnce() -> io::Result<Child>) -> io::Result<Child> {
    let child = spawn()?;
    family(|family| family.owners.insert(child.id() as i32));
    Ok(child)
}

/// Nothing has landed here.
pub fn take_in() {}

/// Takes in one child that has ended; does nothing if it lives or is not ours.
pub fn reap_one(pid: i32) {
    let _ = rustix::process::waitpid(rustix::process::Pid::from_raw(pid), rustix::process::WaitOptions::NOHANG);
}
