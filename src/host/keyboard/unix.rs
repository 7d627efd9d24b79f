//! Unix: line editing and echo of ledger's own terminal are off meanwhile, because the file's terminal does both. Ctrl-C and Ctrl-Z
//! stay ledger's: a watchdog that cannot be interrupted is none.

use std::io::{self, IsTerminal as _};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::stdio::stdin;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::JoinHandle;

/// Relays until it is dropped, and then gives the terminal back as it was.
#[derive(Debug)]
pub struct Keyboard {
    before: Termios,
    keys: Termios,
    relay: JoinHandle<()>,
}

impl Keyboard {
    /// `None` where standard input is no terminal, or is another job's at the moment.
    pub fn relay_to(terminal: OwnedFd) -> Option<Self> {
        if !is_in_foreground().ok()? {
            return None;
        }
        let before = tcgetattr(stdin()).ok()?;
        let mut keys = before.clone();
        keys.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        tcsetattr(stdin(), OptionalActions::Now, &keys).ok()?;
        // A failure only means that nobody can type.
        let relay = tokio::spawn(async move { drop(relay(terminal).await) });
        Some(Self { before, keys, relay })
    }

    /// ledger was stopped and continued: whoever had the terminal meanwhile has put its own modes there.
    pub fn continued(&self) {
        if is_in_foreground().unwrap_or(false) {
            let _ = tcsetattr(stdin(), OptionalActions::Now, &self.keys);
        }
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        self.relay.abort();
        // A background job that sets modes is stopped by the system, and the shell has set its own already.
        if is_in_foreground().unwrap_or(false) {
            let _ = tcsetattr(stdin(), OptionalActions::Now, &self.before);
        }
    }
}

/// How soon a job that came back to the foreground hears its keys again.
const BACKGROUND_LOOK: Duration = Duration::from_secs(1);

/// Tells when Enter is pressed at ledger's own terminal. The terminal stays in its usual mode, so that nothing has to be put back after a
/// kill.
#[derive(Debug, Default)]
pub struct EnterKey {
    keys: Option<AsyncFd<BorrowedFd<'static>>>,
}

impl EnterKey {
    /// Listens where standard input is a terminal; elsewhere no key is ever pressed. Needs the async runtime.
    pub fn listen() -> Self {
        if !std::io::stdin().is_terminal() {
            return Self { keys: None };
        }
        // SAFETY: standard input is open for as long as the process lives.
        let keys = unsafe { AsyncFd::register_with_interest(stdin(), Interest::READABLE) };
        Self { keys: keys.ok() }
    }

    pub fn is_heard(&self) -> bool {
        self.keys.is_some()
    }

    /// The next time that Enter is pressed; never, where there is no keyboard. What else was typed on the line is dropped.
    pub async fn pressed(&mut self) {
        let mut line = [0_u8; 1024];
        while let Some(keys) = &self.keys {
            match typed(keys, &mut line).await {
                Ok(0) | Err(_) => self.keys = None,
                Ok(_) => return,
            }
        }
        std::future::pending().await
    }
}

/// Reads what was typed, and never where it would have to wait or be stopped for it: this thread is the one that keeps the cap.
async fn typed(keys: &AsyncFd<BorrowedFd<'static>>, line: &mut [u8]) -> io::Result<usize> {
    loop {
        let mut ready = keys.readable().await?;
        // A job in the background that reads its terminal is stopped by the system.
        if !is_in_foreground()? {
            drop(ready);
            tokio::time::sleep(BACKGROUND_LOOK).await;
            continue;
        }
        // The shell may have read what was there while this was a background job.
        if !is_something_typed()? {
            ready.clear_ready();
            continue;
        }
        return Ok(rustix::io::read(keys.get_ref(), line)?);
    }
}

fn is_in_foreground() -> io::Result<bool> {
    Ok(rustix::termios::tcgetpgrp(stdin())? == rustix::process::getpgrp())
}

/// Whether a read answers at once; at the end of the terminal it does.
fn is_something_typed() -> io::Result<bool> {
    let mut keys = [PollFd::from_borrowed_fd(stdin(), PollFlags::IN)];
    Ok(rustix::event::poll(&mut keys, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))? > 0)
}

async fn relay(terminal: OwnedFd) -> io::Result<()> {
    // SAFETY: standard input is open for as long as the process lives.
    let keys: AsyncFd<BorrowedFd<'static>> = unsafe { AsyncFd::register_with_interest(stdin(), Interest::READABLE) }?;
    // SAFETY: an OwnedFd answers with the same open descriptor for as long as it lives, and it lives inside the AsyncFd.
    let terminal = unsafe { AsyncFd::register_with_interest(terminal, Interest::WRITABLE) }?;
    let mut line = [0_u8; 1024];
    loop {
        // The terminal itself stays blocking: its description belongs to the shell as well.
        let count = typed(&keys, &mut line).await?;
        if count == 0 {
            return Ok(());
        }
        let mut rest = &line[..count];
        while !rest.is_empty() {
            let mut ready = terminal.writable().await?;
            if let Ok(written) = ready.try_io(|terminal| Ok(rustix::io::write(terminal, rest)?)) {
                rest = &rest[written?..];
            }
        }
    }
}
