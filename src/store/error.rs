//! Why a ledger cannot be written or read. Each text names the file and what to do next.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

use crate::core::ids::Seq;
use crate::core::process::NO_MORE_PROCESSES;

/// Cloned to every caller whose events shared one transaction; hence words and paths, not sources.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    #[error("{}: there is no ledger there; look at the path: `ledger run` makes one in .ledger, or where its --ledger says", .path.display())]
    Missing { path: PathBuf },
    #[error("{}: is not a folder; name another one with --ledger", .path.display())]
    NotAFolder { path: PathBuf },
    #[error("{}: exists already and is never overwritten; read it with 'ledger report {}'", .path.display(), .path.display())]
    Exists { path: PathBuf },
    #[error("{}: event {seq} here is not the one that comes in; it stays as it is, and --into names another folder", .path.display())]
    Differs { path: PathBuf, seq: Seq },
    #[error("{}: has schema {found}, this ledger knows up to {known}; use the ledger that wrote it, or a newer one", .path.display())]
    NewerSchema { path: PathBuf, found: i64, known: i64 },
    #[error("{}: is a SQLite database but not a ledger (application id {application_id}); name another file or folder", .path.display())]
    Foreign { path: PathBuf, application_id: i64 },
    #[error("{}: is locked by another process; find it with 'lsof {}' and end it, or name another folder with --ledger", .path.display(), .path.display())]
    Locked { path: PathBuf },
    #[error("{}: is being written by a living ledger; wait for its end, or read it with 'ledger watch'", .path.display())]
    WriterAlive { path: PathBuf },
    #[error("{}: cannot be opened or written ({detail}); check its permissions, or name another folder with --ledger", .path.display())]
    ReadOnly { path: PathBuf, detail: String },
    #[error("{}: holds no event; its writer ended before the first one was stored", .path.display())]
    Stillborn { path: PathBuf },
    #[error("{}: is damaged ({detail}); look at what is left with 'ledger verify {}', and keep the file", .path.display(), .path.display())]
    Damaged { path: PathBuf, detail: String },
    #[error("{}: the disk is full; free some space and run again", .path.display())]
    Full { path: PathBuf },
    #[error("{}: this file system cannot hold a ledger ({detail}); name a folder on a local disk with --ledger", .path.display())]
    Unsuitable { path: PathBuf, detail: String },
    #[error("{}: {NO_MORE_PROCESSES}", .path.display())]
    NoThread { path: PathBuf },
    #[error("{}: {detail}; check the disk, then run again with another --ledger folder", .path.display())]
    Io { path: PathBuf, detail: String },
    #[error("{}: an event could not be written as JSON ({detail})", .path.display())]
    Encoding { path: PathBuf, detail: String },
    #[error("{}: the writer has ended", .path.display())]
    Closed { path: PathBuf },
}

impl StoreError {
    /// The file or folder that the error is about.
    pub fn path(&self) -> &Path {
        match self {
            StoreError::Missing { path }
            | StoreError::NotAFolder { path }
            | StoreError::Exists { path }
            | StoreError::Differs { path, .. }
            | StoreError::NewerSchema { path, .. }
            | StoreError::Foreign { path, .. }
            | StoreError::Locked { path }
            | StoreError::WriterAlive { path }
            | StoreError::ReadOnly { path, .. }
            | StoreError::Stillborn { path }
            | StoreError::Damaged { path, .. }
            | StoreError::Full { path }
            | StoreError::Unsuitable { path, .. }
            | StoreError::NoThread { path }
            | StoreError::Io { path, .. }
            | StoreError::Encoding { path, .. }
            | StoreError::Closed { path } => path,
        }
    }

    pub(super) fn sql(path: &Path, error: &rusqlite::Error) -> Self {
        let path = path.to_owned();
        let detail = error.to_string();
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed) => {
                Self::Locked { path }
            }
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => Self::ReadOnly { path, detail },
            Some(ErrorCode::DiskFull) => Self::Full { path },
            Some(ErrorCode::NotADatabase) => Self::Damaged { path, detail: "it is no SQLite database".to_owned() },
            Some(ErrorCode::DatabaseCorrupt) => Self::Damaged { path, detail },
            _ => Self::Io { path, detail },
        }
    }

    pub(super) fn io(path: &Path, error: &io::Error) -> Self {
        let path = path.to_owned();
        let detail = error.to_string();
        match error.kind() {
            io::ErrorKind::NotFound => Self::Missing { path },
            io::ErrorKind::NotADirectory => Self::NotAFolder { path },
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly { path, detail },
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full { path },
            // Files on a disk never answer so; a thread does.
            io::ErrorKind::WouldBlock => Self::NoThread { path },
            _ => Self::Io { path, detail },
        }
    }
}
