//! Windows: through a handle that is opened first and compared with the start time after, so that no reuse can slip between.

use std::os::windows::io::{AsRawHandle as _, OwnedHandle};

use windows_sys::Win32::Foundation::HANDLE;
use windows_sys::Win32::System::Threading::{
    PROCESS_QUERY_LIMITED_INFORMATION, PROCESS_SUSPEND_RESUME, PROCESS_SYNCHRONIZE, PROCESS_TERMINATE, TerminateProcess,
};

use super::{Delivery, Signal};
use crate::core::process::ProcessId;
use crate::host::process::{self, Unread};

/// What a process ends with that KILL ended: the number that a shell shows for it elsewhere.
const KILLED: u32 = 137;

#[link(name = "ntdll")]
unsafe extern "system" {
    // Every thread of a process at once. Not in the documented interface, and there since Windows XP.
    fn NtSuspendProcess(process: HANDLE) -> i32;
    fn NtResumeProcess(process: HANDLE) -> i32;
}

pub fn deliver(id: ProcessId, signal: Signal) -> Delivery {
    let right = match signal {
        Signal::Term => 0,
        Signal::Stop | Signal::Continue => PROCESS_SUSPEND_RESUME,
        Signal::Kill => PROCESS_TERMINATE,
    };
    let process = match process::open(id.pid, right | PROCESS_QUERY_LIMITED_INFORMATION | PROCESS_SYNCHRONIZE) {
        Ok(process) => process,
        Err(Unread::Gone) => return Delivery::Vanished,
        Err(_) => return Delivery::Refused,
    };
    match process::times(&process) {
        Some((created, _)) if created == id.start && process::runs(&process) => send(&process, signal),
        Some(_) => Delivery::Vanished,
        None => Delivery::Refused,
    }
}

fn send(process: &OwnedHandle, signal: Signal) -> Delivery {
    // SAFETY: the handle is open and has the right that the signal needs.
    let sent = unsafe {
        match signal {
            // There is no word for one process: console events go to the group of a leader, which `host::tree` does. The grace is
            // given all the same.
            Signal::Term => true,
            Signal::Stop => NtSuspendProcess(process.as_raw_handle()) >= 0,
            Signal::Continue => NtResumeProcess(process.as_raw_handle()) >= 0,
            Signal::Kill => TerminateProcess(process.as_raw_handle(), KILLED) != 0,
        }
    };
    match (sent, process::runs(process)) {
        (true, _) => Delivery::Sent,
        (false, false) => Delivery::Vanished,
        (false, true) => Delivery::Refused,
    }
}
