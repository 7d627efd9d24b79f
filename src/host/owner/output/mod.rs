//! The reading ends of what a file prints. Nothing in here looks at what is read.

#[cfg(unix)]
mod unix;
#[cfg(unix)]
pub use unix::{FarEnds, Output, Writer};
#[cfg(windows)]
mod windows;
#[cfg(windows)]
pub use windows::{FarEnds, Output, Writer};
