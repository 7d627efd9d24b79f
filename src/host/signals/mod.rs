//! Signals to ledger itself, as a stream. It must not act on any: the loop decides.

#[cfg(unix)]
mod unix;
#[cfg(unix)]
pub use unix::{Signals, stop_self};

/// What somebody wants of ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    Hup,
    Int,
    Term,
    /// Ctrl-Z. ledger pauses the tree first and then stops itself.
    Stop,
    /// `fg`, or whoever stopped ledger continues it.
    Continue,
}

impl Signal {
    /// The name that an event carries.
    pub fn name(self) -> &'static str {
        match self {
            Signal::Hup => "HUP",
            Signal::Int => "INT",
            Signal::Term => "TERM",
            Signal::Stop => "TSTP",
            Signal::Continue => "CONT",
        }
    }

    /// 128 and the signal's number, for those that end ledger.
    pub fn exit_code(self) -> Option<u8> {
        match self {
            Signal::Hup => Some(129),
            Signal::Int => Some(130),
            Signal::Term => Some(143),
            Signal::Stop | Signal::Continue => None,
        }
    }
}
