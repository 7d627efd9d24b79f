//! A cached table of all processes: what counts as QEMU, what `--reap-match` names, who carries a token.
//!
//! It looks; it never signals. What it hands out is checked again, number and start time, before anybody acts on it.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub use linux::ProcessTable;
#[cfg(windows)]
mod windows;
#[cfg(windows)]
pub use windows::ProcessTable;
#[cfg(target_os = "macos")]
mod macos;
#[cfg(target_os = "macos")]
pub use macos::ProcessTable;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::core::process::ProcessId;

/// One table serves the sampler and every sweep, because a cold one costs much more than a warm one.
#[derive(Debug, Clone)]
pub struct SharedTable(Arc<Mutex<ProcessTable>>);

impl SharedTable {
    pub fn new(table: ProcessTable) -> Self {
        Self(Arc::new(Mutex::new(table)))
    }

    pub fn lock(&self) -> MutexGuard<'_, ProcessTable> {
        // A panic elsewhere cannot leave the table worse than stale, and the next refresh mends that.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for SharedTable {
    fn default() -> Self {
        Self::new(ProcessTable::default())
    }
}

/// How much of what is known already is read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// New and young processes, and a share of the others: for samples, once a second.
    Usual,
    /// Every program name: for sweeps, which must not miss a shell that has become a QEMU since.
    Thorough,
}

/// What a sample says of all processes.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Counts {
    pub processes: u32,
    pub qemu: u32,
    pub qemu_rss_mib: f64,
}

/// A process that a pattern names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match {
    pub id: ProcessId,
    pub exe: Option<String>,
}
