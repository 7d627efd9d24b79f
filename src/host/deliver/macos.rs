//! macOS: the start time is compared, then the number is signalled.
//!
//! There is no pidfd, so between the two a process could end and its number be given away; numbers are handed out in a row and come
//! round after 99,999 processes, and nothing lies between the two calls.

use rustix::process::Pid;

use super::unix::{answer, number};
use super::{Delivery, Signal};
use crate::core::process::ProcessId;
use crate::host::process::{self, Unread};

pub fn deliver(id: ProcessId, signal: Signal) -> Delivery {
    // 0 and negative numbers are groups, and 1 is nobody's leftover.
    let Some(pid) = Some(id.pid).filter(|&pid| pid > 1).and_then(Pid::from_raw) else { return Delivery::Vanished };
    match process::stat(id.pid) {
        Ok(stat) if stat.id == id && !stat.is_gone() => {}
        Ok(_) | Err(Unread::Gone) => return Delivery::Vanished,
        // Start 0 stands for a process that could not be looked at.
        Err(Unread::Denied) if id.start == 0 => {}
        Err(Unread::Denied) => return Delivery::Refused,
    }
    answer(rustix::process::kill_process(pid, number(signal)))
}
