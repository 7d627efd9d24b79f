//! Programs of the system that ledger starts by itself. It must not run them: an owner does.

#[cfg(unix)]
mod unix;
#[cfg(unix)]
pub use unix::line;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub use linux::leaver;
#[cfg(target_os = "macos")]
mod macos;
#[cfg(target_os = "macos")]
pub use macos::leaver;
#[cfg(windows)]
mod windows;
#[cfg(windows)]
pub use windows::{leaver, line};
