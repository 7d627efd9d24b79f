//! What a person types, handed to a file that was given a terminal (`--tty`). It must not touch the keyboard of a background job.

#[cfg(unix)]
mod unix;
#[cfg(unix)]
pub use unix::Keyboard;
#[cfg(windows)]
mod windows;
#[cfg(windows)]
pub use windows::Keyboard;
