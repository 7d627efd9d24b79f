//! Linux: through a pidfd that is opened first and compared with the start time after, so that no reuse can slip between.

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags};

use super::unix::{answer, number};
use super::{Delivery, Signal};
use crate::core::process::ProcessId;
use crate::host::process::{self, Unread};

pub fn deliver(id: ProcessId, signal: Signal) -> Delivery {
    // 0 and negative numbers are groups, and 1 is nobody's leftover.
    let Some(pid) = Some(id.pid).filter(|&pid| pid > 1).and_then(Pid::from_raw) else { return Delivery::Vanished };
    match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
        Ok(fd) => match checked(id) {
            Some(refusal) => refusal,
            None => answer(rustix::process::pidfd_send_signal(&fd, number(signal))),
        },
        // A kernel without pidfds, or a filter that forbids them. What is scarce (EMFILE, ENOMEM) is no reason to fall back to a
        // bare number: the sweep comes round again.
        Err(Errno::NOSYS | Errno::PERM) => match checked(id) {
            Some(refusal) => refusal,
            None => answer(rustix::process::kill_process(pid, number(signal))),
        },
        Err(Errno::SRCH) => Delivery::Vanished,
        Err(_) => Delivery::Sent,
    }
}

/// Whether the number still belongs to the process that was seen. Start 0 stands for a process that could not be looked at.
fn checked(id: ProcessId) -> Option<Delivery> {
    match process::stat(id.pid) {
        Ok(stat) if stat.id == id && !stat.is_gone() => None,
        Ok(_) | Err(Unread::Gone) => Some(Delivery::Vanished),
        Err(_) if id.start == 0 => None,
        Err(_) => Some(Delivery::Refused),
    }
}
