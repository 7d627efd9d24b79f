//! `ledger report`

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::asked::{ExpectedArgs, LegArgs, ask_for_jobs, summarise_what_is_there, warn};
use super::waiting::{Wait, Waiting};
use super::{Failure, World, out, print};
use crate::core::moment::Wall;
use crate::core::row::Summary;
use crate::host::clock;
use crate::report::gate::gate;
use crate::report::shared_json::MAX_SHARED_BYTES;
use crate::report::tested_versions::{IncompleteRows, due, tested_versions};
use crate::report::{attempted_legs, ci_data, ctrf, escape, html, json, junit, markdown, ndjson, rerun, table, timing, trace};
use crate::sink;
use crate::source::assemble::Question;
use crate::source::{self, Found, finalize};

/// Say what the evidence says: rows, files, pages, gate
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ledger report
  ledger report --format html --out night.html
  ledger report s3://evidence/ledger --run-id 36531 --plan matrix.json --gate
  ledger report ci-data --format tested-versions --out tested-versions.json")]
pub struct ReportArgs {
    /// Ledger folders, databases, ci-data folders or files, sink URLs [default: .ledger]
    sources: Vec<String>,

    /// How to say it [default: table]
    #[arg(long, value_enum)]
    format: Option<Format>,

    /// One JSON document; the same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,

    #[command(flatten)]
    legs: LegArgs,

    #[command(flatten)]
    expected: ExpectedArgs,

    /// Write to this file in one step; the two shared files are merged into, by key. With --format ci-data also a folder
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Where tested-versions puts legs that did not end: a row, a file beside it, or nowhere
    #[arg(long, value_enum, default_value_t = IncompleteArg::Row, value_name = "WHERE")]
    incomplete: IncompleteArg,

    /// Print those of these versions that --platform has neither passed nor failed; an incomplete row is no test
    #[arg(long, value_name = "VERSION", num_args = 1.., value_delimiter = ',', requires = "platform")]
    due: Vec<String>,

    /// Exit 0 only when every planned leg passed, 1 when any file failed, 3 when something is missing or still running
    #[arg(long)]
    gate: bool,

    /// The reader's clock, as RFC 3339 or seconds since 1970: for tests
    #[arg(long, value_name = "TIME")]
    now: Option<String>,

    /// Wait until no leg is running any more: its record is in, its lease has run out, or nothing is heard for 45 min beyond that
    #[arg(long)]
    wait_lease: bool,

    /// Close in the sinks what lost legs left open there, and say the verdict in its place; doing it twice changes nothing
    #[arg(long)]
    finalize: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Json,
    Ndjson,
    Markdown,
    Html,
    Junit,
    Ctrf,
    Trace,
    TestedVersions,
    AttemptedLegs,
    Timing,
    CiData,
    Rerun,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum IncompleteArg {
    Row,
    Sidecar,
    Omit,
}

impl Format {
    /// Whether text in it can be written in the escapes of JSON.
    fn is_json(self) -> bool {
        use Format::{AttemptedLegs, CiData, Ctrf, Json, Ndjson, Rerun, TestedVersions, Trace};
        matches!(self, Json | Ndjson | Ctrf | Trace | TestedVersions | AttemptedLegs | CiData | Rerun)
    }
}

impl From<IncompleteArg> for IncompleteRows {
    fn from(arg: IncompleteArg) -> Self {
        match arg {
            IncompleteArg::Row => IncompleteRows::Row,
            IncompleteArg::Sidecar => IncompleteRows::Sidecar,
            IncompleteArg::Omit => IncompleteRows::Omit,
        }
    }
}

pub fn run(args: &ReportArgs, world: &World) -> Result<i32, Failure> {
    if !args.due.is_empty() {
        return print_due(args, world);
    }
    let Looked { summary, failure, unclosed } = look(args, world, &sources(args))?;
    warn(&summary.warnings);
    let format = if args.json { Format::Json } else { args.format.unwrap_or(Format::Table) };
    let shared = matches!(format, Format::TestedVersions | Format::AttemptedLegs | Format::CiData);
    if let (true, Some(path), Some(failure)) = (shared, &args.out, &failure) {
        let hint = format!("{} was left as it is: others read it as the whole; name the other sources alone", path.display());
        return Err(Failure::usage(&failure.message).hint(hint));
    }
    match (&args.out, format) {
        (Some(path), Format::TestedVersions) => fold_tested(&summary, path, args.incomplete.into())?,
        (Some(path), Format::AttemptedLegs) => out::merge_into(path, |older| {
            attempted_legs::attempted_legs(&summary, older).map_err(|error| older_file(path, &error))
        })?,
        (Some(path), Format::CiData) if is_folder(path) => write_legs(&summary, path)?,
        (Some(path), _) => {
            let text = render(&summary, format, args, world)?;
            out::replace(path, text.as_bytes()).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
        }
        (None, _) => print_rows(&render(&summary, format, args, world)?, args.gate)?,
    }
    if let Some(failure) = failure {
        if args.gate {
            let others = gate(&summary).why();
            let others = others.trim_start_matches("gate: ");
            say!("ledger: gate: it stays shut, for one source cannot be read; of the others: {others}");
        }
        return Err(failure);
    }
    // What stays open in a sink is no verdict on the legs, yet somebody has to know.
    let unclosed = i32::from(unclosed > 0);
    if !args.gate {
        return Ok(unclosed);
    }
    let gate = gate(&summary);
    say!("ledger: {}", gate.why());
    Ok(gate.exit_code().max(unclosed))
}

/// Under `--gate` the exit code 1 means that a file failed; rows that nobody can be shown are a 2.
fn print_rows(text: &str, gate: bool) -> Result<(), Failure> {
    print(text).map_err(|failure| if gate { Failure { code: 2, ..failure } } else { failure })
}

/// Closes in every sink what lost legs left open there; the answer is how many could not be closed. One that cannot costs itself.
fn finalize(sources: &[String], question: &Question, summary: &Summary) -> Result<usize, Failure> {
    let runtime = source::runtime().map_err(Failure::usage)?;
    let mut unclosed = 0;
    for url in sources.iter().filter(|url| source::is_sink(url)) {
        let narrow = source::narrow(question);
        let closing = finalize::finalize(url, &narrow, question.now, summary);
        let done = match runtime.block_on(closing) {
            Ok(done) => done,
            Err(error) => {
                warn(&[format!("nothing is closed here: {error}")]);
                unclosed += 1;
                continue;
            }
        };
        warn(&done.failed.iter().map(|error| format!("a leg stays open: {error}")).collect::<Vec<_>>());
        unclosed += done.failed.len();
        let (closed, before, running, failed) = (done.closed, done.closed_already, done.still_running, done.failed.len());
        let failed = if failed > 0 { format!(", {failed} could not be closed") } else { String::new() };
        say!("ledger: {} {closed} legs closed, {before} needed no closing, {running} still running{failed}", sink::printable(url));
    }
    Ok(unclosed)
}

fn sources(args: &ReportArgs) -> Vec<String> {
    if args.sources.is_empty() { vec![".ledger".to_owned()] } else { args.sources.clone() }
}

struct Looked {
    summary: Summary,
    failure: Option<Failure>,
    /// What `--finalize` could not close.
    unclosed: usize,
}

/// Reads the sources, again and again where a running leg is waited for.
/// A source that cannot be read hides nothing of the others: its failure comes beside them.
fn look(args: &ReportArgs, world: &World, sources: &[String]) -> Result<Looked, Failure> {
    let mut waiting = Waiting::default();
    let set_clock = args.now.as_deref().map(|now| read_time("--now", now)).transpose()?;
    loop {
        let mut found = Found::default();
        let mut question = args.legs.question(world, set_clock.unwrap_or_else(|| clock::now().wall));
        question.set_clock = set_clock;
        question.samples = matches!(args.format, Some(Format::Html | Format::Trace));
        args.expected.expect(&mut question, &mut found)?;
        let of_versions = matches!(args.format, Some(Format::TestedVersions)) || !args.due.is_empty();
        question.whole_runs = of_versions || !question.plan.is_empty();
        ask_for_jobs(sources, &mut question, &mut found)?;
        let (summary, failure) = summarise_what_is_there(sources, &question, found)?;
        let wait = if args.wait_lease && set_clock.is_none() { waiting.look(&summary, clock::now()) } else { Wait::Over };
        match wait {
            Wait::Goes(text) => text.iter().for_each(|text| say!("ledger: {text}")),
            Wait::Over | Wait::GivenUp(_) => {
                if let Wait::GivenUp(why) = wait {
                    say!("ledger: warning: {why}");
                }
                let unclosed = if args.finalize && failure.is_none() { finalize(sources, &question, &summary)? } else { 0 };
                return Ok(Looked { summary, failure, unclosed });
            }
        }
        std::thread::sleep(sources.iter().map(|url| sink::look_again(url)).max().unwrap_or_default());
    }
}

fn render(summary: &Summary, format: Format, args: &ReportArgs, world: &World) -> Result<String, Failure> {
    let text = match format {
        Format::Table => table::render(summary, world.terminal.stdout),
        Format::Json => json::render(summary),
        Format::Ndjson => ndjson::render(summary),
        Format::Markdown => markdown::render(summary, markdown::SUMMARY_ROOM),
        Format::Html => html::render(summary),
        Format::Junit => junit::render(summary),
        Format::Ctrf => ctrf::render(summary),
        Format::Trace => trace::render(summary),
        Format::TestedVersions => {
            let folded = tested_versions(summary, None, None, args.incomplete.into()).map_err(Failure::usage)?;
            warn(&folded.warnings);
            folded.text
        }
        Format::AttemptedLegs => attempted_legs::attempted_legs(summary, None).map_err(Failure::usage)?,
        Format::Timing => timing::timing(summary),
        Format::CiData => ci_data::ci_data(summary),
        Format::Rerun => rerun::rerun(summary, &args.expected.read_plan()?),
    };
    Ok(if format.is_json() { escape::json(text) } else { text })
}

/// Folds onto the older file, and keeps the incomplete rows beside it where that was asked for.
fn fold_tested(summary: &Summary, path: &Path, incomplete: IncompleteRows) -> Result<(), Failure> {
    let beside = path.with_extension("incomplete.json");
    let older_beside = match incomplete {
        IncompleteRows::Sidecar => read_if_there(&beside)?,
        IncompleteRows::Row | IncompleteRows::Omit => None,
    };
    let mut sidecar = None;
    out::merge_into(path, |older| {
        let folded =
            tested_versions(summary, older, older_beside.as_deref(), incomplete).map_err(|error| older_file(path, &error))?;
        warn(&folded.warnings);
        sidecar = folded.sidecar;
        Ok(folded.text)
    })?;
    match sidecar {
        Some(text) => out::merge_into(&beside, |_| Ok(text)),
        None => Ok(()),
    }
}

/// A folder that is there, or that is meant by the separator behind its name.
fn is_folder(path: &Path) -> bool {
    path.is_dir() || path.as_os_str().as_encoded_bytes().last().is_some_and(|last| std::path::is_separator(char::from(*last)))
}

fn write_legs(summary: &Summary, folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder).map_err(|error| Failure::usage(format!("{}: {error}", folder.display())))?;
    for (row, name) in summary.legs.iter().zip(ci_data::leg_file_names(&summary.legs)) {
        let path = folder.join(name);
        let lines = ci_data::leg_lines(row);
        if std::fs::read(&path).is_ok_and(|older| ci_data::is_poorer(lines.as_bytes(), &older)) {
            let why = "holds more of this leg than can be read now, and was left as it is";
            warn(&[format!("{}: {why}", path.display())]);
            continue;
        }
        out::replace(&path, lines.as_bytes()).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
    }
    Ok(())
}

/// A source may be the shared file itself.
fn print_due(args: &ReportArgs, world: &World) -> Result<i32, Failure> {
    let (files, sources): (Vec<String>, Vec<String>) =
        sources(args).into_iter().partition(|source| source.ends_with(".json") && Path::new(source).is_file());
    let mut tested = String::new();
    for file in &files {
        tested = fold_file(&tested, Path::new(file))?;
    }
    if !sources.is_empty() {
        let Looked { summary, failure, .. } = look(args, world, &sources)?;
        warn(&summary.warnings);
        if let Some(failure) = failure {
            return Err(failure);
        }
        let folded = tested_versions(&summary, Some(tested.as_bytes()), None, IncompleteRows::Row).map_err(Failure::usage)?;
        tested = folded.text;
    }
    let platform = args.legs.platform.as_deref().unwrap_or_default();
    let due = due(&tested, &args.due, platform).map_err(Failure::usage)?;
    if args.json {
        print(&format!("{}\n", serde_json::json!({ "v": 1, "platform": platform, "due": due })))?;
    } else {
        due.iter().try_for_each(|version| print(&format!("{version}\n")))?;
    }
    Ok(0)
}

fn fold_file(tested: &str, path: &Path) -> Result<String, Failure> {
    let nothing = Summary::of(Wall(0), Vec::new());
    let bytes = super::asked::read_bounded(path, MAX_SHARED_BYTES)?;
    let folded = tested_versions(&nothing, Some(tested.as_bytes()), Some(&bytes), IncompleteRows::Row);
    folded.map(|folded| folded.text).map_err(|error| older_file(path, &error))
}

fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>, Failure> {
    if path.exists() { super::asked::read_bounded(path, MAX_SHARED_BYTES).map(Some) } else { Ok(None) }
}

fn older_file(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::usage(format!("{}: {error}", path.display())).hint("it was not written over; mend it or name another file with --out")
}

/// A time as the flag of this name gives it, the reader's clock for one.
pub fn read_time(flag: &str, text: &str) -> Result<Wall, Failure> {
    let seconds = || text.parse::<f64>().ok().filter(|seconds| seconds.is_finite());
    let time = Wall::parse(text).or_else(|| seconds().map(|seconds| Wall((seconds * 1000.0) as i64)));
    let time = time.ok_or_else(|| Failure::usage(format!("{flag} {text}: write RFC 3339, or seconds since 1970")))?;
    time.in_writing().ok_or_else(|| {
        Failure::usage(format!("{flag} {text}: no date can say that; write RFC 3339, or seconds (not milliseconds) since 1970"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readers_clock_is_a_date_or_seconds() {
        assert_eq!(read_time("--now", "1790000000.5").expect("it is well formed"), Wall(1_790_000_000_500));
        assert_eq!(read_time("--now", "1970-01-01T00:00:01Z").expect("it is well formed"), Wall(1000));
        for text in ["99999999999999999", "-99999999999999999", "1e300", "NaN", "inf", "soon", "9999-12-31T23:59:59-01:00"] {
            let refused = read_time("--since", text).expect_err("it is refused");
            assert!(refused.code == 2 && refused.message.starts_with(&format!("--since {text}: ")), "{}", refused.message);
        }
    }
}
