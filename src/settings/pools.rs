//! Where pools are kept, and the flags of `ledger pool run`, checked.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;

use super::environment::Environment;
use super::flags::DurationArg;
use super::resolve::{PoolSettings, SettingsError, bad};
use crate::core::moment::Secs;
use crate::core::slot::{MOST_SLOTS, PoolName};

/// Longer than a machine takes to be destroyed, far shorter than anybody's patience.
const DESTROY_WITHIN: u64 = 60;
/// Long enough for somebody to look at what still runs; a pool of one slot is out of service for as long.
const QUARANTINE: u64 = 1800;
/// As for the files of a run.
const GRACE: u64 = 5;

/// Flags of `ledger pool run`.
#[derive(Debug, Clone, Args)]
pub struct PoolRunFlags {
    /// Name of the pool
    #[arg(long, value_name = "NAME")]
    pub pool: String,

    /// Capacity of the pool; whoever states it last is believed
    #[arg(long, value_name = "N")]
    pub slots: Option<u32>,

    /// How long COMMAND may take once it has its slot
    #[arg(long, value_name = "DURATION")]
    pub deadline: Option<DurationArg>,

    /// A shell command that destroys what COMMAND booted: exit 0 gone, exit 75 not mine, anything else quarantine
    #[arg(long, value_name = "COMMAND")]
    pub destroy: Option<OsString>,

    /// How long the destroy command may take [default: 60]
    #[arg(long, value_name = "DURATION")]
    pub destroy_timeout: Option<DurationArg>,

    /// How long a slot is kept whose device may still run [default: 30m]
    #[arg(long, value_name = "DURATION")]
    pub quarantine: Option<DurationArg>,

    /// Between TERM and KILL [default: 5]
    #[arg(long, value_name = "DURATION")]
    pub grace: Option<DurationArg>,

    /// CI run id, shown to others (else GITHUB_RUN_ID)
    #[arg(long, value_name = "ID")]
    pub run_id: Option<String>,

    /// What to run while the slot is held
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// Everything `ledger pool run` needs to know, checked.
#[derive(Debug, Clone)]
pub struct PoolRunSettings {
    pub pool: PoolSettings,
    pub deadline: Option<Secs>,
    pub destroy: Option<OsString>,
    pub destroy_timeout: Secs,
    pub quarantine: Secs,
    pub grace: Secs,
    pub run_id: Option<String>,
    pub command: Vec<OsString>,
}

pub fn resolve_pool_run(flags: PoolRunFlags, env: &Environment) -> Result<PoolRunSettings, SettingsError> {
    let or = |flag: Option<DurationArg>, default| flag.map_or(Secs::from_secs(default), |duration| duration.0);
    let deadline = flags.deadline.map(|duration| duration.0);
    if deadline == Some(Secs::ZERO) {
        return Err(bad("--deadline", "0", "nothing could run"));
    }
    Ok(PoolRunSettings {
        pool: pool(&flags.pool, flags.slots, env)?,
        deadline,
        destroy: flags.destroy.filter(|command| !command.is_empty()),
        destroy_timeout: or(flags.destroy_timeout, DESTROY_WITHIN),
        quarantine: or(flags.quarantine, QUARANTINE),
        grace: or(flags.grace, GRACE),
        run_id: flags.run_id.or_else(|| env.get("GITHUB_RUN_ID").map(str::to_owned)),
        command: flags.command,
    })
}

pub(super) fn pool(name: &str, slots: Option<u32>, env: &Environment) -> Result<PoolSettings, SettingsError> {
    let name: PoolName =
        name.parse().map_err(|_| bad("--pool", &shown(name), "it must have 1 to 200 bytes and no control characters"))?;
    if let Some(slots) = slots.filter(|slots| !(1..=MOST_SLOTS).contains(slots)) {
        return Err(bad(
            "--slots",
            &slots.to_string(),
            &format!("a pool has 1 to {MOST_SLOTS} slots; leave it out to keep the capacity that the pool has"),
        ));
    }
    Ok(PoolSettings { name, slots, folder: pools_folder(env)? })
}

/// `LEDGER_POOLS`, which several users may share, else a folder of this user's own.
pub fn pools_folder(env: &Environment) -> Result<PathBuf, SettingsError> {
    if let Some(path) = env.path("LEDGER_POOLS") {
        return absolute(path);
    }
    // The base directory specification has relative values ignored.
    let state = env.path("XDG_STATE_HOME").filter(|path| path.is_absolute());
    let of_home = || env.path("HOME").map(|home| home.join(".local/state"));
    let state = state.or_else(of_home).or_else(|| env.path("LOCALAPPDATA"));
    match state {
        Some(state) => Ok(state.join("ledger/pools")),
        None => Err(bad("LEDGER_POOLS", "(unset)", "name a folder for pools: HOME is not set either")),
    }
}

fn absolute(path: PathBuf) -> Result<PathBuf, SettingsError> {
    let wrong = |path: &Path| {
        bad("LEDGER_POOLS", &path.display().to_string(), "it must be an absolute path: everybody must mean one folder")
    };
    if path.is_absolute() { Ok(path) } else { Err(wrong(&path)) }
}

fn shown(text: &str) -> String {
    text.chars().take(40).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_are_kept_where_the_user_keeps_state() {
        // Any folder that is absolute on this system.
        let root = std::env::temp_dir();
        let at = |name: &str| root.join(name).display().to_string();
        let (home, state, shared) = (at("h"), at("s"), at("shared"));
        let table = [
            (Environment::of([("HOME", &*home), ("XDG_STATE_HOME", &state)]), Some("s/ledger/pools")),
            (Environment::of([("HOME", &*home), ("XDG_STATE_HOME", "s")]), Some("h/.local/state/ledger/pools")),
            (Environment::of([("HOME", &*home), ("LEDGER_POOLS", &shared)]), Some("shared")),
            (Environment::of([("HOME", &*home), ("LEDGER_POOLS", "shared")]), None),
            (Environment::of([("LOCALAPPDATA", &*state)]), Some("s/ledger/pools")),
            (Environment::default(), None),
        ];
        for (env, expect) in table {
            assert_eq!(pools_folder(&env).ok(), expect.map(|below| root.join(below)), "{env:?}");
        }
    }

    #[test]
    fn a_pool_has_a_name_and_a_sensible_number_of_slots() {
        let env = Environment::of([("HOME", "/h")]);
        for (name, slots, right) in [
            ("../x", Some(1), true),
            ("mac", None, true),
            ("", None, false),
            ("a\nb", None, false),
            ("m", Some(0), false),
            ("m", Some(1001), false),
        ] {
            assert_eq!(pool(name, slots, &env).is_ok(), right, "{name:?} {slots:?}");
        }
    }
}
