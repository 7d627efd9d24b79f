//! `ledger pool run`: one command under a slot. Performs what `core::slot::Hold` asks for; each result is the next input.
//!
//! The command and the destroy command are owned like files: when ledger dies their trees die with it, and the lock with both. Whatever
//! goes wrong in here, the slot is given back or put away: the lock is dropped on every way out.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::RunError;
use super::console::{self, Console, Stream};
use super::queue::{Look, Queue, party};
use crate::core::ending::EndSignal;
use crate::core::ids::Token;
use crate::core::moment::Secs;
use crate::core::outcome::Cleanup;
use crate::core::process::Exit;
use crate::core::slot::{Answer, Effect, End, Hold, Input, Phase, Quarantine, Reason, Teardown, Why};
use crate::core::stop::{CANCEL_GRACE, StopOrder};
use crate::host::owner::{Owner, OwnerSettings, Report, SpawnSpec};
use crate::host::signals::{Signal, Signals, stop_self};
use crate::host::slots::Held;
use crate::host::{clock, process, shell, spawn};
use crate::report::words;
use crate::settings::PoolRunSettings;
use crate::sink;

/// What the destroy command says when the device is somebody else's by now.
const NOT_MINE: i32 = 75;
/// As `timeout` says it.
const EXIT_DEADLINE: i32 = 124;
/// As a shell says that a command could not be started.
const EXIT_NOT_STARTED: i32 = 127;
/// The command succeeded, and its slot had to be put away all the same.
const EXIT_KEPT: i32 = 3;
/// A sweep is over within its order's bound; an owner that says nothing for this much longer will not.
const SWEEP_MARGIN: Secs = Secs::from_secs(15);
/// How long the pipes of an ended tree may still be held, as for a file.
const DRAIN: Duration = Duration::from_secs(2);
/// How long the words of a command may take to be read, and how long after a signal.
const READER: Duration = Duration::from_secs(60);
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Waits for a slot, runs the command under it, and gives ledger's exit status.
pub fn execute(settings: PoolRunSettings) -> Result<i32, RunError> {
    let system = |what| move |source| RunError::System { what, source };
    spawn::descriptors_left(super::DESCRIPTORS).map_err(RunError::Descriptors)?;
    process::can_be_told_apart().map_err(RunError::Processes)?;
    let runtime = sink::runtime::with_threads(super::BLOCKING_THREADS);
    let runtime = runtime.map_err(system("the async runtime cannot start"))?;
    let status = runtime.block_on(async {
        let signals = Signals::listen().map_err(system("signals cannot be received"))?;
        let console = Console::start(false, "it is kept nowhere".to_owned()).map_err(system("the console cannot start"))?;
        let now = clock::now();
        let queue = Queue::open(&settings.pool, party(settings.run_id.clone(), None, now), now)?;
        let mut errand =
            Errand { settings, signals, console, signal: None, held: None, work: None, exit: None, answer: String::new() };
        let end = errand.go(queue).await;
        errand.last_words().await;
        Ok(errand.exit_code(end))
    });
    // A thread that hangs in the kernel keeps nobody from the exit status.
    runtime.shutdown_background();
    status
}

struct Errand {
    settings: PoolRunSettings,
    signals: Signals,
    console: Console,
    /// The first one.
    signal: Option<EndSignal>,
    held: Option<Held>,
    work: Option<Program>,
    /// How the command ended, where it ended by itself.
    exit: Option<Exit>,
    /// How the destroy command answered, in words.
    answer: String,
}

/// A command with its owner.
struct Program {
    owner: Owner,
    pumps: Vec<JoinHandle<()>>,
}

/// Whether a signal asks for patience or for haste.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Nothing,
    ToEnd,
    ToHurry,
}

impl Errand {
    async fn go(&mut self, mut queue: Queue) -> End {
        let teardown = if self.settings.destroy.is_some() { Teardown::Command } else { Teardown::TreeOnly };
        let mut hold = Hold::waiting(teardown);
        let mut input = self.wait(&mut queue).await;
        // Its place in the queue, if it has one still, is nobody else's business any more.
        drop(queue);
        let mut due: VecDeque<Effect> = VecDeque::new();
        loop {
            due.extend(hold.step(input).expect("each effect is answered by an input that fits it"));
            input = loop {
                match due.pop_front() {
                    Some(effect) => {
                        if let Some(result) = self.perform(effect).await {
                            break result;
                        }
                    }
                    None => match hold.phase() {
                        Phase::Over(end) => return end,
                        phase => unreachable!("{phase:?} always owes an effect"),
                    },
                }
            };
        }
    }

    async fn wait(&mut self, queue: &mut Queue) -> Input {
        let mut pause = Duration::ZERO;
        loop {
            let signal = tokio::select! {
                biased;
                signal = self.signals.next() => Some(signal),
                () = tokio::time::sleep(pause) => None,
            };
            match signal {
                Some(Signal::Stop) => stop_self(),
                Some(signal) if self.heard(signal) != Asked::Nothing => return Input::Cancelled,
                _ => {}
            }
            let now = clock::now();
            let look = queue.look(now);
            if let Some(news) = queue.news() {
                self.say(format!("warning: {news}"));
            }
            pause = match look {
                Look::Taken(held) => {
                    let waited = queue.waited(now);
                    self.say(format!("slot {} of pool '{}' is held after {waited}", held.number(), self.settings.pool.name));
                    self.held = Some(held);
                    return Input::Admitted;
                }
                Look::Rest(pause) => pause,
                Look::Say(text, _, pause) => {
                    self.say(text);
                    pause
                }
            };
        }
    }

    async fn perform(&mut self, effect: Effect) -> Option<Input> {
        match effect {
            Effect::GiveWay => None,
            Effect::Start => Some(self.run_command().await),
            Effect::Sweep => Some(self.sweep_command().await),
            Effect::Destroy(why) => Some(Input::Destroyed(self.destroy(why).await)),
            Effect::Quarantine(reason) => {
                self.put_away(reason);
                None
            }
            Effect::Release => {
                if let Some(held) = self.held.take() {
                    held.release();
                }
                None
            }
        }
    }

    async fn run_command(&mut self) -> Input {
        let mut words = self.settings.command.iter().cloned();
        let program = words.next().unwrap_or_default();
        let args: Vec<OsString> = words.collect();
        let mut work = match self.launch(SpawnSpec { program, args, cwd: None, env: Vec::new() }) {
            Ok(work) => work,
            Err(text) => {
                self.say(format!("error: the command was not started: {text}"));
                self.exit = Some(Exit::Code(EXIT_NOT_STARTED));
                return Input::Failed;
            }
        };
        let input = self.stay_with(&mut work).await;
        self.work = Some(work);
        input
    }

    async fn stay_with(&mut self, work: &mut Program) -> Input {
        let deadline = self.settings.deadline;
        let over = async move {
            match deadline {
                Some(deadline) => tokio::time::sleep(deadline.duration()).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(over);
        loop {
            let signal = tokio::select! {
                biased;
                report = work.owner.next() => match report {
                    Report::LeaderExited { exit, .. } => {
                        self.exit = Some(exit);
                        return if exit == Exit::Code(0) { Input::Succeeded } else { Input::Failed };
                    }
                    Report::SpawnFailed { text, .. } => {
                        self.say(format!("error: the command could not be started: {text}"));
                        self.exit = Some(Exit::Code(EXIT_NOT_STARTED));
                        return Input::Failed;
                    }
                    Report::OwnerLost => return Input::Failed,
                    _ => continue,
                },
                () = &mut over => {
                    let late = deadline.unwrap_or_default();
                    self.say(format!("the command has not ended within its deadline of {late}; it is ended now"));
                    return Input::DeadlinePassed;
                }
                signal = self.signals.next() => signal,
            };
            if signal == Signal::Stop {
                work.owner.pause();
                stop_self();
                work.owner.resume();
            } else if self.heard(signal) != Asked::Nothing {
                return Input::Cancelled;
            }
        }
    }

    async fn sweep_command(&mut self) -> Input {
        let Some(work) = self.work.take() else { return Input::SweptClean };
        let grace = self.settings.grace;
        let order = if self.signal.is_some() { StopOrder::cancel(grace) } else { StopOrder::ask(grace) };
        match self.end(work, order).await {
            Cleanup::Clean => Input::SweptClean,
            Cleanup::Dirty => Input::SweptDirty,
            Cleanup::Unknown => Input::SweptUnknown,
        }
    }

    /// Brings a tree to its end, bounded: an owner that says nothing holds no slot.
    async fn end(&mut self, mut work: Program, order: StopOrder) -> Cleanup {
        work.owner.sweep(order);
        let bound = order.bound().saturating_add(SWEEP_MARGIN);
        let over = tokio::time::sleep(bound.duration());
        // A grace that began without a signal is cut to a cancelled command's by one.
        let patience = tokio::time::sleep(bound.duration());
        tokio::pin!(over, patience);
        let cleanup = loop {
            tokio::select! {
                biased;
                report = work.owner.next() => {
                    if let Report::Swept(swept, _) = report {
                        // Of a command that was ended everything was meant to end.
                        let by_itself = self.exit == Some(Exit::Code(0)) && self.signal.is_none();
                        for left in swept.leftovers.iter().filter(|left| by_itself || left.fate.is_alive()) {
                            self.say(format!("warning: the command left {} behind", words::leftover(left)));
                        }
                        break swept.cleanup;
                    }
                    if matches!(report, Report::OwnerLost) {
                        // From here on ledger sweeps by itself. Its grace was the owner's to give.
                        work.owner.sweep(StopOrder::at_once());
                    }
                }
                () = &mut over => break Cleanup::Unknown,
                () = &mut patience, if !patience.is_elapsed() => work.owner.kill_now(),
                signal = self.signals.next() => match self.heard(signal) {
                    Asked::ToHurry => work.owner.kill_now(),
                    Asked::ToEnd => patience.as_mut().reset(Instant::now() + CANCEL_GRACE.duration()),
                    Asked::Nothing => {}
                }
            }
        };
        let drained = async {
            for pump in &mut work.pumps {
                let _ = pump.await;
            }
        };
        if tokio::time::timeout(DRAIN, drained).await.is_err() {
            work.pumps.iter().for_each(JoinHandle::abort);
        }
        cleanup
    }

    async fn destroy(&mut self, why: Why) -> Answer {
        let Some(command) = self.settings.destroy.clone() else { return Answer::Failed };
        let why = match why {
            Why::Success => "survivors",
            Why::Failure => "failure",
            Why::Deadline => "deadline",
            Why::Cancelled => "cancelled",
        };
        let mut spec = shell::line(command);
        spec.env.push(("LEDGER_DESTROY_WHY".into(), why.into()));
        let mut work = match self.launch(spec) {
            Ok(work) => work,
            Err(text) => return self.answered(Answer::Failed, format!("the destroy command was not started: {text}")),
        };
        let (answer, words) = self.hear_answer(&mut work).await;
        self.end(work, StopOrder::at_once()).await;
        self.answered(answer, words)
    }

    async fn hear_answer(&mut self, work: &mut Program) -> (Answer, String) {
        let within = self.settings.destroy_timeout;
        let over = tokio::time::sleep(within.duration());
        tokio::pin!(over);
        loop {
            tokio::select! {
                biased;
                report = work.owner.next() => match report {
                    Report::LeaderExited { exit: Exit::Code(0), .. } => return (Answer::Gone, "gone".to_owned()),
                    Report::LeaderExited { exit: Exit::Code(NOT_MINE), .. } => {
                        return (Answer::NotMine, "not ours any more".to_owned());
                    }
                    Report::LeaderExited { exit: Exit::Code(code), .. } => {
                        return (Answer::Failed, format!("the destroy command ended with {code}"));
                    }
                    Report::LeaderExited { exit: Exit::Signal(signal), .. } => {
                        return (Answer::Failed, format!("the destroy command died of signal {signal}"));
                    }
                    Report::SpawnFailed { text, .. } => {
                        return (Answer::Failed, format!("the destroy command could not be started: {text}"));
                    }
                    Report::OwnerLost => return (Answer::NoAnswer, "the owner of the destroy command is gone".to_owned()),
                    _ => {}
                },
                () = &mut over => return (Answer::NoAnswer, format!("the destroy command gave no answer within {within}")),
                signal = self.signals.next() => {
                    if self.heard(signal) == Asked::ToHurry {
                        return (Answer::NoAnswer, "the destroy command was cut short by a second signal".to_owned());
                    }
                }
            }
        }
    }

    fn answered(&mut self, answer: Answer, words: String) -> Answer {
        self.say(format!("destroy: {words}"));
        self.answer = words;
        answer
    }

    fn put_away(&mut self, reason: Reason) {
        let Some(held) = &self.held else { return };
        let words = match reason {
            Reason::DestroyFailed | Reason::NoAnswer => format!("{}; the device may still run", self.answer),
            Reason::Survivors => "processes of the command outlived KILL".to_owned(),
        };
        let (pool, number) = (self.settings.pool.name.clone(), held.number());
        let kept = Quarantine::begin(words, clock::now().wall, self.settings.quarantine);
        let text = match held.quarantine(&kept) {
            Ok(()) => format!(
                "warning: slot {number} of pool '{pool}' is in quarantine until {}: {}; `ledger pool status` shows it",
                kept.expires, kept.reason
            ),
            Err(error) => format!(
                "error: slot {number} of pool '{pool}' should be in quarantine ({}), and that could not be written: {error}; the next run \
                 may meet the device",
                kept.reason
            ),
        };
        self.say(text);
    }

    fn launch(&self, mut spec: SpawnSpec) -> Result<Program, String> {
        let settings = OwnerSettings::new(Token::new(uuid::Uuid::new_v4().simple().to_string()));
        let mut owner = Owner::launch(&settings).map_err(|error| error.to_string())?;
        let mut pumps = Vec::new();
        if let Some(stdout) = owner.stdout.take() {
            pumps.push(tokio::spawn(pump(Stream::Stdout, stdout, self.console.clone())));
        }
        if let Some(stderr) = owner.stderr.take() {
            pumps.push(tokio::spawn(pump(Stream::Stderr, stderr, self.console.clone())));
        }
        spec.env.push(("LEDGER_POOL".into(), self.settings.pool.name.as_str().into()));
        if let Some(held) = &self.held {
            spec.env.push(("LEDGER_SLOT".into(), held.number().to_string().into()));
        }
        owner.start(spec);
        Ok(Program { owner, pumps })
    }

    fn heard(&mut self, signal: Signal) -> Asked {
        match (signal, self.signal) {
            (Signal::End(_), Some(_)) => Asked::ToHurry,
            (Signal::End(signal), None) => {
                self.signal = Some(signal);
                self.console.give_up_after(console::IN_A_HURRY);
                self.say(format!("{} received; ending", signal.name()));
                Asked::ToEnd
            }
            (Signal::Stop | Signal::Continue, _) => Asked::Nothing,
        }
    }

    fn say(&self, text: String) {
        self.console.say(format!("ledger: {text}"));
    }

    /// Waits for whoever reads what was printed: the slot is given back already. A signal is reason enough not to.
    async fn last_words(&mut self) {
        self.console.give_up_after(console::AT_THE_END);
        let console = self.console.clone();
        let all = console.flush(if self.signal.is_some() { LAST_WORDS } else { READER });
        tokio::pin!(all);
        loop {
            tokio::select! {
                () = &mut all => return,
                signal = self.signals.next() => if let Signal::End(_) = signal {
                    console.give_up_after(console::IN_A_HURRY);
                    return console.flush(LAST_WORDS).await;
                }
            }
        }
    }

    fn exit_code(&self, end: End) -> i32 {
        let cancelled = self.signal.map_or(1, EndSignal::exit_code);
        match end {
            End::GaveWay | End::Released(Why::Cancelled) | End::Quarantined(Why::Cancelled, _) => cancelled,
            End::Released(Why::Deadline) | End::Quarantined(Why::Deadline, _) => EXIT_DEADLINE,
            End::Quarantined(Why::Success, _) => EXIT_KEPT,
            End::Released(_) | End::Quarantined(Why::Failure, _) => match self.exit {
                Some(Exit::Code(code)) => code,
                Some(Exit::Signal(signal)) => 128 + signal,
                None => 1,
            },
        }
    }
}

/// Passes on what a command prints, byte for byte.
async fn pump<R: AsyncRead + Unpin>(stream: Stream, mut pipe: R, console: Console) {
    let mut piece = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = pipe.read(&mut piece).await {
        console.bytes(stream, piece[..length].to_vec()).await;
    }
}
