//! Opening a database: what it must be, how it is tuned, how it is refused.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use crate::core::ids::{Attempt, Epoch, LegId, Platform, RunId, Seq, Target};
use crate::core::moment::Wall;

use super::error::StoreError;
use super::head::is_writer_alive;
use super::reader::Identity;
use super::wal::log_path;

/// `LEDG` in ASCII: marks a database as a ledger.
pub(super) const APPLICATION_ID: i64 = 0x4c45_4447;

/// Numbered migrations; the n-th brings a database from user_version n-1 to n. They are never edited once released.
const MIGRATIONS: &[&str] = &[include_str!("../../schema/0001_ledger.sql")];

pub(super) const SCHEMA_VERSION: i64 = MIGRATIONS.len() as i64;

/// A writer is alone on its database; who else holds a lock is a person with a shell or a backup. Three seconds let a backup pass and are
/// short enough that a loop which waits for its ledger does not look hung.
const BUSY_TIMEOUT: Duration = Duration::from_secs(3);

/// How a connection to a ledger is tuned.
///
/// - WAL and `synchronous=FULL`: a commit is one write and one sync of the log, and an acknowledged event survives a power cut.
/// - `fullfsync`, `checkpoint_fullfsync`: on macOS a plain fsync leaves the data in the drive's cache. Elsewhere they do nothing.
/// - `wal_autocheckpoint=0`: the writer checkpoints after it has answered, so that no caller waits for it.
/// - `cache_size=-512`: appends touch the last pages only; 512 KiB keep the resident memory of a long run flat.
/// - `temp_store=2`: no temporary file ever appears beside the evidence.
const WRITER_PRAGMAS: &str = "PRAGMA synchronous=FULL; PRAGMA fullfsync=1; PRAGMA checkpoint_fullfsync=1; PRAGMA wal_autocheckpoint=0; \
     PRAGMA cache_size=-512; PRAGMA temp_store=2; PRAGMA trusted_schema=0;";

/// `mmap_size=0`: a database that somebody cuts short while it is read must be an error, not a bus error.
const READER_PRAGMAS: &str =
    "PRAGMA query_only=1; PRAGMA cache_size=-2048; PRAGMA temp_store=2; PRAGMA mmap_size=0; PRAGMA trusted_schema=0;";

/// Makes a new database out of the empty file at `path`, and proves that this file system can hold one: the schema and the leg are
/// written through the write-ahead log, which some network mounts accept and then fail to write.
pub(super) fn create(path: &Path, identity: &Identity) -> Result<Connection, StoreError> {
    let unsuitable = |detail: String| StoreError::Unsuitable { path: path.to_owned(), detail };
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    tune_for_writing(&connection, path)?;
    write_schema(&connection, identity).map_err(|error| match StoreError::sql(path, &error) {
        StoreError::Io { detail, .. } => unsuitable(format!("the first write failed: {detail}")),
        other => other,
    })?;
    Ok(connection)
}

fn write_schema(connection: &Connection, identity: &Identity) -> rusqlite::Result<()> {
    connection.execute_batch("BEGIN IMMEDIATE")?;
    for migration in MIGRATIONS {
        connection.execute_batch(migration)?;
    }
    connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    connection.pragma_update(None, "user_version", SCHEMA_VERSION)?;
    let leg = &identity.leg;
    connection.execute(
        "INSERT INTO leg (id, run_id, attempt, platform, target, shard, epoch, created) VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        (
            leg.run_id.as_str(),
            leg.attempt.as_str(),
            leg.platform.as_str(),
            leg.target.as_str(),
            leg.shard.map(|shard| shard.to_string()),
            identity.epoch.as_str(),
            identity.created.to_string(),
        ),
    )?;
    connection.execute_batch("COMMIT")
}

/// Opens an existing ledger for writing. Older schemas are brought up; nothing else is changed.
pub(super) fn open_writable(path: &Path) -> Result<(Connection, Identity), StoreError> {
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let version = check_is_ledger(&connection, path)?;
    tune_for_writing(&connection, path)?;
    migrate(&connection, version).map_err(|error| StoreError::sql(path, &error))?;
    let identity = read_identity(&connection, path)?;
    Ok((connection, identity))
}

fn tune_for_writing(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let mode: String = connection
        .pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))
        .map_err(|error| StoreError::sql(path, &error))?;
    if mode != "wal" {
        let detail = format!("SQLite offers journal mode {mode} instead of wal");
        return Err(StoreError::Unsuitable { path: path.to_owned(), detail });
    }
    connection.execute_batch(WRITER_PRAGMAS).map_err(|error| StoreError::sql(path, &error))
}

/// Moves the log into the database and ends the WAL mode, so that a finished ledger is one plain file which readers open without making
/// files beside it. Where a reader is in the way the log stays, which is as good.
pub(super) fn close(connection: Connection, path: &Path) -> Result<(), StoreError> {
    let _ = connection.busy_timeout(Duration::ZERO);
    let _ = connection.pragma_update_and_check(None, "journal_mode", "delete", |_| Ok(()));
    connection.close().map_err(|(_, error)| StoreError::sql(path, &error))
}

/// Stores one line. The database refuses one that does not follow the last.
pub(super) fn insert_event(connection: &Connection, seq: Seq, kind: &str, line: &str) -> rusqlite::Result<()> {
    let mut insert = connection.prepare_cached("INSERT INTO event (seq, kind, line) VALUES (?1, ?2, ?3)")?;
    insert.execute((seq.0 as i64, kind, line)).map(|_| ())
}

fn migrate(connection: &Connection, from: i64) -> rusqlite::Result<()> {
    let pending = MIGRATIONS.iter().skip(usize::try_from(from).unwrap_or(usize::MAX));
    if pending.len() == 0 {
        return Ok(());
    }
    connection.execute_batch("BEGIN IMMEDIATE")?;
    for migration in pending {
        connection.execute_batch(migration)?;
    }
    connection.pragma_update(None, "user_version", SCHEMA_VERSION)?;
    connection.execute_batch("COMMIT")
}

/// Opens an existing ledger for reading; whoever writes it is not disturbed.
pub(super) fn open_read_only(path: &Path) -> Result<(Connection, Identity), StoreError> {
    let alone = !log_path(path).exists() && !is_writer_alive(path);
    let connection = if alone { connect_immutable(path)? } else { connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)? };
    connection.execute_batch(READER_PRAGMAS).map_err(|error| StoreError::sql(path, &error))?;
    check_is_ledger(&connection, path)?;
    let identity = read_identity(&connection, path)?;
    Ok((connection, identity))
}

/// Opens a ledger that nobody writes and that has no log: no lock is taken, no file is made beside it, and the folder may be read-only.
fn connect_immutable(path: &Path) -> Result<Connection, StoreError> {
    let absolute = std::path::absolute(path).map_err(|error| StoreError::io(path, &error))?;
    match absolute.to_str() {
        Some(text) if cfg!(unix) => {
            check_is_file(path)?;
            let escaped = text.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
            Connection::open_with_flags(format!("file:{escaped}?immutable=1"), flags).map_err(|error| StoreError::sql(path, &error))
        }
        _ => connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY),
    }
}

fn connect(path: &Path, mode: OpenFlags) -> Result<Connection, StoreError> {
    check_is_file(path)?;
    // An absolute path cannot be taken for a `file:` URI, which the bundled SQLite is built to understand.
    let absolute: PathBuf = std::path::absolute(path).map_err(|error| StoreError::io(path, &error))?;
    // The connection stays on one thread, so SQLite needs no mutex of its own.
    let connection = Connection::open_with_flags(absolute, mode | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        .map_err(|error| StoreError::sql(path, &error))?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(|error| StoreError::sql(path, &error))?;
    Ok(connection)
}

fn check_is_file(path: &Path) -> Result<(), StoreError> {
    let metadata = std::fs::metadata(path).map_err(|error| StoreError::io(path, &error))?;
    match metadata.is_file() {
        true => Ok(()),
        false => Err(StoreError::Damaged { path: path.to_owned(), detail: "it is no file".to_owned() }),
    }
}

/// Whether this is a ledger that this program knows; its schema version.
fn check_is_ledger(connection: &Connection, path: &Path) -> Result<i64, StoreError> {
    let pragma = |name: &str| -> Result<i64, StoreError> {
        connection.pragma_query_value(None, name, |row| row.get(0)).map_err(|error| StoreError::sql(path, &error))
    };
    let application_id = pragma("application_id")?;
    if application_id != APPLICATION_ID {
        let tables: i64 = connection
            .query_row("SELECT count(*) FROM sqlite_schema", (), |row| row.get(0))
            .map_err(|error| StoreError::sql(path, &error))?;
        let path = path.to_owned();
        let untouched = application_id == 0 && tables == 0;
        return Err(if untouched { StoreError::Stillborn { path } } else { StoreError::Foreign { path, application_id } });
    }
    let version = pragma("user_version")?;
    if version > SCHEMA_VERSION {
        return Err(StoreError::NewerSchema { path: path.to_owned(), found: version, known: SCHEMA_VERSION });
    }
    if version < 1 {
        return Err(StoreError::Damaged { path: path.to_owned(), detail: format!("its schema version is {version}") });
    }
    Ok(version)
}

fn read_identity(connection: &Connection, path: &Path) -> Result<Identity, StoreError> {
    let damaged = |detail: String| StoreError::Damaged { path: path.to_owned(), detail };
    let row = connection.query_row("SELECT run_id, attempt, platform, target, shard, epoch, created FROM leg", (), |row| {
        let text = |index: usize| row.get::<_, String>(index);
        let leg = LegId {
            run_id: RunId::new(text(0)?),
            attempt: Attempt::new(text(1)?),
            platform: Platform::new(text(2)?),
            target: Target::new(text(3)?),
            shard: None,
        };
        Ok((leg, row.get::<_, Option<String>>(4)?, text(5)?, text(6)?))
    });
    let (mut leg, shard, epoch, created) = match row {
        Ok(row) => row,
        Err(rusqlite::Error::QueryReturnedNoRows) => return Err(damaged("it names no leg".to_owned())),
        Err(error) => return Err(StoreError::sql(path, &error)),
    };
    leg.shard =
        shard.map(|shard| shard.parse()).transpose().map_err(|error: crate::core::ids::ShardError| damaged(error.to_string()))?;
    let created = Wall::parse(&created).ok_or_else(|| damaged("its time of creation is no time".to_owned()))?;
    let epoch = Epoch::parse(epoch).map_err(|error| damaged(error.to_string()))?;
    Ok(Identity { leg, epoch, created })
}
