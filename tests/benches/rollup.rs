//! Whole-process times of reports: the shared rollup over public ci-data, and reports over an archive of ten thousand legs.
//!
//! `cargo bench --bench rollup` needs ../shared for the first part and about 2 GB of disk for the second; `-- legs N` makes it smaller.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a bench reads the clock itself and stops at the first surprise"
)]

mod row;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ci_ledger::core::event::{
    Body, Envelope, FileFinished, FileRef, FileStarted, Heartbeat, HostInfo, LoopFinished, PlannedFile, RunFinished, RunStarted,
};
use ci_ledger::core::ids::{Digest, Epoch, FilePath, LegId, Seq, Token};
use ci_ledger::core::moment::{Secs, Wall};
use ci_ledger::core::outcome::{Cleanup, Conclusion, Outcome, Scope, Status};
use ci_ledger::core::process::ProcessId;
use ci_ledger::core::sample::{Disk, HostSample};
use ci_ledger::store::{Added, Archive};
use row::{Figures, row};

const SHARED: &str = "/work/shared/ci-data/runs";
const PUBLIC_LEGS: usize = 298;
const FILES: u32 = 12;
const BEATS: u32 = 15;
const ROUNDS: usize = 21;
const DAY_MS: i64 = 86_400_000;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let legs = arguments.iter().position(|word| word == "legs").map_or(10_000, |at| arguments[at + 1].parse().unwrap());
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    if Path::new(SHARED).exists() {
        public(dir.path());
    } else {
        println!("SKIPPED: {SHARED} is not on this machine");
    }
    archive(dir.path(), legs);
}

/// The public legs, and copies of some under other run ids up to the budget's number.
fn public(dir: &Path) {
    let folder = dir.join("runs");
    std::fs::create_dir(&folder).unwrap();
    let mut files: Vec<PathBuf> = std::fs::read_dir(SHARED).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut lines = 0;
    for number in 0..PUBLIC_LEGS {
        let from = &files[number % files.len()];
        let name = from.file_name().unwrap().to_str().unwrap();
        let mut text = std::fs::read_to_string(from).unwrap();
        let mut name = name.to_owned();
        if number >= files.len() {
            let run = name.split('-').next().unwrap().to_owned();
            text = text.replace(&run, &format!("9{}", &run[1..]));
            name = name.replace(&run, &format!("9{}", &run[1..]));
        }
        lines += text.lines().count();
        std::fs::write(folder.join(name), text).unwrap();
    }
    let path = folder.to_str().unwrap();
    let what = format!("tested-versions over {PUBLIC_LEGS} ci-data legs ({lines} records), whole process");
    let script = Peer::new();
    let (mut ours, mut theirs, mut nothing) = (Vec::new(), Vec::new(), Vec::new());
    // In turns, so that a busy moment falls on all.
    for _ in 0..ROUNDS {
        ours.push(timed(|| ledger(&["report", path, "--format", "tested-versions"])));
        nothing.push(timed(|| ledger(&["--version"])));
        theirs.extend(script.as_ref().map(|script| timed(|| script.run(path))));
    }
    let theirs = (!theirs.is_empty()).then(|| Figures::ms(&theirs));
    let beside = theirs.as_ref().map(|theirs| ("a script that does the same fold", theirs));
    row(&what, &Figures::ms(&ours), beside, "≤ 26 ms", Some(26.0));
    row("`ledger --version`, whole process", &Figures::ms(&nothing), None, "", None);
}

/// The same fold as a script: read every line, take each leg's version, keep the newest row.
struct Peer {
    program: &'static str,
    script: tempfile::NamedTempFile,
}

impl Peer {
    const SCRIPT: &str = r#"
const fs=require('fs'),path=require('path'),dir=process.argv[process.argv.length-1],out={};
for(const f of fs.readdirSync(dir).sort()){const boots={};let suite;
for(const line of fs.readFileSync(path.join(dir,f),'utf8').split('\n')){if(!line)continue;let r;try{r=JSON.parse(line)}catch{continue}
if(r.kind==='boot'){boots[r.version]=(boots[r.version]||0)+1}else if(r.kind==='suite')suite=r}
if(!suite||suite.scope!=='full')continue;let v=/^\d/.test(suite.target)?suite.target:undefined;
if(!v){let best=0;for(const[k,n]of Object.entries(boots))if(n>best){best=n;v=k}}if(!v)continue;
const row=(out[v]??={}),old=row[suite.platform];if(!old||old.date<suite.ts)row[suite.platform]={conclusion:suite.conclusion,date:suite.ts,run_id:suite.run_id}}
const s=o=>o&&typeof o==='object'?Object.fromEntries(Object.keys(o).sort().map(k=>[k,s(o[k])])):o;
process.stdout.write(JSON.stringify(s(out),null,'\t')+'\n')"#;

    /// `None` where neither bun nor node is installed.
    fn new() -> Option<Self> {
        let program = ["bun", "node"].into_iter().find(|name| Command::new(name).arg("--version").output().is_ok())?;
        let script = tempfile::Builder::new().suffix(".cjs").tempfile().unwrap();
        std::fs::write(script.path(), Self::SCRIPT).unwrap();
        Some(Self { program, script })
    }

    fn run(&self, folder: &str) {
        let status = Command::new(self.program).arg(self.script.path()).arg(folder).stdout(Stdio::null()).status().unwrap();
        assert!(status.success());
    }
}

/// Reports over an archive of so many legs, beside a quarter of it: four times as long is linear.
fn archive(dir: &Path, legs: u32) {
    let quarter = Archived::make(dir, legs / 4);
    let whole = Archived::make(dir, legs);
    let name = format!("a quarter of the legs, {} events", quarter.events);
    for format in ["tested-versions", "attempted-legs", "json", "timing"] {
        let what = format!("report --format {format} over {legs} legs × {FILES} files, {} events", whole.events);
        row(&what, &whole.report(format), Some((&name, &quarter.report(format))), "≤ 2,000 ms, linear", Some(2000.0));
    }
    let peak = |archived: &Archived| Figures::new(vec![archived.peak_kib as f64 / 1024.0], "MiB");
    row(
        &format!("highest resident memory of `import` of {legs} legs"),
        &peak(&whole),
        Some((&name, &peak(&quarter))),
        "flat",
        None,
    );
    let path = whole.path.to_str().unwrap();
    println!("verify, which folds every event again: {:?}", timed(|| ledger(&["verify", path])));
}

struct Archived {
    path: PathBuf,
    events: u64,
    peak_kib: u64,
}

impl Archived {
    fn make(dir: &Path, legs: u32) -> Self {
        let (made, path) = (dir.join(format!("made-{legs}.db")), dir.join(format!("imported-{legs}.db")));
        let events = make(&made, legs);
        let begun = Instant::now();
        let peak_kib = peak_kib(&["import", made.to_str().unwrap(), "--into", path.to_str().unwrap()]);
        println!("import of {legs} legs, {events} events: {:?}", begun.elapsed());
        std::fs::remove_file(&made).unwrap();
        Self { path, events, peak_kib }
    }

    fn report(&self, format: &str) -> Figures {
        let path = self.path.to_str().unwrap();
        let times: Vec<_> = (0..5).map(|_| timed(|| ledger(&["report", path, "--format", format]))).collect();
        Figures::ms(&times)
    }
}

fn ledger(arguments: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_ledger")).args(arguments).stdout(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Runs it to its end and gives the highest resident memory that was seen.
fn peak_kib(arguments: &[&str]) -> u64 {
    let mut child = Command::new(env!("CARGO_BIN_EXE_ledger")).args(arguments).stdout(Stdio::null()).spawn().unwrap();
    let mut peak = 0;
    loop {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let high = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
        peak = peak.max(high.unwrap_or(0));
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success());
            return peak;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn timed(run: impl FnOnce()) -> Duration {
    let begun = Instant::now();
    run();
    begun.elapsed()
}

fn make(path: &Path, legs: u32) -> u64 {
    let mut archive = Archive::create_or_open(path).unwrap();
    let mut events = 0;
    for number in 0..legs {
        let platform = ["linux-arm64", "linux-x86", "macos-arm64", "macos-x86", "windows-x86"][number as usize % 5];
        let leg = LegId {
            run_id: format!("{}", 30_000_000_000u64 + u64::from(number / 15)).as_str().into(),
            attempt: "1".into(),
            platform: platform.into(),
            target: ["long-term", "stable", "testing"][(number / 5) as usize % 3].into(),
            shard: None,
        };
        events += write_leg(&mut archive, leg, number);
    }
    archive.close().unwrap();
    events
}

fn write_leg(archive: &mut Archive, leg: LegId, number: u32) -> u64 {
    let epoch = Epoch::parse(format!("01990000-0000-7000-8000-{number:012}")).unwrap();
    let id = archive.number(&leg, Some(&epoch)).unwrap();
    let start = Wall(1_700_000_000_000 + i64::from(number) * DAY_MS / 15);
    let mut writing = Writing { leg, epoch, seq: Seq(0), prev: Digest::genesis(), start, lines: Vec::new() };
    writing.put(Body::RunStarted(Box::new(started())));
    for index in 1..=FILES {
        writing.file(index, number);
    }
    writing.put(Body::LoopFinished(LoopFinished {
        loop_finished: true,
        stopped_by: None,
        cancelled: false,
        conclusion: Conclusion::Pass,
        files_planned: Some(FILES),
        files_reported: FILES,
        files_failed: 0,
        why: None,
    }));
    writing.put(Body::RunFinished(RunFinished { exit_code: 0, sinks: Vec::new(), dropped: 0 }));
    for (at, line) in writing.lines.iter().enumerate() {
        assert_eq!(archive.add_event(id, Seq(at as u64 + 1), line).unwrap(), Added::New);
    }
    writing.lines.len() as u64
}

struct Writing {
    leg: LegId,
    epoch: Epoch,
    seq: Seq,
    prev: Digest,
    start: Wall,
    lines: Vec<String>,
}

impl Writing {
    fn put(&mut self, body: Body) {
        self.seq = self.seq.next();
        let mono_ms = self.seq.0 * 8_000;
        let envelope = Envelope {
            v: 1,
            run_id: self.leg.run_id.clone(),
            attempt: self.leg.attempt.clone(),
            platform: self.leg.platform.clone(),
            target: self.leg.target.clone(),
            shard: None,
            epoch: self.epoch.clone(),
            seq: self.seq,
            ts: self.start.plus(Secs::from_millis(mono_ms)),
            mono_ms,
            body,
            prev: self.prev.clone(),
        };
        let line = serde_json::to_string(&envelope).unwrap();
        self.prev = Digest::of(line.as_bytes());
        self.lines.push(line);
    }

    fn file(&mut self, index: u32, number: u32) {
        let at = FileRef::new(index, 1, &FilePath::from(format!("test/integration/file-{index}.test.ts").as_str()));
        self.put(Body::FileStarted(FileStarted {
            at: at.clone(),
            cap_s: Some(Secs::from_secs(300)),
            cap_basis: Some("history: worst 168 s of 14 passes × 1.25 + 90 s".into()),
            token: Token::from("0123456789abcdef0123456789abcdef"),
            owner: Some(ProcessId { pid: 4000, start: 77 }),
            log: None,
        }));
        for _ in 0..BEATS {
            let sample = sample(self.start, number);
            self.put(Body::Heartbeat(Box::new(Heartbeat {
                file: Some(at.clone()),
                elapsed_s: Some(Secs::from_secs(30)),
                cap_s: Some(Secs::from_secs(300)),
                sample,
                last_output: Some("a test is running".into()),
                evidence: None,
            })));
        }
        self.put(Body::FileFinished(Box::new(FileFinished {
            at,
            outcome: Outcome::Pass,
            status: Status::Pass,
            started_at: Some(self.start),
            duration_s: Some(Secs::from_secs(100 + u64::from(number % 60))),
            suspended_s: Secs::ZERO,
            cap_s: Some(Secs::from_secs(300)),
            cap_basis: Some("history: worst 168 s of 14 passes × 1.25 + 90 s".into()),
            exit_code: Some(0),
            signal: None,
            escalated: false,
            containment: Some("cgroup+subreaper".into()),
            cleanup: Cleanup::Clean,
            cleanup_verified: Some(true),
            leftovers: Vec::new(),
            foreign: Vec::new(),
            notes: Vec::new(),
            log: None,
            output_bytes: 4096,
            last_output: Some("12 pass\n0 fail".into()),
            used: None,
            components: Vec::new(),
        })));
    }
}

fn started() -> RunStarted {
    let planned = |index: u32| PlannedFile {
        index,
        file: format!("test/integration/file-{index}.test.ts"),
        file_b64: None,
        cap_s: Some(Secs::from_secs(300)),
        cap_basis: None,
        expect_s: None,
    };
    let text = json_started();
    let mut started: RunStarted = serde_json::from_value(text).unwrap();
    started.plan = (1..=FILES).map(planned).collect();
    started.host = HostInfo { os: "linux".into(), arch: "x86_64".into(), ..HostInfo::default() };
    started.scope = Scope::Full;
    started
}

fn json_started() -> serde_json::Value {
    serde_json::json!({
        "plan": [], "files_planned": FILES, "scope": "full", "sha": "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567", "event": "push",
        "resolved": "7.23.2", "legs": 15, "command": ["bun", "test", "./{file}"], "host": HostInfo::default(), "containment": "cgroup+subreaper",
        "versions": {}, "writer": {"pid": 100, "start": 5}, "deadline": null, "heartbeat_s": 30
    })
}

fn sample(ts: Wall, number: u32) -> HostSample {
    HostSample {
        ts,
        load_1m: Some(2.5),
        cpu_pct: Some(63.25),
        cpu_count: Some(4),
        mem_total_mib: Some(14_336),
        mem_available_mib: Some(9_000 + u64::from(number % 100)),
        mem_free_mib: Some(4_000),
        swap_used_mib: Some(0),
        disks: vec![Disk { role: "work".into(), path: "/work".into(), free_mib: Some(20_000), free_inodes: Some(1_000_000) }],
        process_count: Some(212),
        qemu_count: Some(1),
        qemu_rss_mib: Some(512),
        ..HostSample::default()
    }
}
