//! The reading ends of what a file prints. Nothing in here looks at what is read.

#[cfg(unix)]
mod unix;
#[cfg(unix)]
pub use unix::{FarEnds, Output, Writer};
