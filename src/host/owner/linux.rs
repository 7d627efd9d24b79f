//! The owner on Linux: one thread that waits for the socket to ledger, for children, and for nothing else.
//!
//! It is a child-subreaper, so whatever the file orphans lands here, and it alone waits for children. It must not open the ledger,
//! a sink or a lock.

use std::collections::VecDeque;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{ExitCode, Stdio};

use rustix::event::{PollFd, PollFlags};

use super::usage::Usage;
use super::wire::{Command, Hello, Reply, SpawnSpec};
use crate::core::process::{Exit, ProcessId, Swept};
use crate::core::stop::{Reach, Scan, StopOrder};
use crate::host::cgroup::{self, Leaf};
use crate::host::spawn::{Placement, Spawned, spawn};
use crate::host::sweep::{Answers, Tree, Woken, perform};
use crate::host::tree::{Children, Mechanism, OurTree, Root};
use crate::host::{clock, process};

/// The kernel takes memory into account with a thousandth of all of it per point: with 100 points a child is taken before an owner and
/// a ledger that hold a tenth of the machine less, which they never do.
const OOM_RAISE: i32 = 100;
/// A look at the tree while it runs costs at most a two-hundredth of the time.
const NOTE_SHARE: u64 = 200;
const NOTE_EVERY_MS: u64 = 1000;

/// Runs the owner to its end.
pub fn run() -> ExitCode {
    match Owner::begin() {
        Ok(mut owner) => {
            owner.serve();
            ExitCode::SUCCESS
        }
        Err(error) => {
            let _ = writeln!(io::stderr(), "ledger: the owner of a file could not start: {error}");
            ExitCode::from(2)
        }
    }
}

struct Owner {
    link: Link,
    child_signals: OwnedFd,
    tree: OurTree,
    terminal: bool,
    obituary: Option<std::path::PathBuf>,
    usage: Usage,
    /// The number of the leader until it has been waited for.
    waiting_for: Option<i32>,
    /// A TERM or KILL of ours went to the tree before its leader was reaped.
    signalled: bool,
    kill_now: bool,
    /// A sweep has been done: what still lives was reported and stays.
    swept: bool,
    oom_kills_before: Option<u64>,
    next_note_ms: u64,
}

impl Owner {
    fn begin() -> io::Result<Self> {
        let mut link = Link::take_stdin()?;
        rustix::process::setsid()?;
        let _ = rustix::thread::set_name(c"ledger-owner");
        close_inherited();
        let child_signals = child_signals()?;
        let hello: Hello = link.hello()?;
        let mut tree = OurTree::new(Root::Subreaper);
        tree.disabled = hello.disabled;
        if tree.has(Mechanism::Subreaper) && rustix::process::set_child_subreaper(rustix::process::Pid::from_raw(1)).is_err() {
            tree.disabled.push(Mechanism::Subreaper);
        }
        let mut notes = Vec::new();
        if tree.has(Mechanism::Cgroup) {
            match Leaf::make(&cgroup::leaf_name(std::process::id() as i32, &hello.token)) {
                Ok(leaf) => tree.leaf = Some(leaf),
                Err(why) => notes.push(why),
            }
        }
        tree.token = Some(hello.token);
        tree.spare = hello.allow_leftover;
        let leaf = tree.leaf.as_ref().map(|leaf| leaf.path().to_owned());
        link.send(&Reply::Ready { containment: containment(&tree), leaf, notes });
        Ok(Self {
            link,
            child_signals,
            tree,
            terminal: hello.terminal,
            obituary: hello.obituary,
            usage: Usage::default(),
            waiting_for: None,
            signalled: false,
            kill_now: false,
            swept: false,
            oom_kills_before: process::host_oom_kills(),
            next_note_ms: u64::MAX,
        })
    }

    fn serve(&mut self) {
        while !self.link.closed {
            match self.link.pending.pop_front() {
                Some(command) => self.obey(command),
                None => {
                    self.wait_for_news(self.next_note_ms);
                    self.reap();
                    self.note_if_due();
                }
            }
        }
        if !self.swept {
            self.last_rites();
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Start(spec) => self.start(&spec),
            Command::Sweep(order) => self.sweep(order),
            Command::Pause => {
                let children = self.reap();
                self.tree.pause(children, clock::now().boot_ms);
            }
            Command::Resume => self.tree.resume(),
            Command::KillNow => self.kill_now = true,
        }
    }

    fn start(&mut self, spec: &SpawnSpec) {
        let reply = match self.spawn(spec) {
            Ok(id) => Reply::Started { id, containment: containment(&self.tree) },
            Err(error) => Reply::SpawnFailed { errno: error.raw_os_error(), text: error.to_string() },
        };
        // End of file on the output must mean that the file's own processes have closed it.
        silence_output();
        self.link.send(&reply);
    }

    fn spawn(&mut self, spec: &SpawnSpec) -> io::Result<ProcessId> {
        let mut command = std::process::Command::new(&spec.program);
        command.args(&spec.args).envs(spec.env.iter().map(|(key, value)| (key, value)));
        if let Some(token) = &self.tree.token {
            command.env("LEDGER_TOKEN", token);
        }
        if let Some(cwd) = &spec.cwd {
            command.current_dir(cwd);
        }
        let stdin = if self.terminal { Stdio::from(rustix::stdio::stdout().try_clone_to_owned()?) } else { Stdio::null() };
        command.stdin(stdin).stdout(Stdio::inherit()).stderr(Stdio::inherit());
        let leaf = self.tree.leaf.as_ref().map(Leaf::folder);
        let placement = Placement { leaf, controlling_terminal: self.terminal, oom_raise: OOM_RAISE };
        let Spawned { pid, born_inside } = spawn(&mut command, placement)?;
        if !born_inside {
            self.leave_leaf_if_outside(pid);
        }
        // It is unreaped until this thread waits for it, so its number is still its own, even if it has ended.
        let start = process::stat(pid).map_or(0, |stat| stat.id.start);
        let id = ProcessId { pid, start };
        self.tree.leader = Some(id);
        self.tree.session = Some(id);
        self.tree.since = start;
        self.waiting_for = Some(pid);
        self.next_note_ms = clock::now().mono_ms + NOTE_EVERY_MS;
        Ok(id)
    }

    /// The kernel may have refused the leaf (a threaded group, a filter); the record must not name a mechanism that holds nothing.
    fn leave_leaf_if_outside(&mut self, pid: i32) {
        let inside = cgroup::folder_of(pid);
        if let (Some(leaf), Some(inside)) = (&self.tree.leaf, inside)
            && leaf.path() != inside
        {
            self.tree.leaf = None;
        }
    }

    /// Waits for every child that has ended, and says whether there are more.
    fn reap(&mut self) -> Children {
        loop {
            let mut status = 0;
            let mut rusage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
            // SAFETY: both pointers are valid for the call; this thread is the only one that waits in this process.
            let pid = unsafe { libc::wait4(-1, &raw mut status, libc::WNOHANG | libc::__WALL, rusage.as_mut_ptr()) };
            if pid <= 0 {
                return if pid == 0 { Children::Some } else { Children::None };
            }
            // SAFETY: zero is a valid rusage, and wait4 has filled it in.
            self.usage.add(unsafe { rusage.assume_init_ref() });
            if self.waiting_for == Some(pid) {
                self.waiting_for = None;
                self.leader_exited(exit_of(status));
            }
        }
    }

    fn leader_exited(&mut self, exit: Exit) {
        let in_leaf = self.tree.leaf.as_ref().and_then(Leaf::oom_kills).is_some_and(|kills| kills > 0);
        let looks_killed = !self.signalled && matches!(exit, Exit::Signal(9) | Exit::Code(137));
        let on_host = looks_killed && process::host_oom_kills() > self.oom_kills_before;
        let used = self.usage.sum(self.tree.leaf.as_ref());
        self.link.send(&Reply::LeaderExited { exit, used, signalled: self.signalled, oom: in_leaf || on_host });
    }

    fn sweep(&mut self, order: StopOrder) {
        // A stopped process cannot act on TERM.
        self.tree.resume();
        let order = if self.kill_now { StopOrder { verify: order.verify, ..StopOrder::at_once() } } else { order };
        let (swept, survivors) = self.bring_to_an_end(order);
        let used = self.usage.sum(self.tree.leaf.as_ref());
        if self.link.closed {
            self.write_obituary(&swept);
        }
        self.link.send(&Reply::Swept { swept, used, survivors });
        self.swept = true;
        self.next_note_ms = u64::MAX;
    }

    fn bring_to_an_end(&mut self, order: StopOrder) -> (Swept, Vec<ProcessId>) {
        let began = clock::now();
        let verdict = perform(order, self);
        let mut notes = verdict.notes;
        let leftovers = self.tree.leftovers(&verdict.ends, &mut notes);
        self.tree.release(&verdict.ends);
        let survivors = verdict.ends.iter().filter(|end| end.fate.is_alive()).map(|end| end.id).collect();
        let took = clock::now().since(began);
        let swept = Swept { cleanup: verdict.cleanup, leftovers, foreign: Vec::new(), escalated: verdict.escalated, notes, took };
        (swept, survivors)
    }

    /// ledger is gone: nobody is left to ask for grace. What was found is written down for the next start.
    fn last_rites(&mut self) {
        let (swept, _) = self.bring_to_an_end(StopOrder::at_once());
        self.write_obituary(&swept);
    }

    fn write_obituary(&self, swept: &Swept) {
        let Some(path) = self.obituary.as_ref().filter(|_| self.tree.leader.is_some()) else { return };
        let mut options = std::fs::OpenOptions::new();
        // ledger made the file. Nothing is created here: somebody may be removing the folder at this very moment.
        if let (Ok(mut file), Ok(text)) = (options.append(true).open(path), serde_json::to_string(swept)) {
            let _ = writeln!(file, "{text}");
        }
    }

    fn note_if_due(&mut self) {
        let before = clock::now().mono_ms;
        if before < self.next_note_ms {
            return;
        }
        let children = self.reap();
        let tally = self.tree.note(children);
        self.usage.saw(tally);
        let after = clock::now().mono_ms;
        self.next_note_ms = after + NOTE_EVERY_MS.max((after - before) * NOTE_SHARE);
    }

    /// Sleeps until then, or until a child ends or ledger says something.
    fn wait_for_news(&mut self, until_ms: u64) {
        let now = clock::now().mono_ms;
        let timeout = (until_ms != u64::MAX).then(|| {
            let left = until_ms.saturating_sub(now);
            rustix::event::Timespec { tv_sec: (left / 1000) as i64, tv_nsec: (left % 1000 * 1_000_000) as i64 }
        });
        let mut fds = [
            PollFd::from_borrowed_fd(self.link.stream.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.child_signals.as_fd(), PollFlags::IN),
        ];
        // A closed link stays readable for ever, and a sweep must not spin on it.
        let watched = if self.link.closed { &mut fds[1..] } else { &mut fds[..] };
        if rustix::event::poll(watched, timeout.as_ref()).is_err() {
            return;
        }
        let said = !self.link.closed && !fds[0].revents().is_empty();
        let ended = !fds[1].revents().is_empty();
        if ended {
            let mut news = [0_u8; 128];
            let _ = rustix::io::read(&self.child_signals, &mut news);
        }
        if said {
            self.link.receive();
        }
    }
}

impl Tree for Owner {
    fn now_ms(&self) -> u64 {
        clock::now().mono_ms
    }

    fn scan(&mut self) -> Scan {
        let children = self.reap();
        self.tree.scan(children, clock::now().boot_ms)
    }

    fn term(&mut self, ids: &[ProcessId]) -> Answers {
        self.signalled = true;
        self.tree.term(ids)
    }

    fn freeze(&mut self, ids: &[ProcessId], reach: Reach) {
        self.tree.freeze(ids, reach);
    }

    fn kill(&mut self, ids: &[ProcessId], reach: Reach) -> Answers {
        self.signalled = true;
        self.tree.kill(ids, reach)
    }

    /// A thousand deaths are no reason for a thousand looks: only the leader's, and the last one, end the wait early.
    fn wait_until(&mut self, at_ms: u64) -> Woken {
        let leader_before = self.waiting_for;
        let had_children = self.reap() == Children::Some;
        while self.waiting_for == leader_before {
            self.wait_for_news(at_ms);
            let hurried = self.link.take_kill_now() || (self.link.closed && !self.kill_now);
            if hurried {
                self.kill_now = true;
                return Woken::KillNow;
            }
            let last_one_ended = self.reap() == Children::None && had_children;
            if last_one_ended || clock::now().mono_ms >= at_ms {
                break;
            }
        }
        Woken::Look
    }
}

/// The socket to ledger.
struct Link {
    stream: UnixStream,
    unread: Vec<u8>,
    pending: VecDeque<Command>,
    closed: bool,
}

impl Link {
    /// Standard input becomes the null device: nothing that is started later may hold the socket.
    fn take_stdin() -> io::Result<Self> {
        let own = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
        rustix::net::sockopt::socket_type(&own)?;
        rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null")?)?;
        Ok(Self { stream: UnixStream::from(own), unread: Vec::new(), pending: VecDeque::new(), closed: false })
    }

    fn hello(&mut self) -> io::Result<Hello> {
        while !self.unread.contains(&b'\n') {
            if !self.fill() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let line = self.take_line().unwrap_or_default();
        // The first command may have come in one piece with it.
        self.take_commands();
        Ok(serde_json::from_slice(&line)?)
    }

    fn receive(&mut self) {
        if !self.fill() {
            self.closed = true;
            return;
        }
        self.take_commands();
    }

    fn take_commands(&mut self) {
        while let Some(line) = self.take_line() {
            // ledger is this very program, so a line that cannot be read is a torn one: ledger died while it wrote.
            if let Ok(command) = serde_json::from_slice(&line) {
                self.pending.push_back(command);
            }
        }
    }

    fn fill(&mut self) -> bool {
        let mut chunk = [0_u8; 16 * 1024];
        match self.stream.read(&mut chunk) {
            Ok(count) if count > 0 => {
                self.unread.extend_from_slice(&chunk[..count]);
                true
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => true,
            _ => false,
        }
    }

    fn take_line(&mut self) -> Option<Vec<u8>> {
        let end = self.unread.iter().position(|&byte| byte == b'\n')?;
        let rest = self.unread.split_off(end + 1);
        Some(std::mem::replace(&mut self.unread, rest))
    }

    fn take_kill_now(&mut self) -> bool {
        let before = self.pending.len();
        self.pending.retain(|command| !matches!(command, Command::KillNow));
        self.pending.len() < before
    }

    fn send(&mut self, reply: &Reply) {
        let Ok(mut line) = serde_json::to_vec(reply) else { return };
        line.push(b'\n');
        // A write that fails means that ledger is gone, which the next read says too.
        let _ = self.stream.write_all(&line);
    }
}

/// What holds the tree, strongest first.
fn containment(tree: &OurTree) -> String {
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

/// A lock or a socket that ledger's own parent left open would otherwise be held by whatever the file leaves behind.
fn close_inherited() {
    let link = 3_u32;
    // SAFETY: nothing in this process has opened a descriptor yet besides the three streams and the link, which is the lowest free
    // number from 3 on; a kernel without the call leaves them open, and ledger's own are all close-on-exec.
    unsafe { libc::syscall(libc::SYS_close_range, link + 1, u32::MAX, 0_u32) };
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

fn silence_output() {
    if let Ok(null) = std::fs::OpenOptions::new().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}
