//! `ledger pool`

use clap::{Args, Subcommand};

use super::{Failure, World, print};
use crate::core::moment::Moment;
use crate::core::slot::{PoolName, PoolView, PoolsDocument, damaged, holders, is_black_hole, standing};
use crate::host::clock;
use crate::host::slots::{Pools, SlotError};
use crate::run;
use crate::settings::{PoolRunFlags, pools_folder, resolve_pool_run};

/// Slots that several runs on one host share
#[derive(Debug, Args)]
pub struct PoolArgs {
    #[command(subcommand)]
    command: PoolCommand,
}

#[derive(Debug, Subcommand)]
enum PoolCommand {
    Run(PoolRunArgs),
    Status(StatusArgs),
}

/// Run a command under a slot of a pool
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  ledger pool run --pool mac --slots 2 --deadline 5m --destroy './destroy-vm \"$LEDGER_SLOT\"' -- ./boot-and-test

The slot is an OS file lock: it is free again the moment ledger ends, however it ends. COMMAND and the destroy command find LEDGER_POOL
and LEDGER_SLOT in their environment, the destroy command LEDGER_DESTROY_WHY (failure, deadline, cancelled, survivors) too. Past the
deadline, on failure of COMMAND or when cancelled its processes are ended, then the destroy command runs.

Exit status: COMMAND's own; 124 past the deadline, 127 COMMAND could not be started, 3 the slot had to be put away although COMMAND
succeeded, 129/130/143 cancelled by HUP/INT/TERM, 2 usage.")]
pub struct PoolRunArgs {
    #[command(flatten)]
    flags: PoolRunFlags,
}

/// Who holds what, out of the locks themselves; exit 1 when everything is taken and nothing tracked runs
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Only this pool
    #[arg(long, value_name = "NAME")]
    pool: Option<String>,

    /// One JSON document
    #[arg(long)]
    json: bool,
}

pub fn run(args: PoolArgs, world: &World) -> Result<i32, Failure> {
    match args.command {
        PoolCommand::Run(args) => {
            let settings = resolve_pool_run(args.flags, &world.environment).map_err(Failure::usage)?;
            run::execute_pool(settings).map_err(Failure::usage)
        }
        PoolCommand::Status(args) => status(&args, world),
    }
}

fn status(args: &StatusArgs, world: &World) -> Result<i32, Failure> {
    let pools = Pools::at(pools_folder(&world.environment).map_err(Failure::usage)?);
    let found = match &args.pool {
        Some(name) => {
            let name: PoolName = name.parse().map_err(Failure::usage)?;
            vec![pools.find(&name).map_err(explain)?]
        }
        None => pools.list().map_err(Failure::usage)?,
    };
    let now = clock::now();
    let views = found.iter().map(|pool| pool.look(now)).collect::<Result<Vec<PoolView>, SlotError>>().map_err(Failure::usage)?;
    for pool in views.iter().filter(|pool| pool.is_damaged) {
        say!("ledger: warning: {}", damaged(&pool.name));
    }
    if args.json {
        let document = serde_json::to_string_pretty(&PoolsDocument::of(&views)).expect("plain data with string keys");
        print(&format!("{document}\n"))?;
    } else if views.is_empty() {
        print(&format!("no pools in '{}'\n", pools.root().display()))?;
    } else {
        print(&views.iter().map(|pool| text(pool, now)).collect::<String>())?;
    }
    Ok(i32::from(views.iter().any(is_black_hole)))
}

fn text(pool: &PoolView, now: Moment) -> String {
    let mut text = format!("pool '{}': {}, {} waiting\n", pool.name, standing(pool), pool.waiters.len());
    for line in holders(pool, now.wall) {
        text.push_str(&format!("  {line}\n"));
    }
    for waiter in &pool.waiters {
        let Some(party) = &waiter.party else { continue };
        let run = party.run_id.as_ref().map(|run_id| format!(", run {run_id}")).unwrap_or_default();
        let stalled = if waiter.is_stalled { ", stalled: it is passed over" } else { "" };
        text.push_str(&format!("  waiting: pid {}{run}, for {}{stalled}\n", party.id.pid, now.wall.since(party.since)));
    }
    if is_black_hole(pool) {
        text.push_str("  nothing more goes in, and nothing that is tracked runs\n");
    }
    text
}

fn explain(error: SlotError) -> Failure {
    let failure = Failure::usage(&error);
    match error {
        SlotError::NoPool { .. } => {
            failure.hint("`ledger pool status` lists the pools there are; the first run with --pool NAME makes one")
        }
        _ => failure,
    }
}
