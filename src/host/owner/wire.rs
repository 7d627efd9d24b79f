//! What ledger and an owner say to each other: one JSON document per line, over the socket that is the owner's standard input.

use std::ffi::OsString;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::core::pattern::Patterns;
use crate::core::process::{Exit, ProcessId, Swept, TreeUse};
use crate::core::stop::StopOrder;
use crate::host::tree::Mechanism;

/// The first line an owner reads.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Hello {
    pub token: String,
    pub disabled: Vec<Mechanism>,
    pub allow_leftover: Patterns,
    pub terminal: bool,
    pub obituary: Option<PathBuf>,
}

/// The program of a file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SpawnSpec {
    pub program: OsString,
    pub args: Vec<OsString>,
    pub cwd: Option<PathBuf>,
    /// Added to what ledger itself was started with. `LEDGER_TOKEN` is always set.
    pub env: Vec<(OsString, OsString)>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    Start(SpawnSpec),
    Sweep(StopOrder),
    Pause,
    Resume,
    KillNow,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    Ready { containment: String, leaf: Option<PathBuf>, notes: Vec<String> },
    Started { id: ProcessId, containment: String },
    SpawnFailed { errno: Option<i32>, text: String },
    LeaderExited { exit: Exit, used: TreeUse, signalled: bool, oom: bool, at_ms: u64 },
    Swept { swept: Swept, used: TreeUse, survivors: Vec<ProcessId> },
}
