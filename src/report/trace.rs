//! `--format trace`: trace events as Perfetto and `chrome://tracing` open them.
//!
//! One process per leg with a track of files and a track of their caps; counters from the host's samples; instants for leftovers, notes, the
//! last checkpoint and the end of the lease. Times are microseconds since 1970.

use serde_json::{Map, Value, json};

use crate::core::moment::{Secs, Wall};
use crate::core::outcome::Terminal;
use crate::core::row::{FileRow, LegRow, Summary};
use crate::core::sample::HostSample;
use crate::report::escape;
use crate::report::words;

const FILES: u32 = 1;
const CAPS: u32 = 2;

pub fn render(summary: &Summary) -> String {
    let mut events = Vec::new();
    for (pid, leg) in (1_u32..).zip(&summary.legs) {
        leg_events(pid, leg, &mut events);
    }
    let document = json!({"displayTimeUnit": "ms", "traceEvents": events, "otherData": {"generated_at": summary.generated_at, "by": "ledger"}});
    let mut text = serde_json::to_string(&document).expect("a value has a JSON form");
    text.push('\n');
    text
}

fn leg_events(pid: u32, leg: &LegRow, events: &mut Vec<Value>) {
    let named = |kind: &str, tid: u32, name: &str| json!({"ph": "M", "pid": pid, "tid": tid, "name": kind, "args": {"name": name}});
    events.push(named("process_name", 0, &format!("{}: {}", words::leg_title(leg), words::leg_result(leg))));
    events.push(json!({"ph": "M", "pid": pid, "tid": 0, "name": "process_sort_index", "args": {"sort_index": pid}}));
    events.push(named("thread_name", FILES, "files"));
    events.push(named("thread_name", CAPS, "caps"));
    // A file without an end reaches as far as the leg was seen to live.
    let alive_until = leg.last_heartbeat_ts.max(leg.last_checkpoint_ts).max(leg.ended_at);
    for file in &leg.files {
        if let Some(start) = file.started_at {
            file_events(pid, file, start, alive_until, events);
        }
    }
    for sample in &leg.samples {
        counters(pid, sample, events);
    }
    for note in &leg.notes {
        instant(pid, note.ts, &escape::name(&note.kind), json!({"text": escape::sentence(&note.text)}), events);
    }
    if leg.terminal == Terminal::RunnerLost {
        for (ts, name) in [(leg.last_checkpoint_ts, "last moved on"), (leg.last_heartbeat_ts, "last heartbeat")] {
            if let Some(ts) = ts {
                instant(pid, ts, name, json!({"why": escape::sentence(&leg.why)}), events);
            }
        }
        if let (Some(ts), Some(lease)) = (leg.last_heartbeat_ts.max(leg.last_checkpoint_ts), leg.lease_s) {
            instant(pid, ts.plus(lease), "lease ran out", json!({"lease_s": lease}), events);
        }
    }
}

fn file_events(pid: u32, file: &FileRow, start: Wall, alive_until: Option<Wall>, events: &mut Vec<Value>) {
    let duration = file.duration_s.unwrap_or_else(|| alive_until.map_or(Secs::ZERO, |until| until.since(start)));
    let mut args = Map::from_iter([
        ("file".to_owned(), json!(escape::name(&file.file))),
        ("outcome".to_owned(), json!(words::file_result(file))),
        ("index".to_owned(), json!(file.index)),
        ("round".to_owned(), json!(file.round)),
    ]);
    let mut arg = |name: &str, value: Value| {
        if !value.is_null() {
            args.insert(name.to_owned(), value);
        }
    };
    arg("exit_code", json!(file.exit_code));
    arg("signal", json!(file.signal));
    arg("cap_basis", json!(file.cap_basis.as_deref().map(escape::sentence)));
    arg("cleanup_verified", json!(file.cleanup_verified));
    arg("last_output", json!(file.last_output.as_deref().map(escape::block)));
    // Perfetto colours a slice by its name and category: a failure stands out by its category.
    let category = if words::passed(file) { "pass" } else { "fail" };
    let name = escape::name(crate::core::ids::base_name(&file.file));
    events.push(json!({"ph": "X", "pid": pid, "tid": FILES, "ts": micros(start), "dur": duration.millis().saturating_mul(1000), "name": name, "cat": category, "args": args}));
    if let Some(cap) = file.cap_s {
        events.push(json!({"ph": "X", "pid": pid, "tid": CAPS, "ts": micros(start), "dur": cap.millis().saturating_mul(1000).min(duration.millis().saturating_mul(1000).max(1)),
            "name": format!("cap {cap}"), "cat": "cap", "args": {"cap_s": cap, "used": share(duration, cap)}}));
    }
    for process in &file.leftovers {
        let args = json!({"file": escape::name(&file.file), "argv": process.argv.as_deref().map(escape::sentence), "rss_mib": process.rss_mib});
        instant(pid, start.plus(duration), &format!("leftover: {}", words::leftover(process)), args, events);
    }
}

/// How much of its cap a file used, in percent.
fn share(duration: Secs, cap: Secs) -> Value {
    if cap == Secs::ZERO { Value::Null } else { json!((duration.as_f64() / cap.as_f64() * 1000.0).round() / 10.0) }
}

fn instant(pid: u32, ts: Wall, name: &str, args: Value, events: &mut Vec<Value>) {
    events.push(json!({"ph": "i", "s": "p", "pid": pid, "tid": FILES, "ts": micros(ts), "name": name, "args": args}));
}

fn counters(pid: u32, sample: &HostSample, events: &mut Vec<Value>) {
    let mut counter = |name: &str, unit: &str, value: Option<f64>| {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            events.push(json!({"ph": "C", "pid": pid, "ts": micros(sample.ts), "name": name, "args": {unit: value}}));
        }
    };
    let mib = |value: Option<u64>| value.map(|mib| mib as f64);
    counter("memory available", "MiB", mib(sample.mem_available_mib));
    counter("swap used", "MiB", mib(sample.swap_used_mib));
    counter("load", "1 min", sample.load_1m);
    counter("CPU", "%", sample.cpu_pct);
    counter("VMs", "alive", sample.qemu_count.map(f64::from));
    counter("memory of VMs", "MiB", mib(sample.qemu_rss_mib));
    counter("tree memory", "MiB", sample.tree_rss_mib);
    for disk in sample.disks.iter().take(4) {
        counter(&format!("disk free: {}", escape::name(&disk.role)), "MiB", mib(disk.free_mib));
    }
}

fn micros(wall: Wall) -> i64 {
    wall.0.saturating_mul(1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixtures;

    fn events(summary: &Summary) -> Vec<Value> {
        let document: Value = serde_json::from_str(&render(summary)).expect("JSON that fits");
        document["traceEvents"].as_array().expect("a value of that kind").clone()
    }

    #[test]
    fn events_keep_the_rules_of_the_format() {
        for summary in [fixtures::night(), fixtures::hostile(), fixtures::empty(), fixtures::full_night(15, 12)] {
            for event in events(&summary) {
                let phase = event["ph"].as_str().expect("a value of that kind");
                assert!(event["pid"].is_u64() && event["name"].is_string(), "{event}");
                match phase {
                    "M" => assert!(event["args"].is_object()),
                    "X" => assert!(event["ts"].is_i64() && event["dur"].is_u64() && event["tid"].is_u64(), "{event}"),
                    "C" => assert!(
                        event["ts"].is_i64()
                            && event["args"].as_object().expect("a value of that kind").values().all(Value::is_number),
                        "{event}"
                    ),
                    "i" => assert!(event["ts"].is_i64() && event["s"] == "p", "{event}"),
                    other => panic!("{other}"),
                }
            }
        }
    }

    #[test]
    fn a_night_has_its_slices_counters_and_instants() {
        let events = events(&fixtures::night());
        let named = |phase: &str, name: &str| {
            events
                .iter()
                .filter(|event| event["ph"] == phase && event["name"].as_str().expect("a value of that kind").starts_with(name))
                .count()
        };
        assert_eq!(named("X", "two.test.ts"), 4);
        assert_eq!(named("X", "cap 5m00s"), 10);
        assert_eq!(named("i", "leftover: qemu-system-x86_64"), 2);
        assert_eq!((named("i", "last moved on"), named("i", "lease ran out")), (1, 1));
        assert!(named("C", "memory available") > 20);
        let lost = events.iter().find(|event| event["args"]["outcome"] == "no record").expect("there is one");
        assert_eq!(lost["dur"], 90_000_000, "a file without an end reaches to the last heartbeat");
    }

    #[test]
    fn hostile_text_is_inert() {
        let text = render(&fixtures::hostile());
        assert!(!text.contains("\\u001b") && !text.contains('\u{202e}') && !text.contains("\\u0000"));
    }
}
