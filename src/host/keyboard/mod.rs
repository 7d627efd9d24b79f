//! What a person types: handed to a file that was given a terminal (`--tty`), or the Enter key for ledger itself. It must not touch the
//! keyboard of a background job.

#[cfg(unix)]
mod unix;
#[cfg(unix)]
pub use unix::{EnterKey, Keyboard};
#[cfg(windows)]
mod windows;
#[cfg(windows)]
pub use windows::{EnterKey, Keyboard};
