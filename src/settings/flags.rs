//! The flags of `ledger run` as they are written, on a command line or in `ledger.toml`: raw, optional, not yet checked.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use serde::Deserialize;

use crate::core::ids::Shard;
use crate::core::moment::{Secs, parse_duration};
use crate::core::outcome::Scope;

/// A duration as a person writes it; in TOML a number or a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DurationArg(pub Secs);

impl FromStr for DurationArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let read = parse_duration(text).ok_or_else(|| format!("'{text}' is not a duration: write seconds, 90s, 5m or 1h30m"))?;
        Ok(Self(read))
    }
}

impl<'de> Deserialize<'de> for DurationArg {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DurationVisitor)
    }
}

/// Says what is wanted where something else is written.
struct DurationVisitor;

impl serde::de::Visitor<'_> for DurationVisitor {
    type Value = DurationArg;

    fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("a duration: seconds, such as 90, or text, such as \"5m\"")
    }

    fn visit_u64<E: serde::de::Error>(self, seconds: u64) -> Result<DurationArg, E> {
        // A whole number has the same bound as every other spelling: what is beyond it no reader takes back.
        self.visit_f64(seconds as f64)
    }

    fn visit_i64<E: serde::de::Error>(self, seconds: i64) -> Result<DurationArg, E> {
        let seconds = u64::try_from(seconds).map_err(|_| E::custom(format!("{seconds} is not a duration")))?;
        self.visit_u64(seconds)
    }

    fn visit_f64<E: serde::de::Error>(self, seconds: f64) -> Result<DurationArg, E> {
        Secs::from_f64(seconds).map(DurationArg).ok_or_else(|| E::custom(format!("{seconds} is not a duration")))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<DurationArg, E> {
        text.parse().map_err(E::custom)
    }
}

/// Where caps come from.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub enum CapsSource {
    File(PathBuf),
    History,
    None,
}

impl From<String> for CapsSource {
    fn from(text: String) -> Self {
        match text.as_str() {
            "history" => CapsSource::History,
            "none" => CapsSource::None,
            _ => CapsSource::File(text.into()),
        }
    }
}

impl FromStr for CapsSource {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(text.to_owned().into())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScopeArg {
    Full,
    Filtered,
}

impl From<ScopeArg> for Scope {
    fn from(arg: ScopeArg) -> Self {
        match arg {
            ScopeArg::Full => Scope::Full,
            ScopeArg::Filtered => Scope::Filtered,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LeftoversArg {
    /// Leftovers of a passing file are killed, recorded and warned about.
    Warn,
    /// They make the file a failure.
    Fail,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReapScopeArg {
    /// Only what is provably ours is killed.
    Owned,
    /// Every match of --reap-match is killed: for throw-away runners.
    Host,
}

/// Flags of `ledger run`; `[run]` in ledger.toml takes the same words.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct RunFlags {
    /// Test files or globs, in the order in which they run, each once; a glob's matches are sorted by name
    #[arg(value_name = "FILES|GLOBS")]
    #[serde(deserialize_with = "list")]
    pub files: Vec<PathBuf>,

    /// The command that runs one file; {file}, {name} and {index} are replaced, and with no {file} the path is appended
    #[arg(last = true, value_name = "COMMAND")]
    #[serde(deserialize_with = "list")]
    pub command: Vec<OsString>,

    /// Print the plan with its caps and run nothing
    #[arg(long)]
    #[serde(skip)]
    pub dry_run: bool,

    /// The plan as one JSON document
    #[arg(long, requires = "dry_run")]
    #[serde(skip)]
    pub json: bool,

    /// Take share i of n, balanced by history
    #[arg(long, value_name = "I/N")]
    pub shard: Option<Shard>,

    /// CI run id (else GITHUB_RUN_ID, else local-<uuid>)
    #[arg(long, value_name = "ID", help_heading = "Identity")]
    pub run_id: Option<String>,

    /// Attempt of the run (else GITHUB_RUN_ATTEMPT, else 1)
    #[arg(long, value_name = "N", help_heading = "Identity")]
    pub attempt: Option<String>,

    /// Commit (else GITHUB_SHA)
    #[arg(long, value_name = "SHA", help_heading = "Identity")]
    pub sha: Option<String>,

    /// What the leg runs on (else LEDGER_PLATFORM, PLATFORM_ID, else this system)
    #[arg(long, value_name = "NAME", help_heading = "Identity")]
    pub platform: Option<String>,

    /// What the leg tests (else LEDGER_TARGET, else local)
    #[arg(long, value_name = "NAME", help_heading = "Identity")]
    pub target: Option<String>,

    /// The version that the target resolved to
    #[arg(long, value_name = "VERSION", help_heading = "Identity")]
    pub resolved: Option<String>,

    /// Event that started the run (else GITHUB_EVENT_NAME)
    #[arg(long, value_name = "NAME", help_heading = "Identity")]
    pub event: Option<String>,

    /// How many legs share the service's request budget (else LEDGER_LEGS, else 1)
    #[arg(long, value_name = "N", help_heading = "Identity")]
    pub legs: Option<u32>,

    /// Whether the plan is the whole suite; only full legs mark a version tested
    #[arg(long, value_enum, help_heading = "Identity")]
    pub scope: Option<ScopeArg>,

    /// Caps: a caps file, history, or none (default: ledger-caps.json where it exists, else history)
    #[arg(long, value_name = "FILE|history|none", help_heading = "Bounds")]
    pub caps: Option<CapsSource>,

    /// Shorten every cap to at most this
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true, help_heading = "Bounds")]
    pub cap: Option<DurationArg>,

    /// When the enclosing step will be killed: seconds since 1970, or +DURATION from now (else LEDGER_DEADLINE)
    #[arg(long, value_name = "EPOCH|+DURATION", allow_negative_numbers = true, help_heading = "Bounds")]
    pub deadline: Option<String>,

    /// Kept free before the deadline for what follows the loop [default: 300]
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true, help_heading = "Bounds")]
    pub reserve: Option<DurationArg>,

    /// A file gets no shortened cap below this [default: 120]
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true, help_heading = "Bounds")]
    pub min_viable: Option<DurationArg>,

    /// Between TERM and KILL [default: 5]
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true, help_heading = "Bounds")]
    pub grace: Option<DurationArg>,

    /// Folder of ledgers, one database per leg and epoch [default: .ledger]
    #[arg(long, value_name = "DIR", help_heading = "Evidence")]
    pub ledger: Option<PathBuf>,

    /// Where evidence goes outside this machine; may be given more than once (else LEDGER_SINK, URLs with a blank between them)
    #[arg(long = "sink", value_name = "URL", help_heading = "Evidence")]
    #[serde(rename = "sinks", alias = "sink", deserialize_with = "list")]
    pub sinks: Vec<String>,

    /// An unreachable sink is an error before anything runs
    #[arg(long, help_heading = "Evidence")]
    pub require_sink: bool,

    /// Between two signs of life [default: 30]
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true, help_heading = "Evidence")]
    pub heartbeat: Option<DurationArg>,

    /// Folder of per-file logs [default: logs/ in the ledger folder]
    #[arg(long, value_name = "DIR", help_heading = "Evidence")]
    pub logs: Option<PathBuf>,

    /// Also sample the free space of this volume; may be given more than once
    #[arg(long = "watch-disk", value_name = "PATH", help_heading = "Evidence")]
    #[serde(deserialize_with = "list")]
    pub watch_disk: Vec<PathBuf>,

    /// What else to look for after a file, by base name of the executable [default: qemu-system-*]
    #[arg(long = "reap-match", value_name = "PATTERN", help_heading = "Processes")]
    #[serde(deserialize_with = "list")]
    pub reap_match: Vec<String>,

    /// Whether matches that are not provably ours are killed too
    #[arg(long, value_enum, help_heading = "Processes")]
    pub reap_scope: Option<ReapScopeArg>,

    /// What leftovers of a passing file mean
    #[arg(long, value_enum, help_heading = "Processes")]
    pub leftovers: Option<LeftoversArg>,

    /// Spare a daemon that is meant to live on, by base name of the executable
    #[arg(long = "allow-leftover", value_name = "PATTERN", help_heading = "Processes")]
    #[serde(deserialize_with = "list")]
    pub allow_leftover: Vec<String>,

    /// Give each file a terminal (Linux, macOS)
    #[arg(long, help_heading = "Processes")]
    pub tty: bool,

    /// Keep this machine awake while the run lasts (macOS, Windows)
    #[arg(long, help_heading = "Processes")]
    pub keep_awake: bool,

    /// Stop after the first file that does not pass
    #[arg(long, help_heading = "Loop")]
    pub fail_fast: bool,

    /// Run the plan this many times
    #[arg(long, value_name = "N", help_heading = "Loop")]
    pub repeat: Option<u32>,

    /// Run the plan again and again for this long
    #[arg(long = "for", value_name = "DURATION", allow_negative_numbers = true, help_heading = "Loop")]
    pub r#for: Option<DurationArg>,

    /// Run the plan again and again until a file does not pass
    #[arg(long, help_heading = "Loop")]
    pub until_fail: bool,

    /// Continue the newest unfinished leg: without FILES with its files, rounds and command as recorded, else the one of these files
    #[arg(long, help_heading = "Loop")]
    #[serde(skip)]
    pub resume: bool,

    /// A pass must show at least one match of this pattern in its output, else it is no-tests
    #[arg(long, value_name = "REGEX", help_heading = "Loop")]
    pub min_evidence: Option<String>,

    /// Share a pool of slots with other runs on this host
    #[arg(long, value_name = "NAME", help_heading = "Slots")]
    pub pool: Option<String>,

    /// Capacity of the pool that --pool or [run] pool names
    #[arg(long, value_name = "N", help_heading = "Slots")]
    pub slots: Option<u32>,

    /// Mechanisms of owning a tree that are switched off, for tests of the others
    #[arg(long = "without-mechanism", value_name = "NAME", hide = true)]
    #[serde(skip)]
    pub without_mechanism: Vec<String>,

    /// Settings file [default: ledger.toml where it exists]
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    pub config: Option<PathBuf>,
}

/// A list of texts, made into whatever the field holds.
fn list<'de, D: serde::Deserializer<'de>, T: From<String>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    struct ListVisitor<T>(std::marker::PhantomData<T>);

    impl<'de, T: From<String>> serde::de::Visitor<'de> for ListVisitor<T> {
        type Value = Vec<T>;

        fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            out.write_str("a list of texts, such as [\"bun\", \"test\", \"./{file}\"]")
        }

        fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut items: A) -> Result<Vec<T>, A::Error> {
            let mut list = Vec::new();
            while let Some(item) = items.next_element::<String>()? {
                list.push(item.into());
            }
            Ok(list)
        }
    }

    deserializer.deserialize_any(ListVisitor(std::marker::PhantomData))
}

#[cfg(test)]
mod tests {
    use super::DurationArg;
    use crate::core::moment::Secs;

    #[test]
    fn a_duration_has_one_bound_in_every_spelling() {
        let read = |text: &str| toml::from_str::<std::collections::BTreeMap<String, DurationArg>>(&format!("grace = {text}"));
        for text in ["3", "3.0", "\"3s\"", "\"3\""] {
            assert_eq!(read(text).expect(text)["grace"].0, Secs::from_secs(3), "{text}");
        }
        for text in ["92233720368547758", "3200000001", "3.3e9", "-1", "nan", "\"3200000001\"", "\"200y\""] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
