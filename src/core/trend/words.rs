//! The answer in words. It claims no more than the points carry.

use super::stats::least_squares;
use super::{FileCost, Fit, Held, Level, Resource, Trend, without_idle};
use crate::core::row::LegRow;

/// A slope, or a change of one, that is told of: half a percent of a file's cost per place.
const TOLD: f64 = 0.005;
/// Below this many points an interval is wide enough to hold anything.
const ENOUGH: usize = 6;

pub(super) fn verdict(trend: &Trend, leg: &LegRow) -> Vec<String> {
    let mut said = vec![cost(trend)];
    said.extend(idle(trend));
    said.extend(lever(trend));
    said.extend(components(trend));
    said.extend(level(trend));
    said.extend(isolation(trend));
    said.push(held(trend));
    said.push(leftovers(trend, leg));
    said
}

/// With its sign, and never a negative nothing.
fn signed(slope: f64) -> String {
    let text = format!("{slope:+.3}");
    if text == "-0.000" { "+0.000".to_owned() } else { text }
}

fn interval(fit: &Fit) -> String {
    match (fit.low, fit.high) {
        (Some(low), Some(high)) => format!("{} per file (95 % between {} and {})", signed(fit.robust), signed(low), signed(high)),
        _ => format!("{} per file (too few points for an interval)", signed(fit.robust)),
    }
}

/// Whether the interval lies on one side of zero, by more than rounding.
fn climbs(fit: &Fit) -> bool {
    fit.n >= ENOUGH && fit.low.is_some_and(|low| low > 0.0005)
}

fn falls(fit: &Fit) -> bool {
    fit.n >= ENOUGH && fit.high.is_some_and(|high| high < -0.0005)
}

fn cost(trend: &Trend) -> String {
    let Some(raw) = &trend.raw else {
        let why = if trend.reference.is_empty() { "there is no reference" } else { "fewer than 3 files have a reference" };
        return format!("whether cost climbs with position cannot be said: {why}");
    };
    let measured = format!("over {} files, {}; least squares {}", raw.n, interval(raw), signed(raw.least_squares));
    if raw.n < ENOUGH {
        return format!("too few files to say whether cost climbs with position: {measured}");
    }
    if climbs(raw) {
        return format!("cost climbs with position: {measured}");
    }
    if falls(raw) {
        return format!("cost falls with position: {measured}");
    }
    let limit = raw.high.unwrap_or(raw.robust).max(0.0);
    format!("no climb of cost with position was found: {measured}; a climb of up to {} per file is not ruled out", signed(limit))
}

fn idle(trend: &Trend) -> Option<String> {
    let without = trend.without_idle.as_ref()?;
    // With and without are told of the same files: those whose samples know the time without a VM.
    let same: Vec<(f64, f64)> =
        trend.files.iter().filter(|file| without_idle(file).is_some()).map(|file| (file.position as f64, file.ratio)).collect();
    let with = least_squares(&same)?;
    let dearest = trend.files.iter().max_by(|a, b| extra_idle(a).total_cmp(&extra_idle(b)))?;
    let most = match extra_idle(dearest) {
        extra if extra > 1.0 => format!("; most of that time is in {} ({:.0} s)", dearest.file, dearest.idle_s.unwrap_or_default()),
        _ => String::new(),
    };
    let moved = (with - without.least_squares).abs();
    let what = if moved > 0.5 * with.abs() && moved > TOLD {
        "most of the slope goes with time in which no VM was alive"
    } else {
        "time in which no VM was alive explains little of the slope"
    };
    Some(format!(
        "{what}: over {} files least squares {} per file with it, {} without it; robust {} without it{most}",
        without.n,
        signed(with),
        signed(without.least_squares),
        interval(without)
    ))
}

fn extra_idle(file: &FileCost) -> f64 {
    file.idle_s.unwrap_or(0.0) - file.reference_idle_s.unwrap_or(0.0)
}

fn lever(trend: &Trend) -> Option<String> {
    let (raw, lever) = (trend.raw.as_ref()?, trend.lever.as_ref()?);
    let file = trend.files.iter().find(|file| file.position == lever.position)?;
    // A file that holds the slope down makes none of it.
    let same_way = lever.moves * raw.least_squares > 0.0;
    let much = same_way && lever.moves.abs() > 0.5 * raw.least_squares.abs() && lever.moves.abs() > TOLD;
    much.then(|| {
        format!(
            "one file makes most of the raw slope: without {} ({:.0} s, {:.2} times its reference) least squares gives {} per file",
            lever.file,
            file.duration_s,
            file.ratio,
            signed(lever.without)
        )
    })
}

fn components(trend: &Trend) -> Option<String> {
    let without = trend.without_components.as_ref()?;
    let mut parts: Vec<(f64, String)> = Vec::new();
    for file in &trend.files {
        parts.extend(file.components.iter().map(|(name, seconds)| (*seconds, format!("{name} in {} ({seconds:.0} s)", file.file))));
    }
    parts.sort_by(|a, b| b.0.total_cmp(&a.0));
    let named: Vec<String> = parts.into_iter().take(3).map(|(_, text)| text).collect();
    Some(format!(
        "without the parts that files named themselves, least squares {} per file: {}",
        signed(without.least_squares),
        named.join(", ")
    ))
}

fn level(trend: &Trend) -> Option<String> {
    // Groups of the same files are told of in their own sentence.
    let level = trend.level.filter(|_| trend.isolation.is_none())?;
    Some(format!("a file took {} what it took in the reference, over {}", times(&level), files(level.files)))
}

fn isolation(trend: &Trend) -> Option<String> {
    let isolation = trend.isolation?;
    Some(format!(
        "in one sequence a file took {} what it took in {} separate groups, over {}",
        times(&isolation.level),
        isolation.groups,
        files(isolation.level.files)
    ))
}

fn times(level: &Level) -> String {
    match (level.low, level.high) {
        (Some(low), Some(high)) => format!("{:.2} times (95 % between {low:.2} and {high:.2})", level.median_ratio),
        _ => format!("{:.2} times (too few files for an interval)", level.median_ratio),
    }
}

fn files(n: usize) -> String {
    if n == 1 { "1 file".to_owned() } else { format!("{n} files") }
}

fn held(trend: &Trend) -> String {
    if trend.resources.is_empty() {
        return "whether anything accumulates cannot be said: there is no sample at the end of a file".to_owned();
    }
    let piles: Vec<String> = trend.resources.iter().filter(|resource| piles_up(resource)).map(change).collect();
    let named =
        |what: &[Held]| trend.resources.iter().filter(|resource| what.contains(&resource.what)).map(change).collect::<Vec<_>>();
    if piles.is_empty() {
        let seen = named(&[Held::MemoryHeld, Held::SwapUsed, Held::VmCount]);
        return format!("nothing was seen to accumulate: {}", seen.join("; "));
    }
    format!("accumulates: {}", piles.join("; "))
}

/// More of it, file by file, with an interval on one side of zero; for free disk, less of it.
fn piles_up(resource: &Resource) -> bool {
    let Some(fit) = &resource.slope else { return false };
    // One MiB per file is below what a sampler and a page cache make of an idle host.
    let least = if resource.what == Held::VmCount { 0.01 } else { 1.0 };
    match resource.what {
        Held::MemoryReclaimable => false,
        Held::DiskFree => fit.n >= ENOUGH && fit.high.is_some_and(|high| high < -least),
        _ => fit.n >= ENOUGH && fit.low.is_some_and(|low| low > least),
    }
}

fn change(resource: &Resource) -> String {
    let unit = if resource.unit.is_empty() { String::new() } else { format!(" {}", resource.unit) };
    let slope = match &resource.slope {
        Some(Fit { robust, low: Some(low), high: Some(high), .. }) => {
            format!(", {robust:+.1}{unit} per file ({low:+.1} to {high:+.1})")
        }
        Some(fit) => format!(", {:+.1}{unit} per file", fit.robust),
        None => String::new(),
    };
    format!("{} {:.0} to {:.0}{unit}{slope}", resource.what.words(), resource.first, resource.last)
}

fn leftovers(trend: &Trend, leg: &LegRow) -> String {
    let unproved = leg.files.iter().filter(|file| file.reported() && file.cleanup_verified.is_none()).count();
    let proved = match unproved {
        0 => String::new(),
        n => format!("; for {} the sweep proves nothing", files(n)),
    };
    match (trend.seen.leftovers, trend.seen.survivors) {
        (0, _) => format!("no leftover process was recorded{proved}"),
        (n, 0) => format!("{n} leftover processes were recorded, none survived{proved}"),
        (n, survivors) => format!("{n} leftover processes were recorded, {survivors} survived{proved}"),
    }
}

pub(super) fn not_seen(trend: &Trend, leg: &LegRow, ran: usize) -> Vec<String> {
    let mut said = Vec::new();
    let seen = &trend.seen;
    match seen.interval_s {
        Some(interval) => {
            let gap = seen.longest_gap_s.unwrap_or(interval);
            said.push(format!("what came and went between two samples: every {interval:.0} s, at the longest {gap:.0} s"));
        }
        None => said.push("anything of the host: there are no two samples".to_owned()),
    }
    if seen.samples > 0 && seen.with_vms == 0 {
        said.push("how many VMs were alive: no sample knows".to_owned());
    } else if trend.without_idle.is_none() && trend.raw.is_some() {
        said.push("time without a VM, file by file: no file has samples with a VM around it".to_owned());
    }
    if trend.without_idle.is_some() && trend.files.iter().any(|file| file.reference_idle_s.is_none()) {
        said.push("time without a VM in the reference: it counts there with its whole time".to_owned());
    }
    let left_out = ran.saturating_sub(trend.files.len());
    if left_out > 0 && !trend.reference.is_empty() {
        said.push(format!("the cost of {left_out} of {ran} files: no undisturbed pass here, or no reference for it"));
    }
    let few = trend.files.iter().filter(|file| file.reference_n < 3).count();
    if few > 0 {
        said.push(format!("how much the reference of {few} files varies: it has fewer than 3 passes of each"));
    }
    said.push(format!("other hosts and other orders of the files: this is one leg on {}", leg.platform));
    said
}
