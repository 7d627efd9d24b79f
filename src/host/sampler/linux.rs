//! Linux: /proc and statvfs.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::TreeNow;
use crate::core::process::ProcessId;
use crate::core::sample::{CgroupMemory, MacMemory, Pressure};
use crate::host::{cgroup, process};

pub fn load_average() -> Result<sysinfo::LoadAvg, String> {
    sysinfo::System::load_average().map_err(|error| error.to_string())
}

/// Pressure stall information; absent before Linux 4.20, and where the kernel was booted without it.
pub fn pressure() -> Result<Pressure, String> {
    let cpu = stalls("cpu")?;
    let memory = stalls("memory")?;
    let io = stalls("io")?;
    Ok(Pressure {
        cpu_some_avg10: cpu.some,
        memory_some_avg10: memory.some,
        memory_full_avg10: memory.full,
        io_some_avg10: io.some,
        io_full_avg10: io.full,
    })
}

struct Stalls {
    some: Option<f64>,
    full: Option<f64>,
}

fn stalls(what: &str) -> Result<Stalls, String> {
    let path = format!("/proc/pressure/{what}");
    let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let avg10 = |kind: &str| {
        let line = text.lines().find(|line| line.starts_with(kind))?;
        line.split(' ').find_map(|word| word.strip_prefix("avg10="))?.parse().ok()
    };
    Ok(Stalls { some: avg10("some"), full: avg10("full") })
}

pub fn cgroup_memory() -> Result<CgroupMemory, String> {
    cgroup::own_memory().ok_or_else(|| "no memory controller above ledger's own cgroup".to_owned())
}

pub fn mac_memory() -> Result<MacMemory, String> {
    Err("only on macOS".to_owned())
}

pub fn open_files() -> Result<u64, String> {
    let path = "/proc/sys/fs/file-nr";
    let text = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    text.split_ascii_whitespace().next().and_then(|word| word.parse().ok()).ok_or_else(|| format!("{path}: no number"))
}

/// Free bytes, and free inodes where the file system counts them.
pub fn free_space(path: &Path) -> Result<(u64, Option<u64>), String> {
    let space = rustix::fs::statvfs(path).map_err(|error| format!("{}: {}", path.display(), std::io::Error::from(error)))?;
    let inodes = (space.f_files > 0).then_some(space.f_favail);
    Ok((space.f_bavail.saturating_mul(space.f_frsize), inodes))
}

/// The live processes below an owner. Their CPU time includes that of children they have waited for, and the owner waits for the
/// orphans, so nothing that has ended is lost.
pub fn tree(owner: ProcessId) -> Result<TreeNow, String> {
    let top = process::stat(owner.pid).ok().filter(|stat| stat.id == owner).ok_or("the owner has ended")?;
    let mut now = TreeNow { cpu_s: top.children_cpu_s(), ..TreeNow::default() };
    let mut open = vec![owner.pid];
    let mut visited = BTreeSet::new();
    while let Some(pid) = open.pop() {
        if !visited.insert(pid) {
            continue;
        }
        open.extend(process::children(pid).unwrap_or_default());
        if pid == owner.pid {
            continue;
        }
        let Ok(stat) = process::stat(pid) else { continue };
        now.cpu_s += stat.cpu_s() + stat.children_cpu_s();
        if !stat.is_gone() {
            now.rss_mib += stat.rss_mib();
            now.processes += 1;
        }
    }
    Ok(now)
}
