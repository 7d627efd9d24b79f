//! `ledger run`: performs what core decides and feeds the results back as the next input.
//!
//! ```text
//! settings ─▶ Plan ─▶ recovery of dead legs ─▶ writer, sinks ─▶ run-started
//!                                                                   │
//!        ┌──────────────────────────────────────────────────────────┘
//!        ▼
//!   bound by cap and deadline ─▶ owner ─▶ [finish of N, sample, start of N+1] durable ─▶ barrier ─▶ file::run ─▶ next
//!        │
//!        └─▶ loop-finished ─▶ flush ─▶ run-finished ─▶ the report of it ─▶ exit status
//! ```

mod admission;
mod announce;
mod book;
mod console;
mod file;
mod finish;
mod logfile;
mod output;
mod owners;
mod plan;
mod pool;
mod queue;
mod resume;
mod rounds;
mod session;
mod start;

use std::path::PathBuf;

use crate::core::event::SinkState;
use crate::core::process::NO_MORE_PROCESSES;
use crate::host::slots::SlotError;
use crate::host::{heap, process, spawn};
use crate::report::style::Style;
use crate::settings::RunSettings;
use crate::sink::{self, SinkError};
use crate::store::StoreError;

pub use finish::append;
pub use plan::Plan;
pub use pool::execute as execute_pool;

/// Threads for calls that block: a sweep, a look at a tree, an owner that ends, a look for a slot.
const BLOCKING_THREADS: usize = 4;
/// Descriptors that a run needs at the same time, and some to spare.
const DESCRIPTORS: usize = 48;

/// Why nothing ran: always exit 2, also where it is the ledger that cannot be written. Exit 5 is for a run that has begun.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("the caps file '{}' cannot be used: {reason}", path.display())]
    CapsFile { path: PathBuf, reason: String },
    #[error("the folder of logs '{}' cannot be made: {error}; name another one with --logs", path.display())]
    Logs { path: PathBuf, error: std::io::Error },
    #[error(
        "--shard {shard}: this share has no file, for the plan has {files}; write i/n with n of at most {files}, or leave this job out"
    )]
    EmptyShard { shard: String, files: usize },
    #[error("the ledgers of earlier runs cannot be read: {0}")]
    History(StoreError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{0}")]
    Book(#[from] book::BookError),
    #[error(transparent)]
    Sink(SinkError),
    #[error("a sink that --require-sink asks for does not answer: {}; `ledger sink check URL` says what is missing", silent_sinks(.0))]
    SinkSilent(Vec<SinkState>),
    #[error("--without-mechanism {0}: no such mechanism")]
    Mechanism(String),
    #[error("--tty: {0}")]
    Terminal(&'static str),
    #[error("fewer than {DESCRIPTORS} files can be opened ({0}); raise the limit, for example with 'ulimit -n 1024'")]
    Descriptors(std::io::Error),
    #[error("nothing to resume: {0}")]
    Resume(String),
    #[error("no process could be told from another: {0}")]
    Processes(&'static str),
    #[error("{leg} cannot be resumed: {why}")]
    Recorded { leg: String, why: String },
    #[error(transparent)]
    Pool(#[from] SlotError),
    #[error("{what}: {source}{}", limit(source))]
    System { what: &'static str, source: std::io::Error },
}

/// What `--dry-run` prints, and what people should know of it.
pub struct Rehearsal {
    pub text: String,
    pub document: String,
    pub warnings: Vec<String>,
}

/// What would run. Nothing is written and nothing started.
pub fn rehearse(settings: RunSettings) -> Result<Rehearsal, RunError> {
    let (settings, recorded) = resume::from_record(settings)?;
    let plan = Plan::make(&settings, recorded)?;
    start::check_sinks(&settings)?;
    let (text, document) = (announce::plan(&settings, &plan), announce::plan_document(&settings, &plan));
    Ok(Rehearsal { text, document, warnings: plan.warnings })
}

/// Runs the plan and gives ledger's exit status.
pub fn execute(settings: RunSettings, style: Style) -> Result<i32, RunError> {
    let (settings, recorded) = resume::from_record(settings)?;
    let plan = Plan::make(&settings, recorded)?;
    heap::keep_small();
    spawn::descriptors_left(DESCRIPTORS).map_err(RunError::Descriptors)?;
    process::can_be_told_apart().map_err(RunError::Processes)?;
    let runtime = sink::runtime::with_threads(BLOCKING_THREADS);
    let runtime = runtime.map_err(|source| RunError::System { what: "the async runtime cannot start", source })?;
    let status = runtime.block_on(async {
        let queue = admission::queue(&settings)?;
        let mut session = start::begin(settings, plan, style).await?;
        let slot = admission::enter(&mut session, queue).await;
        rounds::run(&mut session).await;
        admission::leave(&mut session, slot).await;
        Ok(finish::end(session).await)
    });
    // A thread that hangs in the kernel keeps nobody from the exit status.
    runtime.shutdown_background();
    status
}

fn limit(error: &std::io::Error) -> String {
    if error.kind() == std::io::ErrorKind::WouldBlock { format!(": {NO_MORE_PROCESSES}") } else { String::new() }
}

fn silent_sinks(sinks: &[SinkState]) -> String {
    let words = sinks.iter().map(|sink| format!("{} ({})", sink.url, sink.error.as_deref().unwrap_or("no answer in time")));
    words.collect::<Vec<_>>().join(", ")
}
