//! Unix: a copy of this process, a session of its own, exec.

use std::io::{self, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// How a system makes and prepares the copy.
pub(super) struct Manner<'a> {
    /// Standard input is a terminal that becomes the session's own.
    pub controlling_terminal: bool,
    /// A copy of this process: its number here, 0 in the copy.
    pub fork: &'a dyn Fn() -> io::Result<i32>,
    /// What the copy does before it becomes the program.
    pub prepare: &'a dyn Fn(),
}

/// Starts `command` (its standard streams are set by the caller) and says who it is, or why its program could not be started.
///
/// Where there is no pipe2 the pipe is closed on exec only a moment after it was made; the owner has one thread, so nothing is started in
/// that moment.
pub(super) fn start(command: &mut Command, manner: &Manner<'_>) -> io::Result<i32> {
    let (mut reader, writer) = io::pipe()?;
    let pid = (manner.fork)()?;
    if pid == 0 {
        let error = become_child(command, manner);
        let code = error.raw_os_error().unwrap_or(libc::EINVAL);
        // The parent reads end of file if even this fails, and then sees exit status 127.
        let _ = (&writer).write_all(&code.to_ne_bytes());
        // SAFETY: _exit ends this copy of the owner without running the owner's own clean-up.
        unsafe { libc::_exit(127) }
    }
    drop(writer);
    let mut code = [0_u8; 4];
    match reader.read_exact(&mut code) {
        Ok(()) => {
            // SAFETY: waiting for the child made above, which ends by itself.
            unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
            Err(io::Error::from_raw_os_error(i32::from_ne_bytes(code)))
        }
        // The pipe closed without a word: exec has succeeded.
        Err(_) => Ok(pid),
    }
}

/// Returns only when the program could not be started.
fn become_child(command: &mut Command, manner: &Manner<'_>) -> io::Error {
    if let Err(error) = rustix::process::setsid() {
        return error.into();
    }
    if manner.controlling_terminal
        && let Err(error) = rustix::process::ioctl_tiocsctty(rustix::stdio::stdout())
    {
        return error.into();
    }
    (manner.prepare)();
    unblock_signals();
    // Resets SIGPIPE, and searches PATH as a shell would.
    command.exec()
}

/// The owner blocks what is not for it, and exec hands a mask on: a file that starts with TERM blocked could only be killed.
fn unblock_signals() {
    let mut none = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises the set before sigprocmask reads it; both are async-signal-safe.
    unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut());
    }
}

pub(super) fn fork() -> io::Result<i32> {
    // SAFETY: the owner has one thread, so no lock is held by another one in the copy.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        pid => Ok(pid),
    }
}
