//! The n-th step of a write fails, for every n; reopening shows everything that was acknowledged.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ci_ledger::core::chain::ChainFault;
use ci_ledger::core::ids::{Digest, Epoch, Seq};
use ci_ledger::store::{
    LedgerFolder, Reader, Room, StoreError, Verdict, WriteFault, WriteFaults, WriteStep, Writer, WriterOptions, database_bytes,
    is_writer_alive, remove_database, restore, verify,
};

use super::events::{START, expendable, failing_writer, leg, moment, needed, run_finished, stored_texts, writer};

/// Fails the n-th step once, or every step from there on.
struct Countdown {
    left: Arc<AtomicU32>,
    fault: WriteFault,
    forever: bool,
}

impl WriteFaults for Countdown {
    fn before(&mut self, _: WriteStep) -> Result<(), WriteFault> {
        let left = self.left.load(Ordering::SeqCst);
        match left {
            0 if self.forever => Err(self.fault),
            0 => Ok(()),
            1 if !self.forever => {
                self.left.store(0, Ordering::SeqCst);
                Err(self.fault)
            }
            _ => {
                self.left.store(left - 1, Ordering::SeqCst);
                Ok(())
            }
        }
    }
}

#[test]
fn appends_are_numbered_chained_and_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let folder = LedgerFolder::create(&dir.path().join(".ledger")).unwrap();
    let writer = writer(&folder, "e");
    let path = writer.path().to_owned();
    let first = writer.append_blocking(moment(1), vec![needed("a"), expendable()]).unwrap();
    assert_eq!(first.stored.iter().map(|stored| stored.seq).collect::<Vec<_>>(), [Seq(1), Seq(2)]);
    assert_eq!(first.stored[0].digest, Digest::of(first.stored[0].line.as_bytes()));
    assert!(first.stored[0].progress && !first.stored[1].progress);
    assert!(is_writer_alive(&path));
    // A reader beside the living writer.
    assert_eq!(stored_texts(&path), [(1, "a".to_owned())]);
    assert_eq!(verify(&path, None).verdict, Verdict::OpenEnd);
    writer.append_blocking(moment(2), vec![run_finished()]).unwrap();
    writer.close_blocking().unwrap();
    assert!(!is_writer_alive(&path));
    let verified = verify(&path, None);
    assert_eq!(verified.verdict, Verdict::Whole);
    assert_eq!(verified.head.seq, Seq(3));
    assert_eq!(verified.notes, Vec::<String>::new());
    let listed = folder.databases().unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].identity.as_ref().unwrap().leg, leg());
    let names: Vec<String> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(
        !names.iter().any(|name| name.ends_with("ballast") || name.ends_with("-wal") || name.starts_with(".probe")),
        "{names:?}"
    );
}

#[test]
fn every_step_can_fail_once_and_nothing_acknowledged_is_lost() {
    for fault in [WriteFault::Io, WriteFault::Full] {
        for forever in [false, true] {
            // A step of four where every later write fails too: the countdown of the other half has met each place once.
            for nth in (1..18).step_by(if forever { 4 } else { 1 }) {
                fail_at(nth, fault, forever);
            }
        }
    }
}

fn fail_at(nth: u32, fault: WriteFault, forever: bool) {
    let dir = tempfile::tempdir().unwrap();
    let folder = LedgerFolder::create(&dir.path().join(".ledger")).unwrap();
    let left = Arc::new(AtomicU32::new(nth));
    let writer = failing_writer(&folder, Countdown { left, fault, forever }).unwrap();
    let path = writer.path().to_owned();
    let mut acknowledged = Vec::new();
    let mut failures = 0;
    for number in 0..3 {
        let text = format!("n{number}");
        match writer.append_blocking(moment(number), vec![expendable(), needed(&text)]) {
            Ok(appended) => acknowledged.push((appended.stored.last().unwrap().seq.0, text)),
            Err(_) => failures += 1,
        }
    }
    writer.close_blocking().unwrap();
    let stored = stored_texts(&path);
    for (seq, text) in &acknowledged {
        assert!(stored.contains(&(*seq, text.clone())), "event {seq} {text} of {stored:?}; n={nth} {fault:?} forever={forever}");
    }
    assert_eq!(verify(&path, None).verdict, Verdict::OpenEnd, "n={nth} {fault:?} forever={forever}");
    match fault {
        // A full disk costs the expendable ones first, and once costs nothing that is needed.
        WriteFault::Full if !forever => assert_eq!(failures, 0, "n={nth}"),
        WriteFault::Io if !forever => assert!(failures <= 1, "n={nth}"),
        _ => {}
    }
    let reopened = Writer::reopen(&path, WriterOptions::default()).unwrap();
    let appended = reopened.append_blocking(moment(99), vec![run_finished()]).unwrap();
    assert_eq!(appended.stored[0].seq.0, stored_len(&path));
    reopened.close_blocking().unwrap();
    assert_eq!(verify(&path, None).verdict, Verdict::Whole);
}

fn stored_len(path: &std::path::Path) -> u64 {
    ci_ledger::store::Reader::open(path).unwrap().last_seq().unwrap().0
}

/// Full until the ballast is gone, as far as a hook can play it: the first `left` commits after the start fail.
struct FullCommits {
    left: u32,
}

impl WriteFaults for FullCommits {
    fn before(&mut self, step: WriteStep) -> Result<(), WriteFault> {
        if step == WriteStep::Commit && self.left > 0 {
            self.left -= 1;
            return Err(WriteFault::Full);
        }
        Ok(())
    }
}

#[test]
fn a_full_disk_costs_samples_first_then_the_ballast_and_says_so() {
    for (full_commits, room, dropped) in [(1, Room::Plenty, 1), (2, Room::Reserve, 1)] {
        let dir = tempfile::tempdir().unwrap();
        let folder = LedgerFolder::create(&dir.path().join(".ledger")).unwrap();
        let writer = failing_writer(&folder, FullCommits { left: full_commits }).unwrap();
        let ballast = writer.path().with_extension("ballast");
        assert!(ballast.exists());
        let appended = writer.append_blocking(moment(1), vec![needed("verdict"), expendable()]).unwrap();
        assert_eq!((appended.room, appended.dropped, appended.stored.len()), (room, dropped, 1), "{full_commits} full commits");
        assert_eq!(ballast.exists(), room == Room::Plenty);
        let only_samples = writer.append_blocking(moment(2), vec![expendable()]).unwrap();
        assert_eq!(only_samples.stored.len(), usize::from(room == Room::Plenty));
        writer.close_blocking().unwrap();
    }
}

#[test]
fn a_second_writer_and_a_second_creation_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let folder = LedgerFolder::create(&dir.path().join(".ledger")).unwrap();
    let first = writer(&folder, "e");
    let path = first.path().to_owned();
    assert!(matches!(Writer::reopen(&path, WriterOptions::default()), Err(StoreError::WriterAlive { .. })));
    let again = || Writer::create(&folder, leg(), Epoch::parse("e").unwrap(), START, WriterOptions::default());
    assert!(matches!(again(), Err(StoreError::Exists { .. })));
    first.append_blocking(moment(1), vec![needed("kept")]).unwrap();
    first.close_blocking().unwrap();
    assert!(matches!(again(), Err(StoreError::Exists { .. })));
    assert_eq!(stored_texts(&path).len(), 1);
    // The same leg under another epoch stands beside it.
    writer(&folder, "f").close_blocking().unwrap();
    assert_eq!(folder.databases().unwrap().len(), 2);
}

#[test]
fn requests_that_wait_together_are_answered_each_with_its_own_events() {
    let dir = tempfile::tempdir().unwrap();
    let folder = LedgerFolder::create(&dir.path().join(".ledger")).unwrap();
    let writer = writer(&folder, "e");
    let path = writer.path().to_owned();
    let threads: Vec<_> = (0..8)
        .map(|thread| {
            let writer = writer.clone();
            std::thread::spawn(move || {
                for number in 0..20 {
                    let text = format!("{thread}.{number}");
                    let appended = writer.append_blocking(moment(number), vec![needed(&text)]).unwrap();
                    assert!(appended.stored[0].line.contains(&format!("\"{text}\"")));
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    writer.close_blocking().unwrap();
    assert_eq!(stored_texts(&path).len(), 160);
    assert_eq!(verify(&path, None).head.seq, Seq(160));
}

#[test]
fn the_database_itself_refuses_change_removal_and_gaps() {
    let dir = tempfile::tempdir().unwrap();
    let folder = LedgerFolder::create(&dir.path().join(".ledger")).unwrap();
    let writer = writer(&folder, "e");
    let path = writer.path().to_owned();
    writer.append_blocking(moment(1), vec![needed("a"), needed("b")]).unwrap();
    writer.close_blocking().unwrap();
    let connection = rusqlite::Connection::open(&path).unwrap();
    for sql in [
        "UPDATE event SET line = 'x' WHERE seq = 1",
        "DELETE FROM event WHERE seq = 2",
        "INSERT INTO event VALUES (4, 'k', 'l')",
        "INSERT INTO event VALUES (0, 'k', 'l')",
        "INSERT INTO event VALUES (2, 'k', 'l')",
        "INSERT OR REPLACE INTO event VALUES (2, 'k', 'l')",
        "INSERT INTO event (kind, line) VALUES ('k', 'l')",
        "INSERT INTO event VALUES (3, 'k', 7)",
        "UPDATE leg SET epoch = 'f'",
        "DELETE FROM leg",
        "INSERT INTO leg SELECT 2, run_id, attempt, platform, target, shard, epoch, created FROM leg",
    ] {
        let done = connection.execute(sql, ());
        // A number is text to a STRICT column, and the only statement here that follows the rules; the chain finds it.
        assert_eq!(done.is_ok(), sql.contains(", 7)"), "{sql}");
    }
    drop(connection);
    assert!(matches!(verify(&path, None).verdict, Verdict::Broken { after: Seq(2), .. }));
}

#[test]
fn a_ledger_comes_home_from_its_lines_up_to_the_first_that_does_not_follow() {
    let dir = tempfile::tempdir().unwrap();
    let folder = LedgerFolder::create(&dir.path().join("a")).unwrap();
    let home = |name: &str| LedgerFolder::create(&dir.path().join(name)).unwrap();
    let writer = writer(&folder, "e");
    let path = writer.path().to_owned();
    for number in 0..2500 {
        writer.append_blocking(moment(number), vec![needed(&number.to_string())]).unwrap();
    }
    writer.append_blocking(moment(9999), vec![run_finished()]).unwrap();
    writer.close_blocking().unwrap();
    let lines: Vec<String> = Reader::open(&path).unwrap().lines_after(Seq(0)).map(|line| line.unwrap().line.unwrap()).collect();
    let bring = |name: &str, lines: Vec<String>| restore(&home(name), leg(), Epoch::parse("e").unwrap(), START, lines);

    let whole = bring("b", lines.clone()).unwrap();
    assert_eq!((whole.last, whole.fault), (Seq(2501), None));
    assert_eq!(verify(&whole.path, None).verdict, Verdict::Whole);
    assert_eq!(stored_texts(&whole.path), stored_texts(&path));
    let again = bring("b", lines.clone()).unwrap();
    assert_eq!((again.last, again.added, again.ended, again.fault), (Seq(2501), 0, true, None), "the same again adds nothing");
    let behind = bring("b", lines[..7].to_vec()).unwrap();
    assert_eq!((behind.last, behind.added), (Seq(2501), 0), "and neither does a part of it");
    let mut other = lines.clone();
    other[2] = other[2].replace('2', "3");
    assert!(matches!(bring("b", other), Err(StoreError::Differs { seq: Seq(3), .. })));
    let live = bring("g", lines[..1500].to_vec()).unwrap();
    assert_eq!((live.last, live.added, live.ended), (Seq(1500), 1500, false));
    let more = bring("g", lines.clone()).unwrap();
    assert_eq!((more.last, more.added, more.ended, more.fault), (Seq(2501), 1001, true, None));
    assert_eq!(verify(&more.path, None).verdict, Verdict::Whole);
    assert_eq!(stored_texts(&more.path), stored_texts(&path));

    let mut damaged = lines.clone();
    damaged[1200] = damaged[1200].replace("1200", "1300");
    let part = bring("c", damaged).unwrap();
    assert_eq!((part.last, part.fault), (Seq(1201), Some(ChainFault::Digest { seq: Seq(1202) })));
    assert_eq!(verify(&part.path, None).verdict, Verdict::OpenEnd);
    let gap = bring("d", [&lines[..7], &lines[8..]].concat()).unwrap();
    assert_eq!((gap.last, gap.fault), (Seq(7), Some(ChainFault::Gap { expected: Seq(8), found: Seq(9) })));
    let nothing = bring("f", vec!["nonsense".to_owned()]).unwrap();
    assert!(matches!(nothing.fault, Some(ChainFault::Unreadable { .. })));
}

#[test]
fn a_database_is_private_and_goes_with_all_that_stands_beside_it() {
    let dir = tempfile::tempdir().unwrap();
    let folder = LedgerFolder::create(&dir.path().join(".ledger")).unwrap();
    let writer = writer(&folder, "e");
    let path = writer.path().to_owned();
    writer.append_blocking(moment(1), vec![needed("a")]).unwrap();
    #[cfg(unix)]
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        use std::os::unix::fs::PermissionsExt as _;
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{:?}", entry.file_name());
    }
    assert!(database_bytes(&path) > 6 * 1024 * 1024);
    assert!(matches!(remove_database(&path), Err(StoreError::WriterAlive { .. })));
    writer.close_blocking().unwrap();
    remove_database(&path).unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "only .gitignore stays");
    assert!(matches!(remove_database(&path), Err(StoreError::Missing { .. })));
}
