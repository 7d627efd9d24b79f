//! The async runtimes of ledger, with the threads for calls that block started beforehand.
//!
//! A file that uses up all the processes its user may have must not keep ledger from sweeping it and from sending its evidence: tokio
//! starts such threads when they are needed, and panics where there is none and none can be had.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

/// Threads are kept for as long as anything runs.
const KEPT: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// A runtime on the calling thread that has so many threads for calls that block.
pub fn with_threads(blocking: usize) -> io::Result<Runtime> {
    // A host that gives no thread says so here, where it is an error and no panic.
    let one = std::thread::Builder::new().name("ledger-probe".to_owned()).spawn(|| ())?;
    let _ = one.join();
    let runtime = Builder::new_current_thread().enable_all().thread_keep_alive(KEPT).build()?;
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    for _ in 0..blocking {
        // Each is busy until the gate opens, so that the next one needs a thread of its own.
        let gate = Arc::clone(&gate);
        runtime.spawn_blocking(move || {
            let (open, opened) = &*gate;
            let is_shut = open.lock().unwrap_or_else(PoisonError::into_inner);
            drop(opened.wait_while(is_shut, |open| !*open));
        });
    }
    let (open, opened) = &*gate;
    *open.lock().unwrap_or_else(PoisonError::into_inner) = true;
    opened.notify_all();
    Ok(runtime)
}
