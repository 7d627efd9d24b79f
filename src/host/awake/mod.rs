//! Keeps the machine from sleeping while a run lasts.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub use linux::keep;
#[cfg(target_os = "macos")]
mod macos;
#[cfg(target_os = "macos")]
pub use macos::keep;
#[cfg(windows)]
mod windows;
#[cfg(windows)]
pub use windows::keep;
