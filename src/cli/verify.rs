//! `ledger verify`

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use super::{Failure, World, print};
use crate::host::clock;
use crate::sink::{Narrow, Variables};
use crate::source::{self, archive, sink};
use crate::store::{LedgerFolder, Verdict, is_archive, verify};

/// Check that evidence is whole: 0 whole (an open end is whole), 1 broken, 2 unreadable
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// A ledger folder, a database, or a sink URL
    #[arg(default_value = ".ledger")]
    source: String,

    /// One JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Word {
    Whole,
    OpenEnd,
    Broken,
    Unreadable,
}

impl Word {
    fn as_str(self) -> &'static str {
        match self {
            Word::Whole => "whole",
            Word::OpenEnd => "open-end",
            Word::Broken => "broken",
            Word::Unreadable => "unreadable",
        }
    }

    fn exit_code(self) -> i32 {
        match self {
            Word::Whole | Word::OpenEnd => 0,
            Word::Broken => 1,
            Word::Unreadable => 2,
        }
    }
}

/// One epoch of one leg.
#[derive(Debug, Serialize)]
struct Checked {
    source: String,
    verdict: Word,
    last_seq: u64,
    why: Option<String>,
    notes: Vec<String>,
}

pub fn run(args: &VerifyArgs, world: &World) -> Result<i32, Failure> {
    let checked =
        if source::is_sink(&args.source) { check_sink(&args.source, world)? } else { check_path(Path::new(&args.source))? };
    if checked.is_empty() {
        return Err(Failure::usage(format!("{}: there is no ledger in it", args.source)));
    }
    if args.json {
        let document = serde_json::json!({ "v": 1, "checked": checked });
        print(&format!("{document:#}\n"))?;
    } else {
        for one in &checked {
            let why = one.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
            print(&format!("{}: {}, {} events{why}\n", one.source, one.verdict.as_str(), one.last_seq))?;
            one.notes.iter().for_each(|note| say!("ledger: note: {}: {note}", one.source));
        }
    }
    Ok(checked.iter().map(|one| one.verdict.exit_code()).max().unwrap_or(0))
}

fn check_path(path: &Path) -> Result<Vec<Checked>, Failure> {
    let databases: Vec<PathBuf> = if path.is_dir() {
        let folder = LedgerFolder::open(path).and_then(|folder| folder.databases()).map_err(Failure::usage)?;
        folder.into_iter().map(|database| database.path).collect()
    } else {
        vec![path.to_owned()]
    };
    Ok(databases.iter().map(|path| check_database(path)).collect())
}

fn check_database(path: &Path) -> Checked {
    if is_archive(path) {
        return check_archive(path);
    }
    let verified = verify(path, None);
    let (verdict, why) = match verified.verdict {
        Verdict::Whole => (Word::Whole, None),
        Verdict::OpenEnd => (Word::OpenEnd, None),
        Verdict::Broken { after, why } => (Word::Broken, Some(format!("{why}; events up to {after} can be trusted"))),
        Verdict::Unreadable { why } => (Word::Unreadable, Some(why)),
    };
    Checked { source: path.display().to_string(), verdict, last_seq: verified.head.seq.0, why, notes: verified.notes }
}

/// An archive's summaries are made again out of its events and compared.
fn check_archive(path: &Path) -> Checked {
    let source = path.display().to_string();
    match archive::verify(path) {
        Ok(verified) => {
            let broken = !verified.differing.is_empty();
            let why = broken.then(|| format!("{} of {} epochs differ", verified.differing.len(), verified.epochs));
            let verdict = if broken { Word::Broken } else { Word::Whole };
            Checked { source, verdict, last_seq: verified.events, why, notes: verified.differing }
        }
        Err(error) => Checked { source, verdict: Word::Unreadable, last_seq: 0, why: Some(error.to_string()), notes: Vec::new() },
    }
}

fn check_sink(url: &str, world: &World) -> Result<Vec<Checked>, Failure> {
    let runtime = source::runtime().map_err(Failure::usage)?;
    let narrow = Narrow { variables: Variables::of(world.environment.variables()), ..Narrow::default() };
    let epochs = runtime.block_on(sink::verify(url, &narrow, clock::now().wall)).map_err(Failure::usage)?;
    let checked = |epoch: sink::SinkVerified| {
        let verdict = match (&epoch.unreadable, &epoch.broken, epoch.ended) {
            (Some(_), ..) => Word::Unreadable,
            (None, Some(_), _) => Word::Broken,
            (None, None, true) => Word::Whole,
            (None, None, false) => Word::OpenEnd,
        };
        let why = epoch.unreadable.or(epoch.broken);
        Checked { source: epoch.place, verdict, last_seq: epoch.last.0, why, notes: epoch.notes }
    };
    Ok(epochs.into_iter().map(checked).collect())
}
