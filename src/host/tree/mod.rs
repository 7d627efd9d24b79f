//! One file's tree: what is ours, and how it is reached. It must not decide when to signal: `core::stop` does.

use serde::{Deserialize, Serialize};

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
use linux as system;
#[cfg(windows)]
mod windows;
#[cfg(windows)]
use windows as system;
#[cfg(target_os = "macos")]
mod macos;
#[cfg(target_os = "macos")]
use macos as system;

mod hold;
mod ours;
mod spare;

pub use ours::{Children, OurTree, Root, Tally};
pub use spare::Spare;

/// The ways of owning a tree. Each can be forced off, so that a test can see the next one work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mechanism {
    Cgroup,
    /// `cgroup.kill` and `cgroup.freeze` of a leaf; without them its members are signalled one by one.
    CgroupKill,
    /// A Job Object of Windows.
    Job,
    Subreaper,
    /// `/proc/*/task/*/children`; without it the parents of all processes are read.
    Children,
    Session,
    Token,
    /// Descendants noted while the file ran.
    Descendant,
}

impl Mechanism {
    pub const ALL: [Mechanism; 8] = [
        Mechanism::Cgroup,
        Mechanism::CgroupKill,
        Mechanism::Job,
        Mechanism::Subreaper,
        Mechanism::Children,
        Mechanism::Session,
        Mechanism::Token,
        Mechanism::Descendant,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Mechanism::Cgroup => "cgroup",
            Mechanism::CgroupKill => "cgroup-kill",
            Mechanism::Job => "job",
            Mechanism::Subreaper => "subreaper",
            Mechanism::Children => "children",
            Mechanism::Session => "session",
            Mechanism::Token => "token",
            Mechanism::Descendant => "descendant",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mechanism| mechanism.as_str() == word)
    }
}

/// At most this many leftovers of one file are described; a fork bomb is no reason for a record without end.
pub const LISTED: usize = 100;

/// Why an empty look proves nothing where orphans do not land on ledger.
#[cfg(not(target_os = "linux"))]
const UNKNOWN_FOLLOWED: &str = "its owner was lost, and whom it had followed is not known";

/// What is read of a process when it is first seen, before any signal: afterwards there is nothing left to read.
#[derive(Debug, Clone, Default)]
struct Details {
    comm: String,
    exe: Option<String>,
    argv: Option<String>,
    age_s: Option<f64>,
    rss_mib: Option<f64>,
}
