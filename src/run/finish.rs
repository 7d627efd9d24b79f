//! The end of a run: the loop's own record, the flush, what each sink has, the report of it, the exit status.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use super::console;
use super::session::Session;
use crate::core::classify::{self, Facts, Trace, Writer};
use crate::core::event::{Body, HostSampled, LoopFinished, RunFinished, SampledAt, SinkState};
use crate::core::outcome::{Conclusion, StoppedBy};
use crate::core::row::{LegRow, Summary};
use crate::host::clock;
use crate::host::signals::Signal;
use crate::report::{github, markdown, table};
use crate::sink::Patience;

/// How long the console may take for its last lines.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// How long a reader that is slow may hold the report back.
const READER: Duration = Duration::from_secs(60);
/// The service refuses a summary over a mebibyte.
const STEP_SUMMARY_BYTES: usize = 1 << 20;

pub async fn end(mut session: Session) -> i32 {
    record_loop(&mut session).await;
    let sinks = settle(&mut session).await;
    let exit_code = session.state.exit_code();
    let finished = RunFinished { exit_code, sinks, dropped: session.book.dropped() };
    let finished = session.redacted(Body::RunFinished(finished));
    session.record(vec![finished]).await;
    session.book.settle(patience(&session)).await;
    // The last write may be the one that failed.
    let exit_code = session.state.exit_code();
    if let Some(row) = row(&session) {
        tell(&mut session, row).await;
    }
    let _ = std::fs::remove_file(&session.obituary);
    if let Err(error) = session.book.close().await {
        tracing::warn!(%error, "the ledger was not closed in order");
    }
    exit_code
}

/// Sends what is left. Heartbeats go on meanwhile, and a signal shortens the wait.
async fn settle(session: &mut Session) -> Vec<SinkState> {
    let mut settled = Box::pin(session.book.settle(patience(session)));
    let states = loop {
        let until_beat = session.until_beat(clock::now()).duration();
        tokio::select! {
            states = &mut settled => break states,
            signal = session.signals.next() => {
                // The loop's own record is written: a signal now cancels nothing, it only asks to be quick.
                if let Signal::End(_) = signal {
                    session.in_a_hurry = true;
                    session.console.give_up_after(console::IN_A_HURRY);
                    settled = Box::pin(session.book.settle(patience(session)));
                }
            }
            () = tokio::time::sleep(until_beat) => session.beat().await,
        }
    };
    for news in session.book.news_so_far() {
        session.sink_news(news).await;
    }
    states
}

/// A hosted runner that has cancelled a job kills it after 10 s in all.
fn patience(session: &Session) -> Patience {
    if session.in_a_hurry || session.state.signal.is_some() {
        Patience { total: Duration::from_secs(2), ..Patience::default() }
    } else {
        Patience::default()
    }
}

/// Closes a leg whose required sink cannot be written: its record says that nothing ran, and why.
pub async fn refuse(mut session: Session) {
    let why = "a sink that --require-sink asks for cannot be written; nothing ran".to_owned();
    let finished = LoopFinished {
        loop_finished: false,
        stopped_by: Some(StoppedBy::Ledger),
        cancelled: false,
        conclusion: Conclusion::Incomplete,
        files_planned: session.plan.total,
        files_reported: 0,
        files_failed: 0,
        why: Some(why),
    };
    session.record(vec![Body::LoopFinished(finished)]).await;
    session.in_a_hurry = true;
    let sinks = session.book.settle(patience(&session)).await;
    let finished = session.redacted(Body::RunFinished(RunFinished { exit_code: 2, sinks, dropped: session.book.dropped() }));
    session.record(vec![finished]).await;
    session.book.settle(patience(&session)).await;
    abandon(session).await;
}

/// Gives back what a run held that never began.
pub async fn abandon(mut session: Session) {
    session.all_parted().await;
    session.console.flush(LAST_WORDS).await;
    let _ = std::fs::remove_file(&session.obituary);
    let _ = session.book.close().await;
}

async fn record_loop(session: &mut Session) {
    let sample = session.sample();
    let (files_reported, files_failed) = session.book.leg().map_or((0, 0), |leg| leg.counts());
    let state = session.state;
    let why = state.stopped_by().map(|by| match by {
        StoppedBy::Dirty => "leftovers survived the reap: the host may be poisoned".to_owned(),
        StoppedBy::Budget => "the budget was spent before every file could start".to_owned(),
        StoppedBy::FailFast => "stopped after the first file that did not pass".to_owned(),
        StoppedBy::Ledger => {
            format!("the ledger could not be written: {}", session.ledger_error.as_deref().unwrap_or("unknown"))
        }
    });
    let finished = LoopFinished {
        loop_finished: state.loop_finished(),
        stopped_by: state.stopped_by(),
        cancelled: state.cancelled(),
        conclusion: state.conclusion(),
        files_planned: session.plan.total,
        files_reported,
        files_failed,
        why,
    };
    let finished = session.redacted(Body::LoopFinished(finished));
    session.record(vec![Body::HostSampled(HostSampled { at: SampledAt::End, sample }), finished]).await;
}

/// What the ledger can prove of this leg: the same fold and the same words as `ledger report`.
fn row(session: &Session) -> Option<LegRow> {
    let mut row = session.book.leg()?.row();
    let facts = Facts { trace: Trace::Ledger, writer: Writer::Alive, job: None, step_name: None, now: clock::now().wall };
    classify::settle(&mut row, &facts);
    Some(row)
}

/// Everything is recorded. A pager may keep the words waiting for a while, but nothing keeps the process: a reader that stands still is
/// given up, and a signal ends the wait.
async fn tell(session: &mut Session, row: LegRow) {
    let outputs = github::outputs(&row);
    let summary = Summary::of(clock::now().wall, vec![row]);
    let mut lines = write_actions_files(session, &summary, outputs);
    lines.extend(table::render(&summary, session.style).trim_end().lines().map(str::to_owned));
    let console = session.console.clone();
    console.give_up_after(console::AT_THE_END);
    let said = async {
        for line in lines {
            console.say_all(line).await;
        }
        console.flush(READER).await;
    };
    tokio::pin!(said);
    let patience = |hurry: bool| Box::pin(tokio::time::sleep(if hurry { LAST_WORDS } else { READER }));
    let mut over = patience(session.in_a_hurry || session.state.signal.is_some());
    loop {
        tokio::select! {
            () = &mut said => return,
            () = &mut over => return,
            signal = session.signals.next() => if let Signal::End(_) = signal {
                console.give_up_after(console::IN_A_HURRY);
                over = patience(true);
            }
        }
    }
}

/// Before the words for people: what a workflow reads must not wait for whoever reads those. The answer is what went wrong.
fn write_actions_files(session: &Session, summary: &Summary, outputs: String) -> Vec<String> {
    let Some(actions) = &session.settings.actions else { return Vec::new() };
    let files = [(&actions.output, outputs), (&actions.step_summary, markdown::render(summary, STEP_SUMMARY_BYTES))];
    let failed = files.iter().filter_map(|(path, text)| {
        let path = path.as_ref()?;
        let error = append(path, text).err()?;
        Some(format!("ledger: warning: '{}' cannot be written: {error}", path.display()))
    });
    failed.collect()
}

/// Adds to one of the files that the CI service gives a step.
pub fn append(path: &Path, text: &str) -> std::io::Result<()> {
    OpenOptions::new().append(true).create(true).open(path)?.write_all(text.as_bytes())
}
