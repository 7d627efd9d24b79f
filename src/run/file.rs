//! One file from its recorded start to its record: performs what `core::watch` asks for and feeds the results back.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::console::Stream;
use super::output::{Output, Wanted};
use super::session::Session;
use crate::core::event::Body;
use crate::core::moment::Secs;
use crate::core::outcome::{Cleanup, Outcome};
use crate::core::process::{Swept, TreeUse};
use crate::core::stop::StopOrder;
use crate::core::watch::{Bounds, Effect, Input, Printed, Watch};
use crate::host::owner::{Owner, Report, SpawnSpec};
use crate::host::sampler::Watched;
use crate::host::signals::Signal;
use crate::host::{clock, process};

/// What became of a file. Its record is not written yet: it travels with what follows it.
pub struct Ended {
    pub outcome: Outcome,
    pub cleanup: Cleanup,
    pub record: Body,
}

/// What is under way for this file beside the owner.
struct Pending {
    output: Option<Output>,
    drain: Option<tokio::task::JoinHandle<Printed>>,
}

/// Starts the file (its start is durable) and stays with it until nothing of it is left.
pub async fn run(session: &mut Session, mut owner: Owner, bounds: Bounds, spec: SpawnSpec, log: &std::path::Path) -> Ended {
    let mut pending = Pending { output: None, drain: None };
    let mut queue = std::collections::VecDeque::new();
    // Taken before the file can start: whatever holds ledger up from here on is the file's time and never less.
    let began = clock::now();
    let taken_before = process::host_oom_kills();
    pending.output = Some(attach(session, &mut owner, log));
    let program = PathBuf::from(spec.program.clone());
    owner.start(spec);
    super::owners::launch_next(session);
    session.sampler.watch(Watched::Owner(owner.id()));
    let mut watch = Watch::begin(bounds, began);
    if session.state.signal.is_some() {
        queue.push_back(Input::Cancel);
    }
    let mut record = None;
    loop {
        let input = match queue.pop_front() {
            Some(input) => input,
            None => next_input(session, &mut owner, &watch, &mut pending).await,
        };
        let input = match input {
            Input::SpawnFailed { text } => {
                Input::SpawnFailed { text: not_started(&program, !session.settings.command.is_empty(), &text) }
            }
            Input::Drained(mut printed) => {
                printed.notes.extend(taken_for_memory(taken_before, process::host_oom_kills()));
                Input::Drained(printed)
            }
            input => input,
        };
        let now = clock::now();
        session.observe(now).await;
        let stops = input == Input::Paused;
        for effect in watch.step(now, input) {
            match effect {
                Effect::TakeEvidence => owner.evidence(),
                Effect::Sweep { term, grace } => {
                    let order = match (term, session.state.signal) {
                        (false, _) => StopOrder::at_once(),
                        (true, Some(_)) => StopOrder::cancel(grace),
                        (true, None) => StopOrder::ask(grace),
                    };
                    owner.sweep(order);
                }
                Effect::KillNow => owner.kill_now(),
                Effect::PauseTree => owner.pause(),
                Effect::ResumeTree => owner.resume(),
                Effect::Drain => match pending.output.take() {
                    Some(output) => pending.drain = Some(tokio::spawn(output.drain())),
                    None => queue.push_back(Input::Drained(Printed::default())),
                },
                Effect::Record(body) if matches!(*body, Body::FileFinished(_)) => record = Some(session.redacted(*body)),
                Effect::Record(body) => {
                    let body = session.redacted(*body);
                    session.record(vec![body]).await;
                }
                Effect::Done { outcome, cleanup } => {
                    session.part_with(owner).await;
                    session.sampler.watch(Watched::Nothing);
                    let record = record.expect("the machine records a file before it is done with it");
                    return Ended { outcome, cleanup, record };
                }
            }
        }
        if stops {
            session.stop_until_continued().await;
            queue.push_back(Input::Resumed);
        }
        session.show(&watch, now, pending.output.as_ref());
    }
}

/// What the host's count says of a kill that no status shows: a shell whose child the kernel took may end with any status. It may have been
/// another's, so it is a note and no outcome.
fn taken_for_memory(before: Option<u64>, after: Option<u64>) -> Option<String> {
    let taken = after?.checked_sub(before?).filter(|taken| *taken > 0)?;
    let processes = if taken == 1 { "a process".to_owned() } else { format!("{taken} processes") };
    Some(format!("the kernel killed {processes} of this host for want of memory while this file ran"))
}

/// What could not be started, and what to do about it. `commanded` says that a COMMAND was given.
fn not_started(program: &Path, commanded: bool, error: &str) -> String {
    let shown = program.display();
    if commanded {
        return format!("the command '{shown}' cannot be started: {error}; give one after -- that is on PATH, or its path");
    }
    let hint = "give the COMMAND that runs it after --, such as '-- sh', or make it a program (chmod +x, and a first line such as #!/bin/sh)";
    format!("'{shown}' cannot be executed: {error}; {hint}")
}

/// The record of a file whose owner could not be started: nothing ran, so nothing can be left.
pub fn never_spawned(session: &Session, bounds: Bounds, text: String) -> Ended {
    let now = clock::now();
    let mut watch = Watch::begin(bounds, now);
    let nothing = Swept {
        cleanup: Cleanup::Clean,
        leftovers: Vec::new(),
        foreign: Vec::new(),
        escalated: false,
        notes: Vec::new(),
        took: Secs::ZERO,
    };
    let script = [
        Input::SpawnFailed { text },
        Input::Swept { swept: nothing, used: TreeUse::default() },
        Input::Drained(Printed::default()),
    ];
    let mut record = None;
    for effect in script.into_iter().flat_map(|input| watch.step(now, input)) {
        if let Effect::Record(body) = effect {
            record = Some(session.redacted(*body));
        }
    }
    let record = record.expect("the machine records a file whose spawn failed");
    Ended { outcome: Outcome::SpawnFailure, cleanup: Cleanup::Clean, record }
}

fn attach(session: &Session, owner: &mut Owner, log: &std::path::Path) -> Output {
    let wanted = Wanted { classify: session.settings.classify.clone(), min_evidence: session.settings.min_evidence.clone() };
    let mut output = Output::new(log, session.redactor.clone(), &wanted);
    if let Some(stdout) = owner.stdout.take() {
        output.read(Stream::Stdout, stdout, session.console.clone(), &wanted);
    }
    if let Some(stderr) = owner.stderr.take() {
        output.read(Stream::Stderr, stderr, session.console.clone(), &wanted);
    }
    output
}

/// Names what happened next; `Watch::step` decides what it means.
async fn next_input(session: &mut Session, owner: &mut Owner, watch: &Watch, pending: &mut Pending) -> Input {
    loop {
        let now = clock::now();
        let until_beat = session.until_beat(now);
        let wake = watch.wake_in(now).map_or(until_beat, |wake| wake.min(until_beat));
        let redraw = session.redraw_every();
        tokio::select! {
            biased;
            report = owner.next() => return told(report),
            signal = session.signals.next() => {
                if let Some(input) = signalled(session, watch, signal).await {
                    return input;
                }
            }
            printed = finished(&mut pending.drain) => {
                pending.drain = None;
                return Input::Drained(printed.unwrap_or_default());
            }
            () = session.enter.pressed() => session.show_last_lines(watch, pending.output.as_ref()),
            news = session.book.news() => session.sink_news(news).await,
            () = tokio::time::sleep(wake.duration().min(redraw).max(Duration::from_millis(1))) => {
                let now = clock::now();
                if session.until_beat(now).millis() == 0 {
                    session.beaten(now);
                    let sample = session.sample();
                    return Input::Beat { sample, last_output: pending.output.as_ref().and_then(Output::last_lines) };
                }
                return Input::Tick;
            }
        }
    }
}

fn told(report: Report) -> Input {
    match report {
        Report::Started { id, containment } => Input::Started { id, containment },
        Report::SpawnFailed { text, .. } => Input::SpawnFailed { text },
        Report::LeaderExited { exit, signalled, oom, at_ms, .. } => Input::LeaderExited { exit, signalled, oom, at_ms },
        Report::Evidence(evidence) => Input::Evidence(evidence),
        Report::Swept(swept, used) => Input::Swept { swept, used },
        Report::OwnerLost => Input::OwnerLost,
    }
}

/// A first signal ends the leg politely, a second one at once; Ctrl-Z stops the tree, and ledger itself after that.
async fn signalled(session: &mut Session, watch: &Watch, signal: Signal) -> Option<Input> {
    match signal {
        Signal::End(signal) => Some(match session.state.signal {
            Some(_) => Input::KillNow,
            None => {
                session.cancelled(signal, Some(watch.at().clone())).await;
                Input::Cancel
            }
        }),
        Signal::Stop => Some(Input::Paused),
        Signal::Continue => None,
    }
}

/// The result of a task, or never.
async fn finished<T>(task: &mut Option<tokio::task::JoinHandle<T>>) -> Option<T> {
    match task {
        Some(task) => task.await.ok(),
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kill_for_memory_is_noted_where_the_host_counted_one() {
        let table = [
            (None, Some(3), None),
            (Some(3), None, None),
            (Some(3), Some(3), None),
            (Some(3), Some(4), Some("killed a process of")),
            (Some(3), Some(5), Some("killed 2 processes of")),
        ];
        for (before, after, expect) in table {
            let note = taken_for_memory(before, after);
            assert_eq!(note.is_some(), expect.is_some(), "{before:?} {after:?}");
            assert!(expect.is_none_or(|words| note.is_some_and(|note| note.contains(words))), "{before:?} {after:?}");
        }
    }
}
