//! Writers that are killed at any moment leave a ledger that is whole up to what they were told.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ci_ledger::core::chain::Stored;
use ci_ledger::core::ids::{Epoch, Seq};
use ci_ledger::core::moment::Secs;
use ci_ledger::sink::{self, Backlog, Flusher, FlusherOptions, Narrow, RenderMarker, SinkContext};
use ci_ledger::store::{LedgerFolder, StoreError, Verdict, Writer, WriterOptions, is_writer_alive, verify};

use super::events::{START, expendable, leg, moment, needed, run_finished, stored_texts};

const FOLDER: &str = "LEDGER_TEST_FOLDER";

/// Not a test: the child of the tests below. It stores events and says which ones were acknowledged, until it is killed.
#[test]
#[ignore = "the child of the other tests here"]
fn child_that_writes() {
    #[expect(clippy::disallowed_methods, reason = "how the parent names the folder")]
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let folder = LedgerFolder::create(Path::new(&folder)).unwrap();
    let mut said = std::io::stdout();
    writeln!(said, "begun").unwrap();
    let writer = Writer::create(&folder, leg(), Epoch::parse("e").unwrap(), START, WriterOptions::default()).unwrap();
    for number in 0.. {
        // Two needed events in one transaction: never one without the other.
        let bodies = vec![needed(&format!("{number} a")), expendable(), needed(&format!("{number} b"))];
        let appended = writer.append_blocking(moment(number), bodies).unwrap();
        writeln!(said, "acknowledged {}", appended.stored[2].seq).unwrap();
    }
}

/// Not a test: the child of the test below. It plays the boundaries of a run: the end of one file and the start of the next are stored and
/// sent in one go, and only then does the next "start".
#[tokio::test]
#[ignore = "the child of the other tests here"]
async fn child_that_sends() {
    #[expect(clippy::disallowed_methods, reason = "how the parent names the folder")]
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let root = Path::new(&folder);
    let ledger = LedgerFolder::create(&root.join(".ledger")).unwrap();
    let writer = Writer::create(&ledger, leg(), Epoch::parse("e").unwrap(), START, WriterOptions::default()).unwrap();
    let url = url::Url::from_directory_path(root.join("sink")).unwrap().to_string();
    let backend = sink::open(&url, &SinkContext::new(leg(), Epoch::parse("e").unwrap())).unwrap();
    let current = Arc::new(AtomicU64::new(0));
    let shown = Arc::clone(&current);
    let render: RenderMarker = Arc::new(move |_, _| shown.load(Ordering::SeqCst).to_string().into_bytes());
    let options = FlusherOptions { backlog: Arc::new(NoBacklog), render, heartbeat: Secs::from_secs(30) };
    let (flusher, _news) = Flusher::start(vec![backend], options).unwrap();
    let mut said = std::io::stdout();
    writeln!(said, "begun").unwrap();
    for number in 1.. {
        let bodies = vec![needed(&format!("{} finished", number - 1)), expendable(), needed(&format!("{number} started"))];
        let appended = writer.append(moment(number), bodies).await.unwrap();
        current.store(number, Ordering::SeqCst);
        flusher.offer(&appended.stored);
        flusher.barrier(appended.stored[2].seq, Duration::from_secs(1)).await;
        writeln!(said, "acknowledged {number}").unwrap();
    }
}

struct NoBacklog;

impl Backlog for NoBacklog {
    fn read_after(&self, _: Seq, _: usize, _: usize) -> Result<Vec<Stored>, String> {
        Err("a healthy sink reads nothing again".to_owned())
    }
}

#[tokio::test]
async fn after_a_kill_the_marker_names_the_file_that_runs_or_the_one_that_was_about_to() {
    for transactions in 0..12 {
        let dir = tempfile::tempdir().unwrap();
        let mut child = start_child("child_that_sends", dir.path());
        let running = kill_after(&mut child, transactions * 3);
        let url = url::Url::from_directory_path(dir.path().join("sink")).unwrap().to_string();
        let found = match sink::open_source(&url, &Default::default()).unwrap().legs(&Narrow::default(), START).await {
            Ok(found) => found,
            Err(error) if running == 0 => {
                eprintln!("killed before anything was sent: {error}");
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        let marker =
            found.first().and_then(|leg| leg.marker.as_ref()).map(|marker| String::from_utf8(marker.bytes.clone()).unwrap());
        let named: u64 = marker.map_or(0, |text| text.parse().unwrap());
        // Between the sink's answer and the start there is room for a kill, never the other way round.
        assert!(named == running || named == running + 1, "file {running} was running, the marker names {named}");
        let Some(leg) = found.first() else { continue };
        assert!(leg.segments.len() as u64 >= running);
        assert!(leg.segments.iter().all(|name| name.ends_with(".ndjson")));
    }
}

fn start_child(test: &str, folder: &Path) -> Child {
    let name = format!("{}::{test}", module_path!().split_once("::").unwrap().1);
    Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", &name, "--nocapture"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Kills the child after it was told of so many transactions; the number of the last event it was told of.
fn kill_after(child: &mut Child, transactions: usize) -> u64 {
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut acknowledged = 0;
    let mut note = |line: &str| {
        if let Some(seq) = line.strip_prefix("acknowledged ") {
            acknowledged = seq.parse().unwrap();
        }
    };
    let first = said.by_ref().map(Result::unwrap).find(|line| line.ends_with("begun"));
    assert!(first.is_some(), "the child did not begin");
    said.by_ref().take(transactions).for_each(|line| note(&line.unwrap()));
    child.kill().unwrap();
    // What it was told between our last look and its death counts too.
    said.map_while(Result::ok).for_each(|line| note(&line));
    child.wait().unwrap();
    acknowledged
}

#[test]
fn a_killed_writer_loses_nothing_it_was_told_and_its_ledger_goes_on() {
    for transactions in [0, 1, 2, 3, 5, 10, 50, 110, 111, 230, 400, 700] {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join(".ledger");
        let mut child = start_child("child_that_writes", &folder);
        let acknowledged = kill_after(&mut child, transactions);
        let folder = LedgerFolder::open(&folder).unwrap();
        let path = folder.database_path(&leg(), &Epoch::parse("e").unwrap());
        assert!(!is_writer_alive(&path));
        let verified = verify(&path, None);
        if acknowledged == 0 && !matches!(verified.verdict, Verdict::OpenEnd) {
            // Killed before there was a ledger; a later run makes its own and is not in the way of this.
            assert!(matches!(verified.verdict, Verdict::Unreadable { .. }), "{verified:?}");
            continue;
        }
        assert_eq!(verified.verdict, Verdict::OpenEnd, "after {transactions} transactions: {verified:?}");
        assert!(verified.head.seq.0 >= acknowledged, "told of {acknowledged}, stored {}", verified.head.seq);
        assert_eq!(verified.head.seq.0 % 3, 0, "half a transaction is stored");
        assert_eq!(stored_texts(&path).len() as u64, verified.head.seq.0 / 3 * 2);
        go_on(&path, verified.head.seq.0);
    }
}

fn go_on(path: &Path, last: u64) {
    let writer = Writer::reopen(path, WriterOptions::default()).unwrap();
    let appended = writer.append_blocking(moment(9_999_999), vec![run_finished()]).unwrap();
    assert_eq!(appended.stored[0].seq.0, last + 1);
    writer.close_blocking().unwrap();
    assert_eq!(verify(path, None).verdict, Verdict::Whole);
}

#[test]
fn a_living_writer_in_another_process_is_seen_and_refused() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join(".ledger");
    let mut child = start_child("child_that_writes", &folder);
    let mut said = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    let acknowledged = said.by_ref().map(Result::unwrap).find(|line| line.starts_with("acknowledged"));
    let seen = acknowledged.map(|_| {
        let path = LedgerFolder::open(&folder).unwrap().database_path(&leg(), &Epoch::parse("e").unwrap());
        let refused = Writer::reopen(&path, WriterOptions::default()).map(|_| ());
        (is_writer_alive(&path), refused, verify(&path, None).verdict, path)
    });
    child.kill().unwrap();
    child.wait().unwrap();
    let (alive, refused, verdict, path) = seen.unwrap();
    assert!(alive);
    assert!(matches!(refused, Err(StoreError::WriterAlive { .. })), "{refused:?}");
    assert_eq!(verdict, Verdict::OpenEnd);
    assert!(!is_writer_alive(&path));
}
