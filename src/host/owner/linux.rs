//! What an owner does in Linux's own way: it is a child-subreaper, so whatever the file orphans lands on it, and a signalfd tells of
//! children that have ended.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::path::PathBuf;
use std::process::Command;

use rustix::event::{PollFd, PollFlags, Timespec};

use super::usage::Usage;
use crate::core::process::{Exit, ProcessId, TreeUse};
use crate::host::cgroup::{self, Leaf};
use crate::host::spawn::{Placement, Spawned, spawn};
use crate::host::tree::{Children, Mechanism, OurTree};
use crate::host::{clock, process};

/// The kernel takes memory into account with a thousandth of all of it per point: with 100 points a child is taken before an owner and
/// a ledger that hold a tenth of the machine less, which they never do.
const OOM_RAISE: i32 = 100;

/// What is known of the children of this process.
pub struct ChildWatch {
    signals: OwnedFd,
    usage: Usage,
    /// The number of the leader until it has been waited for.
    waiting_for: Option<i32>,
    /// As the leader started: an owner waits through the whole file before its own, whose deaths are not its leader's.
    oom_kills_before: Option<u64>,
    next_note_ms: u64,
}

/// What a wait for all that has ended came to.
pub struct Reaped {
    /// How the leader ended, if it was among them.
    pub leader: Option<Exit>,
    pub left: Children,
}

impl ChildWatch {
    pub fn begin() -> io::Result<Self> {
        Ok(Self {
            signals: child_signals()?,
            usage: Usage::default(),
            waiting_for: None,
            oom_kills_before: None,
            next_note_ms: u64::MAX,
        })
    }

    pub fn leader_started(&mut self, _: &mut OurTree, leader: ProcessId) {
        self.waiting_for = Some(leader.pid);
        self.oom_kills_before = process::host_oom_kills();
        self.next_note_ms = clock::now().mono_ms + super::NOTE_EVERY_MS;
    }

    /// Whether it has not been waited for yet.
    pub fn leader_runs(&self) -> bool {
        self.waiting_for.is_some()
    }

    /// Waits for every child that has ended.
    pub fn reap(&mut self) -> Reaped {
        let mut leader = None;
        loop {
            let mut status = 0;
            let mut rusage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
            // SAFETY: both pointers are valid for the call; this thread is the only one that waits in this process.
            let pid = unsafe { libc::wait4(-1, &raw mut status, libc::WNOHANG | libc::__WALL, rusage.as_mut_ptr()) };
            if pid <= 0 {
                return Reaped { leader, left: if pid == 0 { Children::Some } else { Children::None } };
            }
            // SAFETY: zero is a valid rusage, and wait4 has filled it in.
            self.usage.add(unsafe { rusage.assume_init_ref() });
            if self.waiting_for == Some(pid) {
                self.waiting_for = None;
                leader = Some(exit_of(status));
            }
        }
    }

    /// Whether the kernel took the leader for want of memory.
    pub fn killed_for_memory(&self, tree: &OurTree, exit: Exit, signalled: bool) -> bool {
        let in_leaf = tree.leaf.as_ref().and_then(Leaf::oom_kills).is_some_and(|kills| kills > 0);
        let looks_killed = !signalled && matches!(exit, Exit::Signal(9) | Exit::Code(137));
        in_leaf || (looks_killed && process::host_oom_kills().zip(self.oom_kills_before).is_some_and(|(now, before)| now > before))
    }

    pub fn used(&self, tree: &OurTree) -> TreeUse {
        self.usage.sum(tree.leaf.as_ref())
    }

    pub fn note_if_due(&mut self, tree: &mut OurTree) {
        let before = clock::now().mono_ms;
        if before < self.next_note_ms {
            return;
        }
        // In a crowd a look takes minutes, and nobody else would hear ledger's next word; what holds the tree needs no notes.
        if tree.is_found_without_notes() && process::is_host_crowded() {
            self.next_note_ms = before + super::NOTE_EVERY_MS;
            return;
        }
        // The wait that came before this has taken in what had ended, and a child that ends meanwhile is a zombie to the look.
        let tally = tree.note(Children::Some);
        self.usage.saw(tally);
        let after = clock::now().mono_ms;
        self.next_note_ms = super::next_note_ms(before, after);
    }

    pub fn next_note_ms(&self) -> u64 {
        self.next_note_ms
    }

    /// What still lives now was reported and stays.
    pub fn swept(&mut self) {
        self.next_note_ms = u64::MAX;
    }

    /// Sleeps until then, or until a child ends or the link has something to say; answers whether it has.
    pub fn wait(&mut self, link: Option<BorrowedFd<'_>>, until_ms: u64) -> bool {
        let left = until_ms.saturating_sub(clock::now().mono_ms);
        let timeout = Timespec { tv_sec: (left / 1000) as i64, tv_nsec: (left % 1000 * 1_000_000) as i64 };
        let timeout = (until_ms != u64::MAX).then_some(&timeout);
        let mut fds = vec![PollFd::from_borrowed_fd(self.signals.as_fd(), PollFlags::IN)];
        fds.extend(link.map(|link| PollFd::from_borrowed_fd(link, PollFlags::IN)));
        if rustix::event::poll(&mut fds, timeout).is_err() {
            return false;
        }
        let said = fds.get(1).is_some_and(|link| !link.revents().is_empty());
        if !fds[0].revents().is_empty() {
            let mut news = [0_u8; 128];
            let _ = rustix::io::read(&self.signals, &mut news);
        }
        said
    }
}

/// Gives the thread its name, and lets go of what ledger's own parent left open: a lock or a socket would otherwise be held by whatever
/// the file leaves behind. That may be any number, also one below the link's: `flock FILE ledger run` leaves 3 open.
pub fn settle_in(link: BorrowedFd<'_>) {
    let _ = rustix::thread::set_name(c"ledger-owner");
    let link = link.as_raw_fd().cast_unsigned();
    close_range(3, link - 1);
    close_range(link + 1, u32::MAX);
}

fn close_range(first: u32, last: u32) {
    // SAFETY: besides the three streams and the link this process has opened nothing yet; a kernel without the call, or an empty range,
    // leaves everything as it is, and ledger's own descriptors are all close-on-exec.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, 0_u32) };
}

/// Sets up what is allowed and possible. The answer says what was not possible.
pub fn hold_together(tree: &mut OurTree, token: &str) -> Vec<String> {
    if tree.has(Mechanism::Subreaper) && rustix::process::set_child_subreaper(rustix::process::Pid::from_raw(1)).is_err() {
        tree.disabled.push(Mechanism::Subreaper);
    }
    if tree.has(Mechanism::Cgroup) {
        match Leaf::make(&cgroup::leaf_name(std::process::id() as i32, token)) {
            Ok(leaf) => tree.leaf = Some(leaf),
            Err(why) => return vec![why],
        }
    }
    Vec::new()
}

/// Starts the file's program where the tree is held.
pub fn spawn_into(tree: &mut OurTree, command: &mut Command, controlling_terminal: bool) -> io::Result<i32> {
    let leaf = tree.leaf.as_ref().map(Leaf::folder);
    let Spawned { pid, born_inside } = spawn(command, Placement { leaf, controlling_terminal, oom_raise: OOM_RAISE })?;
    if !born_inside {
        leave_leaf_if_outside(tree, pid);
    }
    Ok(pid)
}

/// The kernel may have refused the leaf (a threaded group, a filter); the record must not name a mechanism that holds nothing.
fn leave_leaf_if_outside(tree: &mut OurTree, pid: i32) {
    let inside = cgroup::folder_of(pid);
    if let (Some(leaf), Some(inside)) = (&tree.leaf, inside)
        && leaf.path() != inside
    {
        tree.leaf = None;
    }
}

pub fn leaf_path(tree: &OurTree) -> Option<PathBuf> {
    tree.leaf.as_ref().map(|leaf| leaf.path().to_owned())
}

/// A new terminal, which does not become ledger's own.
pub fn open_terminal() -> io::Result<OwnedFd> {
    use rustix::pty::OpenptFlags;
    Ok(rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?)
}

/// What holds the tree, strongest first.
pub fn containment(tree: &OurTree) -> String {
    let mut words = Vec::new();
    if tree.leaf.is_some() {
        words.push(Mechanism::Cgroup);
    }
    if tree.has(Mechanism::Subreaper) {
        words.push(Mechanism::Subreaper);
    } else {
        words.extend([Mechanism::Session, Mechanism::Token, Mechanism::Descendant].into_iter().filter(|&m| tree.has(m)));
    }
    words.into_iter().map(Mechanism::as_str).collect::<Vec<_>>().join("+")
}

fn exit_of(status: i32) -> Exit {
    if libc::WIFSIGNALED(status) { Exit::Signal(libc::WTERMSIG(status)) } else { Exit::Code(libc::WEXITSTATUS(status)) }
}

/// A descriptor that becomes readable when a child ends. Signals of a terminal or a service manager are for ledger to act on, not for
/// the owner, so they are blocked; the file itself starts with none blocked.
fn child_signals() -> io::Result<OwnedFd> {
    let mut blocked = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    let mut children = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises both sets before anything reads them, and signalfd answers with a descriptor that nobody else owns.
    unsafe {
        libc::sigemptyset(blocked.as_mut_ptr());
        libc::sigemptyset(children.as_mut_ptr());
        libc::sigaddset(children.as_mut_ptr(), libc::SIGCHLD);
        for signal in
            [libc::SIGCHLD, libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT, libc::SIGTSTP, libc::SIGUSR1, libc::SIGUSR2]
        {
            libc::sigaddset(blocked.as_mut_ptr(), signal);
        }
        libc::sigprocmask(libc::SIG_BLOCK, blocked.as_ptr(), std::ptr::null_mut());
        match libc::signalfd(-1, children.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) {
            -1 => Err(io::Error::last_os_error()),
            fd => Ok(OwnedFd::from_raw_fd(fd)),
        }
    }
}
