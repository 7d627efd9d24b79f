//! What the host looks like, once per boundary and heartbeat (DESIGN §7).
//!
//! It must not judge what it sees, and what cannot be read is `null` with a reason, never 0. A call does blocking reads of a few
//! files and no more.

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

mod cpu;

use std::collections::BTreeMap;
use std::path::PathBuf;

use self::cpu::CpuMeter;
use crate::core::moment::Moment;
use crate::core::process::ProcessId;
use crate::core::sample::{Disk, HostSample};
use crate::host::identity;
use crate::host::table::{Counts, SharedTable};

/// The owner whose tree is measured along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watched {
    Nothing,
    Owner(ProcessId),
}

/// Live totals of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct TreeNow {
    cpu_s: f64,
    rss_mib: f64,
    processes: u32,
}

/// Keeps what one sample needs of the one before; its size does not grow.
#[derive(Debug)]
pub struct Sampler {
    machine: Result<sysinfo::System, String>,
    table: SharedTable,
    disks: Vec<(String, PathBuf)>,
    first: Option<Moment>,
    cpu: CpuMeter,
    watched: Watched,
    tree_peak_mib: f64,
}

impl Sampler {
    /// `disks` are pairs of role (`work`, `temp`, `watch`) and a path on the volume.
    pub fn new(table: SharedTable, disks: Vec<(String, PathBuf)>) -> Self {
        Self {
            machine: sysinfo::System::new().map_err(|error| error.to_string()),
            table,
            disks,
            first: None,
            cpu: CpuMeter::default(),
            watched: Watched::Nothing,
            tree_peak_mib: 0.0,
        }
    }

    /// From now on the samples carry this tree; its peak begins anew.
    pub fn watch(&mut self, watched: Watched) {
        self.watched = watched;
        self.tree_peak_mib = 0.0;
    }

    pub fn sample(&mut self, now: Moment) -> HostSample {
        let first = *self.first.get_or_insert(now);
        let mut missing = Missing::default();
        let mut sample = HostSample {
            ts: now.wall,
            cpu_count: identity::cpu_count(),
            uptime_s: Some(now.boot_ms / 1000),
            drift_ms: Some(now.wall_step_since(first)),
            ..HostSample::default()
        };
        self.load_and_memory(&mut sample, &mut missing);
        sample.pressure = missing.keep("pressure", system::pressure());
        sample.cgroup_memory = missing.keep("cgroup_memory", system::cgroup_memory());
        sample.mac_memory = missing.keep("mac_memory", system::mac_memory());
        sample.open_files = missing.keep("open_files", system::open_files());
        sample.disks = self.disks.iter().map(|(role, path)| disk(role, path, &mut missing)).collect();
        self.processes(&mut sample, &mut missing);
        self.tree(&mut sample, &mut missing);
        sample.missing = missing.0;
        sample
    }

    fn load_and_memory(&mut self, sample: &mut HostSample, missing: &mut Missing) {
        if let Some(load) = missing.keep("load", system::load_average()) {
            sample.load_1m = Some(load.one);
            sample.load_5m = Some(load.five);
            sample.load_15m = Some(load.fifteen);
        }
        let machine = match &mut self.machine {
            Ok(machine) => machine,
            Err(why) => return missing.say("mem_total_mib", why),
        };
        match self.cpu.read(machine) {
            Some(busy) => sample.cpu_pct = Some((busy * 10.0).round() / 10.0),
            None => missing.say("cpu_pct", "the first sample has nothing to compare with"),
        }
        machine.refresh_memory();
        let mib = |bytes: u64| bytes / (1024 * 1024);
        if machine.total_memory() == 0 {
            return missing.say("mem_total_mib", "the system does not tell its memory");
        }
        sample.mem_total_mib = Some(mib(machine.total_memory()));
        sample.mem_available_mib = Some(mib(machine.available_memory()));
        sample.mem_free_mib = Some(mib(machine.free_memory()));
        sample.swap_total_mib = Some(mib(machine.total_swap()));
        sample.swap_used_mib = Some(mib(machine.used_swap()));
    }

    fn processes(&mut self, sample: &mut HostSample, missing: &mut Missing) {
        if let Err(error) = self.table.refresh_unless_fresh() {
            missing.say("process_count", &format!("the processes cannot be listed: {error}"));
            return;
        }
        let table = self.table.lock();
        let Counts { processes, qemu, qemu_rss_mib } = table.counts();
        sample.process_count = Some(processes);
        sample.qemu_count = Some(qemu);
        sample.qemu_rss_mib = Some(qemu_rss_mib.round() as u64);
    }

    fn tree(&mut self, sample: &mut HostSample, missing: &mut Missing) {
        let Watched::Owner(owner) = self.watched else {
            return missing.say("tree_cpu_s", "no file is running");
        };
        if let Some(now) = missing.keep("tree_cpu_s", system::tree(owner)) {
            self.tree_peak_mib = self.tree_peak_mib.max(now.rss_mib);
            sample.tree_cpu_s = Some(hundredths(now.cpu_s));
            sample.tree_rss_mib = Some(hundredths(now.rss_mib));
            sample.tree_rss_peak_mib = Some(hundredths(self.tree_peak_mib));
            sample.tree_processes = Some(now.processes);
        }
    }
}

fn disk(role: &str, path: &std::path::Path, missing: &mut Missing) -> Disk {
    let free = missing.keep(&format!("disks.{role}"), system::free_space(path));
    Disk {
        role: role.to_owned(),
        path: path.to_string_lossy().into_owned(),
        free_mib: free.map(|(bytes, _)| bytes / (1024 * 1024)),
        free_inodes: free.and_then(|(_, inodes)| inodes),
    }
}

fn hundredths(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// Reasons for what is `null`.
#[derive(Debug, Default)]
struct Missing(BTreeMap<String, String>);

impl Missing {
    fn keep<T>(&mut self, field: &str, read: Result<T, String>) -> Option<T> {
        read.map_err(|why| self.say(field, &why)).ok()
    }

    fn say(&mut self, field: &str, why: &str) {
        self.0.insert(field.to_owned(), why.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::clock;

    #[test]
    fn a_sample_is_whole_or_says_why_not() {
        let mut sampler = Sampler::new(SharedTable::default(), vec![("work".to_owned(), PathBuf::from("."))]);
        let first = sampler.sample(clock::now());
        assert_eq!(first.cpu_pct, None);
        assert!(first.missing.contains_key("cpu_pct"));
        sampler.watch(Watched::Owner(identity::own_id()));
        let second = sampler.sample(clock::now());
        assert!(second.cpu_pct.is_some());
        assert!(second.mem_total_mib > Some(0) && second.process_count > Some(0));
        assert!(second.disks[0].free_mib.is_some(), "{second:?}");
        assert!(second.tree_rss_mib.is_some(), "{second:?}");
        for (field, reason) in &second.missing {
            assert!(!reason.is_empty(), "{field}");
        }
    }
}
