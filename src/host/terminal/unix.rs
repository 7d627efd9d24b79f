//! Unix: the window size of the terminal.

/// `None` where stderr is no terminal, or one that does not tell.
pub fn width() -> Option<u16> {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stderr()).ok()?;
    (size.ws_col > 0).then_some(size.ws_col)
}

/// Whether `--tty` can be granted, else why not.
pub fn for_files() -> Result<(), &'static str> {
    Ok(())
}
