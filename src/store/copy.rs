//! Reading a ledger where nothing can be written: a log needs an index beside it, so the two are read from a copy.
//!
//! Only for a folder that is read-only to this process, where no writer of this process can be: copying opens the database by another way
//! than SQLite.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::private;
use super::wal::log_path;

/// A copy that goes away when its reader does.
#[derive(Debug)]
pub(super) struct Copy {
    folder: PathBuf,
}

impl Copy {
    pub(super) fn of(database: &Path) -> io::Result<Self> {
        static COPIES: AtomicU32 = AtomicU32::new(0);
        let number = COPIES.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("ledger-read-{}-{number}", std::process::id()));
        // A new folder of our own: one that somebody else prepared is refused.
        private::make_folder(&folder)?;
        let copy = Self { folder };
        fs::copy(database, copy.database())?;
        fs::copy(log_path(database), log_path(&copy.database()))?;
        Ok(copy)
    }

    pub(super) fn database(&self) -> PathBuf {
        self.folder.join("copy.db")
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        // Litter in the temporary folder is the worst that comes of a failure.
        let _ = fs::remove_dir_all(&self.folder);
    }
}
