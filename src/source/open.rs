//! From a path to its evidence: what is there is told by what it holds, not only by its name.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::{Found, ci_data, ledger};
use crate::sink::SinkError;
use crate::store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{}: nothing in it is evidence: no ledger, no ci-data, no JUnit or timing file", path.display())]
    Empty { path: PathBuf },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Sink(#[from] SinkError),
    #[error("the async runtime cannot start: {0}")]
    Runtime(io::Error),
    #[error("{}: {why}", path.display())]
    Unreadable { path: PathBuf, why: String },
}

impl SourceError {
    pub(super) fn io(path: &Path, source: io::Error) -> Self {
        Self::Io { path: path.to_owned(), source }
    }
}

/// What a file holds, by its first bytes and then by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Database,
    CiData,
    JUnit,
    Timing,
}

/// Bytes that tell what a file is.
const SNIFFED: usize = 512;

/// Reads whatever `path` holds into `found`.
pub fn open(path: &Path, found: &mut Found) -> Result<(), SourceError> {
    let metadata = std::fs::metadata(path).map_err(|error| SourceError::io(path, error))?;
    if metadata.is_dir() { open_folder(path, found) } else { open_file(path, found) }
}

fn open_file(path: &Path, found: &mut Found) -> Result<(), SourceError> {
    match sniff(path).map_err(|error| SourceError::io(path, error))? {
        Some(Kind::CiData) => ci_data::read_file(path, found).map_err(|error| SourceError::io(path, error)),
        Some(Kind::Database) => {
            let read = ledger::read_database(path)?;
            found.join(read);
            Ok(())
        }
        _ => Err(SourceError::Empty { path: path.to_owned() }),
    }
}

/// A folder of ci-data; `runs/` below it is looked at too, which is how public projects keep it.
fn open_folder(path: &Path, found: &mut Found) -> Result<(), SourceError> {
    if holds_databases(path).map_err(|error| SourceError::io(path, error))? {
        found.join(ledger::read_folder(path)?);
        return Ok(());
    }
    let mut files = ci_data_files(path).map_err(|error| SourceError::io(path, error))?;
    let runs = path.join("runs");
    if files.is_empty() && runs.is_dir() {
        files = ci_data_files(&runs).map_err(|error| SourceError::io(&runs, error))?;
    }
    if files.is_empty() {
        return Err(SourceError::Empty { path: path.to_owned() });
    }
    for file in files {
        // A file that cannot be read costs its leg, never the report.
        if let Err(error) = ci_data::read_file(&file, found) {
            found.warn(format!("{}: {error}", file.display()));
        }
    }
    Ok(())
}

fn holds_databases(folder: &Path) -> io::Result<bool> {
    for entry in std::fs::read_dir(folder)? {
        if entry?.path().extension().is_some_and(|extension| extension == "db") {
            return Ok(true);
        }
    }
    Ok(false)
}

fn ci_data_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "ndjson" || extension == "jsonl") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// `None` where neither bytes nor name say what it is.
pub fn sniff(path: &Path) -> io::Result<Option<Kind>> {
    let mut head = Vec::with_capacity(SNIFFED);
    File::open(path)?.take(SNIFFED as u64).read_to_end(&mut head)?;
    if head.starts_with(b"SQLite format 3\0") {
        return Ok(Some(Kind::Database));
    }
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&head).trim_ascii_start();
    Ok(match (text.first(), path.extension().and_then(|extension| extension.to_str())) {
        (Some(b'<'), _) | (None, Some("xml")) => Some(Kind::JUnit),
        (Some(b'{'), _) | (None, Some("ndjson" | "jsonl")) => Some(Kind::CiData),
        (_, Some("ndjson" | "jsonl")) => Some(Kind::CiData),
        (_, Some("db" | "sqlite")) => Some(Kind::Database),
        (_, Some("txt" | "timing")) => Some(Kind::Timing),
        _ => None,
    })
}
