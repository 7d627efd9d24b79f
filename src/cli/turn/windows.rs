//! Windows: folders have no locks, so a file in it that nobody else can open meanwhile, and that goes away when it is closed.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::windows::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use windows_sys::Win32::Foundation::{ERROR_ACCESS_DENIED, ERROR_SHARING_VIOLATION};
use windows_sys::Win32::Storage::FileSystem::FILE_FLAG_DELETE_ON_CLOSE;

/// A merge takes milliseconds.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// A file that is about to go away is refused like one that may not be opened; that lasts for moments only.
const REFUSALS: u32 = 100;

pub struct Turn {
    _lock: File,
}

impl Turn {
    /// Waits for its turn.
    pub fn take(folder: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).share_mode(0).custom_flags(FILE_FLAG_DELETE_ON_CLOSE);
        let mut refused = 0;
        loop {
            match options.open(folder.join(".ledger-turn")) {
                Ok(lock) => return Ok(Self { _lock: lock }),
                Err(error) if error.raw_os_error() == Some(ERROR_SHARING_VIOLATION as i32) => {}
                Err(error) if error.raw_os_error() == Some(ERROR_ACCESS_DENIED as i32) && refused < REFUSALS => refused += 1,
                Err(error) => return Err(error),
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}
