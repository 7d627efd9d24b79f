//! The small file beside a database that tells two things: whether its writer lives, and how far it had got.
//!
//! The writer holds an OS file lock on it, which cannot outlive its process (the descriptor is closed on exec, so no child keeps it). It
//! holds number and digest of the newest acknowledged event, written without a sync: it survives the death of the process, and where
//! the power failed it is merely old. SQLite reads a damaged write-ahead log as a shorter one and says nothing; against this head the
//! loss shows.

use std::fs::{self, File, TryLockError};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::core::ids::{Digest, Seq};
use crate::core::row::Head;

use super::error::StoreError;
use super::private::create_file;

/// Before the first event.
pub(super) fn genesis() -> Head {
    Head { seq: Seq(0), digest: Digest::genesis() }
}

/// One line of fixed width, so that a write never leaves a part of an older one behind.
fn line_of(head: &Head) -> String {
    format!("{:020} {}\n", head.seq.0, head.digest.0)
}

fn parse(text: &str) -> Option<Head> {
    let (seq, digest) = text.strip_suffix('\n')?.split_once(' ')?;
    let whole = digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !whole {
        return None;
    }
    Some(Head { seq: Seq(seq.parse().ok()?), digest: Digest(digest.to_owned()) })
}

/// The head file of a database that this process writes. Dropping it ends the ownership.
#[derive(Debug)]
pub(super) struct HeadFile {
    file: File,
}

/// Somebody who merely asks whether a writer lives holds the lock for microseconds; a tenth of a second outlasts any such question.
const LOCK_TRIES: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(5);

impl HeadFile {
    /// For a database that does not exist yet.
    pub(super) fn create(database: &Path) -> Result<Self, StoreError> {
        let path = head_path(database);
        let file = create_file(&path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => StoreError::Exists { path: database.to_owned() },
            _ => StoreError::io(&path, &error),
        })?;
        Self::own(file, database)
    }

    /// For a database whose writer is dead. Its head file may have been lost.
    pub(super) fn reopen(database: &Path) -> Result<Self, StoreError> {
        let path = head_path(database);
        let opened = fs::OpenOptions::new().read(true).write(true).open(&path);
        let file = match opened {
            Err(error) if error.kind() == io::ErrorKind::NotFound => create_file(&path),
            other => other,
        };
        Self::own(file.map_err(|error| StoreError::io(&path, &error))?, database)
    }

    fn own(file: File, database: &Path) -> Result<Self, StoreError> {
        for _ in 0..LOCK_TRIES {
            match file.try_lock() {
                Ok(()) => return Ok(Self { file }),
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
                Err(TryLockError::Error(error)) => {
                    return Err(StoreError::Unsuitable {
                        path: database.to_owned(),
                        detail: format!("file locks do not work: {error}"),
                    });
                }
            }
        }
        Err(StoreError::WriterAlive { path: database.to_owned() })
    }

    pub(super) fn write(&mut self, head: &Head) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(line_of(head).as_bytes())
    }
}

pub(super) fn head_path(database: &Path) -> PathBuf {
    database.with_extension("head")
}

/// The newest event that the writer acknowledged; `None` where the file is lost or was not on disk yet when the power failed.
pub(super) fn read_head(database: &Path) -> Option<Head> {
    parse(&fs::read_to_string(head_path(database)).ok()?)
}

/// The head that a dead writer has left: every event up to it was durable. A living one may be writing it at this very moment, and what it
/// has written is read after it, so that its chain alone is what a reader goes by.
pub fn left_head(database: &Path) -> Option<Head> {
    if is_writer_alive(database) { None } else { read_head(database).filter(|head| head.seq > Seq(0)) }
}

/// Whether a process holds this database for writing. A database without a head file has no living writer.
pub fn is_writer_alive(database: &Path) -> bool {
    match File::open(head_path(database)) {
        Ok(file) => matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_survives_its_text() {
        let head = Head { seq: Seq(41), digest: Digest::of(b"line") };
        assert_eq!(parse(&line_of(&head)), Some(head.clone()));
        assert_eq!(line_of(&head).len(), line_of(&genesis()).len());
        for wrong in
            ["", "\n", "1 2\n", "x 0000000000000000000000000000000000000000000000000000000000000000\n", &line_of(&head)[..50]]
        {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_lock_tells_a_living_writer_and_ends_with_it() {
        let dir = tempfile::tempdir().expect("a temp folder");
        let database = dir.path().join("leg.db");
        assert!(!is_writer_alive(&database));
        let mut owned = HeadFile::create(&database).expect("it can be made");
        assert!(is_writer_alive(&database));
        assert!(matches!(HeadFile::reopen(&database), Err(StoreError::WriterAlive { .. })));
        assert!(matches!(HeadFile::create(&database), Err(StoreError::Exists { .. })));
        let head = Head { seq: Seq(7), digest: Digest::of(b"seven") };
        owned.write(&genesis()).expect("written");
        owned.write(&head).expect("written");
        assert_eq!(read_head(&database), Some(head));
        drop(owned);
        assert!(!is_writer_alive(&database));
        HeadFile::reopen(&database).expect("it opens");
    }
}
