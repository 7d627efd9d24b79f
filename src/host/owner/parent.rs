//! ledger's side of an owner: starts it, speaks to it, and takes over its tree if it is lost.
//!
//! ledger waits for nobody but its owners, each by its own number: a wait for any child would steal statuses.

use std::future::pending;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::link::Link;
use super::output::{Output, Writer};
use super::wire::{Command, Hello, Reply, SpawnSpec};
use crate::core::ids::Token;
use crate::core::outcome::Cleanup;
use crate::core::pattern::Patterns;
use crate::core::process::{Evidence, Exit, NO_MORE_PROCESSES, ProcessId, Swept, TreeUse};
use crate::core::stop::StopOrder;
use crate::host::adopted;
use crate::host::evidence::{self, Subject};
use crate::host::keyboard::Keyboard;
use crate::host::reap::{Hurry, ReapScope, lost, strays};
use crate::host::table::SharedTable;
use crate::host::tree::Mechanism;

/// A program that hangs in its very start, on a mount that does not answer, is given up then.
const START_BOUND: Duration = Duration::from_secs(60);
/// What an owner may be late by, on a machine that is busy. One that is given up too early costs nothing but a sweep by ledger itself.
const LATE: Duration = Duration::from_secs(10);

/// The tree of a lost owner, strays, and matches of `--reap-match`: each is brought to its end by itself.
const MOST_SWEEPS: u32 = 3;

/// What a tree cannot leave unseen.
const HOLDS: [Mechanism; 3] = [Mechanism::Cgroup, Mechanism::Subreaper, Mechanism::Job];

/// Whether the file gets a terminal as its standard streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Terminal {
    #[default]
    None,
    Pseudo,
}

/// What an owner has to know before its file is known.
#[derive(Debug, Clone)]
pub struct OwnerSettings {
    /// The program to run as the owner; `None` for this very executable, also when its file has been replaced meanwhile.
    pub program: Option<PathBuf>,
    pub token: Token,
    /// Mechanisms that are forced off.
    pub disabled: Vec<Mechanism>,
    pub allow_leftover: Patterns,
    pub reap_scope: ReapScope,
    /// Shared with the sampler; it holds `--reap-match`.
    pub table: SharedTable,
    pub terminal: Terminal,
    /// Where the owner writes down what it swept if ledger dies: one JSON line.
    pub obituary: Option<PathBuf>,
}

impl OwnerSettings {
    pub fn new(token: Token) -> Self {
        Self {
            program: None,
            token,
            disabled: Vec::new(),
            allow_leftover: Patterns::default(),
            reap_scope: ReapScope::Owned,
            table: SharedTable::default(),
            terminal: Terminal::None,
            obituary: None,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum OwnerError {
    #[error("the owner of a file could not be started from {program}: {source}{}", limit(source))]
    Launch { program: String, source: io::Error },
    #[error("the pipes or the terminal of a file could not be made: {source}")]
    Output { source: io::Error },
    #[error("the owner of a file is gone")]
    Lost,
}

fn limit(error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::WouldBlock { format!(": {NO_MORE_PROCESSES}") } else { String::new() }
}

/// What an owner has to tell.
#[derive(Debug)]
pub enum Report {
    Started {
        id: ProcessId,
        containment: String,
    },
    SpawnFailed {
        errno: Option<i32>,
        text: String,
    },
    LeaderExited {
        exit: Exit,
        used: TreeUse,
        /// A signal of ours went out before the leader was reaped; without one its own status stands.
        signalled: bool,
        /// The kernel killed it for memory.
        oom: bool,
        /// When the owner saw it, on the steady clock.
        at_ms: u64,
    },
    Evidence(Evidence),
    Swept(Swept, TreeUse),
    /// The owner ended without being told to. A sweep now is done by ledger itself.
    OwnerLost,
}

/// The part of a sweep that ledger does, on a thread of its own.
#[derive(Debug)]
struct Finishing {
    task: JoinHandle<(Swept, TreeUse)>,
    /// A look at a process can hang in the kernel, and the file's record does not wait for that for ever.
    by: Instant,
    /// What is on record if it does.
    otherwise: (Swept, TreeUse),
}

/// A running owner.
#[derive(Debug)]
pub struct Owner {
    link: Link,
    pub stdout: Option<Output>,
    /// `None` on a terminal, which has one stream.
    pub stderr: Option<Output>,
    /// The near end of the file's terminal, until its start hands the keyboard to it.
    terminal: Option<Writer>,
    keyboard: Option<Keyboard>,
    settings: OwnerSettings,
    /// Known once the owner is at work; empty where nothing holds the tree.
    containment: Option<String>,
    leaf: Option<PathBuf>,
    leader: Option<ProcessId>,
    swept: bool,
    lost: bool,
    hurry: Hurry,
    order: StopOrder,
    /// Until when what it was told has to be answered.
    answer_by: Option<Instant>,
    finishing: Option<Finishing>,
    look: Option<JoinHandle<Evidence>>,
}

impl Owner {
    /// Starts an owner. Needs a tokio runtime; costs about a millisecond, which can be spent while the file before is running.
    pub fn launch(settings: &OwnerSettings) -> Result<Self, OwnerError> {
        let failed = |source| OwnerError::Output { source };
        let (stdout, stderr, ends) = Output::open(settings.terminal).map_err(failed)?;
        let terminal = match settings.terminal {
            Terminal::None => None,
            Terminal::Pseudo => Some(stdout.writer().map_err(failed)?),
        };
        let hello = Hello {
            token: settings.token.0.clone(),
            disabled: settings.disabled.clone(),
            allow_leftover: settings.allow_leftover.clone(),
            terminal: settings.terminal == Terminal::Pseudo,
            obituary: settings.obituary.clone(),
        };
        Ok(Self {
            link: Link::launch(settings, ends, &hello)?,
            stdout: Some(stdout),
            stderr,
            terminal,
            keyboard: None,
            settings: settings.clone(),
            containment: None,
            leaf: None,
            leader: None,
            swept: false,
            lost: false,
            hurry: Hurry::default(),
            order: StopOrder::at_once(),
            answer_by: None,
            finishing: None,
            look: None,
        })
    }

    pub fn id(&self) -> ProcessId {
        self.link.id()
    }

    /// The mechanisms in force, such as `cgroup+subreaper`. Empty until the file has started.
    pub fn containment(&self) -> &str {
        self.containment.as_deref().unwrap_or_default()
    }

    /// Whether it has ended before it was asked for anything: somebody killed it. It owns nothing then.
    pub fn is_gone(&self) -> bool {
        self.link.is_gone()
    }

    /// Waits until the owner is at work and says what holds its tree. Empty where it was lost before.
    pub async fn ready(&mut self) -> &str {
        while self.containment.is_none() && !self.link.is_closed() {
            match self.link.take_reply() {
                // Before a start the owner says nothing but what it is.
                Some(reply) => drop(self.translate(reply)),
                None => self.link.exchange().await,
            }
        }
        self.containment()
    }

    /// Starts the file's program. The answer is `Report::Started` or `Report::SpawnFailed`.
    pub fn start(&mut self, spec: SpawnSpec) {
        self.keyboard = self.terminal.take().and_then(Keyboard::relay_to);
        self.answer_by = Some(Instant::now() + START_BOUND);
        self.link.queue(&Command::Start(spec));
    }

    /// Looks at the tree. The answer is `Report::Evidence`, within 2 s.
    pub fn evidence(&mut self) {
        let subject = Subject { owner: self.id(), leader: self.leader, leaf: self.leaf.clone() };
        // The answer of one under way serves.
        self.look.get_or_insert_with(|| tokio::spawn(evidence::take(subject)));
    }

    /// Brings the tree to its end and proves it. The answer is `Report::Swept`.
    pub fn sweep(&mut self, order: StopOrder) {
        self.order = order;
        if !self.lost {
            self.answer_by = Some(Instant::now() + order.grace.duration() + 2 * order.verify.duration() + LATE);
            self.link.queue(&Command::Sweep(order));
            return;
        }
        let lost = lost::Lost {
            token: self.settings.token.clone(),
            disabled: self.settings.disabled.clone(),
            allow_leftover: self.settings.allow_leftover.clone(),
            leaf: self.leaf.take(),
            leader: self.leader,
            owner: self.id(),
        };
        let otherwise =
            (lost::unproved("the owner was lost, and the sweep by ledger did not come to an end".to_owned()), TreeUse::default());
        self.finish(otherwise, move |hurry| (lost::sweep(order, lost, hurry), TreeUse::default()));
    }

    /// The last part of every sweep is done by ledger: it alone sees the whole host through a warm table.
    fn finish(&mut self, otherwise: (Swept, TreeUse), first: impl FnOnce(Hurry) -> (Swept, TreeUse) + Send + 'static) {
        let strays = strays::Strays {
            table: self.settings.table.clone(),
            token: self.settings.token.clone(),
            allow_leftover: self.settings.allow_leftover.clone(),
            scope: self.settings.reap_scope,
            since: self.leader.map_or(self.id().start, |leader| leader.start),
            disabled: self.settings.disabled.clone(),
            is_held: HOLDS.iter().any(|hold| self.containment().contains(hold.as_str())),
        };
        let (order, hurry) = (self.order, Hurry::clone(&self.hurry));
        let task = tokio::task::spawn_blocking(move || {
            let (mut swept, used) = first(Hurry::clone(&hurry));
            strays::add(&mut swept, order, &strays, &hurry);
            (swept, used)
        });
        let by = Instant::now() + MOST_SWEEPS * order.bound().duration() + LATE;
        self.finishing = Some(Finishing { task, by, otherwise });
    }

    /// Stops the tree where it stands.
    pub fn pause(&mut self) {
        self.link.queue(&Command::Pause);
    }

    pub fn resume(&mut self) {
        self.link.queue(&Command::Resume);
        if let Some(keyboard) = &self.keyboard {
            keyboard.continued();
        }
    }

    /// A second signal: a sweep under way, or the next one, gives no grace.
    pub fn kill_now(&mut self) {
        self.hurry.store(true, Ordering::Relaxed);
        let soon = Instant::now() + self.order.verify.duration() + LATE;
        self.answer_by = self.answer_by.map(|by| by.min(soon));
        self.link.queue(&Command::KillNow);
    }

    /// The next report. May be dropped and called again without losing one. Once everything has been told it waits for ever.
    pub async fn next(&mut self) -> Report {
        loop {
            if let Some(reply) = self.link.take_reply() {
                if let Some(report) = self.translate(reply) {
                    return report;
                }
                continue;
            }
            if self.link.is_closed() && !self.lost && !self.swept {
                // It may have closed the socket and live on.
                self.link.give_up();
                self.lost = true;
                return Report::OwnerLost;
            }
            tokio::select! {
                biased;
                () = self.link.exchange() => {}
                () = past(self.answer_by) => {
                    self.answer_by = None;
                    self.link.give_up();
                }
                (swept, used) = finished(&mut self.finishing) => {
                    self.finishing = None;
                    self.swept = true;
                    return Report::Swept(swept, used);
                }
                seen = looked(&mut self.look) => {
                    self.look = None;
                    return Report::Evidence(seen);
                }
            }
        }
    }

    fn translate(&mut self, reply: Reply) -> Option<Report> {
        match reply {
            Reply::Ready { containment, leaf, notes } => {
                for note in notes {
                    tracing::debug!(note, "no cgroup for this file");
                }
                self.containment = Some(containment);
                self.leaf = leaf;
                None
            }
            Reply::Started { id, containment } => {
                self.answer_by = None;
                self.leader = Some(id);
                self.containment = Some(containment.clone());
                Some(Report::Started { id, containment })
            }
            Reply::SpawnFailed { errno, text } => {
                self.answer_by = None;
                Some(Report::SpawnFailed { errno, text })
            }
            Reply::LeaderExited { exit, used, signalled, oom, at_ms } => {
                Some(Report::LeaderExited { exit, used, signalled, oom, at_ms })
            }
            Reply::Swept { swept, used, survivors } => {
                self.swept = true;
                self.answer_by = None;
                adopted::expect(&survivors);
                let mut otherwise = (swept.clone(), used.clone());
                otherwise.0.cleanup = Cleanup::Unknown;
                otherwise.0.notes.push("the search of the host for what is left did not come to an end".to_owned());
                self.finish(otherwise, move |_| (swept, used));
                None
            }
        }
    }
}

impl Owner {
    /// Closes the link and waits until the owner has ended. One that has not swept kills its tree first.
    pub async fn close(mut self) {
        if let Some(ended) = self.link.hang_up() {
            // It fails only when the runtime is shutting down, and then nobody needs the answer.
            let _ = tokio::task::spawn_blocking(ended).await;
        }
    }
}

impl Drop for Owner {
    /// As `close`, but somebody else waits: an owner ends within milliseconds, and the next file need not wait for that.
    fn drop(&mut self) {
        if let Some(ended) = self.link.hang_up() {
            // A host that gives no thread keeps the entry of a dead process until ledger ends, which harms nothing.
            let _ = std::thread::Builder::new().name("ledger-owner-end".to_owned()).spawn(ended);
        }
    }
}

/// Waits until then; for ever where nothing is expected.
async fn past(by: Option<Instant>) {
    match by {
        Some(by) => tokio::time::sleep_until(by).await,
        None => pending().await,
    }
}

async fn finished(finishing: &mut Option<Finishing>) -> (Swept, TreeUse) {
    let Some(Finishing { task, by, otherwise }) = finishing else { return pending().await };
    match tokio::time::timeout_at(*by, task).await {
        Ok(Ok(done)) => done,
        Ok(Err(error)) => (lost::unproved(format!("the sweep broke off: {error}")), TreeUse::default()),
        Err(_) => otherwise.clone(),
    }
}

async fn looked(task: &mut Option<JoinHandle<Evidence>>) -> Evidence {
    match task {
        Some(handle) => handle
            .await
            .unwrap_or_else(|error| Evidence { missing: vec![format!("the look broke off: {error}")], ..Evidence::default() }),
        None => pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process can hang in a call of the kernel, and whoever reads of it hangs too.
    #[tokio::test]
    async fn a_search_that_hangs_is_not_waited_for_and_proves_nothing() {
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let hangs = tokio::task::spawn_blocking(move || {
            let _ = ended.recv();
            (lost::unproved("too late".to_owned()), TreeUse::default())
        });
        let otherwise = (lost::unproved("in time".to_owned()), TreeUse::default());
        let mut finishing = Some(Finishing { task: hangs, by: Instant::now(), otherwise: otherwise.clone() });
        assert_eq!(finished(&mut finishing).await, otherwise);
        drop(end);
    }
}
