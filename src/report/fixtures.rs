//! Summaries that the tests of every format share: a night with each kind of end, and one in which every string is hostile.

use serde_json::{Value, json};

use crate::core::moment::Wall;
use crate::core::row::{FileRow, LegRow, Summary};
use crate::core::sample::{Disk, HostSample};

/// 2026-11-29T22:00:00Z.
pub const NIGHT: i64 = 1_795_989_600_000;

/// Text that would act in at least one format if it were not made inert.
pub const HOSTILE: &str = concat!(
    "<script>alert(1)</script> ]]> & \"q\" 'a' `b` ```\n::error file=x,line=1::owned\n::set-output name=a::b\n \t::add-mask::x\na ##[error]owned\n",
    "\u{1b}]0;title\u{7}\u{1b}[31mred\u{1b}[2J \u{202e}gnp.exe \0\u{1}\u{9b}1m | a | b | @everyone #1 https://evil.example [x](javascript:alert(1)) ",
    "</textarea></style></title><img src=x onerror=alert(1)> =cmd()|' /C calc'!A0 %0A%0D {{x}} ${y} &lt;"
);

pub fn leg(platform: &str, target: &str, edit: Value) -> LegRow {
    let mut row = json!({
        "run_id": "36531", "attempt": "1", "platform": platform, "target": target, "shard": null, "resolved": "7.23.2",
        "sha": "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567", "event": "schedule", "scope": "full", "epoch": "01990000-0000-7000-8000-000000000001",
        "terminal": "complete", "stopped_by": null, "conclusion": "pass", "why": "all 3 files passed"
    });
    merge(
        &mut row,
        json!({
            "started_at": Wall(NIGHT), "ended_at": Wall(NIGHT + 600_000), "duration_s": 600, "loop_finished": true,
            "files_planned": 3, "files_reported": 3, "files_failed": 0, "last_file": "test/three.test.ts", "current_file": null,
            "last_checkpoint_ts": Wall(NIGHT + 600_000), "last_heartbeat_ts": Wall(NIGHT + 590_000), "progress_seq": 9, "heartbeat_seq": 19,
            "lease_s": 90, "last_output": "3 passed"
        }),
    );
    merge(
        &mut row,
        json!({
            "job_matched": true, "job_conclusion": "success", "job_elapsed_s": 640, "stalled_step": null,
            "annotation": null, "resource_verdict": "healthy", "resource_why": "9000 of 14336 MiB available", "last_host": null,
            "sinks": [{"url": "file:///mnt/sink", "sent": 31, "unsent": 0, "degraded": false}], "attempts": [], "files": []
        }),
    );
    merge(&mut row, edit);
    let mut row: LegRow = serde_json::from_value(row).expect("the fixture has the shape of a row");
    row.samples = samples(row.files_reported);
    row.last_host = row.samples.last().cloned();
    row
}

pub fn file(index: u32, name: &str, edit: Value) -> FileRow {
    let mut row = json!({
        "index": index, "round": 1, "file": name, "file_b64": null, "outcome": "pass", "status": "pass",
        "started_at": Wall(NIGHT + i64::from(index - 1) * 200_000), "duration_s": 33.412, "cap_s": 300,
        "cap_basis": "history: worst 168 s of 14 passes × 1.5", "exit_code": 0, "signal": null, "escalated": false, "suspended_s": 0,
        "containment": "cgroup+subreaper", "cleanup_verified": true, "leftovers": [], "foreign": [], "log": "logs/1.log"
    });
    merge(&mut row, edit);
    serde_json::from_value(row).expect("the fixture has the shape of a file row")
}

fn merge(base: &mut Value, edit: Value) {
    let (Value::Object(base), Value::Object(edit)) = (base, edit) else { return };
    base.extend(edit);
}

pub fn leftover() -> Value {
    json!({"pid": 4711, "comm": "qemu-system-x86", "exe": "qemu-system-x86_64", "argv": "qemu-system-x86_64 -daemonize -m 512", "age_s": 3.1,
        "rss_mib": 41.2, "ours_by": "subreaper", "fate": "killed"})
}

fn samples(files: u32) -> Vec<HostSample> {
    let sample = |n: u32| HostSample {
        ts: Wall(NIGHT + i64::from(n) * 30_000),
        load_1m: Some(0.5 + f64::from(n % 4)),
        cpu_pct: Some(20.0),
        cpu_count: Some(4),
        mem_total_mib: Some(14_336),
        mem_available_mib: Some(9000 + u64::from(n % 5) * 100),
        swap_used_mib: Some(0),
        qemu_count: Some(n % 2),
        qemu_rss_mib: Some(u64::from(n % 2) * 512),
        disks: vec![Disk {
            role: "work".to_owned(),
            path: "/work".to_owned(),
            free_mib: Some(20_000 - u64::from(n) * 10),
            free_inodes: None,
        }],
        ..HostSample::default()
    };
    (0..files * 7).map(sample).collect()
}

pub fn summary(legs: Vec<LegRow>) -> Summary {
    Summary::of(Wall(NIGHT + 7_200_000), legs)
}

pub fn empty() -> Summary {
    summary(Vec::new())
}

fn three(edit_second: Value) -> Vec<FileRow> {
    vec![file(1, "test/one.test.ts", json!({})), file(2, "test/two.test.ts", edit_second), file(3, "test/three.test.ts", json!({}))]
}

/// One leg of every kind.
pub fn night() -> Summary {
    let mut pass = leg("linux-x86", "stable", json!({}));
    pass.files = three(json!({"leftovers": [leftover()]}));
    let mut fail = leg(
        "windows-x86",
        "stable",
        json!({"conclusion": "fail", "why": "1 of 3 files did not pass", "files_failed": 1, "job_conclusion": "failure"}),
    );
    fail.files = three(json!({
        "outcome": "test-failure", "status": "fail", "exit_code": 1, "last_output": "expect(received).toBe(expected)\nat two.test.ts:14"
    }));
    let mut lost = leg(
        "macos-x86",
        "stable",
        json!({
            "terminal": "runner-lost", "conclusion": "incomplete", "loop_finished": false, "ended_at": null, "duration_s": null,
            "why": "it stopped talking in test/two.test.ts; the lease of 90 s ran out", "files_reported": 1, "last_file": "test/one.test.ts",
            "current_file": "test/two.test.ts", "job_conclusion": "failure", "job_elapsed_s": 3844, "stalled_step": "Run integration tests",
            "annotation": "The hosted runner lost communication with the server.", "last_output": "boot 7.23.2 …\nwaiting for login",
            "last_checkpoint_ts": Wall(NIGHT + 200_000), "last_heartbeat_ts": Wall(NIGHT + 290_000)
        }),
    );
    lost.files = vec![
        file(1, "test/one.test.ts", json!({})),
        file(
            2,
            "test/two.test.ts",
            json!({"outcome": null, "status": null, "duration_s": null, "exit_code": null, "cleanup_verified": null, "containment": null}),
        ),
        FileRow::not_run(3, 1, "test/three.test.ts".to_owned(), None),
    ];
    let mut stopped = leg(
        "linux-arm",
        "7.20.8",
        json!({
            "terminal": "stopped", "stopped_by": "dirty", "conclusion": "fail", "loop_finished": false,
            "why": "leftovers of test/two.test.ts survived the reap", "files_reported": 2, "files_failed": 1, "last_file": "test/two.test.ts"
        }),
    );
    let mut survivor = leftover();
    merge(&mut survivor, json!({"fate": "survived", "waits_on": "D io_schedule"}));
    stopped.files = three(json!({
        "outcome": "file-watchdog-timeout", "status": "fail", "exit_code": null, "signal": 9, "escalated": true, "duration_s": 300.2,
        "cleanup_verified": false, "leftovers": [survivor], "components": [{"name": "cold download", "seconds": 120.5}]
    }));
    stopped.files[2] = FileRow::not_run(3, 1, "test/three.test.ts".to_owned(), None);
    let mut unstarted = leg(
        "macos-arm",
        "stable",
        json!({
            "terminal": "not-started", "conclusion": "incomplete", "why": "its job died in step 'Set up VM' before the suite began", "loop_finished": false,
            "files_planned": null, "files_reported": 0, "last_file": null, "started_at": null, "ended_at": null, "duration_s": null, "epoch": null,
            "progress_seq": null, "heartbeat_seq": null, "lease_s": null, "last_output": null, "job_conclusion": "failure", "resource_verdict": "unknown",
            "resource_why": "no host sample was taken", "sinks": [], "last_checkpoint_ts": null, "last_heartbeat_ts": null
        }),
    );
    unstarted.samples = Vec::new();
    let running = leg(
        "freebsd-x86",
        "stable",
        json!({
            "terminal": "running", "conclusion": null, "why": "in test/two.test.ts, 1 files reported", "files_reported": 1, "loop_finished": false,
            "ended_at": null, "duration_s": null, "current_file": "test/two.test.ts", "job_conclusion": null
        }),
    );
    summary(vec![pass, fail, lost, stopped, unstarted, running])
}

/// A whole night: so many legs of so many files, with heartbeats along all of it.
pub fn full_night(legs: usize, files: u32) -> Summary {
    let platforms = ["linux-x86", "linux-arm64", "windows-x86", "macos-arm64", "macos-x86"];
    let targets = ["stable", "testing", "long-term"];
    let mut all = Vec::new();
    for n in 0..legs {
        let mut row = leg(
            platforms[n % 5],
            targets[n / 5 % 3],
            json!({"run_id": format!("{}", 36_531 + n / 15), "files_planned": files, "files_reported": files}),
        );
        let shift = i64::try_from(n).unwrap_or(0) * 1000;
        row.files = (1..=files)
            .map(|index| {
                let seconds = 20.0 + f64::from(index * 7 % 5) * 9.0 + (n % 5) as f64 * 3.0;
                let started = Wall(NIGHT + shift + i64::from(index - 1) * 60_000);
                file(
                    index,
                    &format!("test/integration/case-{index}.test.ts"),
                    json!({"duration_s": seconds, "started_at": started, "last_output": "ok\n".repeat(200)}),
                )
            })
            .collect();
        let sample = row.samples[0].clone();
        row.samples = (0..512)
            .map(|at: i64| HostSample {
                ts: Wall(NIGHT + shift + at * 1400),
                mem_available_mib: Some(9000 - u64::try_from(at * 7 % 900).unwrap_or(0)),
                load_1m: Some((at % 40) as f64 / 10.0),
                qemu_count: Some(u32::from(at % 40 > 9)),
                ..sample.clone()
            })
            .collect();
        all.push(row);
    }
    if let Some(row) = all.get_mut(7) {
        row.files[5] = file(
            6,
            "test/integration/case-6.test.ts",
            json!({"outcome": "test-failure", "status": "fail", "exit_code": 1, "last_output": "expected 3, got 4"}),
        );
        row.conclusion = Some(crate::core::outcome::Conclusion::Fail);
        row.files_failed = 1;
        row.why = "1 of 12 files did not pass".to_owned();
    }
    summary(all)
}

/// Every string is hostile.
pub fn hostile() -> Summary {
    let long = format!("test/{}{}.ts", HOSTILE, "é".repeat(150));
    let mut process = leftover();
    merge(&mut process, json!({"comm": HOSTILE, "exe": HOSTILE, "argv": HOSTILE}));
    let mut row = leg(
        HOSTILE,
        HOSTILE,
        json!({
            "run_id": HOSTILE, "attempt": HOSTILE, "resolved": HOSTILE, "sha": HOSTILE, "event": HOSTILE, "why": HOSTILE, "terminal": "runner-lost",
            "conclusion": "incomplete", "last_file": long, "current_file": long, "last_output": HOSTILE, "job_conclusion": HOSTILE,
            "stalled_step": HOSTILE, "annotation": HOSTILE, "resource_why": HOSTILE, "source": HOSTILE, "job_matched": false, "files_reported": 1, "files_failed": 1,
            "sinks": [{"url": HOSTILE, "sent": 1, "unsent": 2, "degraded": true, "error": HOSTILE}],
            "notes": [{"ts": Wall(NIGHT), "kind": HOSTILE, "text": HOSTILE}],
            "attempts": [{"attempt": HOSTILE, "epoch": "an-epoch", "terminal": "cancelled", "conclusion": "incomplete", "why": HOSTILE, "started_at": null,
                "ended_at": null, "files_reported": 0, "files_planned": 1, "files_failed": 0, "last_file": HOSTILE, "current_file": HOSTILE}]
        }),
    );
    row.files = vec![
        file(
            1,
            &long,
            json!({
                "outcome": HOSTILE, "status": "fail", "exit_code": 1, "cap_basis": HOSTILE, "containment": HOSTILE, "log": HOSTILE, "last_output": HOSTILE,
                "leftovers": [process], "foreign": [{"pid": 2, "exe": HOSTILE, "argv": HOSTILE}], "notes": [HOSTILE], "components": [{"name": HOSTILE, "seconds": 1.5}],
                "evidence": {"tree": [{"pid": 1, "ppid": 0, "state": HOSTILE, "comm": HOSTILE, "argv": HOSTILE, "cpu_s": 1.0, "cpu_pct": 99.0, "rss_mib": 5.0, "wait_channel": HOSTILE}],
                    "top": [], "missing": [HOSTILE], "stack": HOSTILE}
            }),
        ),
        FileRow::not_run(2, 1, HOSTILE.to_owned(), Some("//8=".to_owned())),
    ];
    let mut summary = summary(vec![row]);
    summary.warnings.push(HOSTILE.to_owned());
    summary
}
