//! Whatever bytes a reader gets: no panic, no unbounded memory, no endless time. Inputs are whole ones that were changed at random.
//!
//! By default a few hundred changes for each reader. `LEDGER_TEST_FUZZ=SECONDS` gives each reader so long and prints what it was given;
//! `LEDGER_TEST_FUZZ_SEED` repeats a run.

use std::path::Path;
use std::time::{Duration, Instant};

use ci_ledger::core::capfile::CapsFile;
use ci_ledger::core::event::Envelope;
use ci_ledger::core::fold::fold;
use ci_ledger::core::ids::{Digest, Seq};
use ci_ledger::core::job::parse_listing;
use ci_ledger::core::marker::Marker;
use ci_ledger::core::moment::Wall;
use ci_ledger::core::plan::parse_plan;
use ci_ledger::core::redact::Redactor;
use ci_ledger::core::row::{Head, Summary};
use ci_ledger::report::attempted_legs::attempted_legs;
use ci_ledger::report::style::Style;
use ci_ledger::report::tested_versions::{IncompleteRows, tested_versions};
use ci_ledger::report::{check_run, ctrf, html, json, junit as junit_out, markdown, ndjson, table, trace};
use ci_ledger::source::assemble::{Question, assemble};
use ci_ledger::source::{self, Found, Named, ci_data, junit, lines, timing};

use super::events::leg;
use crate::support::{World, files_below};

/// What a reader may take beside what the test takes anyway.
const MEMORY_KIB: u64 = 256 * 1024;
const A_FEW: u32 = 300;

/// One reader: how it is called, whole inputs, and what it does with bytes.
struct Reader {
    name: &'static str,
    seeds: Vec<Vec<u8>>,
    read: Box<dyn Fn(&[u8])>,
}

#[test]
fn whatever_bytes_a_reader_gets_it_neither_panics_nor_grows() {
    let seconds = std::env::var("LEDGER_TEST_FUZZ").ok().map(|text| text.parse::<u64>().unwrap());
    let only = std::env::var("LEDGER_TEST_FUZZ_ONLY").ok();
    let mut chance = Chance::new();
    let world = a_leg();
    let before = peak_kib();
    for reader in readers(&world).into_iter().filter(|reader| only.as_deref().is_none_or(|only| only == reader.name)) {
        for seed in &reader.seeds {
            (reader.read)(seed);
        }
        let begun = Instant::now();
        let mut given: u64 = 0;
        while match seconds {
            Some(seconds) => begun.elapsed() < Duration::from_secs(seconds),
            None => given < u64::from(A_FEW),
        } {
            let input = chance.changed(&reader.seeds);
            if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (reader.read)(&input))).is_err() {
                let kept = std::env::temp_dir().join(format!("ledger-fuzz-{}", reader.name));
                std::fs::write(&kept, &input).unwrap();
                panic!("{} panicked; seed {}, the input is in {}", reader.name, chance.seed, kept.display());
            }
            given += 1;
        }
        if seconds.is_some() {
            println!("{}: {given} inputs in {:.0?}, {} KiB at most", reader.name, begun.elapsed(), peak_kib());
        }
    }
    let grown = peak_kib().saturating_sub(before);
    assert!(grown < MEMORY_KIB, "the readers took {grown} KiB");
}

/// A run with a pass, a failure and a sink, to take whole inputs from.
fn a_leg() -> World {
    let world = World::with(&[
        ("a.sh", "echo '::ledger-component name=download seconds=2'; exit 0\n"),
        ("b.sh", "echo 'said <b> & ]]> \u{1b}[31m'; exit 1\n"),
    ]);
    world.run(["run", "--cap", "30s", "--scope", "full", "--sink", &world.sink(), "*.sh", "--", "sh"]).expect(1);
    world
}

fn readers(world: &World) -> Vec<Reader> {
    let texts = |all: &[&str]| all.iter().map(|text| text.as_bytes().to_vec()).collect::<Vec<_>>();
    let database = only_file(&world.join(".ledger"), "db");
    let segments = files(&world.join("sink"), "ndjson");
    let marker = files(&world.join("sink"), "json").into_iter().filter(|text| text.starts_with(b"{")).collect::<Vec<_>>();
    let reports = |format: &str| world.run(["report", "--format", format]).stdout;
    let named = || Named { leg: leg(), written: None };
    vec![
        Reader {
            name: "lines",
            seeds: texts(&["one\ntwo\n\nthree", "\n\n", "long line without an end"]),
            read: Box::new(|bytes| {
                let mut held = 0;
                lines::for_each_line(std::io::BufReader::with_capacity(16, bytes), 64, |read| {
                    if let lines::Read::Line(line) = read {
                        assert!(line.len() <= 64 && !line.contains(&b'\n'));
                        held += line.len();
                    }
                })
                .unwrap();
                assert!(held <= bytes.len());
            }),
        },
        Reader {
            name: "ci-data",
            seeds: vec![reports("ci-data")],
            read: Box::new(|bytes| shown(|found| ci_data::read(bytes, "1-linux-x86", "x", found).unwrap())),
        },
        Reader {
            name: "timing",
            seeds: vec![reports("timing"), b"a b.test.ts 12.5s pass\n# note\nb.test.ts 1s fail".to_vec()],
            read: Box::new(move |bytes| shown(|found| timing::read(bytes, &named(), "x", found).unwrap())),
        },
        Reader {
            name: "junit",
            seeds: vec![reports("junit")],
            read: Box::new(move |bytes| shown(|found| junit::read(bytes, &named(), "x", found).unwrap())),
        },
        Reader {
            name: "caps",
            seeds: vec![world.run(["caps", "derive", ".ledger"]).stdout],
            read: Box::new(|bytes| drop(CapsFile::parse(bytes))),
        },
        Reader {
            name: "plan",
            seeds: texts(&[r#"{"include":[{"platform":"linux-x86","target":"stable","label":"L","runner":"r"}]}"#]),
            read: Box::new(|bytes| drop(parse_plan(bytes))),
        },
        Reader {
            name: "jobs",
            seeds: texts(&[
                r#"{"total_count":1,"jobs":[{"id":1,"name":"Integration (L · stable)","status":"in_progress","conclusion":null,"started_at":"2026-07-01T00:00:00Z","completed_at":null,"steps":[{"name":"Run suite","status":"in_progress","conclusion":null,"number":3,"started_at":"2026-07-01T00:00:00Z"}]}]}"#,
            ]),
            read: Box::new(|bytes| drop(parse_listing(bytes))),
        },
        Reader {
            name: "marker",
            seeds: marker,
            read: Box::new(|bytes| {
                if let Ok(marker) = serde_json::from_slice::<Marker>(bytes) {
                    let budget = 60_000;
                    assert!(marker.render(budget).len() <= budget);
                    check_run::describe(&marker);
                }
            }),
        },
        Reader {
            name: "events",
            seeds: segments.clone(),
            read: Box::new(|bytes| {
                let events: Vec<Envelope> =
                    bytes.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
                let head = |at: usize| Head { seq: Seq(at as u64 + 1), digest: Digest::genesis() };
                let (leg, _) = fold(events.iter().enumerate().map(|(at, event)| (event, head(at))));
                if let Some(leg) = leg {
                    render(Summary::of(Wall(0), vec![leg.row()]));
                }
            }),
        },
        Reader {
            name: "older-files",
            seeds: vec![reports("tested-versions"), reports("attempted-legs")],
            read: Box::new(|bytes| {
                let nothing = Summary::of(Wall(0), Vec::new());
                drop(tested_versions(&nothing, Some(bytes), None, IncompleteRows::Row));
                drop(attempted_legs(&nothing, Some(bytes)));
            }),
        },
        Reader {
            name: "redaction",
            seeds: texts(&["the word is s3cr3t-value-0123456789 and czNjcjN0LXZhbHVlLTAxMjM0NTY3ODk= too, cut s3cr3t-val"]),
            read: Box::new(|bytes| {
                let secret = b"s3cr3t-value-0123456789";
                let redactor = Redactor::new([secret]);
                let mut stream = redactor.stream();
                let mut out = Vec::new();
                bytes.chunks(7).for_each(|piece| stream.push(piece, &mut out));
                stream.finish(&mut out);
                assert!(!out.windows(secret.len()).any(|window| window == secret), "{}", String::from_utf8_lossy(&out));
                assert_eq!(out, redactor.bytes(bytes), "cut in pieces it gives something else");
            }),
        },
        Reader {
            name: "sink-folder",
            seeds: segments,
            read: in_place(files_below(&world.join("sink"), "ndjson").remove(0), world.sink()),
        },
        Reader {
            name: "database",
            seeds: vec![std::fs::read(&database).unwrap()],
            read: in_place(database.clone(), database.display().to_string()),
        },
    ]
}

/// A reader of a place on disk of which one file is changed.
fn in_place(path: std::path::PathBuf, source: String) -> Box<dyn Fn(&[u8])> {
    Box::new(move |bytes| {
        std::fs::write(&path, bytes).unwrap();
        shown(|found| drop(source::read(&source, &Question::everything(Wall(0)), found)));
    })
}

/// What is read is drawn in every format, too.
fn shown(read: impl FnOnce(&mut Found)) {
    let mut found = Found::default();
    read(&mut found);
    render(assemble(found, &Question::everything(Wall(0))));
}

fn render(summary: Summary) {
    let drawn = [
        table::render(&summary, Style::PLAIN),
        json::render(&summary),
        ndjson::render(&summary),
        markdown::render(&summary, markdown::SUMMARY_ROOM),
        html::render(&summary),
        junit_out::render(&summary),
        ctrf::render(&summary),
        trace::render(&summary),
    ];
    assert!(drawn[3].len() <= markdown::SUMMARY_ROOM);
}

fn files(folder: &Path, extension: &str) -> Vec<Vec<u8>> {
    let read: Vec<_> = files_below(folder, extension).iter().map(|path| std::fs::read(path).unwrap()).collect();
    assert!(!read.is_empty(), "no .{extension} in {}", folder.display());
    read
}

fn only_file(folder: &Path, extension: &str) -> std::path::PathBuf {
    files_below(folder, extension).remove(0)
}

/// The most memory that this process ever had.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok()).unwrap()
}

/// Chance that can be repeated: xorshift64*.
struct Chance {
    seed: u64,
    state: u64,
}

/// Pieces that parsers have stumbled over.
const PIECES: [&[u8]; 16] = [
    b"{",
    b"}",
    b"[",
    b"\"",
    b"\\u0000",
    b"\\ud800",
    b"null",
    b"-1",
    b"1e999",
    b"18446744073709551616",
    b"9999-12-31T23:59:60Z",
    b"\xff\xfe",
    b"\0",
    b"\r\n",
    b"<![CDATA[",
    b"&#x0;",
];

impl Chance {
    fn new() -> Self {
        let seed = std::env::var("LEDGER_TEST_FUZZ_SEED").map_or(0x9E37_79B9_7F4A_7C15, |text| text.parse().unwrap());
        Self { seed, state: seed }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        let number = self.state.wrapping_mul(0x2545_F491_4F6C_DD1D);
        (number % bound.max(1) as u64) as usize
    }

    /// A whole input with one to eight changes.
    fn changed(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = seeds[self.below(seeds.len())].clone();
        for _ in 0..=self.below(8) {
            let at = self.below(bytes.len() + 1);
            let end = (at + self.below(64)).min(bytes.len());
            match self.below(8) {
                0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                1 if at < bytes.len() => bytes[at] = self.below(256) as u8,
                2 => drop(bytes.drain(at..end)),
                3 => bytes.truncate(at),
                4 => {
                    let piece = bytes[at..end].to_vec();
                    let again = 1 + self.below(20);
                    let to = self.below(bytes.len() + 1);
                    bytes.splice(to..to, piece.repeat(again));
                }
                5 => {
                    let other = &seeds[self.below(seeds.len())];
                    let from = self.below(other.len() + 1);
                    let until = (from + self.below(256)).min(other.len());
                    bytes.splice(at..end, other[from..until].iter().copied());
                }
                _ => {
                    let piece = PIECES[self.below(PIECES.len())];
                    bytes.splice(at..at, piece.iter().copied());
                }
            }
        }
        bytes
    }
}
