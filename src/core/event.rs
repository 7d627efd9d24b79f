//! The facts. Every event is something that has happened; state is derived from them by `fold` and never stored beside them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ids::{Attempt, Digest, Epoch, FilePath, LegId, Platform, RunId, Seq, Shard, Target, Token};
use super::moment::{Secs, Wall};
use super::outcome::{Cleanup, Conclusion, Outcome, Scope, Status, StoppedBy};
use super::pattern::Patterns;
use super::process::{Evidence, Foreign, Leftover, ProcessId, TreeUse};
use super::row::FileRow;
use super::sample::HostSample;

/// The version of the envelope and of every body in it.
pub const EVENT_VERSION: u32 = 1;

/// One stored event. Its line is the JSON of this struct; `prev` is the SHA-256 of the line before it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Envelope {
    pub v: u32,
    pub run_id: RunId,
    pub attempt: Attempt,
    pub platform: Platform,
    pub target: Target,
    #[serde(default)]
    pub shard: Option<Shard>,
    pub epoch: Epoch,
    pub seq: Seq,
    pub ts: Wall,
    pub mono_ms: u64,
    #[serde(flatten)]
    pub body: Body,
    pub prev: Digest,
}

impl Envelope {
    pub fn leg(&self) -> LegId {
        LegId {
            run_id: self.run_id.clone(),
            attempt: self.attempt.clone(),
            platform: self.platform.clone(),
            target: self.target.clone(),
            shard: self.shard,
        }
    }
}

/// What happened. `kind` names it, `body` holds it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", content = "body", rename_all = "kebab-case")]
pub enum Body {
    RunStarted(Box<RunStarted>),
    FileStarted(FileStarted),
    CapExpired(CapExpired),
    LeftoverFound(LeftoverFound),
    FileFinished(Box<FileFinished>),
    HostSampled(HostSampled),
    Heartbeat(Box<Heartbeat>),
    Suspended(Suspended),
    SinkDegraded(SinkDegraded),
    SinkRecovered(SinkRecovered),
    SlotWaiting(SlotWaiting),
    SlotAcquired(SlotHeld),
    SlotReleased(SlotHeld),
    SlotQuarantined(SlotQuarantined),
    Cancelled(Cancelled),
    LoopFinished(LoopFinished),
    RunFinished(RunFinished),
}

/// The kind of the last event of an epoch, which is known by it also where the rest of the line is a newer ledger's.
pub const RUN_FINISHED: &str = "run-finished";

impl Body {
    pub fn kind(&self) -> &'static str {
        match self {
            Body::RunStarted(_) => "run-started",
            Body::FileStarted(_) => "file-started",
            Body::CapExpired(_) => "cap-expired",
            Body::LeftoverFound(_) => "leftover-found",
            Body::FileFinished(_) => "file-finished",
            Body::HostSampled(_) => "host-sampled",
            Body::Heartbeat(_) => "heartbeat",
            Body::Suspended(_) => "suspended",
            Body::SinkDegraded(_) => "sink-degraded",
            Body::SinkRecovered(_) => "sink-recovered",
            Body::SlotWaiting(_) => "slot-waiting",
            Body::SlotAcquired(_) => "slot-acquired",
            Body::SlotReleased(_) => "slot-released",
            Body::SlotQuarantined(_) => "slot-quarantined",
            Body::Cancelled(_) => "cancelled",
            Body::LoopFinished(_) => "loop-finished",
            Body::RunFinished(_) => RUN_FINISHED,
        }
    }

    /// Whether this event moves the leg on. Signs of life do not, and neither does a wait for a slot that goes on.
    pub fn is_progress(&self) -> bool {
        !matches!(
            self,
            Body::Heartbeat(_)
                | Body::HostSampled(_)
                | Body::Suspended(_)
                | Body::SinkDegraded(_)
                | Body::SinkRecovered(_)
                | Body::SlotWaiting(_)
        )
    }

    /// On a full disk samples go first and verdicts last: whether this event may be dropped, counted, to keep room.
    pub fn is_expendable(&self) -> bool {
        matches!(self, Body::Heartbeat(_) | Body::HostSampled(_))
    }
}

/// The two fields that name a file in every body.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct FileRef {
    /// Position in the plan, from 1.
    pub index: u32,
    /// Round of a repeated run, from 1.
    #[serde(default = "one")]
    pub round: u32,
    /// The path as planned.
    pub file: String,
    /// The raw bytes in base64, where the path is not UTF-8.
    #[serde(default)]
    pub file_b64: Option<String>,
}

fn one() -> u32 {
    1
}

impl FileRef {
    pub fn new(index: u32, round: u32, path: &FilePath) -> Self {
        Self { index, round, file: path.text().to_owned(), file_b64: path.b64() }
    }

    pub fn path(&self) -> FilePath {
        FilePath::from_record(self.file.clone(), self.file_b64.as_deref())
    }
}

/// One planned file with the bound it would get, before the deadline is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedFile {
    pub index: u32,
    pub file: String,
    #[serde(default)]
    pub file_b64: Option<String>,
    pub cap_s: Option<Secs>,
    pub cap_basis: Option<String>,
    /// Median of earlier passes, for the ETA. `null` without history.
    #[serde(default)]
    pub expect_s: Option<Secs>,
}

impl PlannedFile {
    pub fn path(&self) -> FilePath {
        FilePath::from_record(self.file.clone(), self.file_b64.as_deref())
    }
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct HostInfo {
    pub hostname: Option<String>,
    pub os: String,
    pub arch: String,
    pub kernel: Option<String>,
    pub cpu_count: Option<u32>,
    pub mem_total_mib: Option<u64>,
    /// Names this boot of this machine: a pid recorded under another boot id means nothing.
    pub boot_id: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunStarted {
    pub plan: Vec<PlannedFile>,
    /// Files times rounds; `null` for a run with an open end.
    pub files_planned: Option<u32>,
    pub scope: Scope,
    pub sha: Option<String>,
    pub event: Option<String>,
    pub resolved: Option<String>,
    /// How many legs share the service's budget.
    pub legs: u32,
    pub command: Vec<String>,
    pub host: HostInfo,
    /// The strongest mechanism of owning a tree that was found to work.
    pub containment: String,
    /// `ledger`, `sqlite`.
    pub versions: BTreeMap<String, String>,
    /// ledger itself, so that a later start can tell whether it still lives.
    pub writer: ProcessId,
    pub deadline: Option<Wall>,
    pub heartbeat_s: Secs,
    /// The epoch that this one continues (`--resume`).
    #[serde(default)]
    pub resumes: Option<Epoch>,
    /// Records that the continued epoch left: this epoch does not run these files again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub carried: Vec<FileRow>,
    /// Programs that this run spares (`--allow-leftover`): whoever looks after it when it has died spares them too.
    #[serde(default, skip_serializing_if = "Patterns::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub allow_leftover: Patterns,
    /// Legs of dead writers that were closed at this start, in words.
    #[serde(default)]
    pub recovered: Vec<String>,
    /// A newer record than the plan's caps file had is a fact worth having; so is a missing one.
    #[serde(default)]
    pub warnings: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FileStarted {
    #[serde(flatten)]
    pub at: FileRef,
    pub cap_s: Option<Secs>,
    pub cap_basis: Option<String>,
    pub token: Token,
    /// The owner process, started before this event; the child does not exist yet.
    pub owner: Option<ProcessId>,
    pub log: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CapExpired {
    #[serde(flatten)]
    pub at: FileRef,
    pub elapsed_s: Secs,
    pub cap_s: Secs,
    pub cap_basis: Option<String>,
    pub evidence: Evidence,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LeftoverFound {
    #[serde(flatten)]
    pub at: FileRef,
    pub leftovers: Vec<Leftover>,
}

/// A named part of a file's cost, from a line `ledger: component NAME SECONDS`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Component {
    pub name: String,
    pub seconds: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FileFinished {
    #[serde(flatten)]
    pub at: FileRef,
    pub outcome: Outcome,
    pub status: Status,
    pub started_at: Option<Wall>,
    pub duration_s: Option<Secs>,
    pub suspended_s: Secs,
    pub cap_s: Option<Secs>,
    pub cap_basis: Option<String>,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    pub escalated: bool,
    pub containment: Option<String>,
    pub cleanup: Cleanup,
    /// `true`, `false`, or `null` where the proof could not be taken.
    pub cleanup_verified: Option<bool>,
    pub leftovers: Vec<Leftover>,
    pub foreign: Vec<Foreign>,
    /// In words: why a spawn failed, why a sweep proves nothing, which rule refined the outcome.
    #[serde(default)]
    pub notes: Vec<String>,
    pub log: Option<String>,
    pub output_bytes: u64,
    /// The last lines of output, redacted, at most 2 KiB.
    pub last_output: Option<String>,
    #[serde(default)]
    pub used: Option<TreeUse>,
    #[serde(default)]
    pub components: Vec<Component>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SampledAt {
    Start,
    Boundary,
    Heartbeat,
    End,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostSampled {
    pub at: SampledAt,
    pub sample: HostSample,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Heartbeat {
    /// The running file; `null` between files and during shutdown.
    pub file: Option<FileRef>,
    pub elapsed_s: Option<Secs>,
    pub cap_s: Option<Secs>,
    pub sample: HostSample,
    pub last_output: Option<String>,
    /// Taken at 80 % of the cap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SuspendedWhy {
    /// The machine slept: the clock that counts through sleep ran ahead.
    Sleep,
    /// ledger and its tree were stopped (Ctrl-Z) and continued.
    Stopped,
    /// The wall clock stepped; nothing else stood still.
    ClockStep,
}

impl SuspendedWhy {
    pub fn words(self) -> &'static str {
        match self {
            SuspendedWhy::Sleep => "the machine slept",
            SuspendedWhy::Stopped => "stopped and continued",
            SuspendedWhy::ClockStep => "the wall clock stepped",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Suspended {
    pub why: SuspendedWhy,
    pub gap_s: Secs,
    /// How far the wall clock moved beyond the time that passed, in milliseconds.
    pub wall_step_ms: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SinkDegraded {
    pub url: String,
    pub error: String,
    pub unsent: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SinkRecovered {
    pub url: String,
    pub down_s: Secs,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SlotWaiting {
    pub pool: String,
    pub capacity: u32,
    pub held: u32,
    pub quarantined: u32,
    pub holders: Vec<String>,
    pub waited_s: Secs,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SlotHeld {
    pub pool: String,
    pub slot: u32,
    pub waited_s: Secs,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SlotQuarantined {
    pub pool: String,
    pub slot: u32,
    pub reason: String,
    pub expires: Wall,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cancelled {
    /// `HUP`, `INT`, `TERM`.
    pub signal: String,
    pub file: Option<FileRef>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoopFinished {
    /// Whether every planned file had its turn. True also when a test failed.
    pub loop_finished: bool,
    pub stopped_by: Option<StoppedBy>,
    pub cancelled: bool,
    pub conclusion: Conclusion,
    pub files_planned: Option<u32>,
    pub files_reported: u32,
    pub files_failed: u32,
    /// One sentence, for a loop that ended early.
    pub why: Option<String>,
}

/// What a sink had received when the run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SinkState {
    pub url: String,
    pub sent: u64,
    pub unsent: u64,
    pub degraded: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunFinished {
    pub exit_code: i32,
    pub sinks: Vec<SinkState>,
    /// Samples and heartbeats that were given up to keep room on a full disk.
    pub dropped: u64,
}
