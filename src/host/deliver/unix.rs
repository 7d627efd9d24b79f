//! Unix: the signals by their numbers, and what the kernel's answers mean.

use rustix::io::Errno;
use rustix::process::Signal as Number;

use super::{Delivery, Signal};

pub fn answer(result: rustix::io::Result<()>) -> Delivery {
    match result {
        Ok(()) => Delivery::Sent,
        Err(Errno::SRCH) => Delivery::Vanished,
        Err(_) => Delivery::Refused,
    }
}

pub fn number(signal: Signal) -> Number {
    match signal {
        Signal::Term => Number::TERM,
        Signal::Stop => Number::STOP,
        Signal::Continue => Number::CONT,
        Signal::Kill => Number::KILL,
    }
}
