//! Starts the file's process in its own session. On Unix it must only be used by the single-threaded owner.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub use linux::{Placement, Spawned, spawn};
#[cfg(windows)]
mod windows;
#[cfg(windows)]
pub use windows::{Spawned, spawn};
#[cfg(target_os = "macos")]
mod macos;
#[cfg(target_os = "macos")]
pub use macos::{Placement, spawn};
#[cfg(unix)]
mod unix;
