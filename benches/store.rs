//! What a durable event costs, beside what the disk itself costs in the same run; and whether memory stays flat over a million events.
//!
//! `cargo bench --bench store`, with `-- million` for the long one.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a bench reads the clock itself and stops at the first surprise"
)]

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use ci_ledger::core::event::{Body, HostSampled, SampledAt};
use ci_ledger::core::ids::{Attempt, Epoch, LegId, Platform, RunId, Seq, Target};
use ci_ledger::core::moment::{Moment, Wall};
use ci_ledger::core::sample::HostSample;
use ci_ledger::store::{LedgerFolder, Reader, Verdict, Writer, WriterOptions, verify};

const START: Wall = Wall(1_760_000_000_000);
const ROUNDS: usize = 7;
const APPENDS: u64 = 1000;

fn main() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    match std::env::args().any(|argument| argument == "million") {
        true => million(dir.path()),
        false => ratio(dir.path()),
    }
}

/// The two take turns, so that a busy moment of the disk falls on both.
fn ratio(dir: &Path) {
    let folder = LedgerFolder::create(&dir.join(".ledger")).unwrap();
    let mut ratios = Vec::new();
    for round in 0..ROUNDS {
        let writer = open(&folder, &format!("round-{round}"));
        let begun = Instant::now();
        let mut latencies = Vec::new();
        for number in 0..APPENDS {
            let one = Instant::now();
            writer.append_blocking(moment(number), vec![body()]).unwrap();
            latencies.push(one.elapsed());
        }
        let ours = begun.elapsed();
        let path = writer.path().to_owned();
        writer.close_blocking().unwrap();
        let lines: Vec<String> = Reader::open(&path).unwrap().lines_after(Seq(0)).map(|line| line.unwrap().line.unwrap()).collect();
        let bare = bare(&dir.join("bare"), &lines);
        latencies.sort();
        ratios.push(bare.as_secs_f64() / ours.as_secs_f64());
        println!(
            "round {round}: ledger {:6.0}/s (p50 {:?}, p99 {:?}), bare write+fdatasync {:6.0}/s of {} B, ratio {:.2}",
            rate(ours),
            latencies[latencies.len() / 2],
            latencies[latencies.len() * 99 / 100],
            rate(bare),
            lines[0].len(),
            ratios[round]
        );
    }
    ratios.sort_by(f64::total_cmp);
    println!("median ratio {:.2} (must reach 0.80)", ratios[ROUNDS / 2]);
}

fn bare(path: &Path, lines: &[String]) -> Duration {
    let mut file = File::create(path).unwrap();
    let begun = Instant::now();
    for line in lines {
        file.write_all(line.as_bytes()).unwrap();
        file.sync_data().unwrap();
    }
    begun.elapsed()
}

fn rate(time: Duration) -> f64 {
    APPENDS as f64 / time.as_secs_f64()
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

fn resident_kib() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .map_or_else(|| "?".to_owned(), |rest| rest.trim().replace(" kB", ""))
}

fn open(folder: &LedgerFolder, epoch: &str) -> Writer {
    let leg = LegId {
        run_id: RunId::from("1738"),
        attempt: Attempt::from("1"),
        platform: Platform::from("linux-x64"),
        target: Target::from("stable"),
        shard: None,
    };
    Writer::create(folder, leg, Epoch::from(epoch), START, WriterOptions::default()).unwrap()
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
