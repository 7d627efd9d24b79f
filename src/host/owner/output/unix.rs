//! Unix: pipes, or one pseudo-terminal.

use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::process::Stdio;
use std::task::{Context, Poll, ready};

use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, ReadBuf};

use super::super::{Terminal, system};

/// The end ledger reads. Only this end is non-blocking: the file's own is another open description and stays as programs expect.
#[derive(Debug)]
pub struct Output {
    fd: AsyncFd<OwnedFd>,
}

/// Where what a person types goes.
pub type Writer = OwnedFd;

/// The ends that go to the owner, and through it to the file.
pub struct FarEnds {
    pub stdout: Stdio,
    pub stderr: Stdio,
}

impl Output {
    pub fn open(terminal: Terminal) -> io::Result<(Output, Option<Output>, FarEnds)> {
        match terminal {
            Terminal::None => {
                let (out_read, out_write) = io::pipe()?;
                let (err_read, err_write) = io::pipe()?;
                let ends = FarEnds { stdout: out_write.into(), stderr: err_write.into() };
                Ok((Output::new(out_read.into())?, Some(Output::new(err_read.into())?), ends))
            }
            Terminal::Pseudo => {
                let (near, far) = pseudo_terminal()?;
                let ends = FarEnds { stdout: far.try_clone()?.into(), stderr: far.into() };
                Ok((Output::new(near)?, None, ends))
            }
        }
    }

    /// The same terminal, to write to.
    pub fn writer(&self) -> io::Result<Writer> {
        self.fd.get_ref().try_clone()
    }

    fn new(fd: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        // SAFETY: an OwnedFd answers with the same open descriptor for as long as it lives, and it lives inside the AsyncFd.
        let fd = unsafe { AsyncFd::register_with_interest(fd, tokio::io::Interest::READABLE) }?;
        Ok(Self { fd })
    }
}

impl AsyncRead for Output {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut guard = ready!(self.fd.poll_read_ready(context))?;
            let read = guard.try_io(|fd| Ok(rustix::io::read(fd, buffer.initialize_unfilled())?));
            match read {
                Ok(Ok(count)) => {
                    buffer.advance(count);
                    return Poll::Ready(Ok(()));
                }
                // A terminal whose last user has closed it says so with EIO.
                Ok(Err(error)) if error.raw_os_error() == Some(libc::EIO) => return Poll::Ready(Ok(())),
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Err(_would_block) => {}
            }
        }
    }
}

/// The near and the far end of a new pseudo-terminal. Both are close-on-exec and neither becomes ledger's own terminal.
fn pseudo_terminal() -> io::Result<(OwnedFd, OwnedFd)> {
    let near = system::open_terminal()?;
    rustix::pty::grantpt(&near)?;
    rustix::pty::unlockpt(&near)?;
    let name = rustix::pty::ptsname(&near, Vec::new())?;
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC;
    let far = rustix::fs::open(name.as_c_str(), flags, rustix::fs::Mode::empty())?;
    // A terminal without a size makes programs guess, or divide by it.
    let _ = rustix::termios::tcsetwinsize(&near, size_of_ours());
    Ok((near, far))
}

/// The size of the terminal that ledger itself was started at, else the one that programs have always had.
fn size_of_ours() -> rustix::termios::Winsize {
    use rustix::stdio::{stderr, stdin, stdout};
    let told = [stderr(), stdout(), stdin()].into_iter().filter_map(|fd| rustix::termios::tcgetwinsize(fd).ok());
    let standard = rustix::termios::Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    told.into_iter().find(|size| size.ws_row > 0 && size.ws_col > 0).unwrap_or(standard)
}
