//! Unix: `ps` and `kill`.

use std::process::Command;

/// A process that is there and no zombie.
pub fn is_alive(pid: u32) -> bool {
    if cfg!(target_os = "linux") {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        return stat.rsplit(')').next().is_some_and(|rest| !stat.is_empty() && !rest.trim_start().starts_with(['Z', 'X']));
    }
    let ps = Command::new("ps").args(["-o", "stat=", "-p", &pid.to_string()]).output().unwrap();
    let state = String::from_utf8_lossy(&ps.stdout).trim().to_owned();
    !state.is_empty() && !state.starts_with('Z')
}

/// Signals one process that this test knows.
pub fn signal(pid: u32, name: &str) {
    let status = Command::new("kill").args([&format!("-{name}"), "--", &pid.to_string()]).status().unwrap();
    assert!(status.success(), "kill -{name} {pid}");
}
