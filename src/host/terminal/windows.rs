//! Windows: the window of the console.

use std::os::windows::io::AsRawHandle as _;

use windows_sys::Win32::System::Console::{CONSOLE_SCREEN_BUFFER_INFO, GetConsoleScreenBufferInfo};

/// `None` where stderr is no console.
pub fn width() -> Option<u16> {
    let mut info = CONSOLE_SCREEN_BUFFER_INFO::default();
    // SAFETY: the standard streams stay open, and the structure lives through the call.
    let answer = unsafe { GetConsoleScreenBufferInfo(std::io::stderr().as_raw_handle(), &raw mut info) };
    let columns = i32::from(info.srWindow.Right) - i32::from(info.srWindow.Left) + 1;
    u16::try_from(columns).ok().filter(|&columns| answer != 0 && columns > 0)
}

/// Whether `--tty` can be granted, else why not.
pub fn for_files() -> Result<(), &'static str> {
    Err("a file gets a terminal of its own on Linux and macOS only; without --tty its output goes through pipes")
}
