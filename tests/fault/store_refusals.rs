//! What is no ledger, or not ours to write, is refused with the file's name and the next step, and kept as it is.

use std::fs;

use ci_ledger::core::ids::Seq;
use ci_ledger::store::{LedgerFolder, Reader, StoreError, Verdict, Writer, WriterOptions, verify};

use super::events::{moment, needed, run_finished, writer};

fn closed_ledger(dir: &tempfile::TempDir) -> std::path::PathBuf {
    let folder = LedgerFolder::create(&dir.path().join(".ledger")).unwrap();
    let writer = writer(&folder, "e");
    let path = writer.path().to_owned();
    for number in 0..200 {
        writer.append_blocking(moment(number), vec![needed(&format!("number {number} {}", "x".repeat(200)))]).unwrap();
    }
    writer.append_blocking(moment(300), vec![run_finished()]).unwrap();
    writer.close_blocking().unwrap();
    path
}

fn check(path: &std::path::Path, expected: fn(&StoreError) -> bool) {
    let before = fs::read(path).unwrap();
    let read = Reader::open(path).map(|_| ()).unwrap_err();
    assert!(expected(&read), "reading: {read:?}");
    assert!(read.to_string().contains(path.to_str().unwrap()), "{read}");
    let write = Writer::reopen(path, WriterOptions::default()).map(|_| ()).unwrap_err();
    assert!(expected(&write), "writing: {write:?}");
    assert!(matches!(verify(path, None).verdict, Verdict::Unreadable { .. }));
    assert_eq!(fs::read(path).unwrap(), before, "the file was changed");
}

#[test]
fn garbage_and_short_files_are_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let whole = fs::read(closed_ledger(&dir)).unwrap();
    let path = dir.path().join("leg-x.db");
    for (what, bytes) in [
        ("garbage", vec![0xa5; 20_000]),
        ("text", b"hello world\n".to_vec()),
        ("half a header", whole[..50].to_vec()),
        ("half a page", whole[..2000].to_vec()),
        ("a zeroed header", [vec![0; 100], whole[100..].to_vec()].concat()),
    ] {
        fs::write(&path, bytes).unwrap();
        eprintln!("{what}");
        check(&path, |error| matches!(error, StoreError::Damaged { .. }));
    }
}

#[test]
fn a_ledger_that_was_cut_short_never_counts_as_whole() {
    let dir = tempfile::tempdir().unwrap();
    let original = closed_ledger(&dir);
    let whole = fs::read(&original).unwrap();
    let path = dir.path().join("leg-x.db");
    for cut in (4096..whole.len()).step_by(1500) {
        fs::write(&path, &whole[..cut]).unwrap();
        let verdict = verify(&path, None).verdict;
        assert!(matches!(verdict, Verdict::Broken { .. } | Verdict::Unreadable { .. }), "cut at {cut}: {verdict:?}");
    }
}

#[test]
fn a_newer_schema_and_a_foreign_database_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = closed_ledger(&dir);
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    drop(connection);
    check(&path, |error| matches!(error, StoreError::NewerSchema { found: 99, .. }));

    let foreign = dir.path().join("leg-foreign.db");
    let connection = rusqlite::Connection::open(&foreign).unwrap();
    connection.execute_batch("CREATE TABLE event (seq INTEGER, line TEXT)").unwrap();
    drop(connection);
    check(&foreign, |error| matches!(error, StoreError::Foreign { application_id: 0, .. }));

    let empty = dir.path().join("leg-empty.db");
    fs::write(&empty, "").unwrap();
    check(&empty, |error| matches!(error, StoreError::Stillborn { .. }));
    assert!(matches!(Reader::open(&dir.path().join("leg-none.db")), Err(StoreError::Missing { .. })));
    assert!(matches!(Reader::open(dir.path()), Err(StoreError::Damaged { .. })));
}

#[test]
fn a_ledger_locked_by_another_connection_is_an_error_and_heals() {
    let dir = tempfile::tempdir().unwrap();
    let folder = LedgerFolder::create(&dir.path().join(".ledger")).unwrap();
    let writer = writer(&folder, "e");
    writer.append_blocking(moment(1), vec![needed("before")]).unwrap();
    let holder = rusqlite::Connection::open(writer.path()).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = writer.append_blocking(moment(2), vec![needed("during")]).unwrap_err();
    assert!(matches!(&error, StoreError::Locked { path } if path == writer.path()), "{error:?}");
    holder.execute_batch("ROLLBACK").unwrap();
    drop(holder);
    let appended = writer.append_blocking(moment(3), vec![needed("after")]).unwrap();
    assert_eq!(appended.stored[0].seq, Seq(2));
    writer.close_blocking().unwrap();
}

#[test]
fn one_bad_file_costs_its_leg_and_not_the_listing() {
    let dir = tempfile::tempdir().unwrap();
    let path = closed_ledger(&dir);
    let folder = LedgerFolder::open(path.parent().unwrap()).unwrap();
    fs::write(folder.path().join("leg-broken.db"), "nonsense that is no database").unwrap();
    let listed = folder.databases().unwrap();
    assert_eq!(listed.len(), 2);
    assert!(listed[0].identity.is_ok() && matches!(listed[1].identity, Err(StoreError::Damaged { .. })));
}
