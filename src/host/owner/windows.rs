//! The owner on Windows: a thread of ledger, because nothing here needs a process of its own. A status cannot be stolen from whoever
//! holds the handle, no handle is inherited unasked, and the kernel itself ends the tree when ledger ends, however it ends
//! (ci/decisions/0006).
//!
//! It must not open the ledger, a sink or a lock.

use std::collections::VecDeque;
use std::process::{Command as Program, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;

use tokio::sync::mpsc::Sender;

use super::output::FarEnds;
use super::wire::{Command, Hello, Reply, SpawnSpec};
use crate::core::process::{Exit, Fate, ProcessId, Swept, TreeUse};
use crate::core::stop::{Reach, Scan, StopOrder};
use crate::host::clock;
use crate::host::job::Job;
use crate::host::spawn::{Spawned, spawn};
use crate::host::sweep::{Answers, Tree, Woken, perform};
use crate::host::tree::{Children, Mechanism, OurTree, Root, Tally};

/// What wakes an owner.
#[derive(Debug)]
pub enum News {
    Told(Command),
    LeaderEnded(Exit),
    /// Nobody listens any more.
    HungUp,
}

/// Nobody asks for this: on Windows no process is an owner.
pub fn run() -> ExitCode {
    ExitCode::from(2)
}

/// The life of an owner.
pub fn serve(hello: Hello, ends: FarEnds, inbox: &Receiver<News>, news: SyncSender<News>, outbox: Sender<Reply>) {
    let mut owner = Owner::begin(hello, ends, inbox, news, outbox);
    while !owner.hung_up {
        match owner.pending.pop_front() {
            Some(command) => owner.obey(command),
            None => {
                owner.wait_for_news(owner.next_note_ms);
                owner.note_if_due();
            }
        }
    }
    if !owner.swept {
        // Nobody is left to ask for grace.
        let _ = owner.bring_to_an_end(StopOrder::at_once());
    }
}

struct Owner<'a> {
    inbox: &'a Receiver<News>,
    news: SyncSender<News>,
    outbox: Sender<Reply>,
    pending: VecDeque<Command>,
    ends: Option<FarEnds>,
    tree: OurTree,
    peak: Tally,
    /// The leader was started and its end is not known yet.
    leader_runs: bool,
    /// Something of ours went to the tree before its leader had ended.
    signalled: bool,
    kill_now: bool,
    swept: bool,
    hung_up: bool,
    next_note_ms: u64,
}

impl<'a> Owner<'a> {
    fn begin(hello: Hello, ends: FarEnds, inbox: &'a Receiver<News>, news: SyncSender<News>, outbox: Sender<Reply>) -> Self {
        let mut tree = OurTree::new(Root::Subreaper);
        tree.disabled = hello.disabled;
        let mut notes = Vec::new();
        if tree.has(Mechanism::Job) {
            match Job::make() {
                Ok(job) => tree.hold_in(job),
                Err(error) => notes.push(format!("no job could be made: {error}")),
            }
        }
        tree.token = Some(hello.token);
        tree.spare = hello.allow_leftover.into();
        let mut owner = Self {
            inbox,
            news,
            outbox,
            pending: VecDeque::new(),
            ends: Some(ends),
            tree,
            peak: Tally::default(),
            leader_runs: false,
            signalled: false,
            kill_now: false,
            swept: false,
            hung_up: false,
            next_note_ms: u64::MAX,
        };
        owner.send(Reply::Ready { containment: containment(&owner.tree), leaf: None, notes });
        owner
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Start(spec) => self.start(&spec),
            Command::Sweep(order) => self.sweep(order),
            Command::Pause => self.tree.pause(Children::Some, clock::now()),
            Command::Resume => self.tree.resume(),
            Command::KillNow => self.kill_now = true,
        }
    }

    fn start(&mut self, spec: &SpawnSpec) {
        // End of file on the output must mean that the file's own processes have closed it, so our copies end here.
        let started = self.ends.take().ok_or(std::io::ErrorKind::AlreadyExists.into()).and_then(|ends| self.spawn(spec, ends));
        let reply = match started {
            Ok(id) => Reply::Started { id, containment: containment(&self.tree) },
            Err(error) => Reply::SpawnFailed { errno: error.raw_os_error(), text: error.to_string() },
        };
        self.send(reply);
    }

    fn spawn(&mut self, spec: &SpawnSpec, ends: FarEnds) -> std::io::Result<ProcessId> {
        let mut command = Program::new(&spec.program);
        command.args(&spec.args).envs(spec.env.iter().map(|(key, value)| (key, value)));
        // What only the sinks need: a test that could write check runs could also write them over.
        command.env_remove("LEDGER_GITHUB_TOKEN").env_remove("LEDGER_HTTPS_TOKEN");
        if let Some(token) = &self.tree.token {
            command.env("LEDGER_TOKEN", token);
        }
        if let Some(cwd) = &spec.cwd {
            command.current_dir(cwd);
        }
        command.stdin(Stdio::null()).stdout(ends.stdout).stderr(ends.stderr);
        let Spawned { mut child, id, kept, outside } = spawn(&mut command, self.tree.job())?;
        if outside.is_some() {
            // The record must not name a mechanism that holds nothing.
            self.tree.let_go_of_job();
        }
        // The thread below lets go of the child as soon as it has ended, and the sweep still goes by its number.
        self.tree.led_by(id, kept);
        self.tree.since = id.start;
        self.leader_runs = true;
        self.next_note_ms = clock::now().mono_ms + super::NOTE_EVERY_MS;
        let news = self.news.clone();
        std::thread::Builder::new().name("ledger-leader".to_owned()).spawn(move || {
            let status = child.wait();
            // An owner that has ended needs no news.
            let _ = news.send(News::LeaderEnded(exit_of(status)));
        })?;
        Ok(id)
    }

    fn leader_ended(&mut self, exit: Exit) {
        self.leader_runs = false;
        // Windows ends nobody for want of memory: it refuses memory.
        self.send(Reply::LeaderExited {
            exit,
            used: self.used(),
            signalled: self.signalled,
            oom: false,
            at_ms: clock::now().mono_ms,
        });
    }

    fn sweep(&mut self, order: StopOrder) {
        // A stopped process cannot act on anything.
        self.tree.resume();
        let order = if self.kill_now { StopOrder { verify: order.verify, ..StopOrder::at_once() } } else { order };
        let (swept, survivors) = self.bring_to_an_end(order);
        let used = self.used();
        self.send(Reply::Swept { swept, used, survivors });
        self.swept = true;
        self.next_note_ms = u64::MAX;
    }

    fn bring_to_an_end(&mut self, order: StopOrder) -> (Swept, Vec<ProcessId>) {
        let began = clock::now();
        let verdict = perform(order, self);
        let mut notes = verdict.notes;
        let leftovers = self.tree.leftovers(&verdict.ends, &mut notes);
        notes.extend(self.tree.unasked().map(str::to_owned));
        if verdict.ends.iter().any(|end| end.fate == Fate::Allowed)
            && let Some(Err(error)) = self.tree.job().map(Job::release)
        {
            notes.push(format!("what is spared ends with ledger: {error}"));
        }
        let survivors = verdict.ends.iter().filter(|end| end.fate.is_alive()).map(|end| end.id).collect();
        let took = clock::now().since(began);
        let swept = Swept { cleanup: verdict.cleanup, leftovers, foreign: Vec::new(), escalated: verdict.escalated, notes, took };
        (swept, survivors)
    }

    /// The job's own account, and what was seen of the tree while it ran.
    fn used(&self) -> TreeUse {
        let account = self.tree.job().and_then(|job| job.account().ok());
        // A system that keeps no account answers with zeros, and no process lives on nothing.
        let known = account.filter(|account| account.cpu_s > 0.0 || account.peak_mib > 0.0);
        let seen_mib = (self.peak.rss_mib > 0.0).then_some(self.peak.rss_mib);
        TreeUse {
            cpu_s: known.map(|account| account.cpu_s),
            mem_peak_mib: known.map(|account| account.peak_mib).filter(|&mib| mib > 0.0).or(seen_mib),
            process_peak: (self.peak.processes > 0).then_some(self.peak.processes),
            read_mib: known.map(|account| account.read_mib),
            write_mib: known.map(|account| account.write_mib),
            source: Some(if known.is_some() { "job" } else { "sampled" }.to_owned()),
        }
    }

    fn note_if_due(&mut self) {
        let before = clock::now().mono_ms;
        if before < self.next_note_ms {
            return;
        }
        let tally = self.tree.note(Children::Some);
        self.peak.processes = self.peak.processes.max(tally.processes);
        self.peak.rss_mib = self.peak.rss_mib.max(tally.rss_mib);
        let after = clock::now().mono_ms;
        self.next_note_ms = super::next_note_ms(before, after);
    }

    /// Sleeps until then, or until there is news.
    fn wait_for_news(&mut self, until_ms: u64) {
        let left = Duration::from_millis(until_ms.saturating_sub(clock::now().mono_ms));
        match self.inbox.recv_timeout(left) {
            Ok(News::Told(command)) => self.pending.push_back(command),
            Ok(News::LeaderEnded(exit)) => self.leader_ended(exit),
            Ok(News::HungUp) | Err(RecvTimeoutError::Disconnected) => self.hung_up = true,
            Err(RecvTimeoutError::Timeout) => {}
        }
    }

    fn send(&mut self, reply: Reply) {
        // ledger lets go of its end only together with the owner, and the queue is longer than all that is ever said.
        if self.outbox.try_send(reply).is_err() {
            self.hung_up = true;
        }
    }
}

impl Tree for Owner<'_> {
    fn now_ms(&self) -> u64 {
        clock::now().mono_ms
    }

    fn scan(&mut self) -> Scan {
        self.tree.scan(Children::Some, clock::now())
    }

    fn term(&mut self, ids: &[ProcessId]) -> Answers {
        let answers = self.tree.term(ids);
        self.signalled |= self.tree.was_asked();
        answers
    }

    fn freeze(&mut self, ids: &[ProcessId], reach: Reach) {
        self.tree.freeze(ids, reach);
    }

    fn kill(&mut self, ids: &[ProcessId], reach: Reach) -> Answers {
        self.signalled = true;
        self.tree.kill(ids, reach)
    }

    fn wait_until(&mut self, at_ms: u64) -> Woken {
        let leader_ran = self.leader_runs;
        while clock::now().mono_ms < at_ms && self.leader_runs == leader_ran {
            if self.hung_up {
                // Nothing more can be told, so only the time is left to wait for.
                std::thread::sleep(Duration::from_millis(at_ms.saturating_sub(clock::now().mono_ms)));
            } else {
                self.wait_for_news(at_ms);
            }
            let told = self.pending.len();
            self.pending.retain(|command| !matches!(command, Command::KillNow));
            if self.pending.len() < told || (self.hung_up && !self.kill_now) {
                self.kill_now = true;
                return Woken::KillNow;
            }
        }
        Woken::Look
    }
}

/// What holds the tree.
fn containment(tree: &OurTree) -> String {
    let word = match tree.job() {
        Some(_) => Mechanism::Job,
        None => Mechanism::Descendant,
    };
    word.as_str().to_owned()
}

/// All 32 bits count: 256 and -1073741819 are what the program said.
fn exit_of(status: std::io::Result<std::process::ExitStatus>) -> Exit {
    // Windows gives every process that has ended a code, and a handle that is open can be asked for it.
    Exit::Code(status.ok().and_then(|status| status.code()).unwrap_or(-1))
}
