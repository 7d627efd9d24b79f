//! How wide the terminal behind stderr is, and whether a file can be given one of its own.

#[cfg(unix)]
mod unix;
#[cfg(unix)]
pub use unix::{for_files, width};
#[cfg(windows)]
mod windows;
#[cfg(windows)]
pub use windows::{for_files, width};
