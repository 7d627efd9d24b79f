//! A job as the CI service lists it. Reading a listing is `classify`'s business only as far as one job goes.

use serde::{Deserialize, Serialize};

use super::moment::Wall;

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Job {
    pub id: Option<u64>,
    pub name: String,
    /// `queued`, `in_progress`, `completed`.
    pub status: String,
    pub conclusion: Option<String>,
    pub started_at: Option<Wall>,
    pub completed_at: Option<Wall>,
    pub steps: Vec<Step>,
    /// What the service says of the job, where it was read.
    pub annotations: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Step {
    pub name: String,
    pub status: String,
    pub conclusion: Option<String>,
    pub started_at: Option<Wall>,
}

impl Job {
    pub fn is_over(&self) -> bool {
        self.status == "completed"
    }

    /// The step that was still running when the job ended or was listed.
    pub fn unfinished_step(&self) -> Option<&Step> {
        self.steps.iter().find(|step| step.status == "in_progress")
    }

    /// A step that failed of itself.
    pub fn failed_step(&self) -> Option<&Step> {
        self.steps.iter().find(|step| step.conclusion.as_deref() == Some("failure"))
    }
}

impl Step {
    /// A skipped step never began, although the service gives it a time.
    pub fn began(&self) -> bool {
        let skipped = matches!(self.conclusion.as_deref(), Some("skipped"));
        !skipped && (self.started_at.is_some() || self.status == "in_progress" || self.conclusion.is_some())
    }
}
