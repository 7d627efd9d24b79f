//! What the system says about one process. It must not signal, wait for or remember any.

/// What a process says when it is asked for the token that it was started with.
#[cfg(unix)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenRead {
    Carries(Option<String>),
    /// It is in a sleep that nothing interrupts; it can be asked again.
    NotNow,
    /// It is gone, or may not be asked.
    Denied,
}

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub use linux::*;
#[cfg(windows)]
mod windows;
#[cfg(windows)]
pub use windows::*;
#[cfg(target_os = "macos")]
mod macos;
#[cfg(target_os = "macos")]
pub use macos::*;
