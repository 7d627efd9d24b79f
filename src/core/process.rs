//! A process as evidence, and the identity that survives the reuse of its number.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::moment::Secs;

/// A process number with the kernel's own start time, in the finest unit the system has (Linux: clock ticks since boot; macOS:
/// microseconds since 1970; Windows: 100 ns since 1601). Two processes with one number never share a start time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct ProcessId {
    pub pid: i32,
    pub start: u64,
}

/// Why a process counts as ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OursBy {
    Cgroup,
    Job,
    Subreaper,
    Token,
    Session,
    Descendant,
}

/// What became of a leftover.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// Ended after TERM, within the grace.
    Terminated,
    /// Ended by KILL.
    Killed,
    /// Ended by itself before a signal reached it.
    Exited,
    /// Spared by `--allow-leftover`.
    Allowed,
    /// A signal was refused (another user's process).
    Unkillable,
    /// Still alive when the sweep gave up.
    Survived,
}

impl Fate {
    /// Whether the process is still there.
    pub fn is_alive(self) -> bool {
        matches!(self, Fate::Allowed | Fate::Unkillable | Fate::Survived)
    }
}

/// What a system means that answers "try again" to whoever asks for a process or a thread.
pub const NO_MORE_PROCESSES: &str =
    "no more processes and threads may be started here; raise the limit ('ulimit -u', or the pids limit of the container)";

/// As much of a figure as was measured: evidence with fifteen digits claims what nobody knows.
pub fn thousandths(figure: f64) -> f64 {
    (figure * 1000.0).round() / 1000.0
}

/// A process that outlived the file that started it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Leftover {
    pub pid: i32,
    /// The kernel's name of it, cut at 15 bytes.
    pub comm: String,
    /// Base name of the executable, where it can be read.
    pub exe: Option<String>,
    /// The command line, redacted, at most 1 KiB.
    pub argv: Option<String>,
    pub age_s: Option<f64>,
    pub rss_mib: Option<f64>,
    pub ours_by: OursBy,
    pub fate: Fate,
    /// Kernel state letter and wait channel, for one that survived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_on: Option<String>,
}

/// A process that matches `--reap-match` and is not provably ours.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Foreign {
    pub pid: i32,
    pub exe: Option<String>,
    pub argv: Option<String>,
    /// Set under `--reap-scope host`, where a foreign match is killed too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fate: Option<Fate>,
}

/// One line of a process table taken as evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessRow {
    pub pid: i32,
    pub ppid: i32,
    pub state: String,
    pub comm: String,
    pub argv: Option<String>,
    /// CPU time used so far.
    pub cpu_s: Option<f64>,
    /// Share of one core over the evidence interval, in percent.
    pub cpu_pct: Option<f64>,
    pub rss_mib: Option<f64>,
    pub wait_channel: Option<String>,
}

/// What was seen of a tree before it was killed: enough to tell a spin from a blocking prompt.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// The file's tree.
    pub tree: Vec<ProcessRow>,
    /// The host's top five by CPU.
    pub top: Vec<ProcessRow>,
    /// What could not be had, in words.
    pub missing: Vec<String>,
    /// macOS: the head of `sample`'s text for the leader.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack: Option<String>,
}

/// What a whole tree used. Unknown is `null`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct TreeUse {
    pub cpu_s: Option<f64>,
    pub mem_peak_mib: Option<f64>,
    pub process_peak: Option<u32>,
    pub read_mib: Option<f64>,
    pub write_mib: Option<f64>,
    /// `cgroup`, `job`, `rusage` or `sampled`.
    pub source: Option<String>,
}

impl TreeUse {
    #[must_use]
    pub fn rounded(self) -> Self {
        Self {
            cpu_s: self.cpu_s.map(thousandths),
            mem_peak_mib: self.mem_peak_mib.map(thousandths),
            read_mib: self.read_mib.map(thousandths),
            write_mib: self.write_mib.map(thousandths),
            ..self
        }
    }
}

/// How a leader ended. Status and signal are two fields: 137 is not signal 9.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Exit {
    Code(i32),
    Signal(i32),
}

/// Who descends from a file, by the file's token: written down while it runs, for the case that ledger and the owner both die.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Descendants {
    pub token: String,
    pub descendants: Vec<ProcessId>,
}

/// What a sweep found and did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Swept {
    pub cleanup: super::outcome::Cleanup,
    pub leftovers: Vec<Leftover>,
    pub foreign: Vec<Foreign>,
    /// KILL was needed for the leader or for anything after TERM.
    pub escalated: bool,
    /// Why the result is unknown, or what a survivor waits on.
    pub notes: Vec<String>,
    pub took: Secs,
}
