//! A disk that is really full.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use ci_ledger::store::{LedgerFolder, Room, StoreError, Verdict, Writer, WriterOptions, verify};

use super::events::{expendable, moment, needed, run_finished, stored_texts, writer};

/// A small memory disk that goes away with the test.
pub struct SmallDisk {
    dir: tempfile::TempDir,
}

impl SmallDisk {
    /// `None` where this user may not mount.
    pub fn mount(size: &str) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mounted = cfg!(target_os = "linux")
            && Command::new("mount")
                .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
                .arg(dir.path())
                .output()
                .is_ok_and(|output| output.status.success());
        if !mounted {
            eprintln!("SKIPPED: no small disk can be mounted here, a full disk was not tested");
        }
        mounted.then_some(Self { dir })
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Takes all the room there is.
    pub fn fill(&self) -> PathBuf {
        let path = self.path().join("filler");
        let mut file = File::create(&path).unwrap();
        let mut chunk = vec![7; 64 * 1024];
        while !chunk.is_empty() {
            if file.write_all(&chunk).is_err() {
                chunk.truncate(chunk.len() / 2);
            }
        }
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(self.dir.path()).status();
        assert!(
            std::thread::panicking() || unmounted.is_ok_and(|status| status.success()),
            "{} is still mounted",
            self.dir.path().display()
        );
    }
}

#[test]
fn samples_go_first_and_the_verdicts_of_a_whole_plan_still_fit() {
    let Some(disk) = SmallDisk::mount("12m") else { return };
    let folder = LedgerFolder::create(&disk.path().join(".ledger")).unwrap();
    let writer = writer(&folder, "e");
    let path = writer.path().to_owned();
    let mut texts = Vec::new();
    let mut store = |number: u64, with_sample: bool| {
        // A verdict as long as they come: 2 KiB of last output and as much beside it.
        let text = format!("{number} {}", "x".repeat(4000));
        let mut bodies = vec![needed(&text)];
        bodies.extend(with_sample.then(expendable));
        let appended = writer.append_blocking(moment(number), bodies).unwrap();
        texts.push(text);
        appended
    };
    for number in 0..50 {
        assert_eq!(store(number, true).dropped, 0);
    }
    disk.fill();
    let mut dropped = 0;
    let mut number = 50;
    // The log has room of its own for a while; then samples go, then the ballast.
    let reserve = loop {
        let appended = store(number, true);
        dropped += appended.dropped;
        number += 1;
        assert!(number < 5000, "the disk never filled");
        if appended.room == Room::Reserve {
            break number;
        }
    };
    assert!(dropped >= 1);
    assert!(!path.with_extension("ballast").exists());
    // The verdict is in; a hundred more of this size follow, and the end.
    for number in reserve..reserve + 100 {
        assert_eq!(store(number, true).dropped, 1);
    }
    assert_eq!(writer.append_blocking(moment(9999), vec![expendable()]).unwrap().stored.len(), 0);
    writer.append_blocking(moment(10_000), vec![run_finished()]).unwrap();
    writer.close_blocking().unwrap();
    assert_eq!(verify(&path, None).verdict, Verdict::Whole);
    let stored: Vec<String> = stored_texts(&path).into_iter().map(|(_, text)| text).collect();
    assert_eq!(stored, texts);
}

#[test]
fn a_disk_that_gets_room_again_takes_everything_again() {
    let Some(disk) = SmallDisk::mount("12m") else { return };
    let folder = LedgerFolder::create(&disk.path().join(".ledger")).unwrap();
    let writer = writer(&folder, "e");
    let filler = disk.fill();
    let mut number = 0;
    let dropped = loop {
        let appended = writer.append_blocking(moment(number), vec![expendable()]).unwrap();
        number += 1;
        assert!(number < 5000, "the disk never filled");
        assert_eq!(appended.room, Room::Plenty, "a sample spent the ballast");
        if appended.dropped > 0 {
            break appended.dropped;
        }
    };
    assert_eq!(dropped, 1);
    fs::remove_file(filler).unwrap();
    let appended = writer.append_blocking(moment(number), vec![expendable(), needed("later")]).unwrap();
    assert_eq!((appended.stored.len(), appended.dropped, appended.room), (2, 0, Room::Plenty));
    let path = writer.path().to_owned();
    writer.close_blocking().unwrap();
    assert_eq!(verify(&path, None).verdict, Verdict::OpenEnd);
}

#[test]
fn past_the_last_byte_the_error_is_clear_and_nothing_stored_is_lost() {
    let Some(disk) = SmallDisk::mount("10m") else { return };
    let folder = LedgerFolder::create(&disk.path().join(".ledger")).unwrap();
    let writer = writer(&folder, "e");
    let path = writer.path().to_owned();
    disk.fill();
    let mut acknowledged = 0;
    let error = loop {
        match writer.append_blocking(moment(acknowledged), vec![needed(&format!("{acknowledged} {}", "x".repeat(4000)))]) {
            Ok(appended) => acknowledged = appended.stored[0].seq.0,
            Err(error) => break error,
        }
        disk.fill();
        assert!(acknowledged < 5000, "the disk never filled");
    };
    assert_eq!(error, StoreError::Full { path: path.clone() });
    let closed = writer.close_blocking();
    assert_eq!(verify(&path, None).verdict, Verdict::OpenEnd, "closed: {closed:?}");
    assert_eq!(stored_texts(&path).len() as u64, acknowledged);
}

#[test]
fn a_killed_writers_ledger_is_read_from_a_read_only_disk() {
    let Some(disk) = SmallDisk::mount("32m") else { return };
    let folder = LedgerFolder::create(&disk.path().join(".ledger")).unwrap();
    let writer = writer(&folder, "e");
    for number in 0..10 {
        writer.append_blocking(moment(number), vec![needed(&number.to_string())]).unwrap();
    }
    let path = writer.path().to_owned();
    let copy = LedgerFolder::create(&disk.path().join("copy")).unwrap().path().join("leg-copy.db");
    fs::copy(&path, &copy).unwrap();
    fs::copy(path.with_extension("db-wal"), copy.with_extension("db-wal")).unwrap();
    writer.close_blocking().unwrap();
    // A process that another test is just starting may hold a copy of our descriptors until its exec.
    let remounted = || Command::new("mount").args(["-o", "remount,ro"]).arg(disk.path()).status().unwrap().success();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !remounted() {
        assert!(std::time::Instant::now() < deadline, "the disk stayed busy");
        std::thread::yield_now();
    }
    for (path, events) in [(&path, 10), (&copy, 10)] {
        assert_eq!(stored_texts(path).len(), events);
        assert_eq!(verify(path, None).verdict, Verdict::OpenEnd);
    }
    let refused = Writer::reopen(&path, WriterOptions::default()).map(|_| ()).unwrap_err();
    assert!(matches!(refused, StoreError::ReadOnly { .. }), "{refused:?}");
    let refused = LedgerFolder::create(folder.path()).map(|_| ()).unwrap_err();
    assert!(matches!(refused, StoreError::ReadOnly { .. }), "{refused:?}");
}

#[test]
fn a_full_disk_is_refused_at_the_start_and_leaves_nothing_behind() {
    let Some(disk) = SmallDisk::mount("7m") else { return };
    let folder = LedgerFolder::create(&disk.path().join(".ledger")).unwrap();
    let filler = disk.fill();
    let before: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let refused = super::events::failing_writer(&folder, ci_ledger::store::NoFaults).map(|_| ()).unwrap_err();
    assert!(matches!(refused, StoreError::Full { .. }), "{refused:?}");
    let after: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(before, after);
    fs::remove_file(filler).unwrap();
    writer(&folder, "e").close_blocking().unwrap();
}
