//! Unix: a folder can be locked itself.

use std::fs::File;
use std::io;
use std::path::Path;

pub struct Turn {
    _lock: File,
}

impl Turn {
    /// Waits for its turn.
    pub fn take(folder: &Path) -> io::Result<Self> {
        let folder = File::open(folder)?;
        folder.lock()?;
        Ok(Self { _lock: folder })
    }
}
