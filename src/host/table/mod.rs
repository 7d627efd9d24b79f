//! A cached table of all processes: what counts as QEMU, what `--reap-match` names, who carries a token.
//!
//! It looks; it never signals. What it hands out is checked again, number and start time, before anybody acts on it.

#[cfg(unix)]
mod program;

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

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::core::pattern::Patterns;
use crate::core::process::ProcessId;
use crate::host::clock;

/// One table serves the sampler and every sweep, because a cold one costs much more than a warm one.
#[derive(Debug, Clone)]
pub struct SharedTable {
    table: Arc<Mutex<ProcessTable>>,
    /// When it was brought up to date last, in steady milliseconds; 0 where something has been ended since.
    refreshed_ms: Arc<AtomicU64>,
}

impl SharedTable {
    pub fn new(table: ProcessTable) -> Self {
        Self { table: Arc::new(Mutex::new(table)), refreshed_ms: Arc::default() }
    }

    pub fn lock(&self) -> MutexGuard<'_, ProcessTable> {
        // A panic elsewhere cannot leave the table worse than stale, and the next refresh mends that.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn refresh(&self, depth: Depth) -> std::io::Result<()> {
        self.lock().refresh(depth)?;
        self.refreshed_ms.store(clock::now().mono_ms, Ordering::Relaxed);
        Ok(())
    }

    /// For a sample: a sweep that found nothing has looked a moment ago.
    pub fn refresh_unless_fresh(&self) -> std::io::Result<()> {
        let age = clock::now().mono_ms.saturating_sub(self.refreshed_ms.load(Ordering::Relaxed));
        if age < FRESH_MS { Ok(()) } else { self.refresh(Depth::Usual) }
    }

    /// Something was ended since the last look.
    pub fn mark_stale(&self) {
        self.refreshed_ms.store(0, Ordering::Relaxed);
    }
}

/// A tenth of the shortest time between samples.
const FRESH_MS: u64 = 100;

impl Default for ProcessTable {
    fn default() -> Self {
        Self::new(Patterns::new(["qemu-system-*"]).expect("a valid pattern"))
    }
}

/// What counts as a running VM.
fn qemu_patterns() -> Patterns {
    Patterns::new(["qemu-system-*", "qemu-kvm"]).expect("valid patterns")
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
    /// As `Usual`, and every process that was started at this time or later, in the system's own unit: for the sweep after a file, in
    /// which what is older is nobody's of ours.
    Since(u64),
    /// Every program name: where old processes may be ended too, which must not miss a shell that has become a QEMU since.
    Thorough,
}

/// What a sample says of all processes.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Counts {
    pub processes: u32,
    pub qemu: u32,
    pub qemu_rss_mib: f64,
}

/// Who was started with a token.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Carriers {
    pub found: Vec<ProcessId>,
    /// Who of this user's could not be asked at this moment.
    pub asleep: Vec<ProcessId>,
}

/// A process that a pattern names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match {
    pub id: ProcessId,
    pub exe: Option<String>,
}
