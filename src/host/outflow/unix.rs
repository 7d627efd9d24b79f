//! Unix: asks whether there is room before it writes, and writes no more than there is room for.
//!
//! The descriptor is shared with whoever else holds the same pipe or terminal, so it is never made non-blocking.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

/// What a pipe that has any room takes without a wait (PIPE_BUF is at least 512, and 4096 on Linux).
const SURE: usize = if cfg!(target_os = "linux") { 4096 } else { 512 };

/// One of the two streams.
#[derive(Debug)]
pub struct Outflow {
    fd: BorrowedFd<'static>,
    /// A regular file or a device that is no terminal always has room.
    may_be_full: bool,
}

impl Outflow {
    pub fn stdout() -> Self {
        Self::of(rustix::stdio::stdout())
    }

    pub fn stderr() -> Self {
        Self::of(rustix::stdio::stderr())
    }

    fn of(fd: BorrowedFd<'static>) -> Self {
        use rustix::fs::FileType;
        let kind = rustix::fs::fstat(fd).map(|stat| FileType::from_raw_mode(stat.st_mode));
        let may_be_full = !matches!(kind, Ok(FileType::RegularFile))
            && (!matches!(kind, Ok(FileType::CharacterDevice)) || rustix::termios::isatty(fd));
        Self { fd, may_be_full }
    }

    /// Writes a beginning of `bytes`, and says how much of it. 0: nobody has made room for as long as `at_most`.
    pub fn put(&mut self, bytes: &[u8], at_most: Duration) -> io::Result<usize> {
        let mut piece = bytes;
        if self.may_be_full {
            let timeout = Timespec { tv_sec: at_most.as_secs().cast_signed(), tv_nsec: i64::from(at_most.subsec_nanos()) };
            let mut room = [PollFd::from_borrowed_fd(self.fd, PollFlags::OUT)];
            match rustix::event::poll(&mut room, Some(&timeout)) {
                Ok(0) | Err(Errno::INTR) => return Ok(0),
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
            piece = &bytes[..bytes.len().min(SURE)];
        }
        match rustix::io::write(self.fd, piece) {
            Ok(0) if !piece.is_empty() => Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => Ok(count),
            // Whoever made it non-blocking has left it so.
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }
}
