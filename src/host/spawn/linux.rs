//! Linux: the child is born inside its cgroup (clone3 with CLONE_INTO_CGROUP).
//!
//! Moving it there afterwards through cgroup.procs costs 17 ms the first time (measured; the kernel waits for an RCU grace period).

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Where and how the child starts.
#[derive(Debug, Clone, Copy)]
pub struct Placement<'a> {
    /// The folder of a cgroup v2 leaf.
    pub leaf: Option<BorrowedFd<'a>>,
    /// Standard input is a terminal that becomes the session's own.
    pub controlling_terminal: bool,
    /// Added to the child's oom_score_adj, so that the kernel takes it before its owner and ledger.
    pub oom_raise: i32,
}

/// A child that runs its program, or has run it already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spawned {
    pub pid: i32,
    /// It was born in the leaf; otherwise it was told to move there, and the kernel may have refused.
    pub born_inside: bool,
}

/// Starts `command` (its standard streams are set by the caller) and says who it is, or why its program could not be started.
pub fn spawn(command: &mut Command, placement: Placement<'_>) -> io::Result<Spawned> {
    let (mut reader, writer) = io::pipe()?;
    let (pid, still_outside) = match placement.leaf.map(clone_into) {
        Some(Ok(pid)) => (pid, None),
        // An old kernel or a filter: fork, and move in below.
        Some(Err(_)) | None => (fork()?, placement.leaf),
    };
    if pid == 0 {
        let error = become_child(command, placement, still_outside);
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
        Err(_) => Ok(Spawned { pid, born_inside: placement.leaf.is_some() && still_outside.is_none() }),
    }
}

/// Returns only when the program could not be started.
fn become_child(command: &mut Command, placement: Placement<'_>, leaf: Option<BorrowedFd<'_>>) -> io::Error {
    if let Err(error) = rustix::process::setsid() {
        return error.into();
    }
    if placement.controlling_terminal
        && let Err(error) = rustix::process::ioctl_tiocsctty(rustix::stdio::stdout())
    {
        return error.into();
    }
    if let Some(leaf) = leaf {
        enter(leaf);
    }
    raise_oom_score(placement.oom_raise);
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

/// A refusal leaves the child where it is, and the subreaper still owns it.
fn enter(leaf: BorrowedFd<'_>) {
    let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::CLOEXEC;
    if let Ok(procs) = rustix::fs::openat(leaf, c"cgroup.procs", flags, rustix::fs::Mode::empty()) {
        let _ = rustix::io::write(procs, b"0");
    }
}

/// Raising one's own score is always permitted.
fn raise_oom_score(by: i32) {
    const FILE: &str = "/proc/self/oom_score_adj";
    let Some(now) = std::fs::read_to_string(FILE).ok().and_then(|text| text.trim().parse::<i32>().ok()) else { return };
    let _ = std::fs::write(FILE, (now + by).clamp(now, 1000).to_string());
}

fn fork() -> io::Result<i32> {
    // SAFETY: the owner has one thread, so no lock is held by another one in the copy.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        pid => Ok(pid),
    }
}

/// A fork whose copy is born in the cgroup behind `leaf`.
fn clone_into(leaf: BorrowedFd<'_>) -> io::Result<i32> {
    const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
    /// `struct clone_args` up to and with `cgroup` (linux/sched.h, CLONE_ARGS_SIZE_VER2).
    #[repr(C)]
    #[derive(Default)]
    struct CloneArgs {
        flags: u64,
        pidfd: u64,
        child_tid: u64,
        parent_tid: u64,
        exit_signal: u64,
        stack: u64,
        stack_size: u64,
        tls: u64,
        set_tid: u64,
        set_tid_size: u64,
        cgroup: u64,
    }
    let args = CloneArgs {
        flags: CLONE_INTO_CGROUP,
        exit_signal: libc::SIGCHLD as u64,
        cgroup: u64::try_from(leaf.as_raw_fd()).map_err(|_| io::ErrorKind::InvalidInput)?,
        ..CloneArgs::default()
    };
    // SAFETY: without CLONE_VM and without a stack of its own this is a fork; the owner has one thread, so no lock is held by another
    // one in the copy, and `args` lives through the call.
    match unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of::<CloneArgs>()) } {
        -1 => Err(io::Error::last_os_error()),
        pid => i32::try_from(pid).map_err(|_| io::ErrorKind::InvalidData.into()),
    }
}
