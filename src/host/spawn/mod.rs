//! Starts the file's process in its own session. It must only be used by the single-threaded owner.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub use linux::{Placement, Spawned, spawn};
