//! macOS: nothing besides what every Unix does.

use std::io;
use std::process::Command;

use super::unix::{Manner, fork, start};

/// How the child starts.
#[derive(Debug, Clone, Copy)]
pub struct Placement {
    /// Standard input is a terminal that becomes the session's own.
    pub controlling_terminal: bool,
}

/// Starts `command` (its standard streams are set by the caller) and says who it is, or why its program could not be started.
pub fn spawn(command: &mut Command, placement: Placement) -> io::Result<i32> {
    start(command, &Manner { controlling_terminal: placement.controlling_terminal, fork: &fork, prepare: &|| {} })
}
