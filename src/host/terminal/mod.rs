//! How wide the terminal behind stderr is.

#[cfg(unix)]
mod unix;
#[cfg(unix)]
pub use unix::width;
#[cfg(windows)]
mod windows;
#[cfg(windows)]
pub use windows::width;
