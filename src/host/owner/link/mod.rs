//! How ledger speaks to an owner. What is said is in `wire`; nothing here knows what it means.

#[cfg(unix)]
mod unix;
#[cfg(unix)]
pub use unix::Link;
#[cfg(windows)]
mod windows;
#[cfg(windows)]
pub use windows::Link;
