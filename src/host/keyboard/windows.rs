//! Windows: no file has a terminal, so nothing is relayed.

use crate::host::owner::Writer;

/// Never made.
#[derive(Debug)]
pub enum Keyboard {}

impl Keyboard {
    pub fn relay_to(terminal: Writer) -> Option<Self> {
        match terminal {}
    }
}
