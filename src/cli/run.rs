//! `ledger run`

use clap::Args;

use super::{Failure, World};
use crate::host::clock;
use crate::run;
use crate::settings::{RunFlags, SettingsError, resolve_run};

/// Run test files one by one, watched, recorded, flushed
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ledger run 'test/integration/*.test.ts' -- bun test ./{file}
  ledger run --deadline +55m --sink github: --sink s3://evidence/ledger tests/*.sh -- bash
  ledger run --repeat 20 --until-fail test/provisioning.test.ts -- bun test ./{file}

Exit status: 0 every file passed, 1 some did not, 2 nothing ran, 3 leftovers survived, 4 the budget was spent,
5 the ledger could not be written any more, 129/130/143 cancelled by HUP/INT/TERM.")]
pub struct RunArgs {
    #[command(flatten)]
    flags: RunFlags,
}

pub fn run(args: RunArgs, world: &World) -> Result<i32, Failure> {
    let folder = std::env::current_dir().map_err(|error| Failure::usage(format!("the working folder cannot be told: {error}")))?;
    let settings = resolve_run(args.flags, &world.environment, &folder, clock::now()).map_err(explain)?;
    run::execute(settings, world.terminal.stderr).map_err(Failure::usage)
}

fn explain(error: SettingsError) -> Failure {
    let failure = Failure::usage(&error);
    match error {
        SettingsError::Plan(_) => failure.hint("nothing ran; `ledger run --dry-run …` shows the plan without running it"),
        SettingsError::BadFile { .. } => failure.hint("`ledger run --help` names every key that [run] takes"),
        _ => failure,
    }
}
