//! `ledger sink`

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Serialize;

use super::asked::LegArgs;
use super::{Failure, World, print};
use crate::core::event::Envelope;
use crate::core::ids::{Epoch, Seq};
use crate::core::moment::Wall;
use crate::core::row::Head;
use crate::host::clock;
use crate::report::escape;
use crate::sink::{self, FoundLeg, Removed, SinkContext, SinkError, Source, Trouble, Variables};
use crate::source;
use crate::source::push::{self, Sent};
use crate::store::{LedgerFolder, Pulled, restore};

/// Can a sink be written and read back? Bring a leg home, or send later what a run could not
#[derive(Debug, Args)]
pub struct SinkArgs {
    #[command(subcommand)]
    command: SinkCommand,
}

#[derive(Debug, Subcommand)]
enum SinkCommand {
    Check(CheckArgs),
    Pull(PullArgs),
    Push(PushArgs),
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
/// What is here already stays; a leg that has gone on since is gone on with.
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

    /// One JSON document
    #[arg(long)]
    json: bool,
}

/// Send what legs could not send while they ran: out of ledgers, into sinks
///
/// Each sink is asked how far it has got. A leg that is still written is left to its writer, and a copy that was pulled is not sent on.
///
/// Exit status: 0 every leg is in every sink, 1 something is not, 2 a URL or the source is wrong.
#[derive(Debug, Args)]
struct PushArgs {
    /// A folder of ledgers, or one database
    #[arg(value_name = "SOURCE", default_value = ".ledger")]
    source: PathBuf,

    /// URL of a sink; may be given more than once (else LEDGER_SINK)
    #[arg(long = "sink", value_name = "URL")]
    sinks: Vec<String>,
}

pub fn run(args: &SinkArgs, world: &World) -> Result<i32, Failure> {
    match &args.command {
        SinkCommand::Check(args) => check_all(args, world),
        SinkCommand::Pull(args) => pull(args, world),
        SinkCommand::Push(args) => push_all(args, world),
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
    let urls = named(&args.urls, world, "`ledger sink check URL`")?;
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
                None => format!("{}written, read back{note}", sink::lead(&word.url)),
                Some(error) => format!("{}FAILED: {error}", sink::lead(&word.url)),
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
    let mut context = SinkContext::new(sink::check_leg(&run), Epoch::tamed(&run));
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

fn named(urls: &[String], world: &World, written: &str) -> Result<Vec<String>, Failure> {
    let of_environment = world.environment.get("LEDGER_SINK").unwrap_or_default();
    let urls: Vec<String> = match urls {
        [] => of_environment.split_whitespace().map(str::to_owned).collect(),
        urls => urls.to_vec(),
    };
    if urls.is_empty() {
        return Err(Failure::usage("no sink is named").hint(format!("write {written}, or set LEDGER_SINK")));
    }
    Ok(urls)
}

fn push_all(args: &PushArgs, world: &World) -> Result<i32, Failure> {
    let urls = named(&args.sinks, world, "`ledger sink push --sink URL`")?;
    let wrong = |error| Failure::usage(error).hint("name the folder that `ledger run` wrote, or one database in it");
    let databases: Vec<PathBuf> = if args.source.is_file() {
        vec![args.source.clone()]
    } else {
        let databases = LedgerFolder::open(&args.source).and_then(|folder| folder.databases()).map_err(wrong)?;
        databases.into_iter().map(|database| database.path).collect()
    };
    if databases.is_empty() {
        return Err(Failure::usage(format!("{}: there is no ledger in it", args.source.display())));
    }
    let runtime = source::runtime().map_err(Failure::usage)?;
    let variables = Variables::of(world.environment.variables());
    let mut failed = false;
    for url in &urls {
        // A URL that is written wrongly is said once, before anything is sent.
        sink::open(url, &context(url, &variables)).map_err(Failure::usage)?;
    }
    for (url, database) in urls.iter().flat_map(|url| databases.iter().map(move |database| (url, database))) {
        let at = format!("{} to {}", database.display(), sink::printable(url));
        match runtime.block_on(push::push(database, url, &variables, clock::now().wall)) {
            Ok(Sent::There(last)) => print(&format!("{at}: all {last} events are there\n"))?,
            Ok(Sent::Now { events, last }) => print(&format!("{at}: {events} events sent, {last} in all\n"))?,
            Ok(Sent::Left(why)) => print(&format!("{at}: not sent, {why}\n"))?,
            Err(why) => {
                failed = true;
                say!("ledger: warning: {at}: {}", escape::sentence(&why));
            }
        }
    }
    if failed {
        say!("ledger: hint: `ledger sink check URL` says what is missing; what was not sent is kept, and this can be run again");
    }
    Ok(i32::from(failed))
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
    let mut told = Vec::new();
    // A writer that was refused, or killed before its first word, has left nothing to bring.
    for leg in legs.iter().filter(|leg| !leg.is_a_mere_name()) {
        let result = runtime.block_on(pulled(from.as_ref(), leg)).and_then(|pulled| bring(&folder, from.url(), pulled, now));
        match &result {
            Ok(word) if !args.json => print(&format!("{}: {word}\n", leg.place))?,
            Ok(_) => {}
            Err(why) => say!("ledger: warning: {}: {}", leg.place, escape::sentence(why)),
        }
        let (ok, word, error) = match result {
            Ok(word) => (true, Some(word), None),
            Err(why) => (false, None, Some(why)),
        };
        told.push(Told { place: leg.place.clone(), ok, word, error });
    }
    if args.json {
        let document = serde_json::json!({ "v": 1, "into": args.into.display().to_string(), "legs": told });
        print(&format!("{document:#}\n"))?;
    }
    Ok(i32::from(told.iter().any(|leg| !leg.ok)))
}

/// What came of one epoch of one leg.
#[derive(Debug, Serialize)]
struct Told {
    place: String,
    ok: bool,
    /// How many events are where, in words.
    word: Option<String>,
    /// What is missing, in words.
    error: Option<String>,
}

/// What a sink gives of one epoch.
struct Brought {
    lines: Vec<String>,
    /// The newest event that the sink speaks of.
    known: Seq,
    /// The head that the marker names.
    head: Option<Head>,
    /// What stands in the way of the rest.
    cut: Option<String>,
    /// What cannot be read beside the events.
    unreadable: Vec<String>,
}

async fn pulled(from: &dyn Source, leg: &FoundLeg) -> Result<Brought, String> {
    let mut pulled = Brought { lines: Vec::new(), known: leg.promised, head: None, cut: None, unreadable: leg.unreadable.clone() };
    match source::sink::marker_of(leg) {
        Ok(marker) => {
            pulled.head = marker.and_then(|(marker, _)| marker.row.head);
            pulled.known = pulled.head.as_ref().map_or(Seq(0), |head| head.seq).max(leg.promised);
        }
        Err(why) => pulled.unreadable.push(why),
    }
    for segment in &leg.segments {
        match from.segment(leg, segment).await {
            Ok(bytes) => pulled.lines.extend(String::from_utf8_lossy(&bytes).lines().map(str::to_owned)),
            Err(error) => {
                pulled.cut = Some(error.detail);
                break;
            }
        }
    }
    if pulled.lines.is_empty() {
        // What never got further than its plan still has its first event.
        let plan = from.plan(leg).await.map_err(|error| error.to_string())?;
        pulled.lines.extend(plan.map(|plan| String::from_utf8_lossy(&plan).trim_end().to_owned()));
    }
    match (pulled.lines.is_empty(), from.keeps_events()) {
        (false, _) => Ok(pulled),
        (true, false) => Err("this sink holds the marker only, and a ledger is made of events".to_owned()),
        (true, true) => {
            let why = pulled.cut.or(pulled.unreadable.pop()).unwrap_or_else(|| "its events are gone".to_owned());
            Err(format!("nothing of it can be brought: {why}"))
        }
    }
}

fn bring(folder: &LedgerFolder, from: &str, brought: Brought, now: Wall) -> Result<String, String> {
    let Brought { lines, known, head, cut, mut unreadable } = brought;
    let first: Envelope = serde_json::from_str(&lines[0]).map_err(|error| format!("its first event cannot be read: {error}"))?;
    let (leg, epoch) = (first.leg(), first.epoch.clone());
    let database = folder.database_path(&leg, &epoch);
    let is_new = !database.exists();
    let mut copy = (is_new || Pulled::of(&database).is_some()).then(|| Pulled::new(from, head, known));
    // Before its first event: a pull that is killed must not leave a ledger that looks like one of this machine.
    copy.as_ref().map_or(Ok(()), |copy| copy.note(&database)).map_err(|error| error.to_string())?;
    let restored = restore(folder, leg, epoch, now, lines).map_err(|error| {
        if is_new {
            Pulled::forget(&database);
        }
        error.to_string()
    })?;
    let (last, path) = (restored.last, restored.path.display());
    let short = (known > last).then(|| format!("the sink speaks of event {known}"));
    // Without the end, and with nothing that tells how far it went, nobody knows what is missing.
    let doubt = if restored.ended { None } else { unreadable.pop() };
    if let Some(why) = restored.fault.map(|fault| fault.to_string()).or(cut).or(short).or(doubt) {
        if let Some(copy) = &mut copy {
            copy.why = Some(why.clone());
            copy.note(&database).map_err(|error| error.to_string())?;
        }
        return Err(format!("{why}; events up to {last} are in {path}, `ledger verify {path}` tells of them"));
    }
    Ok(match restored.added {
        0 => format!("its {last} events are in {path} already"),
        added if added < last.0 => format!("{added} more events, {last} in all, in {path}"),
        _ => format!("{last} events in {path}"),
    })
}
