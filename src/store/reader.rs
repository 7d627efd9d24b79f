//! Reading a ledger: its leg, and its events in order, as stored lines or parsed.
//!
//! A reader never writes, also when the writer is alive or was killed. What cannot be parsed costs its line, never the file.

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::core::chain::Stored;
use crate::core::event::Envelope;
use crate::core::ids::{Digest, Epoch, LegId, Seq};
use crate::core::moment::Wall;

use super::copy::Copy;
use super::database;
use super::error::StoreError;
use super::head::is_writer_alive;
use super::wal::log_path;

/// Longest line that is read. The largest honest one is the plan of a run; 16 MiB hold a plan of 100,000 files.
pub const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;

/// Rows per query: enough to make the query's cost vanish, few enough that 256 lines of the usual 1 KiB stay a small page of memory.
const PAGE_ROWS: usize = 256;
/// A page of lines that are not of the usual size ends here.
const PAGE_BYTES: usize = 1024 * 1024;

/// Whose events a database holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub leg: LegId,
    pub epoch: Epoch,
    pub created: Wall,
}

/// One row as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredLine {
    pub seq: Seq,
    pub kind: String,
    /// `None` for a line over `MAX_LINE_BYTES`, or one that is no UTF-8 text: it is not loaded.
    pub line: Option<String>,
}

impl StoredLine {
    /// The line as the writer acknowledged it; `None` where it cannot be read.
    pub fn stored(&self) -> Option<Stored> {
        let line = self.line.as_deref()?;
        let progress = serde_json::from_str::<Envelope>(line).is_ok_and(|envelope| envelope.body.is_progress());
        Some(Stored { seq: self.seq, line: line.into(), digest: Digest::of(line.as_bytes()), progress })
    }
}

/// One row, parsed.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    Known(Box<Envelope>),
    /// The line stands in the ledger and cannot be understood: damaged, or written by a newer ledger.
    Unreadable {
        seq: Seq,
        why: String,
    },
}

/// An open ledger.
#[derive(Debug)]
pub struct Reader {
    connection: Connection,
    path: PathBuf,
    identity: Identity,
    /// What is really read, where the ledger lies in a folder that cannot be written. Dropped after the connection.
    _copy: Option<Copy>,
}

impl Reader {
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let (opened, copy) = match database::open_read_only(path) {
            Err(StoreError::ReadOnly { .. }) if log_path(path).exists() && !is_writer_alive(path) => {
                let copy = Copy::of(path).map_err(|error| StoreError::io(path, &error))?;
                (database::open_read_only(&copy.database()), Some(copy))
            }
            opened => (opened, None),
        };
        let (connection, identity) = opened?;
        Ok(Self { connection, path: path.to_owned(), identity, _copy: copy })
    }

    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The stored lines after `after`, in order; `Seq(0)` begins at the first. An error ends the iteration; what came before it stands.
    pub fn lines_after(&self, after: Seq) -> Events<'_> {
        Events { reader: self, page: Vec::new().into_iter(), last: after, done: false }
    }

    /// The number of the newest event, 0 for none.
    pub fn last_seq(&self) -> Result<Seq, StoreError> {
        let seq: i64 = self
            .connection
            .query_row("SELECT coalesce(max(seq), 0) FROM event", (), |row| row.get(0))
            .map_err(|error| StoreError::sql(&self.path, &error))?;
        Ok(Seq(u64::try_from(seq).unwrap_or(0)))
    }

    /// The next rows, and whether they are the last ones.
    fn page_after(&self, after: Seq) -> rusqlite::Result<(Vec<StoredLine>, bool)> {
        let mut statement = self.connection.prepare_cached(
            "SELECT seq, substr(kind, 1, 64), CASE WHEN octet_length(line) <= ?2 THEN line END FROM event WHERE seq > ?1 ORDER BY seq LIMIT ?3",
        )?;
        let after = i64::try_from(after.0).unwrap_or(i64::MAX);
        let mut rows = statement.query((after, MAX_LINE_BYTES as i64, PAGE_ROWS as i64))?;
        let mut page = Vec::new();
        let mut bytes = 0;
        while let Some(row) = rows.next()? {
            let line = match row.get_ref(2)?.as_bytes_or_null() {
                Ok(Some(bytes)) => std::str::from_utf8(bytes).ok().map(str::to_owned),
                Ok(None) | Err(_) => None,
            };
            let kind = String::from_utf8_lossy(row.get_ref(1)?.as_bytes().unwrap_or_default()).into_owned();
            bytes += line.as_ref().map_or(0, String::len);
            page.push(StoredLine { seq: Seq(u64::try_from(row.get::<_, i64>(0)?).unwrap_or(0)), kind, line });
            if bytes >= PAGE_BYTES {
                return Ok((page, false));
            }
        }
        let last = page.len() < PAGE_ROWS;
        Ok((page, last))
    }
}

/// Stored lines in order, fetched page by page so that the ledger is never held in memory.
#[derive(Debug)]
pub struct Events<'reader> {
    reader: &'reader Reader,
    page: std::vec::IntoIter<StoredLine>,
    last: Seq,
    done: bool,
}

impl Iterator for Events<'_> {
    type Item = Result<StoredLine, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(line) = self.page.next() {
            self.last = line.seq;
            return Some(Ok(line));
        }
        if self.done {
            return None;
        }
        match self.reader.page_after(self.last) {
            Ok((page, last)) => {
                self.done = last;
                self.page = page.into_iter();
                let line = self.page.next()?;
                self.last = line.seq;
                Some(Ok(line))
            }
            Err(error) => {
                self.done = true;
                Some(Err(StoreError::sql(&self.reader.path, &error)))
            }
        }
    }
}

impl From<StoredLine> for Event {
    fn from(stored: StoredLine) -> Self {
        let Some(line) = stored.line else {
            return Event::Unreadable { seq: stored.seq, why: format!("it is no text, or longer than {MAX_LINE_BYTES} bytes") };
        };
        match serde_json::from_str::<Envelope>(&line) {
            Ok(envelope) => Event::Known(Box::new(envelope)),
            Err(error) => Event::Unreadable { seq: stored.seq, why: error.to_string() },
        }
    }
}
