//! The owner: starts one file, waits for it, and ends its tree.
//!
//! On Unix it is a small process of its own: ledger re-executes itself, and the two share no memory, only a socket. On Windows it is a
//! thread of ledger. Both sides are here.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
use linux as system;
#[cfg(target_os = "macos")]
mod macos;
#[cfg(target_os = "macos")]
use macos as system;

#[cfg(target_os = "macos")]
mod sampled;
#[cfg(unix)]
mod socket;
#[cfg(unix)]
mod unix;
#[cfg(unix)]
use unix::run;
#[cfg(windows)]
mod windows;
#[cfg(windows)]
use windows::{self as system, run};

mod link;
mod output;
mod parent;
#[cfg(target_os = "linux")]
mod usage;
mod wire;

use std::process::ExitCode;

pub use output::{Output, Writer};
pub use parent::{Owner, OwnerError, OwnerSettings, Report, Terminal};
pub use wire::SpawnSpec;

/// The word that turns ledger into an owner. It is no subcommand: clap never sees it.
pub const OWNER_WORD: &str = "__owner";

/// A look at the tree while it runs costs at most a two-hundredth of the time.
const NOTE_SHARE: u64 = 200;
const NOTE_EVERY_MS: u64 = 1000;

/// When the next look is due, after one that took from `before` to `after`.
fn next_note_ms(before: u64, after: u64) -> u64 {
    after + NOTE_EVERY_MS.max((after - before) * NOTE_SHARE)
}

/// To be called before anything else in `main`: runs the owner, and nothing else, if this process was started as one.
pub fn run_if_asked() -> Option<ExitCode> {
    let asked = std::env::args_os().nth(1).is_some_and(|word| word == OWNER_WORD);
    asked.then(run)
}
