//! Signals to ledger itself, as a stream. It must not act on any: the loop decides.

#[cfg(unix)]
mod unix;
#[cfg(unix)]
pub use unix::{HEARD, Signals, at_start, stop_self};
#[cfg(windows)]
mod windows;
#[cfg(windows)]
pub use windows::{HEARD, Signals, at_start, stop_self};

use crate::core::ending::EndSignal;

/// What somebody wants of ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    End(EndSignal),
    /// Ctrl-Z. ledger pauses the tree first and then stops itself.
    Stop,
    /// `fg`, or whoever stopped ledger continues it.
    Continue,
}
