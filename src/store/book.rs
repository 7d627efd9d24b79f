//! The writing end of one database: numbers, chains and stores events, and keeps its head when the disk does not.
//!
//! It belongs to one thread and does not know of queues.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::core::chain::Stored;
use crate::core::event::{Body, EVENT_VERSION, Envelope};
use crate::core::ids::{Digest, Seq};
use crate::core::row::Head;

use super::error::StoreError;
use super::folder::{create_database_file, remove_files};
use super::head::{HeadFile, genesis};
use super::reader::Identity;
use super::writer::{Appended, Batch, Room, WriteFault, WriteFaults, WriteStep};
use super::{ballast, database};

/// The log is grown to this size before the first event. A commit then overwrites blocks that exist instead of making the file longer,
/// and its sync needs no commit of the file system's own journal: 5,400 instead of 4,300 per second on ext4, and far more than that
/// while other processes keep the journal busy. 4 MiB last for some 700 appends, which is more than most legs ever make.
const LOG_BYTES: u64 = 4 * 1024 * 1024;

/// Bytes after which the log is moved into the database, so that it starts again at its beginning and never outgrows `LOG_BYTES`. Rarely,
/// because this is the one step that does wait for the journal.
const CHECKPOINT_BYTES: u64 = LOG_BYTES - LOG_BYTES / 16;

const PAGE_BYTES: u64 = 4096;

pub(super) struct Book {
    connection: Connection,
    path: PathBuf,
    identity: Identity,
    head_file: HeadFile,
    /// The newest event that is known to be durable.
    last: Head,
    room: Room,
    /// Set after a write whose outcome is unknown: the database is opened again before the next one.
    doubtful: bool,
    log_bytes: u64,
    faults: Box<dyn WriteFaults>,
}

/// What a transaction takes of its batches.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keep {
    Everything,
    WhatIsNeeded,
}

impl Book {
    pub(super) fn create(path: &Path, identity: Identity, faults: Box<dyn WriteFaults>) -> Result<Self, StoreError> {
        let mut head_file = HeadFile::create(path)?;
        let made = Self::make_database(path, &identity);
        let connection = match made {
            Ok(connection) => connection,
            Err(error) => {
                // What was made here a moment ago holds nothing, and would look like a leg that was lost. A file that was there is kept.
                if !matches!(error, StoreError::Exists { .. }) {
                    remove_files(path);
                }
                return Err(error);
            }
        };
        head_file.write(&genesis()).map_err(|error| StoreError::io(path, &error))?;
        let last = genesis();
        Ok(Self {
            connection,
            path: path.to_owned(),
            identity,
            head_file,
            last,
            room: Room::Plenty,
            doubtful: false,
            log_bytes: 0,
            faults,
        })
    }

    fn make_database(path: &Path, identity: &Identity) -> Result<Connection, StoreError> {
        create_database_file(path)?;
        ballast::fill(path).map_err(|error| StoreError::io(path, &error))?;
        let connection = database::create(path, identity)?;
        // The identity goes into the database itself, so that a copy without its log still says whose it is.
        checkpoint(&connection).map_err(|error| StoreError::sql(path, &error))?;
        grow_log(path).map_err(|error| match error.kind() {
            // SQLite was told to write its log and did not say that it could not.
            std::io::ErrorKind::NotFound => {
                StoreError::Io { path: path.to_owned(), detail: "the disk did not take the beginning of its log".to_owned() }
            }
            _ => StoreError::io(path, &error),
        })?;
        Ok(connection)
    }

    pub(super) fn open(path: &Path, faults: Box<dyn WriteFaults>) -> Result<Self, StoreError> {
        if !path.exists() {
            return Err(StoreError::Missing { path: path.to_owned() });
        }
        let head_file = HeadFile::reopen(path)?;
        let (connection, identity) = database::open_writable(path)?;
        let last = read_last(&connection, path)?;
        // It only makes appends faster; a disk without that room still takes the few records that a reopened ledger gets.
        let _ = grow_log(path);
        // A disk too full for the ballast is no reason to refuse the few records that a reopened ledger gets.
        let room = if ballast::fill(path).is_ok() { Room::Plenty } else { Room::Reserve };
        Ok(Self { connection, path: path.to_owned(), identity, head_file, last, room, doubtful: false, log_bytes: 0, faults })
    }

    /// Stores every batch in one transaction. On a full disk the expendable events go first, then the ballast.
    pub(super) fn append(&mut self, batches: &[Batch]) -> Result<Vec<Appended>, StoreError> {
        if self.doubtful {
            self.reopen()?;
        }
        let keep = if self.room == Room::Plenty { Keep::Everything } else { Keep::WhatIsNeeded };
        match self.store(batches, keep) {
            Err(StoreError::Full { .. }) => self.append_on_full_disk(batches),
            other => other,
        }
    }

    fn append_on_full_disk(&mut self, batches: &[Batch]) -> Result<Vec<Appended>, StoreError> {
        // After SQLITE_FULL a connection refuses even what would fit.
        self.reopen()?;
        match self.store(batches, Keep::WhatIsNeeded) {
            Err(StoreError::Full { .. }) => {}
            other => return other,
        }
        ballast::release(&self.path).map_err(|error| StoreError::io(&self.path, &error))?;
        self.room = Room::Reserve;
        self.reopen()?;
        self.store(batches, Keep::WhatIsNeeded)
    }

    fn store(&mut self, batches: &[Batch], keep: Keep) -> Result<Vec<Appended>, StoreError> {
        let mut head = self.last.clone();
        let mut answers = Vec::with_capacity(batches.len());
        for batch in batches {
            answers.push(self.encode(batch, keep, &mut head)?);
        }
        if head.seq == self.last.seq {
            return Ok(answers);
        }
        let kinds = batches.iter().flat_map(|batch| kept(batch, keep)).map(Body::kind);
        let stored = answers.iter().flat_map(|answer| &answer.stored);
        if let Err(error) = transact(&self.connection, &mut *self.faults, &self.path, stored.zip(kinds)) {
            // The first error says why; a rollback that fails too leaves a connection that is not used again.
            let _ = self.connection.execute_batch("ROLLBACK");
            self.doubtful = true;
            return Err(error);
        }
        let bytes: usize = answers.iter().flat_map(|answer| &answer.stored).map(|stored| stored.line.len()).sum();
        // The page that is appended to is logged with every commit, and a full one brings its successor and their parent along.
        self.log_bytes += PAGE_BYTES + 2 * bytes as u64;
        self.last = head;
        // An old head is harmless, it only proves less.
        let _ = self.head_file.write(&self.last);
        Ok(answers)
    }

    /// The lines of a batch, numbered and chained onto `head`, which moves on.
    fn encode(&self, batch: &Batch, keep: Keep, head: &mut Head) -> Result<Appended, StoreError> {
        let mut stored = Vec::with_capacity(batch.bodies.len());
        for body in kept(batch, keep) {
            let seq = head.seq.next();
            let envelope = EnvelopeRef { identity: &self.identity, batch, body, seq, prev: &head.digest }.to_envelope();
            let line = serde_json::to_string(&envelope)
                .map_err(|error| StoreError::Encoding { path: self.path.clone(), detail: error.to_string() })?;
            let digest = Digest::of(line.as_bytes());
            *head = Head { seq, digest: digest.clone() };
            stored.push(Stored { seq, line: line.into(), digest, progress: body.is_progress() });
        }
        let dropped = (batch.bodies.len() - stored.len()) as u64;
        Ok(Appended { stored, dropped, room: self.room })
    }

    /// Forgets the connection and takes the head from what is really stored.
    fn reopen(&mut self) -> Result<(), StoreError> {
        ask(&mut *self.faults, WriteStep::Reopen, &self.path)?;
        // The new connection comes before the old one goes: the last one to close would move and delete the log, and its room with it.
        let (connection, _) = database::open_writable(&self.path)?;
        let last = read_last(&connection, &self.path)?;
        if last.seq < self.last.seq {
            let detail = format!("event {} was stored and the last one there is {}", self.last.seq, last.seq);
            return Err(StoreError::Damaged { path: self.path.clone(), detail });
        }
        self.connection = connection;
        self.last = last;
        self.doubtful = false;
        Ok(())
    }

    /// Moves the log into the database when it has grown to its size. A failure is met again at the next append, where it has a caller.
    pub(super) fn checkpoint_if_due(&mut self) {
        if self.log_bytes < CHECKPOINT_BYTES || self.doubtful {
            return;
        }
        let asked = ask(&mut *self.faults, WriteStep::Checkpoint, &self.path);
        if asked.is_ok() && checkpoint(&self.connection).is_ok() {
            self.log_bytes = 0;
        }
    }

    pub(super) fn close(self) -> Result<(), StoreError> {
        let Self { connection, path, head_file, .. } = self;
        let closed = database::close(connection, &path);
        let released = ballast::release(&path).map_err(|error| StoreError::io(&path, &error));
        drop(head_file);
        closed.and(released)
    }
}

/// One event before it is copied into the stored shape.
struct EnvelopeRef<'a> {
    identity: &'a Identity,
    batch: &'a Batch,
    body: &'a Body,
    seq: Seq,
    prev: &'a Digest,
}

impl EnvelopeRef<'_> {
    fn to_envelope(&self) -> Envelope {
        let leg = &self.identity.leg;
        Envelope {
            v: EVENT_VERSION,
            run_id: leg.run_id.clone(),
            attempt: leg.attempt.clone(),
            platform: leg.platform.clone(),
            target: leg.target.clone(),
            shard: leg.shard,
            epoch: self.identity.epoch.clone(),
            seq: self.seq,
            ts: self.batch.moment.wall,
            mono_ms: self.batch.moment.mono_ms,
            body: self.body.clone(),
            prev: self.prev.clone(),
        }
    }
}

fn kept(batch: &Batch, keep: Keep) -> impl Iterator<Item = &Body> {
    batch.bodies.iter().filter(move |body| keep == Keep::Everything || !body.is_expendable())
}

fn transact<'a>(
    connection: &Connection,
    faults: &mut dyn WriteFaults,
    path: &Path,
    events: impl Iterator<Item = (&'a Stored, &'static str)>,
) -> Result<(), StoreError> {
    let sql = |error: rusqlite::Error| StoreError::sql(path, &error);
    ask(faults, WriteStep::Begin, path)?;
    connection.prepare_cached("BEGIN IMMEDIATE").and_then(|mut begin| begin.execute(())).map_err(sql)?;
    for (stored, kind) in events {
        ask(faults, WriteStep::Insert, path)?;
        database::insert_event(connection, stored.seq, kind, &stored.line).map_err(sql)?;
    }
    ask(faults, WriteStep::Commit, path)?;
    connection.prepare_cached("COMMIT").and_then(|mut commit| commit.execute(())).map_err(sql)?;
    ask(faults, WriteStep::Acknowledge, path)
}

fn ask(faults: &mut dyn WriteFaults, step: WriteStep, path: &Path) -> Result<(), StoreError> {
    faults.before(step).map_err(|fault| match fault {
        WriteFault::Full => StoreError::Full { path: path.to_owned() },
        WriteFault::Io => StoreError::Io { path: path.to_owned(), detail: format!("injected failure at {step:?}") },
    })
}

/// The end of the chain as the database has it.
fn read_last(connection: &Connection, path: &Path) -> Result<Head, StoreError> {
    let row = connection.query_row("SELECT seq, line FROM event ORDER BY seq DESC LIMIT 1", (), |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))
    });
    match row {
        Ok((seq, line)) => Ok(Head { seq: Seq(u64::try_from(seq).unwrap_or(0)), digest: Digest::of(line.as_bytes()) }),
        Err(rusqlite::Error::QueryReturnedNoRows) => Ok(genesis()),
        Err(error) => Err(StoreError::sql(path, &error)),
    }
}

/// A passive checkpoint waits for nobody: a reader in the middle of the log only delays its reuse.
fn checkpoint(connection: &Connection) -> rusqlite::Result<()> {
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", (), |_| Ok(()))
}

/// Appends zeros to the log up to `LOG_BYTES`. SQLite ends its reading of a log at the first frame whose salt is not the log's own, as
/// it does in a log that is used a second time.
fn grow_log(database: &Path) -> std::io::Result<()> {
    let mut log = std::fs::OpenOptions::new().append(true).open(super::wal::log_path(database))?;
    let missing = LOG_BYTES.saturating_sub(log.metadata()?.len());
    log.write_all(&vec![0; missing as usize])?;
    log.sync_all()
}
