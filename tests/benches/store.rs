//! What a durable event costs, beside what the disk itself costs in the same run; and whether memory stays flat over a million events.
//!
//! `cargo bench --bench store`; with `-- million` or `-- ratio` only that part, with `-- boundary` a boundary of a run with the file sink.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a bench reads the clock itself and stops at the first surprise"
)]

mod row;

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ci_ledger::core::chain::Stored;
use ci_ledger::core::event::{Body, Envelope, HostInfo, HostSampled, RunStarted, SampledAt};
use ci_ledger::core::fold::Leg;
use ci_ledger::core::ids::{Attempt, Epoch, LegId, Platform, RunId, Seq, Target};
use ci_ledger::core::moment::{Moment, Secs, Wall};
use ci_ledger::core::row::Head;
use ci_ledger::core::sample::HostSample;
use ci_ledger::host::sampler::Sampler;
use ci_ledger::host::table::SharedTable;
use ci_ledger::sink::{self, Backlog, Flusher, FlusherOptions, Patience, RenderMarker, SinkContext};
use ci_ledger::store::{LedgerFolder, Verdict, Writer, WriterOptions, verify};
use row::{Figures, row};

const START: Wall = Wall(1_760_000_000_000);
const ROUNDS: usize = 7;
const APPENDS: u64 = 1000;

fn main() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let asked = |what: &str| std::env::args().any(|argument| argument == what);
    match () {
        () if asked("million") => million(dir.path()),
        () if asked("boundary") => boundary(dir.path()),
        () if asked("ratio") => ratio(dir.path()),
        () => {
            ratio(dir.path());
            let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
            million(dir.path());
        }
    }
}

/// The two take turns at every single event, so that a busy moment of the disk falls on both.
fn ratio(dir: &Path) {
    let folder = LedgerFolder::create(&dir.join(".ledger")).unwrap();
    let line_bytes = line_bytes(&folder);
    let (mut ratios, mut all_bare) = (Vec::new(), Vec::new());
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
        all_bare.extend(&bare);
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
    // Turned over, so that less is better as in every other row: 1.25 times the cost is 0.8 of the rate.
    let costs = Figures::new(ratios.iter().map(|ratio| 1.0 / ratio).collect(), "×");
    let bare = Figures::ms(&all_bare);
    row("durable append ÷ bare append, round by round", &costs, Some(("a bare append", &bare)), "≤ 1.25 ×", Some(1.25));
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

/// A million samples, one for every second of eleven days, through all that holds memory in a run: the store, the fold, a file sink, the
/// sampler. They are handed in as fast as the disk takes them, a hundred at once.
fn million(dir: &Path) {
    let folder = LedgerFolder::create(&dir.join(".ledger")).unwrap();
    let writer = open(&folder, "million");
    let url = url::Url::from_directory_path(dir.join("sink")).unwrap().to_string();
    let backend = sink::open(&url, &SinkContext::new(leg(), Epoch::parse("million").unwrap())).unwrap();
    let render: RenderMarker = Arc::new(|_, _| vec![b'x'; 8 * 1024]);
    let options = FlusherOptions { backlog: Arc::new(Again(writer.path().to_owned())), render, heartbeat: Secs::from_secs(30) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (flusher, _news) = Flusher::start(vec![backend], options).unwrap();
    let mut sampler = Sampler::new(SharedTable::default(), vec![("temp".to_owned(), dir.to_owned())]);
    let mut folded: Option<Leg> = None;
    let mut resident = Vec::new();
    let begun = Instant::now();
    for part in 0..10 {
        for number in 0..1000 {
            let at = moment(1000 * 100 * (part * 1000 + number));
            let sample = sampler.sample(at);
            let mut bodies = vec![Body::HostSampled(HostSampled { at: SampledAt::Heartbeat, sample }); 100];
            if part + number == 0 {
                bodies.insert(0, Body::RunStarted(Box::new(started())));
            }
            let appended = writer.append_blocking(at, bodies).unwrap();
            for stored in &appended.stored {
                let envelope: Envelope = serde_json::from_str(&stored.line).unwrap();
                let head = Head { seq: stored.seq, digest: stored.digest.clone() };
                match &mut folded {
                    Some(leg) => leg.apply(&envelope, head).unwrap(),
                    None => folded = Some(Leg::begin(&envelope, head).unwrap()),
                }
            }
            flusher.offer(&appended.stored);
            runtime.block_on(flusher.barrier(appended.stored.last().unwrap().seq, Duration::from_secs(1)));
            resident.push(resident_mib());
        }
        println!("{:>9} events, {:>6.1?}, resident {:.1} MiB", (part + 1) * 100_000, begun.elapsed(), resident_mib());
    }
    let path = writer.path().to_owned();
    writer.close_blocking().unwrap();
    let tenth = resident.len() / 10;
    let first = Figures::new(resident[..tenth].to_vec(), "MiB");
    let last = Figures::new(resident[resident.len() - tenth..].to_vec(), "MiB");
    row("resident memory in the last tenth of 1,000,000 samples", &last, Some(("the first tenth", &first)), "≤ 25 MiB", Some(25.0));
    let states = runtime.block_on(flusher.finish(Patience { silence: Duration::from_secs(30), total: Duration::from_secs(60) }));
    assert_eq!((states[0].unsent, states[0].degraded), (0, false), "{states:?}");
    let begun = Instant::now();
    let verified = verify(&path, None);
    assert_eq!((verified.verdict, verified.head.seq), (Verdict::OpenEnd, Seq(1_000_001)));
    println!("verified in {:.1?}, {} MiB on disk", begun.elapsed(), path.metadata().unwrap().len() >> 20);
}

/// Reads what the sink had no room for.
struct Again(std::path::PathBuf);

impl Backlog for Again {
    fn read_after(&self, after: Seq, most: usize, _: usize) -> Result<Vec<Stored>, String> {
        let reader = ci_ledger::store::Reader::open(&self.0).map_err(|error| error.to_string())?;
        Ok(reader.lines_after(after).take(most).filter_map(|line| line.ok()?.stored()).collect())
    }
}

/// What a run pays between two files: one transaction, one write of the file sink, its answer. Beside it what a device flush costs.
fn boundary(dir: &Path) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let folder = LedgerFolder::create(&dir.join(".ledger")).unwrap();
    let writer = open(&folder, "boundary");
    let url = url::Url::from_directory_path(dir.join("sink")).unwrap().to_string();
    let backend = sink::open(&url, &SinkContext::new(leg(), Epoch::parse("boundary").unwrap())).unwrap();
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

fn resident_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse::<f64>().ok());
    kib.unwrap() / 1024.0
}

fn open(folder: &LedgerFolder, epoch: &str) -> Writer {
    Writer::create(folder, leg(), Epoch::parse(epoch).unwrap(), START, WriterOptions::default()).unwrap()
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

fn started() -> RunStarted {
    let value = serde_json::json!({
        "plan": [], "files_planned": 1, "scope": "full", "legs": 1, "command": ["sh"], "host": HostInfo::default(), "containment": "subreaper",
        "versions": {}, "writer": {"pid": 100, "start": 5}, "deadline": null, "heartbeat_s": 1
    });
    serde_json::from_value(value).unwrap()
}
