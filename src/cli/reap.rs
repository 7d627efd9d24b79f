//! `ledger reap`

use std::path::PathBuf;

use clap::Args;

use super::{Failure, print};
use crate::core::outcome::Cleanup;
use crate::core::pattern::Patterns;
use crate::core::process::{Fate, Leftover};
use crate::host::process;
use crate::report::{escape, words};
use crate::source::aftermath::By;
use crate::source::recovery::{DeadLegs, Which, dead_legs};
use crate::store::LedgerFolder;

/// Kill what dead runs of this machine left behind, found by recorded identity and token, never by name
///
/// What a dead run spared with --allow-leftover is left alone. What is killed is on the leg's record from then on: `ledger report` names it.
#[derive(Debug, Args)]
pub struct ReapArgs {
    /// Say what would be killed, and kill nothing
    #[arg(long)]
    dry_run: bool,

    /// Folder of ledgers
    #[arg(long, value_name = "DIR", default_value = ".ledger")]
    ledger: PathBuf,

    /// One JSON document
    #[arg(long)]
    json: bool,
}

/// Something survived.
const EXIT_DIRTY: i32 = 3;

pub fn run(args: &ReapArgs) -> Result<i32, Failure> {
    if !args.ledger.try_exists().unwrap_or(true) {
        return nothing_here(args);
    }
    process::can_be_told_apart().map_err(Failure::usage)?;
    let folder = LedgerFolder::open(&args.ledger)
        .map_err(|error| Failure::usage(error).hint("--ledger DIR names the folder that `ledger run` wrote"))?;
    let DeadLegs { legs, unreadable } = dead_legs(&folder, Which::All).map_err(Failure::usage)?;
    for error in &unreadable {
        say!("ledger: warning: a ledger cannot be read, so nothing of its run is looked for: {error}");
    }
    let mut worst = 0;
    let mut documents = Vec::new();
    for leg in &legs {
        let mut sentence = leg.sentence();
        let (cleanup, leftovers) = if args.dry_run {
            (None, leg.alive())
        } else {
            let swept = leg.reap(&Patterns::default(), By::Reap);
            sentence.push_str(&leg.outcome(swept.as_ref()));
            swept.map_or((None, Vec::new()), |swept| (Some(swept.cleanup), swept.leftovers))
        };
        if matches!(cleanup, Some(Cleanup::Dirty | Cleanup::Unknown)) {
            worst = EXIT_DIRTY;
        }
        documents.push(serde_json::json!({ "leg": sentence, "cleanup": cleanup, "leftovers": shown(&leftovers, args.dry_run) }));
        if !args.json {
            print(&format!("{sentence}\n"))?;
            for leftover in &leftovers {
                print(&format!("  {}\n", words::leftover(leftover)))?;
            }
        }
    }
    if args.json {
        let unreadable: Vec<String> = unreadable.iter().map(ToString::to_string).collect();
        let document = serde_json::json!({ "v": 1, "dry_run": args.dry_run, "legs": documents, "unreadable": unreadable });
        print(&format!("{document:#}\n"))?;
    } else if legs.is_empty() && unreadable.is_empty() {
        print("no dead run has left anything here\n")?;
    }
    Ok(worst)
}

/// A machine's first run has no ledgers yet; a workflow reaps before it all the same.
fn nothing_here(args: &ReapArgs) -> Result<i32, Failure> {
    let sentence = format!(
        "there is no ledger folder {}, so no dead run of it has left anything; --ledger DIR names another",
        args.ledger.display()
    );
    if args.json {
        let document = serde_json::json!({ "v": 1, "dry_run": args.dry_run, "legs": [] });
        say!("ledger: {}", escape::message(&sentence));
        print(&format!("{document:#}\n"))?;
    } else {
        print(&format!("{}\n", escape::message(&sentence)))?;
    }
    Ok(0)
}

/// Nobody has tried to kill what a dry run finds, so it has survived nothing: its fate is not known.
fn shown(leftovers: &[Leftover], dry_run: bool) -> Vec<serde_json::Value> {
    let value = |leftover: &Leftover| {
        let mut value = serde_json::to_value(leftover).expect("plain data with string keys");
        if dry_run && leftover.fate != Fate::Allowed {
            value["fate"] = serde_json::Value::Null;
        }
        value
    };
    leftovers.iter().map(value).collect()
}
