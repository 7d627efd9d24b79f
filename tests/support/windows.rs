//! Windows: the system's own list.

/// A process that is there and has not ended.
pub fn is_alive(pid: u32) -> bool {
    ci_ledger::host::process::stat(pid as i32).is_ok_and(|stat| ci_ledger::host::process::is_alive(stat.id))
}
