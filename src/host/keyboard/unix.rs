//! Unix: line editing and echo of ledger's own terminal are off meanwhile, because the file's terminal does both. Ctrl-C and Ctrl-Z
//! stay ledger's: a watchdog that cannot be interrupted is none.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::stdio::stdin;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::JoinHandle;

/// Relays until it is dropped, and then gives the terminal back as it was.
#[derive(Debug)]
pub struct Keyboard {
    before: Termios,
    relay: JoinHandle<()>,
}

impl Keyboard {
    /// `None` where standard input is no terminal, or is another job's at the moment.
    pub fn relay_to(terminal: OwnedFd) -> Option<Self> {
        if rustix::termios::tcgetpgrp(stdin()).ok()? != rustix::process::getpgrp() {
            return None;
        }
        let before = tcgetattr(stdin()).ok()?;
        let mut keys = before.clone();
        keys.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        tcsetattr(stdin(), OptionalActions::Now, &keys).ok()?;
        // A failure only means that nobody can type.
        let relay = tokio::spawn(async move { drop(relay(terminal).await) });
        Some(Self { before, relay })
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        self.relay.abort();
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.before);
    }
}

async fn relay(terminal: OwnedFd) -> io::Result<()> {
    // SAFETY: standard input is open for as long as the process lives.
    let keys: AsyncFd<BorrowedFd<'static>> = unsafe { AsyncFd::register_with_interest(stdin(), Interest::READABLE) }?;
    // SAFETY: an OwnedFd answers with the same open descriptor for as long as it lives, and it lives inside the AsyncFd.
    let terminal = unsafe { AsyncFd::register_with_interest(terminal, Interest::WRITABLE) }?;
    let mut typed = [0_u8; 1024];
    loop {
        let mut ready = keys.readable().await?;
        // Readiness is awaited first, and the terminal itself stays blocking: its description belongs to the shell as well.
        let count = rustix::io::read(keys.get_ref(), &mut typed)?;
        if count < typed.len() {
            ready.clear_ready();
        }
        if count == 0 {
            return Ok(());
        }
        let mut rest = &typed[..count];
        while !rest.is_empty() {
            let mut ready = terminal.writable().await?;
            if let Ok(written) = ready.try_io(|terminal| Ok(rustix::io::write(terminal, rest)?)) {
                rest = &rest[written?..];
            }
        }
    }
}
