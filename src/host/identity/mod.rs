//! Who this host and this process are, so that a later start can tell whether a writer still lives.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
use linux as system;
#[cfg(windows)]
mod windows;
#[cfg(windows)]
use windows as system;
#[cfg(target_os = "macos")]
mod macos;
#[cfg(target_os = "macos")]
use macos as system;

use crate::core::event::HostInfo;
use crate::core::process::ProcessId;
use crate::host::process;

/// What is recorded of the host once per run.
pub fn host_info() -> HostInfo {
    HostInfo {
        hostname: sysinfo::System::host_name().ok(),
        os: std::env::consts::OS.to_owned(),
        arch: std::env::consts::ARCH.to_owned(),
        kernel: sysinfo::System::kernel_version().ok(),
        cpu_count: cpu_count(),
        mem_total_mib: mem_total_mib(),
        boot_id: system::boot_id(),
    }
}

fn mem_total_mib() -> Option<u64> {
    let mut machine = sysinfo::System::new().ok()?;
    machine.refresh_memory();
    Some(machine.total_memory() / (1024 * 1024)).filter(|&total| total > 0)
}

pub fn cpu_count() -> Option<u32> {
    std::thread::available_parallelism().ok().and_then(|count| u32::try_from(count.get()).ok())
}

/// ledger itself.
pub fn own_id() -> ProcessId {
    let pid = std::process::id() as i32;
    ProcessId { pid, start: process::stat(pid).map_or(0, |stat| stat.id.start) }
}

/// The program that started ledger, where it can be told.
pub fn parent_program() -> Option<String> {
    process::exe_path(system::parent_pid()).ok()
}

/// Whether exactly this process of this boot still lives. The caller compares boot ids first.
pub fn is_alive(id: ProcessId) -> bool {
    process::is_alive(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_and_this_process_have_names() {
        let info = host_info();
        assert!(info.boot_id.is_some_and(|id| id.len() >= 8));
        assert!(info.mem_total_mib.is_some() && info.cpu_count.is_some());
        assert!(is_alive(own_id()));
        assert!(!is_alive(ProcessId { start: own_id().start + 1, ..own_id() }));
    }
}
