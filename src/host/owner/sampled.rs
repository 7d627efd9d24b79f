//! What a tree has used, added up from looks at each of its processes while they lived.
//!
//! An orphan is waited for by launchd, so its use is known up to the last look and no further; disk use of a process that began and ended
//! between two looks is not seen at all. The record says `sampled`.

use std::collections::HashMap;

use crate::core::process::TreeUse;
use crate::host::darwin;
use crate::host::process;
use crate::host::tree::Tally;

#[derive(Debug, Default)]
pub struct Sampled {
    alive: HashMap<u64, One>,
    /// Of those that have ended.
    cpu_s: f64,
    read: u64,
    written: u64,
    largest: u64,
    peak: Tally,
}

#[derive(Debug, Clone, Copy)]
struct One {
    /// Its own, and that of children it has waited for.
    cpu_s: f64,
    read: u64,
    written: u64,
    /// Nobody of the tree will wait for it and take over its time.
    is_orphan: bool,
    seen: bool,
}

impl Sampled {
    pub fn saw(&mut self, tally: Tally) {
        self.peak.processes = self.peak.processes.max(tally.processes);
        self.peak.rss_mib = self.peak.rss_mib.max(tally.rss_mib);
    }

    /// One process, alive or not yet waited for.
    pub fn read(&mut self, pid: i32) {
        let (Ok(usage), Ok(stat)) = (darwin::rusage(pid), process::stat(pid)) else { return };
        let ticks = usage.ri_user_time + usage.ri_system_time + usage.ri_child_user_time + usage.ri_child_system_time;
        let own = std::process::id() as i32;
        let one = One {
            cpu_s: darwin::seconds(ticks),
            read: usage.ri_diskio_bytesread,
            written: usage.ri_diskio_byteswritten,
            // The owner keeps the leader's time itself.
            is_orphan: stat.ppid == 1 || stat.ppid == own,
            seen: true,
        };
        self.largest = self.largest.max(usage.ri_lifetime_max_phys_footprint);
        self.alive.insert(stat.unique, one);
    }

    /// After a round of readings: who was not read has ended.
    pub fn forget_ended(&mut self) {
        let (mut cpu_s, mut read, mut written) = (0.0, 0, 0);
        self.alive.retain(|_, one| {
            if !one.seen {
                cpu_s += if one.is_orphan { one.cpu_s } else { 0.0 };
                read += one.read;
                written += one.written;
            }
            std::mem::replace(&mut one.seen, false)
        });
        self.cpu_s += cpu_s;
        self.read += read;
        self.written += written;
    }

    pub fn sum(&self) -> TreeUse {
        let known = !self.alive.is_empty() || self.cpu_s > 0.0;
        let cpu_s = self.cpu_s + self.alive.values().map(|one| one.cpu_s).sum::<f64>();
        let read = self.read + self.alive.values().map(|one| one.read).sum::<u64>();
        let written = self.written + self.alive.values().map(|one| one.written).sum::<u64>();
        let peak_mib = self.peak.rss_mib.max(process::mib(self.largest));
        TreeUse {
            cpu_s: known.then_some(cpu_s),
            mem_peak_mib: (peak_mib > 0.0).then_some(peak_mib),
            process_peak: (self.peak.processes > 0).then_some(self.peak.processes),
            read_mib: known.then_some(process::mib(read)),
            write_mib: known.then_some(process::mib(written)),
            source: Some("sampled".to_owned()),
        }
    }
}
