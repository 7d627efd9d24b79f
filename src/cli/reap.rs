//! `ledger reap`

use std::path::PathBuf;

use clap::Args;

use super::{Failure, print};
use crate::core::outcome::Cleanup;
use crate::core::process::Leftover;
use crate::report::words;
use crate::source::recovery::{Which, dead_legs};
use crate::store::LedgerFolder;

/// Kill what dead runs of this machine left behind, found by recorded identity and token, never by name
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
    let folder = LedgerFolder::open(&args.ledger)
        .map_err(|error| Failure::usage(error).hint("--ledger DIR names the folder that `ledger run` wrote"))?;
    let legs = dead_legs(&folder, Which::All).map_err(Failure::usage)?;
    let mut worst = 0;
    let mut documents = Vec::new();
    for leg in &legs {
        let (cleanup, leftovers) = if args.dry_run { (None, leg.alive()) } else { reaped(leg.reap()) };
        if matches!(cleanup, Some(Cleanup::Dirty | Cleanup::Unknown)) {
            worst = EXIT_DIRTY;
        }
        documents.push(serde_json::json!({ "leg": leg.sentence(), "cleanup": cleanup, "leftovers": leftovers }));
        if !args.json {
            print(&format!("{}\n", leg.sentence()))?;
            for leftover in &leftovers {
                print(&format!("  {}\n", words::leftover(leftover)))?;
            }
        }
    }
    if args.json {
        let document = serde_json::json!({ "v": 1, "dry_run": args.dry_run, "legs": documents });
        print(&format!("{document:#}\n"))?;
    } else if legs.is_empty() {
        print("no dead run has left anything here\n")?;
    }
    Ok(worst)
}

fn reaped(result: Option<(Cleanup, Vec<Leftover>)>) -> (Option<Cleanup>, Vec<Leftover>) {
    result.map_or((None, Vec::new()), |(cleanup, leftovers)| (Some(cleanup), leftovers))
}
