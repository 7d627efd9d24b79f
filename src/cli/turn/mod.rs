//! The right to replace files of one folder, given back when it is dropped or its process ends. Nothing of it is left in the folder.

#[cfg(unix)]
mod unix;
#[cfg(unix)]
pub use unix::Turn;
#[cfg(windows)]
mod windows;
#[cfg(windows)]
pub use windows::Turn;
