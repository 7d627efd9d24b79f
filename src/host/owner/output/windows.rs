//! Windows: named pipes that nobody else can find, because an anonymous one cannot be waited for. The far ends are files like any other.

use std::fs::{File, OpenOptions};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::FutureExt as _;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::windows::named_pipe::{NamedPipeServer, ServerOptions};

use super::super::Terminal;

/// As much as the pipes of Unix hold.
const ROOM: u32 = 64 * 1024;

/// The end ledger reads.
#[derive(Debug)]
pub struct Output {
    pipe: NamedPipeServer,
}

/// Nobody can type: there is no terminal for a file here.
#[derive(Debug)]
pub enum Writer {}

/// The ends that go to the file.
#[derive(Debug)]
pub struct FarEnds {
    pub stdout: File,
    pub stderr: File,
}

impl Output {
    pub fn open(terminal: Terminal) -> io::Result<(Output, Option<Output>, FarEnds)> {
        match terminal {
            Terminal::None => {
                let (out, stdout) = pipe()?;
                let (err, stderr) = pipe()?;
                Ok((out, Some(err), FarEnds { stdout, stderr }))
            }
            Terminal::Pseudo => {
                Err(io::Error::new(io::ErrorKind::Unsupported, "a terminal for a file (--tty) is made on Linux and macOS only"))
            }
        }
    }

    pub fn writer(&self) -> io::Result<Writer> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

fn pipe() -> io::Result<(Output, File)> {
    let name = format!(r"\\.\pipe\ledger-{}", uuid::Uuid::new_v4().simple());
    let near = ServerOptions::new()
        .access_outbound(false)
        .first_pipe_instance(true)
        .max_instances(1)
        .reject_remote_clients(true)
        .in_buffer_size(ROOM)
        .create(&name)?;
    // Rust's handles are not inherited; the start of a file hands over a copy that is.
    let far = OpenOptions::new().write(true).open(&name)?;
    // Both ends are open, so this waits for nothing; without it nothing would ever be read.
    near.connect().now_or_never().unwrap_or_else(|| Err(io::ErrorKind::NotConnected.into()))?;
    Ok((Output { pipe: near }, far))
}

impl AsyncRead for Output {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.pipe).poll_read(context, buffer) {
            // The last far end was closed.
            Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe => Poll::Ready(Ok(())),
            other => other,
        }
    }
}
