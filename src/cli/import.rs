//! `ledger import`

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::asked::LegArgs;
use super::{Failure, World, print};
use crate::host::clock;
use crate::source::{SourceError, archive};

/// Gather legs or timings into one archive; the same input again changes nothing
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// ci-data folders or files, timing files, JUnit XML, ledger folders or databases, archives, sink URLs
    #[arg(required = true)]
    sources: Vec<String>,

    /// The archive; made where there is none
    #[arg(long, value_name = "FILE.db")]
    into: PathBuf,

    /// Names the leg of JUnit and timing files; narrows what a sink is asked for
    #[command(flatten)]
    legs: LegArgs,

    /// One JSON document
    #[arg(long)]
    json: bool,
}

pub fn run(args: &ImportArgs, world: &World) -> Result<i32, Failure> {
    let question = args.legs.question(world, clock::now().wall);
    let (done, warnings) = archive::import(&args.sources, &args.into, &question).map_err(|error| match error {
        SourceError::Store(_) => Failure::usage(error),
        // Every source is looked at before the first is taken in.
        error => Failure::usage(error).hint("nothing was imported, of the other sources neither: name those that are there"),
    })?;
    if args.json {
        let document = json!({ "v": 1, "into": args.into.display().to_string(), "imported": done, "warnings": warnings });
        print(&format!("{document:#}\n"))?;
        return Ok(0);
    }
    super::asked::warn(&warnings);
    let rows = done.rows_added + done.rows_known;
    print(&format!(
        "{}: {} legs, {} of them new or changed; {} events added, {} known; {} of {rows} rows added\n",
        args.into.display(),
        done.legs,
        done.legs_changed,
        done.events_added,
        done.events_known,
        done.rows_added,
    ))?;
    Ok(0)
}
