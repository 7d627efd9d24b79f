//! The owner on Unix: one thread that waits for the socket to ledger, for children, and for nothing else.
//!
//! It alone waits for children. It must not open the ledger, a sink or a lock. How the system tells of children, and what holds the
//! tree together, is in the file of that system.

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::process::{ExitCode, Stdio};

use super::socket::Link;
use super::system::{self, ChildWatch, Reaped};
use super::wire::{Command, Hello, Reply, SpawnSpec};
use crate::core::process::{Descendants, Exit, ProcessId, Swept};
use crate::core::stop::{Reach, Scan, StopOrder};
use crate::host::sweep::{Answers, Tree, Woken, perform};
use crate::host::tree::{Children, OurTree, Root};
use crate::host::{clock, process};

/// So many descendants of a file are written down, so that a hundred thousand files leave an obituary that can be read.
const MOST_WRITTEN: usize = 200;

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
    children: ChildWatch,
    tree: OurTree,
    terminal: bool,
    obituary: Option<std::path::PathBuf>,
    /// Descendants that are in the obituary.
    written: BTreeSet<ProcessId>,
    /// A TERM or KILL of ours went to the tree before its leader was reaped.
    signalled: bool,
    kill_now: bool,
    /// A sweep has been done: what still lives was reported and stays.
    swept: bool,
}

impl Owner {
    fn begin() -> io::Result<Self> {
        let mut link = Link::take_stdin()?;
        rustix::process::setsid()?;
        system::settle_in(link.as_fd());
        let children = ChildWatch::begin()?;
        let hello: Hello = link.hello()?;
        let mut tree = OurTree::new(Root::Subreaper);
        tree.disabled = hello.disabled;
        let notes = system::hold_together(&mut tree, &hello.token);
        tree.token = Some(hello.token);
        tree.spare = hello.allow_leftover.into();
        link.send(&Reply::Ready { containment: system::containment(&tree), leaf: system::leaf_path(&tree), notes });
        let terminal = hello.terminal;
        let obituary = hello.obituary;
        Ok(Self {
            link,
            children,
            tree,
            terminal,
            obituary,
            written: BTreeSet::new(),
            signalled: false,
            kill_now: false,
            swept: false,
        })
    }

    fn serve(&mut self) {
        while !self.link.closed {
            match self.link.pending.pop_front() {
                Some(command) => self.obey(command),
                None => {
                    self.wait_for_news(self.children.next_note_ms());
                    self.reap();
                    self.children.note_if_due(&mut self.tree);
                    self.write_descendants();
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
            // What a sweep has left is left in peace.
            Command::Pause if self.swept => {}
            Command::Pause => {
                let children = self.reap();
                self.tree.pause(children, clock::now());
            }
            Command::Resume => self.tree.resume(),
            Command::KillNow => self.kill_now = true,
        }
    }

    fn start(&mut self, spec: &SpawnSpec) {
        let reply = match self.spawn(spec) {
            Ok(id) => Reply::Started { id, containment: system::containment(&self.tree) },
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
        let pid = system::spawn_into(&mut self.tree, &mut command, self.terminal)?;
        // It is unreaped until this thread waits for it, so its number is still its own, even if it has ended.
        let start = process::stat(pid).map_or(0, |stat| stat.id.start);
        let id = ProcessId { pid, start };
        self.tree.leader = Some(id);
        self.tree.session = Some(id);
        self.tree.since = start;
        self.children.leader_started(&mut self.tree, id);
        Ok(id)
    }

    /// Takes in every child that has ended, and says whether there are more.
    fn reap(&mut self) -> Children {
        let Reaped { leader, left } = self.children.reap();
        if let Some(exit) = leader {
            self.leader_exited(exit);
        }
        left
    }

    fn leader_exited(&mut self, exit: Exit) {
        let signalled = self.signalled;
        let oom = self.children.killed_for_memory(&self.tree, exit, signalled);
        let used = self.children.used(&self.tree);
        self.link.send(&Reply::LeaderExited { exit, used, signalled, oom, at_ms: clock::now().mono_ms });
    }

    fn sweep(&mut self, order: StopOrder) {
        // A stopped process cannot act on TERM.
        self.tree.resume();
        let order = if self.kill_now { StopOrder { verify: order.verify, ..StopOrder::at_once() } } else { order };
        let (swept, survivors) = self.bring_to_an_end(order);
        let used = self.children.used(&self.tree);
        if self.link.closed {
            self.write_obituary(&swept);
        }
        self.link.send(&Reply::Swept { swept, used, survivors });
        self.swept = true;
        self.children.swept();
    }

    fn bring_to_an_end(&mut self, order: StopOrder) -> (Swept, Vec<ProcessId>) {
        let began = clock::now();
        let verdict = perform(order, self);
        self.tree.let_go();
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
        self.tree.resume();
        let (swept, _) = self.bring_to_an_end(StopOrder::at_once());
        self.write_obituary(&swept);
    }

    /// Where no leaf outlives the owner, what has shed its token could not be found again after the death of both.
    fn write_descendants(&mut self) {
        let room = MOST_WRITTEN.saturating_sub(self.written.len());
        let (None, Some(token), true) = (&self.tree.leaf, self.tree.token.clone(), room > 0) else { return };
        let mut descendants = self.tree.settled_since(&self.written);
        descendants.truncate(room);
        if !descendants.is_empty() {
            self.written.extend(&descendants);
            self.write(&Descendants { token, descendants });
        }
    }

    fn write_obituary(&self, swept: &Swept) {
        if self.tree.leader.is_some() {
            self.write(swept);
        }
    }

    fn write(&self, line: &impl serde::Serialize) {
        let mut options = std::fs::OpenOptions::new();
        // ledger made the file. Nothing is created here: somebody may be removing the folder at this very moment.
        if let Some(path) = &self.obituary
            && let (Ok(mut file), Ok(mut text)) = (options.append(true).open(path), serde_json::to_vec(line))
        {
            text.push(b'\n');
            let _ = file.write_all(&text);
        }
    }

    /// Sleeps until then, or until a child ends or ledger says something.
    fn wait_for_news(&mut self, until_ms: u64) {
        // A closed link stays readable for ever, and a sweep must not spin on it.
        let link = (!self.link.closed).then(|| self.link.as_fd());
        if self.children.wait(link, until_ms) {
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
        if children == Children::Some && self.tree.hold_if_crowded(self.children.leader_runs()) {
            // Only some may, and for the others the hold must do.
            let _ = rustix::process::setpriority_process(None, -20);
        }
        self.tree.scan(children, clock::now())
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
        self.tree.let_go();
        let leader_before = self.children.leader_runs();
        let had_children = self.reap() == Children::Some;
        while self.children.leader_runs() == leader_before {
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

fn silence_output() {
    if let Ok(null) = std::fs::OpenOptions::new().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}
