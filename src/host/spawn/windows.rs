//! Windows: the child is created suspended, put into its Job Object, and only then runs: it cannot start anything outside.

use std::io;
use std::os::windows::io::{AsHandle as _, OwnedHandle};
use std::os::windows::process::CommandExt as _;
use std::process::{Child, Command};

use windows_sys::Win32::System::Threading::{CREATE_NEW_PROCESS_GROUP, CREATE_SUSPENDED};

use crate::core::process::ProcessId;
use crate::host::deliver::{Delivery, Signal, deliver};
use crate::host::job::Job;
use crate::host::process;

/// A child that runs its program.
#[derive(Debug)]
pub struct Spawned {
    pub child: Child,
    pub id: ProcessId,
    /// Another handle of it. While one is open, the number is nobody else's, even when the child has ended.
    pub kept: OwnedHandle,
    /// Why it is not in the job that it was meant for.
    pub outside: Option<io::Error>,
}

/// Starts `command` (its standard streams are set by the caller) in a process group of its own, so that a console event for it is
/// nobody else's.
pub fn spawn(command: &mut Command, job: Option<&Job>) -> io::Result<Spawned> {
    let mut child = command.creation_flags(CREATE_SUSPENDED | CREATE_NEW_PROCESS_GROUP).spawn()?;
    let outside = job.and_then(|job| job.take_in(child.as_handle()).err());
    let started = kept(&child).and_then(|(kept, start)| {
        let id = ProcessId { pid: child.id() as i32, start };
        match deliver(id, Signal::Continue) {
            Delivery::Sent => Ok((id, kept)),
            Delivery::Vanished | Delivery::Refused => Err(io::Error::other("the program was created and could not be set going")),
        }
    });
    match started {
        Ok((id, kept)) => Ok(Spawned { child, id, kept, outside }),
        Err(error) => {
            // It has not run an instruction yet.
            child.kill()?;
            child.wait()?;
            Err(error)
        }
    }
}

/// A handle of our own, and the time of its creation.
fn kept(child: &Child) -> io::Result<(OwnedHandle, u64)> {
    let handle = child.as_handle().try_clone_to_owned()?;
    let (created, _) = process::times(&handle).ok_or_else(io::Error::last_os_error)?;
    Ok((handle, created))
}
