//! Windows: a pipe cannot be asked whether it has room, so a write waits for its reader. The process ends all the same.

use std::io::{self, Write as _};
use std::time::Duration;

/// One of the two streams.
#[derive(Debug)]
pub enum Outflow {
    Stdout,
    Stderr,
}

impl Outflow {
    pub fn stdout() -> Self {
        Outflow::Stdout
    }

    pub fn stderr() -> Self {
        Outflow::Stderr
    }

    /// Writes all of `bytes`, however long that takes.
    pub fn put(&mut self, bytes: &[u8], _: Duration) -> io::Result<usize> {
        match self {
            Outflow::Stdout => {
                let mut out = io::stdout().lock();
                out.write_all(bytes).and_then(|()| out.flush())
            }
            Outflow::Stderr => io::stderr().lock().write_all(bytes),
        }
        .map(|()| bytes.len())
    }
}
