//! How a file ended, how a leg ended, and the old two-value words kept beside them.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How one file ended. A word that is not known here, from a rule of `[[classify]]` or from elsewhere, is kept and is a fail.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    Pass,
    TestFailure,
    Crash,
    OomKilled,
    FileWatchdogTimeout,
    NotRun,
    SpawnFailure,
    Cancelled,
    NoTests,
    Other(String),
}

const WORDS: &[(&str, Outcome)] = &[
    ("pass", Outcome::Pass),
    ("test-failure", Outcome::TestFailure),
    ("crash", Outcome::Crash),
    ("oom-killed", Outcome::OomKilled),
    ("file-watchdog-timeout", Outcome::FileWatchdogTimeout),
    ("not-run", Outcome::NotRun),
    ("spawn-failure", Outcome::SpawnFailure),
    ("cancelled", Outcome::Cancelled),
    ("no-tests", Outcome::NoTests),
];

impl Outcome {
    pub fn as_str(&self) -> &str {
        if let Outcome::Other(word) = self {
            return word;
        }
        WORDS.iter().find(|(_, outcome)| outcome == self).map_or("test-failure", |(word, _)| word)
    }

    pub fn parse(word: &str) -> Self {
        match WORDS.iter().find(|(known, _)| *known == word) {
            Some((_, outcome)) => outcome.clone(),
            None => Outcome::Other(word.chars().take(64).collect()),
        }
    }

    pub fn status(&self) -> Status {
        if *self == Outcome::Pass { Status::Pass } else { Status::Fail }
    }

    /// Whether it is a failure of the file. A file that never ran failed at nothing, and one that people stopped was not let fail.
    pub fn is_failure(&self) -> bool {
        !matches!(self, Outcome::Pass | Outcome::NotRun | Outcome::Cancelled)
    }

    /// Whether the file ran at all.
    pub fn ran(&self) -> bool {
        !matches!(self, Outcome::NotRun | Outcome::SpawnFailure)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Outcome {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Outcome {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::parse(&std::borrow::Cow::<'de, str>::deserialize(deserializer)?))
    }
}

impl JsonSchema for Outcome {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Outcome".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let words: Vec<&str> = WORDS.iter().map(|(word, _)| *word).collect();
        schemars::json_schema!({ "type": "string", "examples": words })
    }
}

/// The old two-value word: `pass` for pass, `fail` for all else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    Pass,
    Fail,
}

/// How a leg ended (DESIGN §6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Terminal {
    Complete,
    Stopped,
    Cancelled,
    AttemptedIncomplete,
    RunnerLost,
    NotStarted,
    Running,
}

impl Terminal {
    pub fn as_str(self) -> &'static str {
        match self {
            Terminal::Complete => "complete",
            Terminal::Stopped => "stopped",
            Terminal::Cancelled => "cancelled",
            Terminal::AttemptedIncomplete => "attempted-incomplete",
            Terminal::RunnerLost => "runner-lost",
            Terminal::NotStarted => "not-started",
            Terminal::Running => "running",
        }
    }
}

impl fmt::Display for Terminal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a loop ended before its last file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StoppedBy {
    Dirty,
    Budget,
    FailFast,
    Ledger,
}

impl StoppedBy {
    pub fn as_str(self) -> &'static str {
        match self {
            StoppedBy::Dirty => "dirty",
            StoppedBy::Budget => "budget",
            StoppedBy::FailFast => "fail-fast",
            StoppedBy::Ledger => "ledger",
        }
    }
}

/// What a leg's row says (DESIGN §6, third column).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Conclusion {
    Pass,
    Fail,
    Incomplete,
}

impl Conclusion {
    pub fn as_str(self) -> &'static str {
        match self {
            Conclusion::Pass => "pass",
            Conclusion::Fail => "fail",
            Conclusion::Incomplete => "incomplete",
        }
    }
}

impl fmt::Display for Conclusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether the plan of the leg is the whole suite. Only `full` legs mark a version tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    Full,
    Filtered,
}

impl Scope {
    pub fn as_str(self) -> &'static str {
        match self {
            Scope::Full => "full",
            Scope::Filtered => "filtered",
        }
    }
}

/// What a sweep proved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Cleanup {
    /// Two scans in a row were complete and empty.
    Clean,
    /// Something of ours is still alive.
    Dirty,
    /// A scan could not be taken whole, so nothing is proved.
    Unknown,
}

impl Cleanup {
    /// The `cleanup_verified` of a row: unknown is `null`, never true.
    pub fn verified(self) -> Option<bool> {
        match self {
            Cleanup::Clean => Some(true),
            Cleanup::Dirty => Some(false),
            Cleanup::Unknown => None,
        }
    }
}
