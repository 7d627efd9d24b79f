//! Windows: the folder is inside the user's own profile, whose rights every file inherits.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

/// Makes the folder of pools and in it the pool's own.
pub fn make_folder(_root: &Path, pool: &Path) -> io::Result<()> {
    std::fs::create_dir_all(pool)
}

/// Opens a file that is there to be locked, making it where it is missing. Rust's handles are not inherited.
pub fn open_to_lock(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)
}

pub fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).open(path)
}

pub fn open_to_read(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).open(path)
}
