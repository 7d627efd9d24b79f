//! Windows: memory comes through sysinfo (GlobalMemoryStatusEx and the commit charge), the rest from here.

use std::os::windows::ffi::OsStrExt as _;
use std::path::Path;

use windows_sys::Win32::Storage::FileSystem::GetDiskFreeSpaceExW;
use windows_sys::Win32::System::Threading::PROCESS_QUERY_LIMITED_INFORMATION;

use super::TreeNow;
use crate::core::process::ProcessId;
use crate::core::sample::{CgroupMemory, MacMemory, Pressure};
use crate::host::process::{self, Stat};
use crate::host::{identity, job};

pub fn load_average() -> Result<sysinfo::LoadAvg, String> {
    Err("Windows keeps no load average".to_owned())
}

pub fn pressure() -> Result<Pressure, String> {
    Err("only on Linux".to_owned())
}

pub fn cgroup_memory() -> Result<CgroupMemory, String> {
    Err("only on Linux".to_owned())
}

pub fn mac_memory() -> Result<MacMemory, String> {
    Err("only on macOS".to_owned())
}

pub fn open_files() -> Result<u64, String> {
    Err("Windows counts handles of all kinds, not open files".to_owned())
}

/// Free bytes for this user; NTFS makes its file records as it needs them, so there is no count of inodes.
pub fn free_space(path: &Path) -> Result<(u64, Option<u64>), String> {
    let wide: Vec<u16> = path.as_os_str().encode_wide().chain([0]).collect();
    let mut free = 0;
    // SAFETY: the path ends with a zero, `free` lives through the call, and the other two figures are not asked for.
    let answer = unsafe { GetDiskFreeSpaceExW(wide.as_ptr(), &raw mut free, std::ptr::null_mut(), std::ptr::null_mut()) };
    if answer == 0 {
        return Err(format!("{}: {}", path.display(), std::io::Error::last_os_error()));
    }
    Ok((free, None))
}

/// The members of the jobs that ledger holds, and what descends from ledger outside of any.
pub fn tree(owner: ProcessId) -> Result<TreeNow, String> {
    if owner != identity::own_id() {
        return Err("the owner has ended".to_owned());
    }
    let all = process::list().map_err(|error| error.to_string())?;
    let members = job::held_below(owner, &all);
    let mut now = TreeNow::default();
    for stat in all.iter().filter(|stat| members.contains(&stat.id.pid)) {
        now.cpu_s += cpu_s(stat);
        now.rss_mib += stat.rss_mib();
        now.processes += 1;
    }
    // The account has those too that have ended; a system that keeps none says 0.
    let accounts: f64 = job::held().iter().filter_map(|job| job.account().ok()).map(|account| account.cpu_s).sum();
    now.cpu_s = now.cpu_s.max(accounts);
    Ok(now)
}

/// A listing may tell no times; the process itself does.
fn cpu_s(stat: &Stat) -> f64 {
    if stat.cpu_100ns > 0 {
        return stat.cpu_s();
    }
    let process = process::open(stat.id.pid, PROCESS_QUERY_LIMITED_INFORMATION).ok();
    let times = process.and_then(|process| process::times(&process)).filter(|(created, _)| *created == stat.id.start);
    times.map_or(0.0, |(_, used)| used as f64 / 1e7)
}
