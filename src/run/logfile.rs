//! The log of one file: its head as it was printed, and where that is too long, its tail.
//!
//! It must be given what is redacted already: of each stream by itself, for what two streams print in turn cuts a value in two.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

use crate::store::private;

/// Enough for the whole of every ordinary log; 300 MB of output keep this much of their beginning.
const HEAD: u64 = 8 * 1024 * 1024;
/// Kept in memory until the end, so it is small beside ledger's 25 MiB.
const TAIL: usize = 512 * 1024;

pub struct LogFile {
    file: Option<File>,
    written: u64,
    tail: VecDeque<u8>,
    left_out: u64,
    failed: Option<io::Error>,
}

impl LogFile {
    /// A log that cannot be made costs the log and not the file's run; `finish` says so.
    pub fn create(path: &Path) -> Self {
        let (file, failed) = match open(path) {
            Ok(file) => (Some(file), None),
            Err(error) => (None, Some(error)),
        };
        Self { file, written: 0, tail: VecDeque::new(), left_out: 0, failed }
    }

    /// A disk that is full costs the log and not the run; `finish` says so.
    pub fn write(&mut self, bytes: &[u8]) {
        let room = usize::try_from(HEAD - self.written).unwrap_or(usize::MAX).min(bytes.len());
        self.put(&bytes[..room]);
        self.written += room as u64;
        let rest = &bytes[room..];
        self.tail.extend(&rest[rest.len().saturating_sub(TAIL)..]);
        let over = self.tail.len().saturating_sub(TAIL);
        self.tail.drain(..over);
        self.left_out += (over + rest.len().saturating_sub(TAIL)) as u64;
    }

    /// The end of the log, and what kept it from being whole.
    pub fn finish(&mut self) -> io::Result<()> {
        if self.left_out > 0 {
            let note = format!("\n[ledger: {} bytes are left out here]\n", self.left_out);
            self.put(note.as_bytes());
        }
        let tail: Vec<u8> = std::mem::take(&mut self.tail).into();
        self.put(&tail);
        self.failed.take().map_or(Ok(()), Err)
    }

    fn put(&mut self, bytes: &[u8]) {
        if let (None, Some(file)) = (&self.failed, &mut self.file) {
            self.failed = file.write_all(bytes).err();
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        private::make_folders(folder)?;
    }
    private::overwrite(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_and_tail_are_kept_and_what_is_left_out_is_counted() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let path = folder.path().join("logs/a.log");
        let mut log = LogFile::create(&path);
        log.write(b"first ***\n");
        let piece = vec![b'x'; 1 << 20];
        for _ in 0..12 {
            log.write(&piece);
        }
        log.write(b"last line\n");
        log.finish().expect("written");
        let text = String::from_utf8(std::fs::read(&path).expect("the log")).expect("text");
        assert!(text.starts_with("first ***\nxxx") && text.ends_with("xlast line\n"));
        let printed = "first ***\n".len() + 12 * (1 << 20) + "last line\n".len();
        let left_out = printed - usize::try_from(HEAD).expect("fits") - TAIL;
        assert!(text.contains(&format!("\n[ledger: {left_out} bytes are left out here]\n")));
    }

    #[test]
    fn a_log_that_cannot_be_made_is_told_and_costs_nothing_else() {
        let folder = tempfile::tempdir().expect("a temp folder");
        std::fs::write(folder.path().join("logs"), "in the way").expect("a file");
        let mut log = LogFile::create(&folder.path().join("logs/a.log"));
        log.write(b"text");
        assert!(log.finish().is_err());
    }
}
