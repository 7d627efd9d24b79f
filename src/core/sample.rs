//! What the host looked like at one moment. Unknown is `null` with a reason in `missing`, never 0.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::moment::Wall;

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HostSample {
    pub ts: Wall,
    pub load_1m: Option<f64>,
    pub load_5m: Option<f64>,
    pub load_15m: Option<f64>,
    /// Busy share of all cores since the sample before, in percent.
    pub cpu_pct: Option<f64>,
    pub cpu_count: Option<u32>,
    pub mem_total_mib: Option<u64>,
    pub mem_available_mib: Option<u64>,
    pub mem_free_mib: Option<u64>,
    pub swap_total_mib: Option<u64>,
    pub swap_used_mib: Option<u64>,
    pub pressure: Option<Pressure>,
    pub cgroup_memory: Option<CgroupMemory>,
    pub mac_memory: Option<MacMemory>,
    pub disks: Vec<Disk>,
    pub process_count: Option<u32>,
    pub qemu_count: Option<u32>,
    pub qemu_rss_mib: Option<u64>,
    /// The running file's tree: CPU seconds and resident memory now, and the highest seen.
    pub tree_cpu_s: Option<f64>,
    pub tree_rss_mib: Option<f64>,
    pub tree_rss_peak_mib: Option<f64>,
    pub tree_processes: Option<u32>,
    /// Open files of the whole host, where the system counts them.
    pub open_files: Option<u64>,
    pub uptime_s: Option<u64>,
    /// Wall clock minus monotonic clock against the first sample of the run, in milliseconds.
    pub drift_ms: Option<i64>,
    /// Reasons for the fields that are `null`, by field name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub missing: BTreeMap<String, String>,
}

/// Linux pressure stall information: share of the last 10 s, in percent.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Pressure {
    pub cpu_some_avg10: Option<f64>,
    pub memory_some_avg10: Option<f64>,
    pub memory_full_avg10: Option<f64>,
    pub io_some_avg10: Option<f64>,
    pub io_full_avg10: Option<f64>,
}

/// Counters of `memory.events` of ledger's own cgroup.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CgroupMemory {
    pub current_mib: Option<u64>,
    pub max_mib: Option<u64>,
    pub high: Option<u64>,
    pub max: Option<u64>,
    pub oom: Option<u64>,
    pub oom_kill: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MacMemory {
    /// 1 normal, 2 warning, 4 critical.
    pub pressure_level: Option<u32>,
    pub free_and_inactive_mib: Option<u64>,
    pub wired_and_compressed_mib: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Disk {
    /// `work`, `temp`, or the path given with `--watch-disk`.
    pub role: String,
    pub path: String,
    pub free_mib: Option<u64>,
    pub free_inodes: Option<u64>,
}
