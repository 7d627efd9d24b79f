//! What an owner does in macOS's own way: a kqueue tells of forks and ends of those it follows, and the leader is not waited for before
//! the sweep is over, so that the number of its process group and its session stays its own.
//!
//! By reading xnu-11417 (bsd/kern/kern_event.c, kern_exit.c), not by trying: no Mac has run this.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::path::PathBuf;
use std::process::Command;

use rustix::process::{Pid, WaitId, WaitIdOptions, WaitOptions, waitid, waitpid};

use super::sampled::Sampled;
use crate::core::process::{Exit, ProcessId, TreeUse};
use crate::host::spawn::{Placement, spawn};
use crate::host::tree::{Children, Mechanism, OurTree};
use crate::host::{clock, darwin};

/// A look that a fork asked for costs at most a twentieth of the time.
const FORK_SHARE: u64 = 20;
/// The end of a process is told before it can be waited for.
const ALMOST_ENDED_MS: u64 = 1;

/// What is known of the children of this process, and of theirs.
pub struct ChildWatch {
    queue: OwnedFd,
    /// The link that the queue tells of, while it is open.
    link: Option<RawFd>,
    leader: Option<ProcessId>,
    state: LeaderState,
    /// The kernel said that it took the leader for want of memory.
    took_for_memory: bool,
    followed: BTreeSet<i32>,
    usage: Sampled,
    next_note_ms: u64,
    next_fork_note_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LeaderState {
    NotStarted,
    Runs,
    /// Told, and not to be waited for yet.
    Ending,
    /// Its status is known; its number stays taken until the sweep is over.
    Ended,
    WaitedFor,
}

/// What a look for all that has ended came to.
pub struct Reaped {
    /// How the leader ended, if it has ended since the last look.
    pub leader: Option<Exit>,
    pub left: Children,
}

impl ChildWatch {
    pub fn begin() -> io::Result<Self> {
        block_signals();
        // SAFETY: the call has no arguments and answers with a descriptor that nobody else owns.
        let queue = match unsafe { libc::kqueue() } {
            -1 => return Err(io::Error::last_os_error()),
            // SAFETY: as above.
            fd => unsafe { OwnedFd::from_raw_fd(fd) },
        };
        rustix::io::fcntl_setfd(&queue, rustix::io::FdFlags::CLOEXEC)?;
        Ok(Self {
            queue,
            link: None,
            leader: None,
            state: LeaderState::NotStarted,
            took_for_memory: false,
            followed: BTreeSet::new(),
            usage: Sampled::default(),
            next_note_ms: u64::MAX,
            next_fork_note_ms: 0,
        })
    }

    pub fn leader_started(&mut self, tree: &mut OurTree, leader: ProcessId) {
        self.leader = Some(leader);
        self.state = LeaderState::Runs;
        tree.noted.insert(leader);
        self.follow(leader.pid, libc::NOTE_EXIT | libc::NOTE_FORK | libc::NOTE_EXIT_DETAIL);
        // It may have forked before it was followed.
        self.next_note_ms = clock::now().mono_ms;
    }

    /// Whether its end has not been told yet.
    pub fn leader_runs(&self) -> bool {
        matches!(self.state, LeaderState::Runs | LeaderState::Ending)
    }

    /// Asks how the leader ended, without waiting for it.
    pub fn reap(&mut self) -> Reaped {
        let leader = self.leader_end();
        let left = if self.leader_runs() || !self.followed.is_empty() { Children::Some } else { Children::None };
        Reaped { leader, left }
    }

    fn leader_end(&mut self) -> Option<Exit> {
        let leader = self.leader.filter(|_| self.leader_runs())?;
        let pid = Pid::from_raw(leader.pid)?;
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let status = waitid(WaitId::Pid(pid), options).ok().flatten()?;
        let exit = match status.terminating_signal() {
            Some(signal) => Exit::Signal(signal),
            // Only eight bits are a program's to choose; this call shows more.
            None => Exit::Code(status.exit_status()? & 0xff),
        };
        // What the queue has to say of this end has been said by now.
        self.take_news(Some(0));
        self.state = LeaderState::Ended;
        self.usage.read(leader.pid);
        Some(exit)
    }

    /// Whether the kernel took the leader for want of memory: its own word, not a guess from the status.
    pub fn killed_for_memory(&self, _: &OurTree, _: Exit, signalled: bool) -> bool {
        self.took_for_memory && !signalled
    }

    pub fn used(&self, _: &OurTree) -> TreeUse {
        self.usage.sum()
    }

    pub fn note_if_due(&mut self, tree: &mut OurTree) {
        let before = clock::now().mono_ms;
        if before < self.next_note_ms {
            return;
        }
        let tally = tree.note(Children::Some);
        self.usage.saw(tally);
        for id in &tree.noted {
            self.usage.read(id.pid);
        }
        self.usage.forget_ended();
        let fresh: Vec<i32> = tree.noted.iter().map(|id| id.pid).filter(|pid| !self.followed.contains(pid)).collect();
        for pid in &fresh {
            self.follow(*pid, libc::NOTE_EXIT | libc::NOTE_FORK);
        }
        let after = clock::now().mono_ms;
        self.next_note_ms = super::next_note_ms(before, after);
        // A look that took no whole millisecond counts as one.
        self.next_fork_note_ms = after + (after - before + 1) * FORK_SHARE;
        if !fresh.is_empty() {
            // Each may have forked before it was followed.
            self.note_soon();
        }
    }

    pub fn next_note_ms(&self) -> u64 {
        self.next_note_ms
    }

    /// The leader's number may be used again from here on.
    pub fn swept(&mut self) {
        self.next_note_ms = u64::MAX;
        if let (LeaderState::Ended, Some(leader)) = (self.state, self.leader) {
            let _ = waitpid(Pid::from_raw(leader.pid), WaitOptions::NOHANG);
            self.state = LeaderState::WaitedFor;
        }
    }

    /// Sleeps until then, or until one that is followed ends or the link has something to say; answers whether it has.
    pub fn wait(&mut self, link: Option<BorrowedFd<'_>>, until_ms: u64) -> bool {
        self.watch_link(link.map(|link| link.as_raw_fd()));
        let left = until_ms.saturating_sub(clock::now().mono_ms);
        let left = if self.state == LeaderState::Ending { left.min(ALMOST_ENDED_MS) } else { left };
        let wait_ms = (until_ms != u64::MAX || self.state == LeaderState::Ending).then_some(left);
        self.take_news(wait_ms)
    }

    fn watch_link(&mut self, link: Option<RawFd>) {
        if link == self.link {
            return;
        }
        if let Some(old) = self.link.take() {
            self.change(old as usize, libc::EVFILT_READ, libc::EV_DELETE, 0);
        }
        if let Some(new) = link {
            self.change(new as usize, libc::EVFILT_READ, libc::EV_ADD, 0);
            self.link = Some(new);
        }
    }

    /// A process that has ended meanwhile cannot be followed, and need not be.
    fn follow(&mut self, pid: i32, notes: u32) {
        if self.change(pid as usize, libc::EVFILT_PROC, libc::EV_ADD | libc::EV_CLEAR, notes) {
            self.followed.insert(pid);
        }
    }

    fn change(&self, ident: usize, filter: i16, flags: u16, fflags: u32) -> bool {
        let change = libc::kevent { ident, filter, flags, fflags, data: 0, udata: std::ptr::null_mut() };
        // SAFETY: one change is handed in, no event is asked for, and both live through the call.
        let failed =
            unsafe { libc::kevent(self.queue.as_raw_fd(), &raw const change, 1, std::ptr::null_mut(), 0, std::ptr::null()) };
        failed == 0
    }

    /// Takes in what the queue tells, waiting so long for the first; answers whether the link has something to say.
    fn take_news(&mut self, wait_ms: Option<u64>) -> bool {
        let nothing = libc::kevent { ident: 0, filter: 0, flags: 0, fflags: 0, data: 0, udata: std::ptr::null_mut() };
        let mut events = [nothing; 64];
        let wait = wait_ms.map(|ms| libc::timespec { tv_sec: (ms / 1000) as i64, tv_nsec: (ms % 1000 * 1_000_000) as i64 });
        let wait = wait.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the buffer is as long as is said, and the time lives through the call.
        let count =
            unsafe { libc::kevent(self.queue.as_raw_fd(), std::ptr::null(), 0, events.as_mut_ptr(), events.len() as i32, wait) };
        let mut said = false;
        for event in &events[..usize::try_from(count).unwrap_or(0)] {
            match event.filter {
                libc::EVFILT_READ => said = true,
                libc::EVFILT_PROC => self.heard(event.ident as i32, event.fflags, event.data),
                _ => {}
            }
        }
        said
    }

    fn heard(&mut self, pid: i32, notes: u32, data: isize) {
        if notes & libc::NOTE_FORK != 0 {
            self.note_soon();
        }
        if notes & libc::NOTE_EXIT != 0 {
            self.followed.remove(&pid);
            if self.leader.is_some_and(|leader| leader.pid == pid) {
                self.took_for_memory = data as u32 & libc::NOTE_EXIT_MEMORY != 0;
                if self.state == LeaderState::Runs {
                    self.state = LeaderState::Ending;
                }
            }
        }
    }

    fn note_soon(&mut self) {
        if self.state != LeaderState::WaitedFor {
            self.next_note_ms = self.next_note_ms.min(self.next_fork_note_ms);
        }
    }
}

/// Lets go of what ledger's own parent left open: a lock or a socket would otherwise be held by whatever the file leaves behind.
pub fn settle_in(link: BorrowedFd<'_>) {
    for fd in darwin::own_descriptors().unwrap_or_default() {
        if fd > 2 && fd != link.as_raw_fd() {
            // SAFETY: besides the three streams and the link this process has opened nothing yet, so nobody uses the number.
            unsafe { libc::close(fd) };
        }
    }
}

/// Sets up what is allowed and possible. Nothing has to be, and so nothing can fail.
pub fn hold_together(_: &mut OurTree, _: &str) -> Vec<String> {
    Vec::new()
}

/// Starts the file's program.
pub fn spawn_into(_: &mut OurTree, command: &mut Command, controlling_terminal: bool) -> io::Result<i32> {
    spawn(command, Placement { controlling_terminal })
}

/// There are no control groups.
pub fn leaf_path(_: &OurTree) -> Option<PathBuf> {
    None
}

/// A new terminal, which does not become ledger's own. It is closed on exec only a moment after it was made.
pub fn open_terminal() -> io::Result<OwnedFd> {
    use rustix::pty::OpenptFlags;
    let terminal = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    rustix::io::fcntl_setfd(&terminal, rustix::io::FdFlags::CLOEXEC)?;
    Ok(terminal)
}

/// What holds the tree, strongest first. None of them is a wall, and none is called one.
pub fn containment(tree: &OurTree) -> String {
    let words = [Mechanism::Descendant, Mechanism::Session, Mechanism::Token].into_iter().filter(|&mechanism| tree.has(mechanism));
    words.map(Mechanism::as_str).collect::<Vec<_>>().join("+")
}

/// Signals of a terminal or a service manager are for ledger to act on, not for the owner; the file itself starts with none blocked.
fn block_signals() {
    let mut blocked = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises the set before anything reads it.
    unsafe {
        libc::sigemptyset(blocked.as_mut_ptr());
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT, libc::SIGTSTP, libc::SIGUSR1, libc::SIGUSR2] {
            libc::sigaddset(blocked.as_mut_ptr(), signal);
        }
        libc::sigprocmask(libc::SIG_BLOCK, blocked.as_ptr(), std::ptr::null_mut());
    }
}
