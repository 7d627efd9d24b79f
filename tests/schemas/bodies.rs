//! One body of every kind, with as much in it as it can hold.

use std::collections::BTreeMap;

use ci_ledger::core::event::{
    Body, Cancelled, CapExpired, Component, FileFinished, FileRef, FileStarted, Heartbeat, HostInfo, HostSampled, LeftoverFound,
    LoopFinished, PlannedFile, RunFinished, RunStarted, SampledAt, SinkDegraded, SinkRecovered, SinkState, SlotHeld,
    SlotQuarantined, SlotWaiting, Suspended, SuspendedWhy,
};
use ci_ledger::core::ids::{Attempt, Epoch, FilePath, LegId, Platform, RunId, Shard, Target, Token};
use ci_ledger::core::moment::{Secs, Wall};
use ci_ledger::core::outcome::{Cleanup, Conclusion, Outcome, Scope, Status, StoppedBy};
use ci_ledger::core::pattern::Patterns;
use ci_ledger::core::process::{Evidence, Fate, Foreign, Leftover, OursBy, ProcessId, ProcessRow, TreeUse};
use ci_ledger::core::sample::{CgroupMemory, Disk, HostSample, MacMemory, Pressure};

pub const START: Wall = Wall(1_760_000_000_123);

pub fn leg() -> LegId {
    LegId {
        run_id: RunId::from("1738"),
        attempt: Attempt::from("1"),
        platform: Platform::from("linux-x64"),
        target: Target::from("stable"),
        shard: Some(Shard { index: 2, count: 3 }),
    }
}

fn at() -> FileRef {
    FileRef::new(1, 1, &FilePath::from_bytes(b"test/\xff.test.ts"))
}

fn secs() -> Option<Secs> {
    Some(Secs::from_millis(1500))
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn evidence() -> Evidence {
    let row = ProcessRow {
        pid: 2,
        ppid: 1,
        state: "S".to_owned(),
        comm: "qemu-system-x86".to_owned(),
        argv: text("qemu-system-x86_64 -m 1G"),
        cpu_s: Some(0.5),
        cpu_pct: Some(99.5),
        rss_mib: Some(41.0),
        wait_channel: text("do_wait"),
    };
    Evidence { tree: vec![row.clone()], top: vec![row], missing: vec!["sample".to_owned()], stack: text("main") }
}

fn leftover() -> Leftover {
    Leftover {
        pid: 2,
        comm: "qemu-system-x86".to_owned(),
        exe: text("qemu-system-x86_64"),
        argv: text("qemu-system-x86_64 -m 1G"),
        age_s: Some(3.1),
        rss_mib: Some(41.0),
        ours_by: OursBy::Subreaper,
        fate: Fate::Killed,
        waits_on: text("D folio_wait"),
    }
}

fn sample() -> HostSample {
    HostSample {
        ts: START,
        load_1m: Some(0.5),
        mem_available_mib: Some(9000),
        pressure: Some(Pressure { cpu_some_avg10: Some(1.5), ..Pressure::default() }),
        cgroup_memory: Some(CgroupMemory { oom_kill: Some(0), ..CgroupMemory::default() }),
        mac_memory: Some(MacMemory { pressure_level: Some(1), ..MacMemory::default() }),
        disks: vec![Disk { role: "work".to_owned(), path: "/".to_owned(), free_mib: Some(7), free_inodes: None }],
        missing: BTreeMap::from([("free_inodes".to_owned(), "not counted here".to_owned())]),
        ..HostSample::default()
    }
}

pub fn every_body() -> Vec<Body> {
    let held = SlotHeld { pool: "vm".to_owned(), slot: 1, waited_s: Secs::ZERO };
    vec![
        Body::RunStarted(Box::new(run_started())),
        Body::FileStarted(FileStarted {
            at: at(),
            cap_s: secs(),
            cap_basis: text("history: worst 168 s of 14 passes × 1.5"),
            token: Token::from("00ff"),
            owner: Some(ProcessId { pid: 7, start: 99 }),
            log: text("logs/1.log"),
        }),
        Body::CapExpired(CapExpired {
            at: at(),
            elapsed_s: Secs::from_secs(300),
            cap_s: Secs::from_secs(300),
            cap_basis: text("floor"),
            evidence: evidence(),
        }),
        Body::LeftoverFound(LeftoverFound { at: at(), leftovers: vec![leftover()] }),
        Body::FileFinished(Box::new(file_finished())),
        Body::HostSampled(HostSampled { at: SampledAt::Boundary, sample: sample() }),
        Body::Heartbeat(Box::new(Heartbeat {
            file: Some(at()),
            elapsed_s: secs(),
            cap_s: None,
            sample: sample(),
            last_output: text("ok 7"),
            evidence: Some(evidence()),
        })),
        Body::Suspended(Suspended { why: SuspendedWhy::Sleep, gap_s: Secs::from_secs(60), wall_step_ms: -5 }),
        Body::SinkDegraded(SinkDegraded { url: "file:///x".to_owned(), error: "full".to_owned(), unsent: 3 }),
        Body::SinkRecovered(SinkRecovered { url: "file:///x".to_owned(), down_s: Secs::from_millis(1) }),
        Body::SlotWaiting(SlotWaiting {
            pool: "vm".to_owned(),
            capacity: 2,
            held: 2,
            quarantined: 0,
            holders: vec!["run 1".to_owned()],
            waited_s: Secs::ZERO,
        }),
        Body::SlotAcquired(held.clone()),
        Body::SlotReleased(held),
        Body::SlotQuarantined(SlotQuarantined { pool: "vm".to_owned(), slot: 1, reason: "no answer".to_owned(), expires: START }),
        Body::Cancelled(Cancelled { signal: "INT".to_owned(), file: Some(at()) }),
        Body::LoopFinished(LoopFinished {
            loop_finished: false,
            stopped_by: Some(StoppedBy::Budget),
            cancelled: false,
            conclusion: Conclusion::Incomplete,
            files_planned: Some(2),
            files_reported: 1,
            files_failed: 0,
            why: text("the budget was spent"),
        }),
        Body::RunFinished(RunFinished {
            exit_code: 4,
            sinks: vec![SinkState { url: "file:///x".to_owned(), sent: 1, unsent: 0, degraded: false, error: None }],
            dropped: 2,
        }),
    ]
}

fn run_started() -> RunStarted {
    RunStarted {
        plan: vec![PlannedFile {
            index: 1,
            file: "a.test.ts".to_owned(),
            file_b64: None,
            cap_s: secs(),
            cap_basis: text("floor"),
            expect_s: secs(),
        }],
        files_planned: Some(1),
        scope: Scope::Full,
        sha: text("abc"),
        event: text("push"),
        resolved: text("7.23.2"),
        legs: 1,
        command: vec!["bun".to_owned(), "test".to_owned()],
        host: HostInfo { os: "linux".to_owned(), arch: "x86_64".to_owned(), ..HostInfo::default() },
        containment: "cgroup+subreaper".to_owned(),
        versions: BTreeMap::from([("ledger".to_owned(), "0.1.0".to_owned())]),
        writer: ProcessId { pid: 1, start: 2 },
        deadline: Some(START),
        heartbeat_s: Secs::from_secs(30),
        resumes: Some(Epoch::parse("d").unwrap()),
        carried: Vec::new(),
        allow_leftover: Patterns::new(["gradle*"]).unwrap(),
        recovered: vec!["run 1".to_owned()],
        warnings: Vec::new(),
    }
}

fn file_finished() -> FileFinished {
    FileFinished {
        at: at(),
        outcome: Outcome::Other("infra-download".to_owned()),
        status: Status::Fail,
        started_at: Some(START),
        duration_s: secs(),
        suspended_s: Secs::ZERO,
        cap_s: secs(),
        cap_basis: text("floor"),
        exit_code: Some(1),
        signal: None,
        escalated: false,
        containment: text("subreaper"),
        cleanup: Cleanup::Unknown,
        cleanup_verified: None,
        leftovers: vec![leftover()],
        foreign: vec![Foreign { pid: 9, exe: text("qemu-system-x86_64"), argv: None, fate: Some(Fate::Survived) }],
        notes: vec!["a note".to_owned()],
        log: text("logs/1.log"),
        output_bytes: 17,
        last_output: text("ok 7"),
        used: Some(TreeUse { cpu_s: Some(1.0), ..TreeUse::default() }),
        components: vec![Component { name: "download".to_owned(), seconds: 1.5 }],
    }
}
