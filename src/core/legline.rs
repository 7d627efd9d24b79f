//! Lines of ci-data that only ledger writes: what a `suite` record cannot say of its leg, and planned files that left no record.
//!
//! Readers of the public shape skip kinds that they do not know. A leg of which the public lines say all has none of these.

use serde::{Deserialize, Serialize};

use super::ids::{Attempt, Epoch, Platform, RunId};
use super::moment::{Secs, Wall};
use super::outcome::{Conclusion, Scope, StoppedBy, Terminal};

/// How a leg ended whose end is not its suite's word to give: lost, stopped, tried again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LegLine {
    pub ts: Wall,
    pub run_id: RunId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha: Option<String>,
    pub platform: Platform,
    pub host: String,
    /// With the shard behind it, as in a `suite` record.
    pub target: String,
    pub attempt: Attempt,
    #[serde(default)]
    pub epoch: Option<Epoch>,
    #[serde(default)]
    pub scope: Option<Scope>,
    #[serde(default)]
    pub event: Option<String>,
    #[serde(default)]
    pub resolved: Option<String>,
    pub terminal: Terminal,
    #[serde(default)]
    pub stopped_by: Option<StoppedBy>,
    #[serde(default)]
    pub conclusion: Option<Conclusion>,
    pub why: String,
    #[serde(default)]
    pub started_at: Option<Wall>,
    #[serde(default)]
    pub ended_at: Option<Wall>,
    #[serde(default)]
    pub duration_s: Option<Secs>,
    #[serde(default)]
    pub files_planned: Option<u32>,
    pub files_reported: u32,
    pub files_failed: u32,
    #[serde(default)]
    pub last_file: Option<String>,
    #[serde(default)]
    pub current_file: Option<String>,
    #[serde(default)]
    pub last_checkpoint_ts: Option<Wall>,
}

/// Texts of one line longer than this are cut: the line came from outside.
const MAX_TEXT_CHARS: usize = 4096;

impl LegLine {
    /// With every text bounded.
    pub fn bounded(mut self) -> Self {
        let cut = |text: &mut String| {
            if let Some((end, _)) = text.char_indices().nth(MAX_TEXT_CHARS) {
                text.truncate(end);
            }
        };
        let ids = [&mut self.run_id.0, &mut self.platform.0, &mut self.attempt.0, &mut self.host, &mut self.target, &mut self.why];
        ids.into_iter().for_each(cut);
        let texts = [&mut self.sha, &mut self.event, &mut self.resolved, &mut self.last_file, &mut self.current_file];
        texts.into_iter().flatten().for_each(cut);
        self
    }
}
