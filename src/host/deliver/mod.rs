//! Sends a signal to exactly one process, never to a number that somebody else has by now, and never to a group.

#[cfg(unix)]
mod unix;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub use linux::deliver;
#[cfg(windows)]
mod windows;
#[cfg(windows)]
pub use windows::deliver;
#[cfg(target_os = "macos")]
mod macos;
#[cfg(target_os = "macos")]
pub use macos::deliver;

use crate::core::process::ProcessId;
use crate::host::sweep::Answers;

/// What became of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Delivery {
    Sent,
    /// The process was gone, or its number belongs to another one now.
    Vanished,
    /// The system does not let us: another user's process.
    Refused,
}

/// The three that ledger sends, and the one that undoes Stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    Term,
    Stop,
    Continue,
    Kill,
}

/// Sends one signal to many.
pub fn deliver_all(ids: &[ProcessId], signal: Signal) -> Answers {
    let mut answers = Answers::default();
    for &id in ids {
        match deliver(id, signal) {
            Delivery::Sent => {}
            Delivery::Vanished => answers.vanished.push(id),
            Delivery::Refused => answers.refused.push(id),
        }
    }
    answers
}
