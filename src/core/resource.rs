//! Was the host starved? A lost runner is not by itself a starved one, so this is judged from the last sample alone.

use super::row::ResourceVerdict;
use super::sample::HostSample;

/// Below this share of memory available a Linux or macOS host swaps or kills; measured hosts idle far above 20 %.
const MEM_AVAILABLE_SHARE: f64 = 0.05;
/// Full memory stalls over this share of ten seconds mean that nothing ran for a tenth of the time.
const MEM_FULL_STALL_PCT: f64 = 10.0;
/// A load of eight runnable tasks per core leaves a heartbeat waiting for seconds.
const LOAD_PER_CPU: f64 = 8.0;
/// Less than this and neither logs nor the runner's own files can be written.
const DISK_FREE_MIB: u64 = 64;

pub fn judge(sample: Option<&HostSample>) -> (ResourceVerdict, Option<String>) {
    let Some(sample) = sample else {
        return (ResourceVerdict::Unknown, Some("no host sample was taken".to_owned()));
    };
    let mut bad = Vec::new();
    let mut seen = Vec::new();
    let memory = sample.mem_available_mib.zip(sample.mem_total_mib).filter(|(_, total)| *total > 0);
    if let Some((available, total)) = memory {
        let text = format!("{available} of {total} MiB available");
        let short = (available as f64) < (total as f64) * MEM_AVAILABLE_SHARE;
        if short { bad.push(text) } else { seen.push(text) }
    }
    if let Some(stall) = sample.pressure.as_ref().and_then(|pressure| pressure.memory_full_avg10) {
        let text = format!("memory stalls {stall:.1} % of the last 10 s");
        if stall > MEM_FULL_STALL_PCT { bad.push(text) } else { seen.push(text) }
    }
    if let Some(level) = sample.mac_memory.as_ref().and_then(|mac| mac.pressure_level) {
        let text = format!("memory pressure level {level}");
        if level >= 4 { bad.push(text) } else { seen.push(text) }
    }
    if let Some((load, cpus)) = sample.load_1m.zip(sample.cpu_count).filter(|(_, cpus)| *cpus > 0) {
        let text = format!("load {load:.1} on {cpus} cores");
        if load > f64::from(cpus) * LOAD_PER_CPU { bad.push(text) } else { seen.push(text) }
    }
    for disk in &sample.disks {
        if let Some(free) = disk.free_mib.filter(|free| *free < DISK_FREE_MIB) {
            bad.push(format!("{free} MiB free on {} ({})", disk.role, disk.path));
        }
    }
    if !bad.is_empty() {
        return (ResourceVerdict::Starved, Some(bad.join(", ")));
    }
    match memory {
        Some(_) => (ResourceVerdict::Healthy, Some(seen.join(", "))),
        None => (ResourceVerdict::Unknown, Some("the last sample has no figure for memory".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::sample::{Disk, Pressure};

    fn sample(edit: impl FnOnce(&mut HostSample)) -> HostSample {
        let mut sample = HostSample {
            mem_total_mib: Some(14_336),
            mem_available_mib: Some(9_000),
            load_1m: Some(3.0),
            cpu_count: Some(4),
            ..HostSample::default()
        };
        edit(&mut sample);
        sample
    }

    #[test]
    fn one_bad_figure_is_enough_and_no_figure_is_unknown() {
        let cases = [
            (Some(sample(|_| {})), ResourceVerdict::Healthy),
            (None, ResourceVerdict::Unknown),
            (Some(sample(|s| s.mem_available_mib = None)), ResourceVerdict::Unknown),
            (Some(sample(|s| s.mem_available_mib = Some(500))), ResourceVerdict::Starved),
            (Some(sample(|s| s.load_1m = Some(33.0))), ResourceVerdict::Starved),
            (
                Some(sample(|s| s.pressure = Some(Pressure { memory_full_avg10: Some(40.0), ..Pressure::default() }))),
                ResourceVerdict::Starved,
            ),
            (
                Some(sample(|s| s.disks.push(Disk { role: "work".into(), free_mib: Some(3), ..Disk::default() }))),
                ResourceVerdict::Starved,
            ),
        ];
        for (sample, expect) in cases {
            assert_eq!(judge(sample.as_ref()).0, expect, "{sample:?}");
        }
    }
}
