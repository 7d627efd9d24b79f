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

/// Whether so many more descriptors can be had: a process without them cannot start others.
pub fn descriptors_left(count: usize) -> std::io::Result<()> {
    let pipes: std::io::Result<Vec<_>> = (0..count.div_ceil(2)).map(|_| std::io::pipe()).collect();
    pipes.map(drop)
}
