//! One leg on one time axis: its files against their caps, and what the host had beneath.

use std::fmt::Write as _;

use super::plot::{Scale, number, path, stairs, text, thinned};
use crate::core::ids::base_name;
use crate::core::moment::{Secs, Wall};
use crate::core::outcome::Terminal;
use crate::core::row::{FileRow, LegRow};
use crate::core::sample::HostSample;
use crate::report::escape;
use crate::report::words;

const WIDTH: f64 = 1000.0;
/// Names of files to the left of the axis, figures to the right of it.
const LEFT: f64 = 190.0;
const RIGHT: f64 = 900.0;
const ROW: f64 = 17.0;
const LANE: f64 = 46.0;
/// More files than this would make the plot a wall; the table has them all.
const FILES_SHOWN: usize = 60;
/// Samples further apart than this many usual distances leave a gap worth marking.
const GAP: f64 = 3.0;

struct Axis {
    start: Wall,
    end: Wall,
}

impl Axis {
    fn x(&self, at: Wall) -> f64 {
        let scale = Scale { low: 0.0, high: self.end.since(self.start).as_f64(), from: LEFT, to: RIGHT };
        scale.at(at.since(self.start).as_f64())
    }
}

/// Nothing where no file has a time: a plot of nothing says nothing.
pub fn render(leg: &LegRow) -> Option<String> {
    let timed: Vec<&FileRow> = leg.files.iter().filter(|file| file.started_at.is_some()).take(FILES_SHOWN).collect();
    if timed.is_empty() && leg.samples.len() < 2 {
        return None;
    }
    let axis = axis_of(leg, &timed)?;
    let mut body = String::new();
    let mut y = 6.0;
    for file in &timed {
        file_row(&mut body, &axis, file, y, leg);
        y += ROW;
    }
    let files_end = y;
    y += 8.0;
    let mut said = Vec::new();
    for lane in LANES {
        if let Some(range) = lane_of(&mut body, &axis, lane, &leg.samples, y) {
            said.push(range);
            y += LANE;
        }
    }
    let marks = marks(leg, &axis);
    gaps(&mut body, &axis, &leg.samples, files_end, y);
    for (at, (wall, label)) in marks.iter().enumerate() {
        let x = axis.x(*wall);
        let (anchor, dx) = if x > 600.0 { ("end", -4.0) } else { ("start", 4.0) };
        let _ = write!(body, "<path class=\"mark\" d=\"M{} 0V{}\"/>", number(x), number(y));
        let _ = write!(
            body,
            "<text class=\"marktext\" x=\"{}\" y=\"{}\" text-anchor=\"{anchor}\">{}</text>",
            number(x + dx),
            number(y + 26.0 + 13.0 * at as f64),
            text(label)
        );
    }
    ticks(&mut body, &axis, y);
    let height = y + 18.0 + 13.0 * marks.len() as f64;
    let label =
        format!("Timeline of {}: {}. {}", words::leg_title(leg), words::plural(timed.len(), "file", "files"), said.join(". "));
    Some(format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"timeline, scrolls sideways\"><svg class=\"timeline\" viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"{}\">{body}</svg></div>\n",
        number(height),
        text(&label)
    ))
}

fn axis_of(leg: &LegRow, timed: &[&FileRow]) -> Option<Axis> {
    let starts = timed.iter().filter_map(|file| file.started_at).chain(leg.samples.first().map(|sample| sample.ts));
    let start = starts.min()?;
    let ends = timed.iter().filter_map(|file| Some(file.started_at?.plus(file.duration_s.unwrap_or(Secs::ZERO))));
    let end = ends
        .chain(leg.samples.last().map(|sample| sample.ts))
        .chain(leg.ended_at)
        .chain(leg.last_checkpoint_ts)
        .chain(leg.last_heartbeat_ts)
        .chain(lease_end(leg))
        .max()?;
    // A span of no width, or of years because a clock stepped, still gets an axis.
    let end = end.max(start.plus(Secs::from_secs(1)));
    Some(Axis { start, end })
}

fn lease_end(leg: &LegRow) -> Option<Wall> {
    let newest = leg.last_heartbeat_ts.max(leg.last_checkpoint_ts)?;
    (leg.terminal == Terminal::RunnerLost).then_some(newest.plus(leg.lease_s?))
}

fn file_row(out: &mut String, axis: &Axis, file: &FileRow, y: f64, leg: &LegRow) {
    let Some(start) = file.started_at else { return };
    let unfinished = file.duration_s.is_none();
    let end = match file.duration_s {
        Some(duration) => start.plus(duration),
        None => leg.last_heartbeat_ts.max(leg.last_checkpoint_ts).unwrap_or(start).max(start),
    };
    let class = match (&file.outcome, words::passed(file)) {
        (None, _) => "bar-miss",
        (_, true) => "bar-pass",
        _ => "bar-fail",
    };
    let (x0, x1) = (axis.x(start), axis.x(end));
    let time = file.duration_s.map_or("no end seen".to_owned(), |duration| duration.to_string());
    let cap = file.cap_s.map_or(String::new(), |cap| format!(" of {cap}"));
    let full = format!("{}: {}, {time}{cap}", words::file_title(file), words::file_result(file));
    let _ = write!(out, "<g><title>{}</title>", text(&full));
    let name = escape::clip(base_name(&file.file), 28).into_owned();
    let _ = write!(
        out,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
        LEFT - 8.0,
        number(y + 11.0),
        text(&escape::name(&name))
    );
    if let Some(cap) = file.cap_s {
        let _ = write!(
            out,
            "<rect class=\"cap\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"12\"/>",
            number(x0),
            number(y + 1.0),
            number((axis.x(start.plus(cap)) - x0).max(1.0))
        );
    }
    let dash = if unfinished { " stroke-dasharray=\"2 2\"" } else { "" };
    let _ = write!(
        out,
        "<rect class=\"{class}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"12\"{dash}/>",
        number(x0),
        number(y + 1.0),
        number((x1 - x0).max(1.5))
    );
    if !file.leftovers.is_empty() {
        let _ = write!(out, "<path class=\"left\" d=\"M{} {}l5 9h-10z\"/>", number(x1), number(y + 3.0));
    }
    let beyond = if file.leftovers.is_empty() { String::new() } else { format!(" +{}", file.leftovers.len()) };
    let _ = write!(out, "<text class=\"d\" x=\"{}\" y=\"{}\">{}{beyond}</text></g>", RIGHT + 8.0, number(y + 11.0), text(&time));
}

/// One quantity of the host's samples.
struct Lane {
    class: &'static str,
    label: &'static str,
    unit: &'static str,
    value: fn(&HostSample) -> Option<f64>,
    steps: bool,
}

const LANES: &[Lane] = &[
    Lane { class: "mem", label: "memory available", unit: "MiB", value: |sample| mib(sample.mem_available_mib), steps: false },
    Lane { class: "load", label: "load (1 min)", unit: "", value: |sample| sample.load_1m, steps: false },
    Lane { class: "swap", label: "swap used", unit: "MiB", value: |sample| mib(sample.swap_used_mib), steps: false },
    Lane { class: "disk", label: "disk free (work)", unit: "MiB", value: disk, steps: false },
    Lane { class: "vm", label: "VMs alive", unit: "", value: |sample| sample.qemu_count.map(f64::from), steps: true },
];

fn mib(value: Option<u64>) -> Option<f64> {
    value.map(|mib| mib as f64)
}

fn disk(sample: &HostSample) -> Option<f64> {
    let work = sample.disks.iter().find(|disk| disk.role == "work").or(sample.disks.first())?;
    mib(work.free_mib)
}

fn lane_of(out: &mut String, axis: &Axis, lane: &Lane, samples: &[HostSample], y: f64) -> Option<String> {
    let known =
        samples.iter().filter_map(|sample| Some((axis.x(sample.ts), (lane.value)(sample).filter(|value| value.is_finite())?)));
    let known: Vec<(f64, f64)> = known.collect();
    let low = known.iter().map(|point| point.1).reduce(f64::min)?;
    let high = known.iter().map(|point| point.1).reduce(f64::max)?;
    // From zero: half of a memory that fell by a tenth must not look empty.
    let scale = Scale { low: 0.0, high: if high > 0.0 { high } else { 1.0 }, from: y + LANE - 8.0, to: y + 6.0 };
    let points: Vec<(f64, f64)> = thinned(&known).into_iter().map(|(x, value)| (x, scale.at(value))).collect();
    let line = if lane.steps { stairs(&points) } else { path(&points) };
    let floor = number(y + LANE - 8.0);
    let (first, last) = (points.first()?.0, points.last()?.0);
    let (class, label) = (lane.class, lane.label);
    let unit = if lane.unit.is_empty() { String::new() } else { format!(" {}", lane.unit) };
    let range = if low == high { format!("{}{unit}", number(low)) } else { format!("{} to {}{unit}", number(low), number(high)) };
    let _ = write!(
        out,
        "<g><title>{label}: {range}</title><text x=\"{}\" y=\"{}\" text-anchor=\"end\">{label}</text>",
        LEFT - 8.0,
        number(y + 26.0)
    );
    let _ = write!(out, "<path class=\"axis\" d=\"M{LEFT} {floor}H{RIGHT}\"/>");
    let _ = write!(
        out,
        "<path class=\"area {class}\" d=\"{line}V{floor}H{}Z\"/><path class=\"lane {class}\" d=\"{line}\"/>",
        number(first)
    );
    // A single sample is a dot, not a line.
    if (last - first).abs() < 0.05 {
        let _ = write!(out, "<circle class=\"dot\" cx=\"{}\" cy=\"{}\" r=\"2\"/>", number(first), number(points[0].1));
    }
    let _ = write!(out, "<text class=\"d\" x=\"{}\" y=\"{}\">{}</text>", RIGHT + 8.0, number(y + 14.0), number(high));
    if low != high {
        let _ = write!(out, "<text class=\"d\" x=\"{}\" y=\"{}\">{}</text>", RIGHT + 8.0, number(y + LANE - 10.0), number(low));
    }
    out.push_str("</g>");
    Some(format!("{label} {range}"))
}

/// Stretches in which nobody looked.
fn gaps(out: &mut String, axis: &Axis, samples: &[HostSample], top: f64, bottom: f64) {
    let mut distances: Vec<u64> = samples.windows(2).map(|pair| pair[1].ts.since(pair[0].ts).millis()).collect();
    distances.sort_unstable();
    let Some(usual) = distances.get(distances.len() / 2).map(|usual| *usual as f64) else { return };
    let wide = |pair: &&[HostSample]| pair[1].ts.since(pair[0].ts).millis() as f64 > GAP * usual.max(1000.0);
    for pair in samples.windows(2).filter(wide).take(50) {
        let (x0, x1) = (axis.x(pair[0].ts), axis.x(pair[1].ts));
        let _ = write!(
            out,
            "<rect class=\"gap\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"><title>no sample for {}</title></rect>",
            number(x0),
            number(top),
            number((x1 - x0).max(1.0)),
            number(bottom - top),
            pair[1].ts.since(pair[0].ts)
        );
    }
}

fn marks(leg: &LegRow, axis: &Axis) -> Vec<(Wall, String)> {
    let mut marks = Vec::new();
    let inside = |wall: Wall| wall >= axis.start && wall <= axis.end;
    if leg.terminal == Terminal::RunnerLost || leg.terminal == Terminal::AttemptedIncomplete {
        marks.extend(leg.last_checkpoint_ts.map(|ts| (ts, "last moved on: the wedge is after this".to_owned())));
        marks.extend(leg.last_heartbeat_ts.map(|ts| (ts, "last heartbeat".to_owned())));
        marks.extend(lease_end(leg).map(|ts| (ts, "lease ran out".to_owned())));
    }
    let notes = leg.notes.iter().filter(|note| note.kind == "suspended" || note.kind == "sink-degraded");
    marks.extend(notes.take(6).map(|note| (note.ts, escape::name(&escape::clip(&format!("{}: {}", note.kind, note.text), 70)))));
    marks.retain(|(wall, _)| inside(*wall));
    marks
}

/// A tick at a round distance, at most seven of them.
fn ticks(out: &mut String, axis: &Axis, y: f64) {
    const STEPS: &[u64] = &[1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 28_800, 86_400, 604_800];
    let span = axis.end.since(axis.start).as_f64();
    let step = STEPS.iter().find(|step| **step as f64 * 7.0 >= span).copied().unwrap_or((span / 7.0) as u64);
    let _ = write!(out, "<path class=\"axis\" d=\"M{LEFT} {0}H{RIGHT}\"/>", number(y));
    let mut at = 0_u64;
    while at as f64 <= span {
        let x = number(axis.x(axis.start.plus(Secs::from_secs(at))));
        let label = if at == 0 { "0".to_owned() } else { Secs::from_secs(at).to_string() };
        let _ = write!(out, "<path class=\"axis\" d=\"M{x} {}v4\"/>", number(y));
        let _ = write!(out, "<text class=\"d\" x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{label}</text>", number(y + 14.0));
        at += step.max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixtures;

    #[test]
    fn a_lost_leg_shows_its_wedge_and_lease() {
        let night = fixtures::night();
        let svg = render(&night.legs[2]).expect("it is well formed");
        for part in [
            "last moved on: the wedge is after this",
            "last heartbeat",
            "lease ran out",
            "memory available",
            "VMs alive",
            "no end seen",
        ] {
            assert!(svg.contains(part), "{part}");
        }
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        assert_eq!(render(&night.legs[4]), None, "a leg that never began has no plot");
    }

    #[test]
    fn clocks_that_step_still_give_a_plot() {
        let mut leg = fixtures::night().legs[0].clone();
        leg.files[1].started_at = Some(Wall(i64::MIN));
        leg.samples[3].ts = Wall(i64::MAX);
        leg.samples[4].load_1m = Some(1e300);
        let svg = render(&leg).expect("it is well formed");
        assert!(!svg.contains("NaN") && !svg.contains("inf") && svg.len() < 60_000, "{}", svg.len());
    }
}
