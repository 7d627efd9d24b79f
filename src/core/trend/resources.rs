//! What the host's samples say, file by file.

use serde::{Deserialize, Serialize};

use super::stats::{self, Fit};
use crate::core::moment::Wall;
use crate::core::row::{FileRow, LegRow};
use crate::core::sample::HostSample;

/// How far the samples reach.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Seen {
    pub samples: usize,
    /// The median distance of two samples.
    pub interval_s: Option<f64>,
    pub longest_gap_s: Option<f64>,
    /// Samples that know how many VMs were alive.
    pub with_vms: usize,
    /// VMs were alive in none, some or all of those.
    pub vms_alive: usize,
    /// The highest memory pressure level of a Mac, or the highest full memory stall of a Linux host in percent.
    pub pressure_level: Option<u32>,
    pub memory_stall_pct: Option<f64>,
    /// Leftovers that were named, and those of them that survived.
    pub leftovers: usize,
    pub survivors: usize,
}

/// One quantity along the files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Resource {
    pub what: Held,
    pub unit: String,
    /// One value per file that has one: (place of the file, value at its end).
    pub points: Vec<(usize, f64)>,
    pub first: f64,
    pub last: f64,
    pub net: f64,
    /// Per file.
    pub slope: Option<Fit>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Held {
    /// Total minus available: what nothing short of ending a process gives back.
    MemoryHeld,
    /// Available minus free: caches that the system gives back on demand.
    MemoryReclaimable,
    SwapUsed,
    DiskFree,
    VmCount,
    VmMemory,
}

impl Held {
    pub fn words(self) -> &'static str {
        match self {
            Held::MemoryHeld => "memory held",
            Held::MemoryReclaimable => "memory reclaimable",
            Held::SwapUsed => "swap used",
            Held::DiskFree => "disk free",
            Held::VmCount => "VMs alive",
            Held::VmMemory => "memory of VMs",
        }
    }

    fn value(self, sample: &HostSample) -> Option<f64> {
        let less = |a: Option<u64>, b: Option<u64>| Some(a? as f64 - b? as f64);
        match self {
            Held::MemoryHeld => less(sample.mem_total_mib, sample.mem_available_mib),
            Held::MemoryReclaimable => less(sample.mem_available_mib, sample.mem_free_mib),
            Held::SwapUsed => sample.swap_used_mib.map(|mib| mib as f64),
            Held::DiskFree => sample.disks.iter().find(|disk| disk.role == "work")?.free_mib.map(|mib| mib as f64),
            Held::VmCount => sample.qemu_count.map(f64::from),
            Held::VmMemory => sample.qemu_rss_mib.map(|mib| mib as f64),
        }
    }
}

const ALL: [Held; 6] = [Held::MemoryHeld, Held::MemoryReclaimable, Held::SwapUsed, Held::DiskFree, Held::VmCount, Held::VmMemory];

pub(super) fn of(leg: &LegRow, ran: &[&FileRow]) -> Vec<Resource> {
    let boundaries: Vec<Option<&HostSample>> = (0..ran.len()).map(|at| at_end(leg, ran, at)).collect();
    ALL.iter().filter_map(|what| resource(*what, &boundaries)).collect()
}

fn resource(what: Held, boundaries: &[Option<&HostSample>]) -> Option<Resource> {
    let value = |(at, sample): (usize, &Option<&HostSample>)| Some((at + 1, what.value((*sample)?)?));
    let points: Vec<(usize, f64)> = boundaries.iter().enumerate().filter_map(value).collect();
    let (first, last) = (points.first()?.1, points.last()?.1);
    let floats: Vec<(f64, f64)> = points.iter().map(|(at, value)| (*at as f64, *value)).collect();
    let unit = if what == Held::VmCount { "" } else { "MiB" };
    Some(Resource { what, unit: unit.to_owned(), first, last, net: last - first, slope: stats::fit(&floats), points })
}

/// The sample that stands for the end of a file: the first one after it and before the next file, else the last one inside it.
fn at_end<'a>(leg: &'a LegRow, ran: &[&FileRow], at: usize) -> Option<&'a HostSample> {
    let (start, end) = span(ran[at])?;
    let next = ran.get(at + 1).and_then(|file| file.started_at).unwrap_or(Wall(i64::MAX));
    let from = leg.samples.partition_point(|sample| sample.ts < end);
    let after = leg.samples.get(from).filter(|sample| sample.ts <= next);
    let inside = from.checked_sub(1).and_then(|last| leg.samples.get(last)).filter(|sample| sample.ts >= start);
    after.or(inside)
}

fn span(file: &FileRow) -> Option<(Wall, Wall)> {
    let start = file.started_at?;
    Some((start, start.plus(file.duration_s?)))
}

/// How long no VM was alive while the file ran. A sample holds until the next one; a gap longer than three usual ones tells nothing.
pub(super) fn idle_s(leg: &LegRow, file: &FileRow) -> Option<f64> {
    let (start, end) = span(file)?;
    let samples = &leg.samples;
    // The sample before the start says what was alive then.
    let from = samples.partition_point(|sample| sample.ts <= start).checked_sub(1)?;
    let longest = interval_s(samples)? * 3.0;
    let (mut idle, mut told, mut vms) = (0.0, 0.0, false);
    for (at, sample) in samples.iter().enumerate().skip(from).take_while(|(_, sample)| sample.ts < end) {
        let until = samples.get(at + 1).map_or(end, |next| next.ts).min(end);
        let seconds = until.since(sample.ts.max(start)).as_f64().min(longest);
        let Some(count) = sample.qemu_count else { continue };
        told += seconds;
        vms |= count > 0;
        if count == 0 {
            idle += seconds;
        }
    }
    // Where no VM was seen at all the file has none, or all of them fell between samples: nothing is known of its time without one.
    let enough = told >= 0.8 * end.since(start).as_f64();
    (enough && vms).then_some(idle)
}

fn interval_s(samples: &[HostSample]) -> Option<f64> {
    stats::median(&distances(samples))
}

fn distances(samples: &[HostSample]) -> Vec<f64> {
    samples.windows(2).map(|pair| pair[1].ts.since(pair[0].ts).as_f64()).collect()
}

pub(super) fn seen(leg: &LegRow, ran: &[&FileRow]) -> Seen {
    let samples = &leg.samples;
    let counts: Vec<u32> = samples.iter().filter_map(|sample| sample.qemu_count).collect();
    let survived = |fate| matches!(fate, crate::core::process::Fate::Survived | crate::core::process::Fate::Unkillable);
    let stalls = samples.iter().filter_map(|sample| sample.pressure.as_ref()?.memory_full_avg10);
    Seen {
        samples: samples.len(),
        interval_s: interval_s(samples),
        longest_gap_s: distances(samples).into_iter().reduce(f64::max),
        with_vms: counts.len(),
        vms_alive: counts.iter().filter(|count| **count > 0).count(),
        pressure_level: samples.iter().filter_map(|sample| sample.mac_memory.as_ref()?.pressure_level).max(),
        memory_stall_pct: stalls.reduce(f64::max),
        leftovers: ran.iter().map(|file| file.leftovers.len()).sum(),
        survivors: ran.iter().flat_map(|file| &file.leftovers).filter(|process| survived(process.fate)).count(),
    }
}
