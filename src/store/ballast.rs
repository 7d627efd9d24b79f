//! Room that is kept on the disk so that the terminal records of a leg still fit when everything else is full.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::folder::EXTENSION;
use super::head::is_writer_alive;
use super::private::create_file;

/// A verdict of a file takes at most about 4 KiB (its output tail is bounded by 2 KiB), a `not-run` record 0.7 KiB; each is written twice,
/// to the log and to the database. 2 MiB hold the verdict, a thousand planned files that will not run, and the two records of the end.
const BALLAST_BYTES: usize = 2 * 1024 * 1024;

/// Writes the ballast of a database. It is not synced: a file system takes the room away from others when the bytes are written.
pub(super) fn fill(database: &Path) -> io::Result<()> {
    let path = ballast_path(database);
    let mut file = match create_file(&path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(&path)?;
            create_file(&path)?
        }
        other => other?,
    };
    let written = file.write_all(&noise(BALLAST_BYTES));
    if written.is_err() {
        let _ = fs::remove_file(&path);
    }
    written
}

/// Gives the room back. One that is gone already is no error.
pub(super) fn release(database: &Path) -> io::Result<()> {
    match fs::remove_file(ballast_path(database)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Removes the ballast of writers that were killed. It only costs room, so a failure is nobody's concern.
pub(super) fn sweep(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == "ballast")) {
        if !is_writer_alive(&path.with_extension(EXTENSION)) {
            let _ = fs::remove_file(path);
        }
    }
}

pub(super) fn ballast_path(database: &Path) -> PathBuf {
    database.with_extension("ballast")
}

/// Bytes that no file system can compress away (xorshift64).
fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}
