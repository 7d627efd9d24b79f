//! Files and folders that only their user may read.

#[cfg(unix)]
mod unix;
#[cfg(unix)]
use unix as system;
#[cfg(windows)]
mod windows;
#[cfg(windows)]
use windows as system;

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::path::Path;

pub use system::sync_folder;

/// A new file. One that exists is an error.
pub fn create(path: &Path) -> io::Result<File> {
    system::private(OpenOptions::new().write(true).create_new(true)).open(path)
}

/// A file that is emptied where it exists.
pub fn overwrite(path: &Path) -> io::Result<File> {
    system::private(OpenOptions::new().write(true).create(true).truncate(true)).open(path)
}

/// A regular file, for reading. Anything else of that name is an error, and none of it holds anybody up: a pipe without a writer would.
pub fn open_regular(path: &Path) -> io::Result<(File, Metadata)> {
    let file = system::without_waiting(OpenOptions::new().read(true)).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "is no regular file"));
    }
    Ok((file, metadata))
}

pub fn make_folder(path: &Path) -> io::Result<()> {
    system::private_folder(&mut fs::DirBuilder::new()).create(path)
}
