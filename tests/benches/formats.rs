//! Time and size of each format, for a night of 15 legs and for 1,000 legs of 12 files with heartbeats.
//!
//! `cargo bench --bench formats`. Prints a table; asserts nothing.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a bench reads the clock itself and stops at the first surprise"
)]

use std::time::Instant;

use ci_ledger::core::moment::{Secs, Wall};
use ci_ledger::core::row::{LegRow, Summary};
use ci_ledger::core::sample::HostSample;
use ci_ledger::report::style::Style;
use ci_ledger::report::{ctrf, html, json, junit, markdown, ndjson, table, trace};

const START: i64 = 1_795_989_600_000;
const ROUNDS: usize = 5;

type Render = fn(&Summary) -> String;

fn main() {
    let formats: [(&str, Render); 8] = [
        ("table", |summary| table::render(summary, Style::PLAIN)),
        ("json", json::render),
        ("ndjson", ndjson::render),
        ("markdown", |summary| markdown::render(summary, markdown::SUMMARY_ROOM)),
        ("html", html::render),
        ("junit", junit::render),
        ("ctrf", ctrf::render),
        ("trace", trace::render),
    ];
    println!("{:<10}{:>8}{:>14}{:>14}", "format", "legs", "median ms", "bytes");
    for legs in [15, 1000] {
        let summary = night(legs);
        for (name, render) in formats {
            let mut took = Vec::new();
            let mut bytes = 0;
            for _ in 0..ROUNDS {
                let start = Instant::now();
                bytes = render(&summary).len();
                took.push(start.elapsed());
            }
            took.sort();
            println!("{name:<10}{legs:>8}{:>14.2}{bytes:>14}", took[ROUNDS / 2].as_secs_f64() * 1000.0);
        }
    }
}

/// Legs of 12 files that pass, but for one, with a sample every 5 s.
fn night(legs: usize) -> Summary {
    let rows = (0..legs).map(leg).collect();
    Summary::of(Wall(START), rows)
}

fn leg(n: usize) -> LegRow {
    let platforms = ["linux-x86", "linux-arm64", "windows-x86", "macos-arm64", "macos-x86"];
    let targets = ["stable", "testing", "long-term"];
    let start = Wall(START + i64::try_from(n).unwrap() * 1000);
    let file = |index: usize| {
        let failed = n % 15 == 7 && index == 6;
        serde_json::json!({
            "index": index, "round": 1, "file": format!("test/integration/case-{index}.test.ts"), "file_b64": null,
            "outcome": if failed { "test-failure" } else { "pass" }, "status": if failed { "fail" } else { "pass" },
            "started_at": start.plus(Secs::from_secs(index as u64 * 60)), "duration_s": 20.0 + (index * 7 % 5) as f64 * 9.0 + (n % 5) as f64,
            "cap_s": 300, "cap_basis": "history: worst 168 s of 14 passes × 1.5", "exit_code": i32::from(failed), "signal": null, "escalated": false,
            "suspended_s": 0, "containment": "cgroup+subreaper", "cleanup_verified": true, "leftovers": [], "foreign": [], "log": "logs/1.log",
            "last_output": "ok\n".repeat(100)
        })
    };
    let files: Vec<_> = (1..=12).map(file).collect();
    let row = serde_json::json!({
        "run_id": format!("{}", 36_000 + n / 15), "attempt": "1", "platform": platforms[n % 5], "target": targets[n / 5 % 3], "terminal": "complete",
        "conclusion": if n % 15 == 7 { "fail" } else { "pass" }, "why": "12 files", "started_at": start, "duration_s": 720, "loop_finished": true,
        "files_planned": 12, "files_reported": 12, "files_failed": u32::from(n % 15 == 7), "resource_verdict": "healthy", "sinks": [], "attempts": [],
        "files": files
    });
    let mut row: LegRow = serde_json::from_value(row).unwrap();
    row.samples = (0..144)
        .map(|at: u64| HostSample {
            ts: start.plus(Secs::from_secs(at * 5)),
            load_1m: Some((at % 40) as f64 / 10.0),
            mem_total_mib: Some(16_000),
            mem_available_mib: Some(9000 - at * 7 % 900),
            swap_used_mib: Some(0),
            qemu_count: Some(u32::from(at % 12 > 2)),
            ..HostSample::default()
        })
        .collect();
    row
}
