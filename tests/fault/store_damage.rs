//! Damage that SQLite does not notice, and writers that are killed.

use std::fs;
use std::path::{Path, PathBuf};

use ci_ledger::core::ids::{Digest, Seq};
use ci_ledger::store::{Head, LedgerFolder, Reader, Verdict, verify};

use super::events::{moment, needed, writer};

/// A copy of a ledger whose writer was killed: database, log and head as they lay there.
struct Killed {
    dir: tempfile::TempDir,
    database: Vec<u8>,
    log: Vec<u8>,
    head: Vec<u8>,
}

const EVENTS: u64 = 20;

fn killed() -> Killed {
    let dir = tempfile::tempdir().unwrap();
    let folder = LedgerFolder::create(&dir.path().join(".ledger")).unwrap();
    let writer = writer(&folder, "e");
    for number in 0..EVENTS {
        writer.append_blocking(moment(number), vec![needed(&format!("number {number}"))]).unwrap();
    }
    let path = writer.path().to_owned();
    let read = |path: PathBuf| fs::read(path).unwrap();
    let copy = (read(path.clone()), read(log_path(&path)), read(path.with_extension("head")));
    writer.close_blocking().unwrap();
    let (database, mut log, head) = copy;
    // The log is grown ahead with zeros; a few pages of them stand for all.
    let live = log.iter().rposition(|byte| *byte != 0).unwrap();
    log.truncate(live + 20_000);
    Killed { dir, database, log, head }
}

fn log_path(database: &Path) -> PathBuf {
    PathBuf::from(format!("{}-wal", database.display()))
}

impl Killed {
    fn lay_out(&self, log: Option<&[u8]>, head: Option<&[u8]>) -> PathBuf {
        let path = self.dir.path().join("copy.db");
        for extension in ["db", "db-wal", "db-shm", "head"] {
            let _ = fs::remove_file(path.with_extension(extension));
        }
        fs::write(&path, &self.database).unwrap();
        log.into_iter().for_each(|log| fs::write(log_path(&path), log).unwrap());
        head.into_iter().for_each(|head| fs::write(path.with_extension("head"), head).unwrap());
        path
    }
}

#[test]
fn a_killed_writers_ledger_is_whole_with_an_open_end() {
    let killed = killed();
    for head in [None, Some(&killed.head[..])] {
        let path = killed.lay_out(Some(&killed.log), head);
        let verified = verify(&path, None);
        assert_eq!((verified.verdict, verified.head.seq, verified.notes), (Verdict::OpenEnd, Seq(EVENTS), vec![]));
        assert_eq!(fs::read(&path).unwrap(), killed.database);
        assert_eq!(fs::read(log_path(&path)).unwrap(), killed.log);
    }
}

#[test]
fn a_flipped_byte_anywhere_in_the_log_is_found_or_harmless() {
    let killed = killed();
    let live = killed.log.iter().rposition(|byte| *byte != 0).unwrap();
    let mut found = 0;
    for at in (0..live).step_by(100) {
        let mut log = killed.log.clone();
        log[at] ^= 0x10;
        let path = killed.lay_out(Some(&log), Some(&killed.head));
        let verified = verify(&path, None);
        let broken = matches!(verified.verdict, Verdict::Broken { .. } | Verdict::Unreadable { .. });
        assert!(broken || verified.head.seq == Seq(EVENTS), "a flip at {at} went unnoticed: {verified:?}");
        found += usize::from(broken);
    }
    assert!(found > 100, "only {found} flips were found");
}

#[test]
fn without_a_head_the_log_itself_shows_the_damage_before_its_last_write() {
    let killed = killed();
    let live = killed.log.iter().rposition(|byte| *byte != 0).unwrap();
    let frame = 24 + 4096;
    for at in (32..live - 3 * frame).step_by(997) {
        let mut log = killed.log.clone();
        log[at] ^= 0x10;
        let path = killed.lay_out(Some(&log), None);
        let verified = verify(&path, None);
        let broken = matches!(verified.verdict, Verdict::Broken { .. } | Verdict::Unreadable { .. });
        assert!(broken, "a flip at {at} went unnoticed: {verified:?}");
    }
}

#[test]
fn a_missing_log_is_broken_against_a_head_and_noted_without_one() {
    let killed = killed();
    let path = killed.lay_out(None, Some(&killed.head));
    assert!(matches!(verify(&path, None).verdict, Verdict::Broken { after: Seq(0), .. }));
    let path = killed.lay_out(None, None);
    let verified = verify(&path, None);
    assert_eq!(verified.verdict, Verdict::OpenEnd);
    assert_eq!(verified.notes.len(), 1);
    // The identity is in the database itself.
    assert_eq!(Reader::open(&path).unwrap().identity().leg, super::events::leg());
}

#[test]
fn a_cut_log_is_broken() {
    let killed = killed();
    let live = killed.log.iter().rposition(|byte| *byte != 0).unwrap();
    for cut in (0..live).step_by(4000) {
        let path = killed.lay_out(Some(&killed.log[..cut]), Some(&killed.head));
        let verified = verify(&path, None);
        assert!(matches!(verified.verdict, Verdict::Broken { .. }), "cut at {cut}: {verified:?}");
    }
}

#[test]
fn the_head_of_a_sink_is_compared() {
    let killed = killed();
    let path = killed.lay_out(Some(&killed.log), None);
    let digest_of = |seq: u64| {
        let stored = Reader::open(&path).unwrap().lines_after(Seq(seq - 1)).next().unwrap().unwrap();
        Digest::of(stored.line.unwrap().as_bytes())
    };
    let known = |seq: u64, digest: Digest| Head { seq: Seq(seq), digest };
    assert_eq!(verify(&path, Some(&known(7, digest_of(7)))).verdict, Verdict::OpenEnd);
    assert!(matches!(verify(&path, Some(&known(7, digest_of(8)))).verdict, Verdict::Broken { after: Seq(7), .. }));
    assert!(matches!(verify(&path, Some(&known(EVENTS + 1, digest_of(8)))).verdict, Verdict::Broken { after: Seq(EVENTS), .. }));
}

#[test]
fn a_flipped_byte_in_the_database_is_found_or_harmless() {
    let dir = tempfile::tempdir().unwrap();
    let folder = LedgerFolder::create(&dir.path().join(".ledger")).unwrap();
    let writer = writer(&folder, "e");
    let path = writer.path().to_owned();
    for number in 0..EVENTS {
        writer.append_blocking(moment(number), vec![needed(&format!("number {number}"))]).unwrap();
    }
    writer.close_blocking().unwrap();
    let lines = |path: &Path| -> Vec<_> { Reader::open(path).unwrap().lines_after(Seq(0)).map(Result::unwrap).collect() };
    let whole = fs::read(&path).unwrap();
    let before = lines(&path);
    let mut found = 0;
    for at in (0..whole.len()).step_by(100) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x04;
        fs::write(&path, bytes).unwrap();
        match verify(&path, None).verdict {
            Verdict::Broken { .. } | Verdict::Unreadable { .. } => found += 1,
            Verdict::Whole | Verdict::OpenEnd => assert_eq!(lines(&path), before, "a flip at {at} went unnoticed"),
        }
    }
    assert!(found > 50, "only {found} flips were found");
}

#[test]
fn lines_of_any_size_are_read_and_one_that_is_too_long_costs_itself() {
    let dir = tempfile::tempdir().unwrap();
    let folder = LedgerFolder::create(&dir.path().join(".ledger")).unwrap();
    let writer = writer(&folder, "e");
    let sizes = [1, 700_000, 700_000, 1, 17 * 1024 * 1024, 3_000_000, 1];
    for (number, size) in sizes.into_iter().enumerate() {
        writer.append_blocking(moment(number as u64), vec![needed(&"x".repeat(size))]).unwrap();
    }
    let path = writer.path().to_owned();
    writer.close_blocking().unwrap();
    let read: Vec<_> = Reader::open(&path).unwrap().lines_after(Seq(0)).map(Result::unwrap).collect();
    assert_eq!(read.iter().map(|line| line.seq.0).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(read.iter().map(|line| line.line.is_some()).collect::<Vec<_>>(), [true, true, true, true, false, true, true]);
    assert!(matches!(verify(&path, None).verdict, Verdict::Broken { after: Seq(4), .. }));
}
