//! Unix: tokio's signal streams.

use std::future::pending;
use std::io;

use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

use super::Signal;
use crate::core::ending::EndSignal;

/// What ledger does about them, in words.
pub const HEARD: &str = "HUP, INT, TERM end the run in order; Ctrl-Z pauses it";

/// To be called first of all, by ledger and by an owner, because exec keeps what a parent ignored. With CHLD ignored the kernel waits for
/// children by itself, and no status is ever told; here and in the files it is as a program expects it. A file-size limit is an error of
/// the write and no death; what is started later finds the limit's signal as it was.
pub fn at_start() {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: each call sets a disposition and touches nothing else. The handler does nothing, which is safe at any moment; unlike an ignored
    // signal it is reset by exec.
    unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        if libc::signal(libc::SIGXFSZ, nothing as *const () as libc::sighandler_t) == libc::SIG_IGN {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        }
    }
}

/// The streams. HUP and the terminal's own stay ignored where they were when ledger started: `nohup` means it. INT and TERM are
/// always heard: a script that starts ledger in the background has its shell ignore INT for it, and yet a cancelled job must end.
#[derive(Debug)]
pub struct Signals {
    hup: Option<Stream>,
    int: Option<Stream>,
    term: Option<Stream>,
    stop: Option<Stream>,
    go_on: Option<Stream>,
}

impl Signals {
    /// To be called once, inside the runtime, before the first file is started.
    pub fn listen() -> io::Result<Self> {
        Ok(Self {
            hup: unless_ignored(SignalKind::hangup())?,
            int: signal(SignalKind::interrupt()).map(Some)?,
            term: signal(SignalKind::terminate()).map(Some)?,
            stop: unless_ignored(SignalKind::from_raw(libc::SIGTSTP))?,
            go_on: unless_ignored(SignalKind::from_raw(libc::SIGCONT))?,
        })
    }

    /// The next signal. May be dropped and called again without losing one.
    pub async fn next(&mut self) -> Signal {
        tokio::select! {
            () = arrived(&mut self.term) => Signal::End(EndSignal::Term),
            () = arrived(&mut self.int) => Signal::End(EndSignal::Int),
            () = arrived(&mut self.hup) => Signal::End(EndSignal::Hup),
            () = arrived(&mut self.stop) => Signal::Stop,
            () = arrived(&mut self.go_on) => Signal::Continue,
        }
    }
}

fn unless_ignored(kind: SignalKind) -> io::Result<Option<Stream>> {
    let mut current = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action this only fills in `current`, which is valid for the call and valid as zeros.
    let ignored = unsafe {
        libc::sigaction(kind.as_raw_value(), std::ptr::null(), current.as_mut_ptr()) == 0
            && current.assume_init_ref().sa_sigaction == libc::SIG_IGN
    };
    if ignored { Ok(None) } else { signal(kind).map(Some) }
}

async fn arrived(stream: &mut Option<Stream>) {
    // The stream ends only with the runtime.
    if let Some(stream) = stream
        && stream.recv().await.is_some()
    {
        return;
    }
    pending().await
}

/// Stops ledger as the terminal's driver would have. Returns when somebody continues it.
pub fn stop_self() {
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP);
}
