//! What a durable event costs, beside what the disk itself costs in the same run; and whether memory stays flat over a million events.
//!
//! `cargo bench --bench store`; with `-- million` the long one, with `-- boundary` a boundary of a run with the file sink.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a bench reads the clock itself and stops at the first surprise"
)]

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ci_ledger::core::chain::Stored;
use ci_ledger::core::event::{Body, HostSampled, SampledAt};
use ci_ledger::core::ids::{Attempt, Epoch, LegId, Platform, RunId, Seq, Target};
use ci_ledger::core::moment::{Moment, Secs, Wall};
use ci_ledger::core::sample::HostSample;
use ci_ledger::sink::{self, Backlog, Flusher, FlusherOptions, Patience, RenderMarker, SinkContext};
use ci_ledger::store::{LedgerFolder, Verdict, Writer, WriterOptions, verify};

const START: Wall = Wall(1_760_000_000_000);
const ROUNDS: usize = 7;
const APPENDS: u64 = 1000;

fn main() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let asked = |what: &str| std::env::args().any(|argument| argument == what);
    match () {
        () if asked("million") => million(dir.path()),
        () if asked("boundary") => boundary(dir.path()),
        () => ratio(dir.path()),
    }
}

/// The two take turns at every single event, so that a busy moment of the disk falls on both.
fn ratio(dir: &Path) {
    let folder = LedgerFolder::create(&dir.join(".ledger")).unwrap();
    let line_bytes = line_bytes(&folder);
    let mut ratios = Vec::new();
    for round in 0..ROUNDS {
        let writer = open(&folder, &format!("round-{round}"));
        let mut file = File::create(dir.join("bare")).unwrap();
        let (mut ours, mut bare) = (Vec::new(), Vec::new());
        for number in 0..APPENDS {
            let begun = Instant::now();
            writer.append_blocking(moment(number), vec![body()]).unwrap();
            ours.push(begun.elapsed());
            let begun = Instant::now();
            file.write_all(&vec![b'x'; line_bytes]).unwrap();
            file.sync_data().unwrap();
            bare.push(begun.elapsed());
        }
        writer.close_blocking().unwrap();
        let (ours_all, bare_all): (Duration, Duration) = (ours.iter().sum(), bare.iter().sum());
        ratios.push(bare_all.as_secs_f64() / ours_all.as_secs_f64());
        println!(
            "round {round}: ledger {:5.0}/s ({}), bare write+fdatasync {:5.0}/s of {line_bytes} B ({}), ratio {:.2}",
            APPENDS as f64 / ours_all.as_secs_f64(),
            percentiles(&mut ours),
            APPENDS as f64 / bare_all.as_secs_f64(),
            percentiles(&mut bare),
            ratios[round]
        );
    }
    ratios.sort_by(f64::total_cmp);
    println!("median ratio {:.2} (must reach 0.80)", ratios[ROUNDS / 2]);
}

/// How long the stored line of the event is.
fn line_bytes(folder: &LedgerFolder) -> usize {
    let writer = open(folder, "line");
    let appended = writer.append_blocking(moment(1), vec![body()]).unwrap();
    writer.close_blocking().unwrap();
    appended.stored[0].line.len()
}

fn percentiles(times: &mut [Duration]) -> String {
    times.sort();
    format!("p50 {:.0?}, p99 {:.1?}", times[times.len() / 2], times[times.len() * 99 / 100])
}

/// A million samples, handed in as fast as the disk takes them, a hundred at once.
fn million(dir: &Path) {
    let folder = LedgerFolder::create(&dir.join(".ledger")).unwrap();
    let writer = open(&folder, "million");
    let begun = Instant::now();
    for part in 1..=10 {
        for number in 0..1000 {
            writer.append_blocking(moment(part * 1000 + number), vec![body(); 100]).unwrap();
        }
        println!("{:>9} events, {:>6.1?}, resident {} KiB", part * 100_000, begun.elapsed(), resident_kib());
    }
    let path = writer.path().to_owned();
    writer.close_blocking().unwrap();
    let begun = Instant::now();
    let verified = verify(&path, None);
    assert_eq!((verified.verdict, verified.head.seq), (Verdict::OpenEnd, Seq(1_000_000)));
    println!(
        "verified in {:.1?}, resident {} KiB, {} MiB on disk",
        begun.elapsed(),
        resident_kib(),
        path.metadata().unwrap().len() >> 20
    );
}

/// What a run pays between two files: one transaction, one write of the file sink, its answer. Beside it what a device flush costs.
fn boundary(dir: &Path) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let folder = LedgerFolder::create(&dir.join(".ledger")).unwrap();
    let writer = open(&folder, "boundary");
    let url = url::Url::from_directory_path(dir.join("sink")).unwrap().to_string();
    let backend = sink::open(&url, &SinkContext::new(leg(), Epoch::from("boundary"))).unwrap();
    let marker = vec![b'x'; 8 * 1024];
    let render: RenderMarker = Arc::new(move |_, _| marker.clone());
    let options = FlusherOptions { backlog: Arc::new(NoBacklog), render, heartbeat: Secs::from_secs(30) };
    let (mut stored, mut sent) = (Vec::new(), Vec::new());
    runtime.block_on(async {
        let (flusher, _news) = Flusher::start(vec![backend], options).unwrap();
        for number in 0..500 {
            let begun = Instant::now();
            let appended = writer.append(moment(number), vec![body(); 3]).await.unwrap();
            stored.push(begun.elapsed());
            flusher.offer(&appended.stored);
            flusher.barrier(appended.stored[2].seq, Duration::from_secs(1)).await;
            sent.push(begun.elapsed());
        }
        let states = flusher.finish(Patience::default()).await;
        assert_eq!((states[0].unsent, states[0].degraded), (0, false), "{states:?}");
    });
    writer.close_blocking().unwrap();
    let mut flushes = Vec::new();
    let mut file = File::create(dir.join("flush")).unwrap();
    for _ in 0..500 {
        file.write_all(&[7; 4096]).unwrap();
        let begun = Instant::now();
        file.sync_data().unwrap();
        flushes.push(begun.elapsed());
    }
    for (what, times) in
        [("stored", &mut stored), ("stored, sent and answered", &mut sent), ("one append and device flush", &mut flushes)]
    {
        println!("{what}: {}", percentiles(times));
    }
}

struct NoBacklog;

impl Backlog for NoBacklog {
    fn read_after(&self, _: Seq, _: usize, _: usize) -> Result<Vec<Stored>, String> {
        Err("a healthy sink reads nothing again".to_owned())
    }
}

fn resident_kib() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .map_or_else(|| "?".to_owned(), |rest| rest.trim().replace(" kB", ""))
}

fn open(folder: &LedgerFolder, epoch: &str) -> Writer {
    Writer::create(folder, leg(), Epoch::from(epoch), START, WriterOptions::default()).unwrap()
}

fn leg() -> LegId {
    LegId {
        run_id: RunId::from("1738"),
        attempt: Attempt::from("1"),
        platform: Platform::from("linux-x64"),
        target: Target::from("stable"),
        shard: None,
    }
}

fn moment(ms: u64) -> Moment {
    Moment { wall: Wall(START.0 + ms as i64), mono_ms: ms, boot_ms: ms }
}

fn body() -> Body {
    let sample = HostSample {
        ts: START,
        load_1m: Some(0.5),
        mem_available_mib: Some(9000),
        process_count: Some(300),
        ..HostSample::default()
    };
    Body::HostSampled(HostSampled { at: SampledAt::Heartbeat, sample })
}
