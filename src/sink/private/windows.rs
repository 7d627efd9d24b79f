//! Windows: who may read is inherited from the folder. NTFS keeps a journal of names, and folders cannot be flushed without more rights.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::path::Path;

pub fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// Names of pipes are in no folder here.
pub fn without_waiting(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

pub fn private_folder(builder: &mut DirBuilder) -> &mut DirBuilder {
    builder
}

pub fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}
