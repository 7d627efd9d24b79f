//! Starts the file's process in its own session. On Unix it must only be used by the single-threaded owner.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub use linux::{Placement, Spawned, spawn};
#[cfg(windows)]
mod windows;
#[cfg(windows)]
pub use windows::{Spawned, spawn};
