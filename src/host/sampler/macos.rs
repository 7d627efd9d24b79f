//! macOS: sysctl, the host's pages, and what Finder calls available. Compiled only; no Mac has run it.

use std::collections::BTreeSet;
use std::path::Path;

use super::TreeNow;
use crate::core::process::ProcessId;
use crate::core::sample::{CgroupMemory, MacMemory, Pressure};
use crate::host::{darwin, process, volume};

pub fn load_average() -> Result<sysinfo::LoadAvg, String> {
    sysinfo::System::load_average().map_err(|error| error.to_string())
}

pub fn pressure() -> Result<Pressure, String> {
    Err("only on Linux".to_owned())
}

pub fn cgroup_memory() -> Result<CgroupMemory, String> {
    Err("only on Linux".to_owned())
}

/// The level that programs are warned with, and the pages that say why. Compressed pages count as what they take, not as what they hold.
pub fn mac_memory() -> Result<MacMemory, String> {
    let pages = darwin::memory().map_err(|error| error.to_string())?;
    let level = darwin::setting::<u32>(c"kern.memorystatus_vm_pressure_level").ok();
    let page = rustix::param::page_size() as u64;
    let mib = |count: u64| count * page / (1024 * 1024);
    Ok(MacMemory {
        pressure_level: level,
        free_and_inactive_mib: Some(mib(u64::from(pages.free_count) + u64::from(pages.inactive_count))),
        wired_and_compressed_mib: Some(mib(u64::from(pages.wire_count) + u64::from(pages.compressor_page_count))),
    })
}

pub fn open_files() -> Result<u64, String> {
    let count = darwin::setting::<i32>(c"kern.num_files").map_err(|error| format!("kern.num_files: {error}"))?;
    u64::try_from(count).map_err(|_| "kern.num_files: no number".to_owned())
}

/// Bytes that can be had, what can be purged for them included, where the system tells; else the free bytes. And free inodes where the
/// file system counts them.
pub fn free_space(path: &Path) -> Result<(u64, Option<u64>), String> {
    let space = rustix::fs::statvfs(path).map_err(|error| format!("{}: {}", path.display(), std::io::Error::from(error)))?;
    let inodes = (space.f_files > 0).then_some(space.f_favail);
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    Ok((volume::available(path).map_or(free, |available| available.max(free)), inodes))
}

/// The live processes below an owner, by descent and by the leader's session. The time of an orphan that has ended is launchd's.
pub fn tree(owner: ProcessId) -> Result<TreeNow, String> {
    let top = process::stat(owner.pid).ok().filter(|stat| stat.id == owner).ok_or("the owner has ended")?;
    let pids = process::all().map_err(|error| format!("the processes cannot be listed: {error}"))?;
    let mut stats: Vec<process::Stat> = pids.into_iter().filter_map(|pid| process::stat(pid).ok()).collect();
    // A process is made after its parent, and so has the larger number.
    stats.sort_unstable_by_key(|stat| stat.unique);
    let leader = stats.iter().find(|stat| stat.parent_unique == top.unique).map(|stat| stat.id.pid);
    let mut ours = BTreeSet::from([top.unique]);
    let mut now = TreeNow::default();
    for stat in stats.iter().filter(|stat| stat.id != owner) {
        let in_session = || leader.is_some() && process::session(stat.id.pid) == leader;
        if !ours.contains(&stat.parent_unique) && !in_session() {
            continue;
        }
        ours.insert(stat.unique);
        let Ok(usage) = darwin::rusage(stat.id.pid) else { continue };
        let ticks = usage.ri_user_time + usage.ri_system_time + usage.ri_child_user_time + usage.ri_child_system_time;
        now.cpu_s += darwin::seconds(ticks);
        if !stat.is_gone() {
            now.rss_mib += process::mib(usage.ri_resident_size);
            now.processes += 1;
        }
    }
    Ok(now)
}
