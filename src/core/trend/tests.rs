//! Trends with known slopes, and what may not be claimed.

use std::collections::BTreeMap;

use super::*;
use crate::core::event::Component;
use crate::core::ids::{Attempt, Platform, RunId, Target};
use crate::core::moment::{Secs, Wall};
use crate::core::outcome::{Conclusion, Terminal};
use crate::core::row::ResourceVerdict;
use crate::core::sample::HostSample;

fn leg(platform: &str, durations: &[(&str, f64)]) -> LegRow {
    let mut at = Wall(1_800_000_000_000);
    let mut files = Vec::new();
    for (index, (name, seconds)) in (1..).zip(durations) {
        let mut file = FileRow::not_run(index, 1, (*name).to_owned(), None);
        file.outcome = Some(Outcome::Pass);
        file.started_at = Some(at);
        file.duration_s = Secs::from_f64(*seconds);
        file.cleanup_verified = Some(true);
        at = at.plus(file.duration_s.expect("it is there")).plus(Secs::from_secs(1));
        files.push(file);
    }
    let json = serde_json::json!({
        "run_id": RunId::new("1"), "attempt": Attempt::new("1"), "platform": Platform::new(platform), "target": Target::new("stable"),
        "terminal": Terminal::Complete, "conclusion": Conclusion::Pass, "why": "", "loop_finished": true, "files_reported": files.len(),
        "files_failed": 0, "resource_verdict": ResourceVerdict::Healthy, "sinks": [], "attempts": [], "files": files
    });
    serde_json::from_value(json).expect("JSON that fits")
}

const NAMES: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];

/// Durations with a known slope of the ratio and a little noise of no direction.
fn sloped(slope: f64) -> Vec<(&'static str, f64)> {
    let reference = |at: usize| 40.0 + 17.0 * (at * 7 % 5) as f64;
    let noise = |at: usize| [0.004, -0.003, 0.002, -0.004, 0.003, -0.002][at % 6];
    NAMES.iter().enumerate().map(|(at, name)| (*name, reference(at) * (1.0 + slope * at as f64 + noise(at)))).collect()
}

/// Samples every 10 s: a VM is alive while a file runs, except in the first `idle` seconds of the file named.
fn sampled(leg: &mut LegRow, idle_file: &str, idle: f64, held_per_file: f64) {
    let mut samples = Vec::new();
    for (at, file) in leg.files.iter().enumerate() {
        let (start, seconds) = (file.started_at.expect("it is there"), file.duration_s.expect("it is there").as_f64());
        let mut t = 0.0;
        while t <= seconds {
            let without = file.file == idle_file && t < idle;
            samples.push(HostSample {
                ts: start.plus(Secs::from_f64(t).expect("it is there")),
                mem_total_mib: Some(16_000),
                mem_available_mib: Some(12_000 - (held_per_file * at as f64) as u64),
                mem_free_mib: Some(2_000),
                swap_used_mib: Some(0),
                qemu_count: Some(u32::from(!without)),
                ..HostSample::default()
            });
            t += 10.0;
        }
    }
    leg.samples = samples;
}

fn ask<'a>(leg: &'a LegRow, reference: &'a [&'a LegRow]) -> Trend {
    analyse(Question { leg, reference })
}

#[test]
fn known_slopes_are_found() {
    let reference = leg("linux", &sloped(0.0));
    for slope in [0.0, 0.002, 0.026] {
        let judged = leg("macos", &sloped(slope));
        let trend = ask(&judged, &[&reference]);
        let raw = trend.raw.expect("it is there");
        assert!((raw.least_squares - slope).abs() < 0.0005 && (raw.robust - slope).abs() < 0.0005, "{slope}: {raw:?}");
        let word = if slope > 0.001 { "cost climbs" } else { "no climb" };
        assert!(trend.verdict[0].starts_with(word), "{slope}: {}", trend.verdict[0]);
    }
}

/// The public case: a raw slope of +0.026 that one file makes by downloading for 619 s without a VM.
#[test]
fn one_inflated_file_is_found_and_taken_out() {
    let reference = leg("linux", &sloped(0.0));
    for slope in [0.0, 0.002] {
        let mut durations = sloped(slope);
        durations[10].1 += 619.0;
        let mut judged = leg("macos", &durations);
        sampled(&mut judged, "k", 619.0, 0.0);
        judged.files[10].components.push(Component { name: "cold download".to_owned(), seconds: 619.0 });
        let trend = ask(&judged, &[&reference]);
        let (raw, without) = (trend.raw.expect("it is there"), trend.without_idle.expect("it is there"));
        assert!(raw.least_squares > 0.2, "{raw:?}");
        assert!((without.least_squares - slope).abs() < 0.01 && (without.robust - slope).abs() < 0.002, "{without:?}");
        let components = trend.without_components.expect("it is there");
        assert!((components.least_squares - slope).abs() < 0.0005, "{components:?}");
        let lever = trend.lever.as_ref().expect("it is there");
        assert_eq!((lever.file.as_str(), lever.position), ("k", 11));
        assert!((lever.without - slope).abs() < 0.0005);
        let words = trend.verdict.join("\n");
        assert!(words.contains("most of the slope goes with time in which no VM was alive"), "{words}");
        assert!(words.contains("most of that time is in k (620 s)"), "{words}");
        assert!(words.contains("without k (") && words.contains("cold download in k (619 s)"), "{words}");
        assert!(words.contains("no leftover process was recorded"), "{words}");
    }
}

#[test]
fn what_accumulates_is_named_and_what_does_not_is_not() {
    let mut judged = leg("macos", &sloped(0.0));
    sampled(&mut judged, "", 0.0, 50.0);
    let trend = ask(&judged, &[]);
    assert_eq!(trend.raw, None);
    assert!(trend.verdict[0].contains("cannot be said: there is no reference"), "{:?}", trend.verdict);
    let held = trend.resources.iter().find(|resource| resource.what == Held::MemoryHeld).expect("there is one");
    assert_eq!((held.first, held.last, held.net), (4050.0, 4550.0, 500.0));
    assert!((held.slope.expect("it is there").robust - 50.0).abs() < 1e-9);
    assert!(
        trend.verdict.iter().any(|text| text.starts_with("accumulates: memory held 4050 to 4550 MiB, +50.0 MiB per file")),
        "{:?}",
        trend.verdict
    );
    sampled(&mut judged, "", 0.0, 0.0);
    let trend = ask(&judged, &[]);
    assert!(trend.verdict.iter().any(|text| text.starts_with("nothing was seen to accumulate")), "{:?}", trend.verdict);
}

#[test]
fn without_samples_nothing_is_claimed() {
    let reference = leg("linux", &sloped(0.0));
    let judged = leg("macos", &sloped(0.0));
    let trend = ask(&judged, &[&reference]);
    assert_eq!(trend.without_idle, None);
    assert!(trend.resources.is_empty());
    assert!(trend.verdict.iter().any(|text| text.contains("whether anything accumulates cannot be said")));
    assert!(trend.not_seen.iter().any(|text| text.contains("there are no two samples")));
    assert!(trend.not_seen.iter().any(|text| text.contains("other hosts")));
}

#[test]
fn few_files_are_too_few() {
    let reference = leg("linux", &sloped(0.0)[..5]);
    let judged = leg("macos", &sloped(0.5)[..5]);
    assert!(ask(&judged, &[&reference]).verdict[0].starts_with("too few files"));
    assert!(ask(&leg("macos", &sloped(0.5)[..2]), &[&reference]).verdict[0].contains("fewer than 3 files have a reference"));
}

#[test]
fn isolated_groups_against_one_sequence() {
    let files = sloped(0.0);
    let groups: Vec<LegRow> = files.chunks(4).map(|group| leg("macos-group", group)).collect();
    let groups: Vec<&LegRow> = groups.iter().collect();
    let dearer: Vec<(&str, f64)> = files.iter().map(|(name, seconds)| (*name, seconds * 1.3)).collect();
    let judged = leg("macos", &dearer);
    let isolation = ask(&judged, &groups).isolation.expect("it is there");
    assert_eq!((isolation.groups, isolation.level.files), (3, 12));
    assert!((isolation.level.median_ratio - 1.3).abs() < 1e-3 && isolation.level.low.expect("it is there") > 1.29, "{isolation:?}");
}

#[test]
fn what_was_disturbed_tells_no_cost() {
    let reference = leg("linux", &sloped(0.0));
    let mut judged = leg("macos", &sloped(0.0));
    judged.files[3].outcome = Some(Outcome::FileWatchdogTimeout);
    judged.files[4].suspended_s = Some(Secs::from_secs(3600));
    judged.files[5] = FileRow::not_run(6, 1, "f".to_owned(), None);
    let trend = ask(&judged, &[&reference, &judged]);
    assert_eq!(trend.reference.len(), 1, "a leg is no reference for itself");
    let names: BTreeMap<usize, &str> = trend.files.iter().map(|file| (file.position, file.file.as_str())).collect();
    assert_eq!(names.len(), 9);
    // A file that never ran takes no place; one that was killed does.
    assert_eq!(names.get(&6), Some(&"g"));
}
