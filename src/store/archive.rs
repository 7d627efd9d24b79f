//! An archive: many legs in one database, gathered by `ledger import`.
//!
//! Rows and summaries are opaque text here; what they mean, and how a summary is made from events, is the importer's business.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, OptionalExtension as _};

use crate::core::ids::{Attempt, Epoch, LegId, Platform, RunId, Seq, Target};

use super::error::StoreError;
use super::private::create_file;
use super::reader::MAX_LINE_BYTES;

/// `LEDA` in ASCII: marks a database as an archive.
const APPLICATION_ID: i64 = 0x4c45_4441;
const SCHEMA_VERSION: i64 = 1;
const SCHEMA: &str = include_str!("../../schema/0001_archive.sql");

/// Lines per transaction: a lost import repeats at most this much, and a commit's sync vanishes beside it.
const LINES_PER_COMMIT: u32 = 20_000;

/// Another import, or a backup, may hold the lock for a moment.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Number of an epoch in its archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct EpochNumber(i64);

/// One epoch of one leg, with what the archive says of it.
#[derive(Debug, Clone, PartialEq)]
pub struct ArchivedEpoch {
    pub number: EpochNumber,
    pub leg: LegId,
    pub epoch: Option<Epoch>,
    /// JSON of a row that came without events.
    pub row: Option<String>,
    /// JSON of the row that its events fold to.
    pub summary: Option<String>,
}

/// What became of a line that was added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Added {
    New,
    /// The same line is there already.
    Known,
    /// Another line bears this number: the one that was there first stands.
    Differs,
}

#[derive(Debug)]
pub struct Archive {
    connection: Connection,
    path: PathBuf,
    open_lines: u32,
}

/// Whether the file at `path` is an archive, told by the application id in its header.
pub fn is_archive(path: &Path) -> bool {
    use std::io::Read as _;
    let mut header = [0u8; 72];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut header));
    read.is_ok() && header[68..] == (APPLICATION_ID as u32).to_be_bytes()
}

impl Archive {
    /// Opens an archive for adding to it, and makes it where there is none. Any other file there is refused.
    pub fn create_or_open(path: &Path) -> Result<Self, StoreError> {
        let is_new = match create_file(path) {
            Ok(_) => true,
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                std::fs::metadata(path).is_ok_and(|metadata| metadata.len() == 0)
            }
            Err(error) => return Err(StoreError::io(path, &error)),
        };
        let archive = Self::connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        // No write-ahead log: an import that finds nothing new then leaves every byte of the file as it was.
        archive.run("PRAGMA journal_mode=delete; PRAGMA synchronous=FULL; PRAGMA cache_size=-8192; PRAGMA trusted_schema=0;")?;
        if is_new {
            archive.run("BEGIN IMMEDIATE")?;
            archive.run(SCHEMA)?;
            archive.run(&format!("PRAGMA application_id={APPLICATION_ID}; PRAGMA user_version={SCHEMA_VERSION}; COMMIT"))?;
        }
        archive.check()?;
        Ok(archive)
    }

    /// Opens an archive for reading. Nothing is written but what an import that was killed left half done, which SQLite takes back.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let archive = Self::connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)
            .or_else(|_| Self::connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY))?;
        archive.run("PRAGMA query_only=1; PRAGMA cache_size=-8192; PRAGMA mmap_size=0; PRAGMA trusted_schema=0;")?;
        archive.check()?;
        Ok(archive)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Number of an epoch, given now if it has none.
    pub fn number(&mut self, leg: &LegId, epoch: Option<&Epoch>) -> Result<EpochNumber, StoreError> {
        let shard = leg.shard.map(|shard| shard.to_string()).unwrap_or_default();
        let key = (
            leg.run_id.as_str(),
            leg.attempt.as_str(),
            leg.platform.as_str(),
            leg.target.as_str(),
            shard.as_str(),
            epoch.map_or("", Epoch::as_str),
        );
        self.begin()?;
        let connection = &self.connection;
        let number = || -> rusqlite::Result<i64> {
            let known = connection
                .prepare_cached(
                    "SELECT id FROM epoch WHERE run_id=?1 AND attempt=?2 AND platform=?3 AND target=?4 AND shard=?5 AND epoch=?6",
                )?
                .query_row(key, |row| row.get(0))
                .optional()?;
            match known {
                Some(id) => Ok(id),
                None => connection
                    .prepare_cached("INSERT INTO epoch (run_id, attempt, platform, target, shard, epoch) VALUES (?1,?2,?3,?4,?5,?6) RETURNING id")?
                    .query_row(key, |row| row.get(0)),
            }
        };
        number().map(EpochNumber).map_err(|error| self.explain(&error))
    }

    /// The newest event of an epoch, 0 for none.
    pub fn last_seq(&self, epoch: EpochNumber) -> Result<Seq, StoreError> {
        let last: Option<i64> = self
            .connection
            .prepare_cached("SELECT max(place) FROM event WHERE place BETWEEN ?1 AND ?2")
            .and_then(|mut statement| statement.query_row((epoch.place(Seq(0)), epoch.place(MAX_SEQ)), |row| row.get(0)))
            .map_err(|error| self.explain(&error))?;
        Ok(Seq(last.map_or(0, |place| place as u64 & MAX_SEQ.0)))
    }

    /// The newest event of an epoch before which none is missing, 0 for none.
    pub fn unbroken(&self, epoch: EpochNumber) -> Result<Seq, StoreError> {
        let last: Option<i64> = self
            .connection
            .prepare_cached(
                "SELECT place FROM event e WHERE place BETWEEN ?1 AND ?2 AND EXISTS (SELECT 1 FROM event WHERE place = ?1) \
                 AND NOT EXISTS (SELECT 1 FROM event n WHERE n.place = e.place + 1) ORDER BY place LIMIT 1",
            )
            .and_then(|mut statement| statement.query_row((epoch.place(Seq(1)), epoch.place(MAX_SEQ)), |row| row.get(0)).optional())
            .map_err(|error| self.explain(&error))?;
        Ok(Seq(last.map_or(0, |place| place as u64 & MAX_SEQ.0)))
    }

    /// Adds one event. A number over four thousand millions is no event of ours and differs from everything.
    pub fn add_event(&mut self, epoch: EpochNumber, seq: Seq, line: &str) -> Result<Added, StoreError> {
        if seq > MAX_SEQ || line.len() > MAX_LINE_BYTES {
            return Ok(Added::Differs);
        }
        self.begin()?;
        let add = || -> rusqlite::Result<Added> {
            let place = epoch.place(seq);
            let mut insert = self.connection.prepare_cached("INSERT OR IGNORE INTO event (place, line) VALUES (?1, ?2)")?;
            if insert.execute((place, line))? == 1 {
                return Ok(Added::New);
            }
            let mut same = self.connection.prepare_cached("SELECT line = ?2 FROM event WHERE place = ?1")?;
            Ok(if same.query_row((place, line), |row| row.get(0))? { Added::Known } else { Added::Differs })
        };
        let added = add().map_err(|error| self.explain(&error))?;
        self.open_lines += 1;
        if self.open_lines >= LINES_PER_COMMIT {
            self.commit()?;
        }
        Ok(added)
    }

    /// The events of an epoch in order, each handed to `each`.
    pub fn events(&self, epoch: EpochNumber, mut each: impl FnMut(Seq, &str)) -> Result<(), StoreError> {
        let mut read = || -> rusqlite::Result<()> {
            let mut statement = self.connection.prepare_cached(
                "SELECT place, line FROM event WHERE place BETWEEN ?1 AND ?2 AND octet_length(line) <= ?3 ORDER BY place",
            )?;
            let mut rows = statement.query((epoch.place(Seq(0)), epoch.place(MAX_SEQ), MAX_LINE_BYTES as i64))?;
            while let Some(row) = rows.next()? {
                let place: i64 = row.get(0)?;
                if let Ok(line) = row.get_ref(1)?.as_str() {
                    each(Seq(place as u64 & MAX_SEQ.0), line);
                }
            }
            Ok(())
        };
        read().map_err(|error| self.explain(&error))
    }

    /// Keeps the row of an epoch that has no events, in place of an older one.
    pub fn put_row(&mut self, epoch: EpochNumber, json: &str) -> Result<(), StoreError> {
        self.begin()?;
        let sql = "INSERT INTO row (epoch, json) VALUES (?1, ?2) ON CONFLICT (epoch) DO UPDATE SET json = excluded.json";
        let put = self.connection.prepare_cached(sql).and_then(|mut statement| statement.execute((epoch.0, json)));
        put.map(|_| ()).map_err(|error| self.explain(&error))
    }

    pub fn row(&self, epoch: EpochNumber) -> Result<Option<String>, StoreError> {
        self.connection
            .prepare_cached("SELECT json FROM row WHERE epoch = ?1")
            .and_then(|mut statement| statement.query_row((epoch.0,), |row| row.get(0)).optional())
            .map_err(|error| self.explain(&error))
    }

    /// Keeps what the events of an epoch fold to.
    pub fn put_summary(&mut self, epoch: EpochNumber, upto: Seq, json: &str) -> Result<(), StoreError> {
        self.begin()?;
        let sql = "INSERT INTO summary (epoch, upto, json) VALUES (?1, ?2, ?3) \
                   ON CONFLICT (epoch) DO UPDATE SET upto = excluded.upto, json = excluded.json";
        let upto = i64::try_from(upto.0).unwrap_or(i64::MAX);
        let put = self.connection.prepare_cached(sql).and_then(|mut statement| statement.execute((epoch.0, upto, json)));
        put.map(|_| ()).map_err(|error| self.explain(&error))
    }

    /// Every epoch, one after the other, of one run or of all.
    pub fn epochs(&self, run: Option<&RunId>, mut each: impl FnMut(ArchivedEpoch)) -> Result<(), StoreError> {
        let mut read = || -> rusqlite::Result<()> {
            let mut statement = self.connection.prepare_cached(
                "SELECT e.id, e.run_id, e.attempt, e.platform, e.target, e.shard, e.epoch, r.json, s.json FROM epoch e \
                 LEFT JOIN row r ON r.epoch = e.id LEFT JOIN summary s ON s.epoch = e.id WHERE ?1 IS NULL OR e.run_id = ?1 ORDER BY e.id",
            )?;
            let mut rows = statement.query((run.map(RunId::as_str),))?;
            while let Some(row) = rows.next()? {
                let text = |at: usize| row.get::<_, String>(at);
                each(ArchivedEpoch {
                    number: EpochNumber(row.get(0)?),
                    leg: LegId {
                        run_id: RunId::new(text(1)?),
                        attempt: Attempt::new(text(2)?),
                        platform: Platform::new(text(3)?),
                        target: Target::new(text(4)?),
                        shard: text(5)?.parse().ok(),
                    },
                    epoch: Some(text(6)?).filter(|epoch| !epoch.is_empty()).map(|epoch| Epoch::tamed(&epoch)),
                    row: row.get(7)?,
                    summary: row.get(8)?,
                });
            }
            Ok(())
        };
        read().map_err(|error| self.explain(&error))
    }

    /// Makes all that was added durable.
    pub fn commit(&mut self) -> Result<(), StoreError> {
        if !self.connection.is_autocommit() {
            self.run("COMMIT")?;
        }
        self.open_lines = 0;
        Ok(())
    }

    /// Ends an import.
    pub fn close(mut self) -> Result<(), StoreError> {
        self.commit()?;
        let path = self.path.clone();
        self.connection.close().map_err(|(_, error)| StoreError::sql(&path, &error))
    }

    fn connect(path: &Path, mode: OpenFlags) -> Result<Self, StoreError> {
        let metadata = std::fs::metadata(path).map_err(|error| StoreError::io(path, &error))?;
        if !metadata.is_file() {
            return Err(StoreError::Damaged { path: path.to_owned(), detail: "it is no file".to_owned() });
        }
        let absolute = std::path::absolute(path).map_err(|error| StoreError::io(path, &error))?;
        let connection = Connection::open_with_flags(absolute, mode | OpenFlags::SQLITE_OPEN_NO_MUTEX)
            .map_err(|error| StoreError::sql(path, &error))?;
        connection.busy_timeout(BUSY_TIMEOUT).map_err(|error| StoreError::sql(path, &error))?;
        Ok(Self { connection, path: path.to_owned(), open_lines: 0 })
    }

    fn check(&self) -> Result<(), StoreError> {
        let pragma = |name: &str| -> Result<i64, StoreError> {
            self.connection.pragma_query_value(None, name, |row| row.get(0)).map_err(|error| self.explain(&error))
        };
        let application_id = pragma("application_id")?;
        if application_id != APPLICATION_ID {
            return Err(StoreError::Foreign { path: self.path.clone(), application_id });
        }
        match pragma("user_version")? {
            SCHEMA_VERSION => Ok(()),
            found => Err(StoreError::NewerSchema { path: self.path.clone(), found, known: SCHEMA_VERSION }),
        }
    }

    fn begin(&self) -> Result<(), StoreError> {
        if self.connection.is_autocommit() { self.run("BEGIN IMMEDIATE") } else { Ok(()) }
    }

    fn run(&self, sql: &str) -> Result<(), StoreError> {
        self.connection.execute_batch(sql).map_err(|error| self.explain(&error))
    }

    fn explain(&self, error: &rusqlite::Error) -> StoreError {
        StoreError::sql(&self.path, error)
    }
}

/// Numbers of events take the lower half of a place.
const MAX_SEQ: Seq = Seq(u32::MAX as u64);

impl EpochNumber {
    fn place(self, seq: Seq) -> i64 {
        (self.0 << 32) | i64::try_from(seq.0).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leg(run: &str) -> LegId {
        LegId { run_id: run.into(), attempt: "1".into(), platform: "p".into(), target: "t".into(), shard: None }
    }

    #[test]
    fn what_is_before_the_first_gap_is_told_from_what_is_behind_it() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let mut archive = Archive::create_or_open(&folder.path().join("all.db")).expect("it can be made");
        let other = archive.number(&leg("1"), None).expect("it can be made");
        assert_eq!(archive.add_event(other, Seq(1), "a").expect("it can be made"), Added::New);
        let gaps = archive.number(&leg("3"), None).expect("it can be made");
        for (seq, unbroken) in [(5, 0), (2, 0), (1, 2), (4, 2), (3, 5)] {
            assert_eq!(archive.add_event(gaps, Seq(seq), "x").expect("it can be made"), Added::New);
            assert_eq!(archive.unbroken(gaps).expect("it can be read"), Seq(unbroken), "with {seq}");
        }
        assert_eq!(archive.unbroken(other).expect("it can be read"), Seq(1));
    }

    #[test]
    fn what_is_there_stays_and_what_is_new_is_added() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let path = folder.path().join("all.db");
        let mut archive = Archive::create_or_open(&path).expect("it can be made");
        let first = archive.number(&leg("1"), Some(&Epoch::tamed("e"))).expect("it can be made");
        let second = archive.number(&leg("2"), None).expect("it can be made");
        assert_ne!(first, second);
        assert_eq!(archive.add_event(first, Seq(1), "a").expect("it can be made"), Added::New);
        assert_eq!(archive.add_event(first, Seq(2), "b").expect("it can be made"), Added::New);
        assert_eq!(archive.add_event(first, Seq(2), "b").expect("it can be made"), Added::Known);
        assert_eq!(archive.add_event(first, Seq(2), "c").expect("it can be made"), Added::Differs);
        archive.put_row(second, "{}").expect("written");
        archive.put_summary(first, Seq(2), "[]").expect("written");
        archive.close().expect("it closes");
        assert!(is_archive(&path) && std::fs::read_dir(folder.path()).expect("it can be read").count() == 1);

        let mut archive = Archive::create_or_open(&path).expect("it can be made");
        assert_eq!(archive.number(&leg("1"), Some(&Epoch::tamed("e"))).expect("it can be made"), first);
        drop(archive);
        let archive = Archive::open(&path).expect("it opens");
        assert_eq!(
            (archive.last_seq(first).expect("it can be read"), archive.last_seq(second).expect("it can be read")),
            (Seq(2), Seq(0))
        );
        let mut lines = Vec::new();
        archive.events(first, |seq, line| lines.push((seq.0, line.to_owned()))).expect("it can be read");
        assert_eq!(lines, [(1, "a".to_owned()), (2, "b".to_owned())]);
        let mut seen = Vec::new();
        archive.epochs(None, |epoch| seen.push((epoch.leg.run_id.0, epoch.row, epoch.summary))).expect("it can be read");
        assert_eq!(seen, [("1".into(), None, Some("[]".into())), ("2".into(), Some("{}".into()), None)]);
        seen.clear();
        archive
            .epochs(Some(&"2".into()), |epoch| seen.push((epoch.leg.run_id.0, epoch.row, epoch.summary)))
            .expect("it can be read");
        assert_eq!(seen.len(), 1);
    }

    #[test]
    fn any_other_file_is_refused() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let path = folder.path().join("other.db");
        std::fs::write(&path, "not a database, and long enough to be looked at twice".repeat(20)).expect("written");
        assert!(Archive::create_or_open(&path).is_err() && !is_archive(&path));
        let foreign = folder.path().join("foreign.db");
        Connection::open(&foreign).expect("it opens").execute_batch("CREATE TABLE x (a)").expect("written");
        assert!(matches!(Archive::create_or_open(&foreign), Err(StoreError::Foreign { .. })));
        assert!(Archive::open(&folder.path().join("none.db")).is_err());
    }
}
