//! Linux: the child is born inside its cgroup (clone3 with CLONE_INTO_CGROUP).
//!
//! Moving it there afterwards through cgroup.procs costs 17 ms the first time (measured; the kernel waits for an RCU grace period).

use std::cell::Cell;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::process::Command;

use super::unix::{Manner, fork, start};

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
    let born_inside = Cell::new(false);
    let copy = || match placement.leaf.map(clone_into) {
        Some(Ok(pid)) => {
            born_inside.set(true);
            Ok(pid)
        }
        // An old kernel or a filter: fork, and move in below.
        Some(Err(_)) | None => fork(),
    };
    let prepare = || {
        if let Some(leaf) = placement.leaf.filter(|_| !born_inside.get()) {
            enter(leaf);
        }
        raise_oom_score(placement.oom_raise);
    };
    let manner = Manner { controlling_terminal: placement.controlling_terminal, fork: &copy, prepare: &prepare };
    let pid = start(command, &manner)?;
    Ok(Spawned { pid, born_inside: born_inside.get() })
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
