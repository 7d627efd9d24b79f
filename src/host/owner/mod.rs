//! The owner: a small process of its own that starts one file, waits for it, and ends its tree.
//!
//! ledger re-executes itself as the owner. Both sides are here; they share no memory, only the socket between them.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
use linux as system;

#[cfg(unix)]
mod socket;
#[cfg(unix)]
mod unix;
#[cfg(unix)]
use unix::run;

mod link;
mod output;
mod parent;
#[cfg(target_os = "linux")]
mod usage;
mod wire;

use std::process::ExitCode;

pub use output::Output;
pub use parent::{Owner, OwnerError, OwnerSettings, Report, Terminal};
pub use wire::SpawnSpec;

/// The word that turns ledger into an owner. It is no subcommand: clap never sees it.
pub const OWNER_WORD: &str = "__owner";

/// To be called before anything else in `main`: runs the owner, and nothing else, if this process was started as one.
pub fn run_if_asked() -> Option<ExitCode> {
    let asked = std::env::args_os().nth(1).is_some_and(|word| word == OWNER_WORD);
    asked.then(run)
}
