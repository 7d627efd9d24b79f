//! The async runtimes of ledger, with the threads for calls that block started beforehand.
//!
//! A file that uses up all the processes its user may have must not keep ledger from sweeping it and from sending its evidence: tokio
//! starts such threads when they are needed, and panics where there is none and none can be had.

use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

/// Threads are kept for as long as anything runs.
const KEPT: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// A runtime on the calling thread that has so many threads for calls that block. Called before anything runs.
pub fn with_threads(blocking: usize) -> io::Result<Runtime> {
    let runtime = Builder::new_current_thread().enable_all().thread_keep_alive(KEPT).build()?;
    let gate = Arc::new(Gate::default());
    let started = (0..blocking).try_for_each(|_| start_one(&runtime, &gate));
    gate.open();
    started.map(|()| runtime)
}

/// Each thread is busy until the gate opens, so that the next one needs a thread of its own.
fn start_one(runtime: &Runtime, gate: &Arc<Gate>) -> io::Result<()> {
    let gate = Arc::clone(gate);
    // Where the host gives no thread, tokio has only a panic to say so with. Here it is an error, and nobody needs to read about it twice.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let started = std::panic::catch_unwind(AssertUnwindSafe(|| runtime.spawn_blocking(move || gate.wait())));
    std::panic::set_hook(hook);
    started.map(drop).map_err(|_| io::Error::new(io::ErrorKind::WouldBlock, "no thread can be started"))
}

#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn wait(&self) {
        let is_open = self.is_open.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.opened.wait_while(is_open, |is_open| !*is_open));
    }

    fn open(&self) {
        *self.is_open.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.opened.notify_all();
    }
}
