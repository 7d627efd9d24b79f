//! `ledger sink`

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Serialize;

use super::asked::LegArgs;
use super::{Failure, World, print};
use crate::core::event::Envelope;
use crate::core::ids::Epoch;
use crate::core::moment::Wall;
use crate::host::clock;
use crate::sink::{self, FoundLeg, Removed, SinkContext, SinkError, Source, Trouble, Variables};
use crate::source;
use crate::store::{LedgerFolder, restore};

/// Can a sink be written and read back? Bring a leg home
#[derive(Debug, Args)]
pub struct SinkArgs {
    #[command(subcommand)]
    command: SinkCommand,
}

#[derive(Debug, Subcommand)]
enum SinkCommand {
    Check(CheckArgs),
    Pull(PullArgs),
}

/// Write to sinks, read back what was written, delete it, and say what is missing
///
/// Exit status: 0 every sink can be written and read, 1 one cannot, 2 a URL is wrong.
#[derive(Debug, Args)]
struct CheckArgs {
    /// URLs of sinks (else LEDGER_SINK)
    #[arg(value_name = "URL")]
    urls: Vec<String>,

    /// One JSON document
    #[arg(long)]
    json: bool,
}

/// Bring the events of legs home: out of a sink, into ledgers of a folder
///
/// Exit status: 0 everything that was asked for is here, 1 something is not.
#[derive(Debug, Args)]
struct PullArgs {
    /// A sink that keeps events: file://, s3://, gs://, az://, https://
    #[arg(value_name = "URL")]
    url: String,

    /// The folder of ledgers
    #[arg(long, value_name = "DIR", default_value = ".ledger")]
    into: PathBuf,

    #[command(flatten)]
    legs: LegArgs,
}

pub fn run(args: &SinkArgs, world: &World) -> Result<i32, Failure> {
    match &args.command {
        SinkCommand::Check(args) => check_all(args, world),
        SinkCommand::Pull(args) => pull(args, world),
    }
}

/// What was found out about one sink.
#[derive(Debug, Serialize)]
struct Word {
    url: String,
    ok: bool,
    /// What is missing, in words.
    error: Option<String>,
    /// The marker's age as a reader sees it, by the sink's own clock.
    marker_age_s: Option<f64>,
    note: Option<String>,
}

fn check_all(args: &CheckArgs, world: &World) -> Result<i32, Failure> {
    let of_environment = world.environment.get("LEDGER_SINK").unwrap_or_default();
    let urls: Vec<String> = match args.urls.as_slice() {
        [] => of_environment.split_whitespace().map(str::to_owned).collect(),
        urls => urls.to_vec(),
    };
    if urls.is_empty() {
        return Err(Failure::usage("no sink is named").hint("write `ledger sink check URL`, or set LEDGER_SINK"));
    }
    let runtime = source::runtime().map_err(Failure::usage)?;
    let variables = Variables::of(world.environment.variables());
    let mut words = Vec::new();
    for url in &urls {
        match runtime.block_on(sink::check(url, &context(url, &variables), clock::now().wall)) {
            Ok(checked) => words.push(good(url, &checked)),
            Err(error) if error.trouble == Trouble::Usage => return Err(Failure::usage(error)),
            Err(error) => words.push(bad(url, &error)),
        }
    }
    let failed = words.iter().any(|word| !word.ok);
    if args.json {
        print(&format!("{:#}\n", serde_json::json!({ "v": 1, "sinks": words })))?;
    } else {
        for word in &words {
            let note = word.note.as_deref().map(|note| format!("; {note}")).unwrap_or_default();
            let line = match &word.error {
                None => format!("{}: written, read back{note}", word.url),
                Some(error) => format!("{}: FAILED: {error}", word.url),
            };
            print(&format!("{line}\n"))?;
        }
    }
    Ok(i32::from(failed))
}

/// A leg that no run has. Where nothing can be deleted, a second check uses the traces of the first.
fn context(url: &str, variables: &Variables) -> SinkContext {
    let keeps = url.starts_with("github:");
    let run = if keeps { sink::CHECK.to_owned() } else { format!("{}-{}", sink::CHECK, uuid::Uuid::now_v7()) };
    let mut context = SinkContext::new(sink::check_leg(&run), Epoch::new(run.clone()));
    context.sha = variables.get("GITHUB_SHA").map(str::to_owned);
    context.variables = variables.clone();
    context
}

fn good(url: &str, checked: &sink::Checked) -> Word {
    let note = match &checked.removed {
        Ok(Removed::Gone) => "deleted".to_owned(),
        Ok(Removed::Kept(why)) => format!("kept: {why}"),
        Err(error) => format!("not deleted, which a run does not need: {}", error.detail),
    };
    let marker_age_s = checked.leg.marker.as_ref().map(|marker| marker.age.as_f64());
    Word { url: sink::printable(url), ok: true, error: None, marker_age_s, note: Some(note) }
}

fn bad(url: &str, error: &SinkError) -> Word {
    Word { url: sink::printable(url), ok: false, error: Some(error.detail.clone()), marker_age_s: None, note: None }
}

fn pull(args: &PullArgs, world: &World) -> Result<i32, Failure> {
    if !source::is_sink(&args.url) {
        return Err(Failure::usage(format!("'{}' is no URL of a sink", args.url)).hint("write file:///path, s3://bucket/prefix, …"));
    }
    let folder = LedgerFolder::create(&args.into).map_err(Failure::usage)?;
    let runtime = source::runtime().map_err(Failure::usage)?;
    let now = clock::now().wall;
    let narrow = source::narrow(&args.legs.question(world, now));
    let from = sink::open_source(&args.url, &narrow.variables).map_err(Failure::usage)?;
    let legs = runtime.block_on(from.legs(&narrow, now)).map_err(Failure::usage)?;
    if legs.is_empty() {
        return Err(
            Failure::usage(format!("{}: no leg in it is asked for", from.url())).hint("`ledger report URL` lists what it holds")
        );
    }
    let mut failed = false;
    for leg in &legs {
        match runtime.block_on(lines(from.as_ref(), leg)).and_then(|lines| bring(&folder, lines, now)) {
            Ok(word) => print(&format!("{}: {word}\n", leg.place))?,
            Err(why) => {
                failed = true;
                eprintln!("ledger: warning: {}: {why}", leg.place);
            }
        }
    }
    Ok(i32::from(failed))
}

async fn lines(from: &dyn Source, leg: &FoundLeg) -> Result<Vec<String>, String> {
    let mut lines = Vec::new();
    for segment in &leg.segments {
        let bytes = from.segment(leg, segment).await.map_err(|error| error.to_string())?;
        lines.extend(String::from_utf8_lossy(&bytes).lines().map(str::to_owned));
    }
    if lines.is_empty() {
        // What never got further than its plan still has its first event.
        lines.extend(leg.plan.as_ref().map(|plan| String::from_utf8_lossy(plan).trim_end().to_owned()));
    }
    if lines.is_empty() { Err("this sink holds the marker only, and a ledger is made of events".to_owned()) } else { Ok(lines) }
}

fn bring(folder: &LedgerFolder, lines: Vec<String>, now: Wall) -> Result<String, String> {
    let first: Envelope = serde_json::from_str(&lines[0]).map_err(|error| format!("its first event cannot be read: {error}"))?;
    let restored = restore(folder, first.leg(), first.epoch.clone(), now, lines).map_err(|error| error.to_string())?;
    match restored.fault {
        None => Ok(format!("{} events in {}", restored.last, restored.path.display())),
        Some(fault) => Err(format!("{fault}; events up to {} are in {}", restored.last, restored.path.display())),
    }
}
