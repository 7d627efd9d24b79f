//! The rows of a report: the shape of `ledger report --json` (DESIGN §12). Unknown is `null`, never 0.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::event::{Component, FileFinished, SinkState};
use super::ids::{Attempt, Digest, Epoch, LegId, Platform, RunId, Seq, Shard, Target};
use super::moment::{Secs, Wall};
use super::outcome::{Conclusion, Outcome, Scope, Status, StoppedBy, Terminal};
use super::process::{Evidence, Foreign, Leftover, TreeUse};
use super::sample::HostSample;

pub const REPORT_VERSION: u32 = 1;

/// What all the evidence says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    pub v: u32,
    pub generated_at: Wall,
    pub legs: Vec<LegRow>,
    /// What was wrong with the evidence: unreadable lines, jobs that match no leg, versions that cannot be told.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Legs that were not asked for: what they know of their run counts for the others.
    #[serde(skip)]
    pub others: Vec<LegRow>,
}

impl Summary {
    pub fn of(generated_at: Wall, legs: Vec<LegRow>) -> Self {
        Self { v: REPORT_VERSION, generated_at, legs, warnings: Vec::new(), others: Vec::new() }
    }

    /// Every row: a leg's own, and beside it those of epochs that ran another plan under its name.
    pub fn rows(&self) -> impl Iterator<Item = &LegRow> {
        self.legs.iter().flat_map(LegRow::with_beside)
    }
}

/// One leg.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LegRow {
    pub run_id: RunId,
    pub attempt: Attempt,
    pub platform: Platform,
    pub target: Target,
    pub shard: Option<Shard>,
    pub resolved: Option<String>,
    pub sha: Option<String>,
    pub event: Option<String>,
    pub scope: Option<Scope>,
    pub epoch: Option<Epoch>,
    pub terminal: Terminal,
    pub stopped_by: Option<StoppedBy>,
    /// `null` while the leg is running.
    pub conclusion: Option<Conclusion>,
    /// One sentence.
    pub why: String,
    pub started_at: Option<Wall>,
    pub ended_at: Option<Wall>,
    pub duration_s: Option<Secs>,
    pub loop_finished: bool,
    pub files_planned: Option<u32>,
    pub files_reported: u32,
    pub files_failed: u32,
    pub last_file: Option<String>,
    pub current_file: Option<String>,
    /// When the leg last moved on: the best estimate of the wedge.
    pub last_checkpoint_ts: Option<Wall>,
    pub last_heartbeat_ts: Option<Wall>,
    pub progress_seq: Option<u64>,
    pub heartbeat_seq: Option<u64>,
    pub lease_s: Option<Secs>,
    pub last_output: Option<String>,
    pub job_matched: Option<bool>,
    pub job_conclusion: Option<String>,
    /// An upper bound of how long the leg lived.
    pub job_elapsed_s: Option<Secs>,
    pub stalled_step: Option<String>,
    /// What the service itself said of the job, quoted.
    pub annotation: Option<String>,
    pub resource_verdict: ResourceVerdict,
    /// The figures behind the verdict, in words.
    #[serde(default)]
    pub resource_why: Option<String>,
    pub last_host: Option<HostSample>,
    pub sinks: Vec<SinkState>,
    /// Earlier attempts, and other epochs of this attempt, newest first.
    pub attempts: Vec<OtherEpoch>,
    /// Epochs of this attempt that ran another plan under the same name, newest first: the worst of them is the leg's own row, and the
    /// others stand here whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<LegRow>,
    pub files: Vec<FileRow>,
    /// Where this row was read from, printable.
    #[serde(default)]
    pub source: Option<String>,
    /// Version the boots of a ci-data leg ran most (first seen wins a tie).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub booted_version: Option<String>,
    /// Head of the chain, as far as this evidence reaches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<Head>,
    /// Samples along the leg, oldest first; thinned where there are more than a page needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<HostSample>,
    /// Facts beside the files: sleeps, clock steps, sinks that were down, slots.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
}

impl LegRow {
    /// A leg of which nothing is known but its name: what other evidence than a ledger starts from.
    pub fn named(leg: LegId) -> Self {
        Self {
            run_id: leg.run_id,
            attempt: leg.attempt,
            platform: leg.platform,
            target: leg.target,
            shard: leg.shard,
            resolved: None,
            sha: None,
            event: None,
            scope: None,
            epoch: None,
            terminal: Terminal::Running,
            stopped_by: None,
            conclusion: None,
            why: String::new(),
            started_at: None,
            ended_at: None,
            duration_s: None,
            loop_finished: false,
            files_planned: None,
            files_reported: 0,
            files_failed: 0,
            last_file: None,
            current_file: None,
            last_checkpoint_ts: None,
            last_heartbeat_ts: None,
            progress_seq: None,
            heartbeat_seq: None,
            lease_s: None,
            last_output: None,
            job_matched: None,
            job_conclusion: None,
            job_elapsed_s: None,
            stalled_step: None,
            annotation: None,
            resource_verdict: ResourceVerdict::Unknown,
            resource_why: None,
            last_host: None,
            sinks: Vec::new(),
            attempts: Vec::new(),
            beside: Vec::new(),
            files: Vec::new(),
            source: None,
            booted_version: None,
            head: None,
            samples: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Takes back a pass: evidence that was changed or is cut proves none. A failure stands.
    pub fn distrust(&mut self) {
        if self.conclusion == Some(Conclusion::Pass) {
            (self.terminal, self.conclusion, self.loop_finished) = (Terminal::Running, None, false);
        }
    }

    /// This row, and those of other epochs of the same attempt that ran other plans.
    pub fn with_beside(&self) -> impl Iterator<Item = &LegRow> {
        std::iter::once(self).chain(&self.beside)
    }

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

/// A dated fact that belongs to the leg and to no file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Note {
    pub ts: Wall,
    pub kind: String,
    pub text: String,
}

/// The newest event that a reader knows of: its number and the digest of its line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Head {
    pub seq: Seq,
    pub digest: Digest,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ResourceVerdict {
    Healthy,
    Starved,
    #[default]
    Unknown,
}

impl ResourceVerdict {
    pub fn as_str(self) -> &'static str {
        match self {
            ResourceVerdict::Healthy => "healthy",
            ResourceVerdict::Starved => "starved",
            ResourceVerdict::Unknown => "unknown",
        }
    }
}

/// What an earlier attempt, or another writer of the same attempt, left.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OtherEpoch {
    pub attempt: Attempt,
    pub epoch: Option<Epoch>,
    pub terminal: Terminal,
    pub conclusion: Option<Conclusion>,
    pub why: String,
    pub started_at: Option<Wall>,
    pub ended_at: Option<Wall>,
    pub files_reported: u32,
    pub files_planned: Option<u32>,
    pub files_failed: u32,
    pub last_file: Option<String>,
    pub current_file: Option<String>,
    #[serde(default)]
    pub resolved: Option<String>,
    #[serde(default)]
    pub scope: Option<Scope>,
    #[serde(default)]
    pub last_checkpoint_ts: Option<Wall>,
    #[serde(default)]
    pub last_heartbeat_ts: Option<Wall>,
}

impl OtherEpoch {
    /// As a row of the leg `of`, without its files.
    pub fn row(&self, of: LegId) -> LegRow {
        LegRow {
            epoch: self.epoch.clone(),
            terminal: self.terminal,
            conclusion: self.conclusion,
            why: self.why.clone(),
            started_at: self.started_at,
            ended_at: self.ended_at,
            files_reported: self.files_reported,
            files_planned: self.files_planned,
            files_failed: self.files_failed,
            last_file: self.last_file.clone(),
            current_file: self.current_file.clone(),
            resolved: self.resolved.clone(),
            scope: self.scope,
            last_checkpoint_ts: self.last_checkpoint_ts,
            last_heartbeat_ts: self.last_heartbeat_ts,
            ..LegRow::named(LegId { attempt: self.attempt.clone(), ..of })
        }
    }
}

impl From<&LegRow> for OtherEpoch {
    fn from(row: &LegRow) -> Self {
        Self {
            attempt: row.attempt.clone(),
            epoch: row.epoch.clone(),
            terminal: row.terminal,
            conclusion: row.conclusion,
            why: row.why.clone(),
            started_at: row.started_at,
            ended_at: row.ended_at,
            files_reported: row.files_reported,
            files_planned: row.files_planned,
            files_failed: row.files_failed,
            last_file: row.last_file.clone(),
            current_file: row.current_file.clone(),
            resolved: row.resolved.clone(),
            scope: row.scope,
            last_checkpoint_ts: row.last_checkpoint_ts,
            last_heartbeat_ts: row.last_heartbeat_ts,
        }
    }
}

/// One planned file. A file that never began is `not-run`; one that began and left no record has no outcome, and neither has one that
/// may still begin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FileRow {
    pub index: u32,
    pub round: u32,
    pub file: String,
    pub file_b64: Option<String>,
    /// `null` for a file that had begun when the evidence ends, and while the leg runs for one that has not begun.
    pub outcome: Option<Outcome>,
    pub status: Option<Status>,
    pub started_at: Option<Wall>,
    pub duration_s: Option<Secs>,
    pub cap_s: Option<Secs>,
    pub cap_basis: Option<String>,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    pub escalated: Option<bool>,
    pub suspended_s: Option<Secs>,
    pub containment: Option<String>,
    pub cleanup_verified: Option<bool>,
    pub leftovers: Vec<Leftover>,
    pub foreign: Vec<Foreign>,
    pub log: Option<String>,
    #[serde(default)]
    pub last_output: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<TreeUse>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<Component>,
    /// What was seen when the cap ran out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
}

impl FileRow {
    /// A planned file that left no record of any kind.
    pub fn not_run(index: u32, round: u32, file: String, file_b64: Option<String>) -> Self {
        Self {
            index,
            round,
            file,
            file_b64,
            outcome: Some(Outcome::NotRun),
            status: Some(Status::Fail),
            started_at: None,
            duration_s: None,
            cap_s: None,
            cap_basis: None,
            exit_code: None,
            signal: None,
            escalated: None,
            suspended_s: None,
            containment: None,
            cleanup_verified: None,
            leftovers: Vec::new(),
            foreign: Vec::new(),
            log: None,
            last_output: None,
            notes: Vec::new(),
            used: None,
            components: Vec::new(),
            evidence: None,
        }
    }

    /// The row of a file's own record.
    pub fn of(finished: &FileFinished) -> Self {
        Self {
            index: finished.at.index,
            round: finished.at.round,
            file: finished.at.file.clone(),
            file_b64: finished.at.file_b64.clone(),
            outcome: Some(finished.outcome.clone()),
            status: Some(finished.outcome.status()),
            started_at: finished.started_at,
            duration_s: finished.duration_s,
            cap_s: finished.cap_s,
            cap_basis: finished.cap_basis.clone(),
            exit_code: finished.exit_code,
            signal: finished.signal,
            escalated: Some(finished.escalated),
            suspended_s: Some(finished.suspended_s),
            containment: finished.containment.clone(),
            cleanup_verified: finished.cleanup_verified,
            leftovers: finished.leftovers.clone(),
            foreign: finished.foreign.clone(),
            log: finished.log.clone(),
            last_output: finished.last_output.clone(),
            notes: finished.notes.clone(),
            used: finished.used.clone(),
            components: finished.components.clone(),
            evidence: None,
        }
    }

    /// A record of this file exists, and it is a failure.
    pub fn failed(&self) -> bool {
        self.outcome.as_ref().is_some_and(Outcome::is_failure)
    }

    /// A record of this file exists: it ran to an end that was seen, or its spawn failed.
    pub fn reported(&self) -> bool {
        self.outcome.as_ref().is_some_and(|outcome| *outcome != Outcome::NotRun)
    }
}
