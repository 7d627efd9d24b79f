//! What a tree has used, added up from what the kernel says of each child that was waited for and from looks while it ran.

use crate::core::process::TreeUse;
use crate::host::cgroup::Leaf;
use crate::host::tree::Tally;

#[derive(Debug, Default)]
pub struct Usage {
    cpu_s: f64,
    largest_mib: f64,
    read_mib: f64,
    write_mib: f64,
    reaped: bool,
    peak: Tally,
}

impl Usage {
    /// A child that was waited for, with all that it waited for itself.
    pub fn add(&mut self, rusage: &libc::rusage) {
        let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
        self.cpu_s += seconds(rusage.ru_utime) + seconds(rusage.ru_stime);
        self.largest_mib = self.largest_mib.max(rusage.ru_maxrss as f64 / 1024.0);
        // Blocks of 512 bytes, whatever the disk's own are.
        self.read_mib += rusage.ru_inblock as f64 / 2048.0;
        self.write_mib += rusage.ru_oublock as f64 / 2048.0;
        self.reaped = true;
    }

    pub fn saw(&mut self, tally: Tally) {
        self.peak.processes = self.peak.processes.max(tally.processes);
        self.peak.rss_mib = self.peak.rss_mib.max(tally.rss_mib);
    }

    pub fn sum(&self, leaf: Option<&Leaf>) -> TreeUse {
        let in_leaf = leaf.and_then(Leaf::cpu_s);
        let by_rusage = self.reaped.then_some(self.cpu_s);
        let seen_mib = self.peak.rss_mib.max(self.largest_mib);
        let io = leaf.and_then(Leaf::io_bytes).map(|(read, write)| (read as f64 / 1_048_576.0, write as f64 / 1_048_576.0));
        let io = io.or(self.reaped.then_some((self.read_mib, self.write_mib)));
        let processes = leaf.and_then(Leaf::process_peak).and_then(|peak| u32::try_from(peak).ok());
        TreeUse {
            cpu_s: in_leaf.or(by_rusage),
            mem_peak_mib: leaf.and_then(Leaf::memory_peak_mib).or((seen_mib > 0.0).then_some(seen_mib)),
            process_peak: processes.or((self.peak.processes > 0).then_some(self.peak.processes)),
            read_mib: io.map(|(read, _)| read),
            write_mib: io.map(|(_, write)| write),
            source: Some(if in_leaf.is_some() { "cgroup" } else { "rusage" }.to_owned()),
        }
    }
}
