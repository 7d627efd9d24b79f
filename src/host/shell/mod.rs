//! Programs of the system that ledger starts by itself. It must not run them: an owner does.

#[cfg(unix)]
mod unix;
#[cfg(unix)]
pub use unix::{leaver, line};
#[cfg(windows)]
mod windows;
#[cfg(windows)]
pub use windows::{leaver, line};
