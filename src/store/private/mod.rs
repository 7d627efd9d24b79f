//! Files and folders that only their user may read.

#[cfg(unix)]
mod unix;
#[cfg(unix)]
use unix as system;
#[cfg(windows)]
mod windows;
#[cfg(windows)]
use windows as system;

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::path::Path;

/// A new file. One that exists is an error: nothing old is ever written over.
pub fn create_file(path: &Path) -> io::Result<File> {
    system::private(OpenOptions::new().read(true).write(true).create_new(true)).open(path)
}

/// A file that is emptied where it exists.
pub fn overwrite(path: &Path) -> io::Result<File> {
    system::private(OpenOptions::new().write(true).create(true).truncate(true)).open(path)
}

/// A new folder. One that exists is an error.
pub fn make_folder(path: &Path) -> io::Result<()> {
    system::private_folder(&mut DirBuilder::new()).create(path)
}

/// A folder and those above it, where they are missing.
pub fn make_folders(path: &Path) -> io::Result<()> {
    system::private_folder(DirBuilder::new().recursive(true)).create(path)
}
