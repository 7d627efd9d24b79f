//! Files and folders that only their user may read.

#[cfg(unix)]
mod unix;
#[cfg(unix)]
use unix as system;
#[cfg(windows)]
mod windows;
#[cfg(windows)]
use windows as system;

use std::fs::{self, File, OpenOptions};
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

pub fn make_folder(path: &Path) -> io::Result<()> {
    system::private_folder(&mut fs::DirBuilder::new()).create(path)
}
