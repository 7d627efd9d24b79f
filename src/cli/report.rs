//! `ledger report`

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::{Failure, World, print};
use crate::core::ids::{Attempt, Platform, RunId, Target};
use crate::core::moment::Wall;
use crate::core::outcome::Terminal as TerminalClass;
use crate::core::row::Summary;
use crate::host::clock;
use crate::report::{ctrf, json, junit, markdown, ndjson, table};
use crate::source::assemble::{Question, assemble};
use crate::source::{self, Found};

/// Say what the evidence says: rows, files, pages, gate
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Ledger folders, databases, ci-data folders or files, sink URLs [default: .ledger]
    sources: Vec<String>,

    /// How to say it [default: table]
    #[arg(long, value_enum)]
    format: Option<Format>,

    /// One JSON document; the same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,

    /// Only legs of this run
    #[arg(long, value_name = "ID")]
    run_id: Option<String>,

    /// Only legs of this attempt
    #[arg(long, value_name = "N")]
    attempt: Option<String>,

    /// Only legs on this platform
    #[arg(long, value_name = "NAME")]
    platform: Option<String>,

    /// Only legs of this target
    #[arg(long, value_name = "NAME")]
    target: Option<String>,

    /// The reader's clock, as RFC 3339 or seconds since 1970: for tests
    #[arg(long, value_name = "TIME")]
    now: Option<String>,

    /// Wait until no leg is running any more: until its record is in or its lease has run out
    #[arg(long)]
    wait_lease: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Json,
    Ndjson,
    Markdown,
    Junit,
    Ctrf,
}

/// Between two looks at a leg that is still running.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// The service takes a summary of a mebibyte.
const MARKDOWN_BYTES: usize = 1 << 20;

pub fn run(args: &ReportArgs, world: &World) -> Result<i32, Failure> {
    let sources = if args.sources.is_empty() { vec![".ledger".to_owned()] } else { args.sources.clone() };
    let set_clock = args.now.as_deref().map(read_time).transpose()?;
    let summary = loop {
        let now = set_clock.unwrap_or_else(|| clock::now().wall);
        let summary = summarise(&sources, args, now)?;
        let running = summary.legs.iter().any(|leg| leg.terminal == TerminalClass::Running);
        if !args.wait_lease || !running || set_clock.is_some() {
            break summary;
        }
        std::thread::sleep(LOOK_AGAIN);
    };
    for warning in &summary.warnings {
        eprintln!("ledger: warning: {warning}");
    }
    print(&render(&summary, args, world))?;
    Ok(0)
}

fn summarise(sources: &[String], args: &ReportArgs, now: Wall) -> Result<Summary, Failure> {
    let mut found = Found::default();
    let question = Question {
        run_id: args.run_id.as_deref().map(RunId::from),
        attempt: args.attempt.as_deref().map(Attempt::from),
        platform: args.platform.as_deref().map(Platform::from),
        target: args.target.as_deref().map(Target::from),
        ..Question::everything(now)
    };
    for source in sources {
        source::read(source, &question, &mut found).map_err(|error| {
            Failure::usage(error)
                .hint("name a ledger folder, a ci-data folder, or a sink URL such as file:///path; `ledger report --help`")
        })?;
    }
    Ok(assemble(found, &question))
}

fn render(summary: &Summary, args: &ReportArgs, world: &World) -> String {
    let format = if args.json { Format::Json } else { args.format.unwrap_or(Format::Table) };
    match format {
        Format::Table => table::render(summary, world.terminal.stdout),
        Format::Json => json::render(summary),
        Format::Ndjson => ndjson::render(summary),
        Format::Markdown => markdown::render(summary, MARKDOWN_BYTES),
        Format::Junit => junit::render(summary),
        Format::Ctrf => ctrf::render(summary),
    }
}

/// The reader's clock as a test sets it.
pub fn read_time(text: &str) -> Result<Wall, Failure> {
    if let Some(time) = Wall::parse(text) {
        return Ok(time);
    }
    let seconds = text.parse::<f64>().ok().filter(|seconds| seconds.is_finite());
    seconds
        .map(|seconds| Wall((seconds * 1000.0) as i64))
        .ok_or_else(|| Failure::usage(format!("--now {text}: write RFC 3339, or seconds since 1970")))
}
