//! What was written, in its order of precedence (flag, environment, `ledger.toml`, default), checked and made whole.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::environment::Environment;
use super::flags::{CapsSource, LeftoversArg, ReapScopeArg, RunFlags};
use super::plan_files::{self, Expanded, PlanError};
use super::resume::Resume;
use crate::core::ids::{Attempt, FilePath, LegId, Platform, RunId, Shard, Target};
use crate::core::moment::{Moment, Secs, Wall, parse_duration};
use crate::core::outcome::Scope;
use crate::core::pattern::Patterns;
use crate::core::scan::{RuleError, Rules};
use crate::core::slot::PoolName;
use crate::host::bounded;
use crate::sink::Variables;

const SETTINGS_FILE: &str = "ledger.toml";
const CAPS_FILE: &str = "ledger-caps.json";
/// A settings file is written by hand; more than this is something else.
const SETTINGS_FILE_MAX: u64 = 1 << 20;

#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error("cannot read the settings file '{}': {reason}", path.display())]
    Unreadable { path: PathBuf, reason: String },
    #[error("the settings file '{}' is no TOML: {reason}", path.display())]
    NoToml { path: PathBuf, reason: String },
    #[error("the settings file '{}' is wrong: {reason}", path.display())]
    BadFile { path: PathBuf, reason: String },
    #[error("the settings file '{}' is wrong: {reason}", path.display())]
    BadRule { path: PathBuf, reason: String },
    #[error("{flag} {value}: {reason}")]
    BadValue { flag: &'static str, value: String, reason: String },
    #[error("--require-sink: no sink is set; name one with --sink or LEDGER_SINK")]
    NoSink,
    #[error("no such caps file: '{}'; make one with `ledger caps derive --out {}`", .0.display(), .0.display())]
    NoCapsFile(PathBuf),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Identity {
    pub leg: LegId,
    pub given: Given,
    pub sha: Option<String>,
    pub event: Option<String>,
    pub resolved: Option<String>,
    pub legs: u32,
}

/// What of a leg's name somebody gave, a person or a service; the rest is a default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Given {
    pub run: bool,
    pub platform: bool,
    pub target: bool,
}

/// How often the plan runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rounds {
    /// `None`: no fixed number.
    pub count: Option<u32>,
    pub for_at_most: Option<Secs>,
    pub until_fail: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct PoolSettings {
    pub name: PoolName,
    pub slots: Option<u32>,
    /// The folder of pools.
    pub folder: PathBuf,
}

/// Where GitHub Actions wants its texts.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ActionsFiles {
    pub output: Option<PathBuf>,
    pub step_summary: Option<PathBuf>,
    /// The folders from the top of the checkout down to the working folder, where it lies in there.
    pub below_workspace: Option<Vec<String>>,
}

fn below_workspace(folder: &Path, env: &Environment) -> Option<Vec<String>> {
    let resolved = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let folder = resolved(folder);
    let below = folder.strip_prefix(resolved(&env.path("GITHUB_WORKSPACE")?)).ok()?;
    Some(below.iter().map(|part| part.to_string_lossy().into_owned()).collect())
}

/// Everything `ledger run` needs to know, checked.
#[derive(Debug, Clone)]
pub struct RunSettings {
    pub identity: Identity,
    pub scope: Scope,
    pub folder: PathBuf,
    pub files: Vec<FilePath>,
    /// What people should know of the plan before it runs.
    pub warnings: Vec<String>,
    pub shard: Option<Shard>,
    pub command: Vec<OsString>,
    pub caps: CapsSource,
    pub cap: Option<Secs>,
    pub deadline: Option<Wall>,
    pub reserve: Secs,
    pub min_viable: Secs,
    pub grace: Secs,
    pub ledger: PathBuf,
    pub sinks: Vec<String>,
    pub require_sink: bool,
    pub heartbeat: Secs,
    pub logs: PathBuf,
    pub watch_disk: Vec<PathBuf>,
    pub reap_match: Patterns,
    pub reap_scope: ReapScopeArg,
    pub allow_leftover: Patterns,
    pub leftovers_fail: bool,
    pub tty: bool,
    pub keep_awake: bool,
    pub fail_fast: bool,
    pub rounds: Rounds,
    pub resume: Resume,
    /// A pass must show a match of its pattern.
    pub min_evidence: Option<Rules>,
    pub classify: Rules,
    pub pool: Option<PoolSettings>,
    pub without_mechanism: Vec<String>,
    pub dry_run: bool,
    /// Of the dry run.
    pub json: bool,
    pub secrets: Vec<Vec<u8>>,
    /// Where the sinks find credentials and addresses.
    pub variables: Variables,
    pub is_ci: bool,
    pub actions: Option<ActionsFiles>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
struct SettingsFile {
    run: RunFlags,
    classify: Vec<WrittenRule>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenRule {
    pattern: String,
    outcome: String,
}

/// `folder` is the working folder and `now` the start of the run.
pub fn resolve_run(flags: RunFlags, env: &Environment, folder: &Path, now: Moment) -> Result<RunSettings, SettingsError> {
    let file = read_settings_file(flags.config.as_deref(), folder)?;
    let classify = rules(&file.classify, flags.config.as_deref().unwrap_or(Path::new(SETTINGS_FILE)))?;
    let of_file = file.run;
    let suite = if of_file.files.is_empty() { None } else { Some(of_file.files.clone()) };
    let written = if flags.files.is_empty() { suite.clone().unwrap_or_default() } else { flags.files.clone() };
    let resume = Resume::of(&flags);
    let Expanded { files, warnings } = match resume {
        Resume::AsRecorded(_) => Expanded::default(),
        Resume::No | Resume::OfThese => plan_files::expand(&written, folder)?,
    };
    let is_suite = suite.is_some_and(|suite| plan_files::expand(&suite, folder).is_ok_and(|suite| suite.files == files));
    let scope = match flags.scope.or(of_file.scope) {
        Some(scope) => scope.into(),
        None if is_suite => Scope::Full,
        None => Scope::Filtered,
    };
    let ledger = folder.join(flags.ledger.or(of_file.ledger).unwrap_or_else(|| ".ledger".into()));
    let logs = flags.logs.or(of_file.logs).map_or_else(|| ledger.join("logs"), |logs| folder.join(logs));
    let shard = flags.shard.or(of_file.shard);
    let actions = env.is_true("GITHUB_ACTIONS").then(|| ActionsFiles {
        output: env.path("GITHUB_OUTPUT"),
        step_summary: env.path("GITHUB_STEP_SUMMARY"),
        below_workspace: below_workspace(folder, env),
    });
    let flag_or = |flag: Option<super::DurationArg>, file: Option<super::DurationArg>, default| {
        flag.or(file).map_or(Secs::from_secs(default), |duration| duration.0)
    };
    let sinks = sinks(flags.sinks, of_file.sinks, env);
    let require_sink = flags.require_sink || of_file.require_sink;
    if require_sink && sinks.is_empty() {
        return Err(SettingsError::NoSink);
    }
    Ok(RunSettings {
        identity: identity(
            Named {
                run_id: flags.run_id,
                attempt: flags.attempt,
                sha: flags.sha,
                platform: flags.platform,
                target: flags.target,
                resolved: flags.resolved,
                event: flags.event,
                legs: flags.legs,
            },
            Named {
                run_id: of_file.run_id,
                attempt: of_file.attempt,
                sha: of_file.sha,
                platform: of_file.platform,
                target: of_file.target,
                resolved: of_file.resolved,
                event: of_file.event,
                legs: of_file.legs,
            },
            shard,
            env,
        )?,
        scope,
        folder: folder.to_owned(),
        files,
        warnings,
        shard,
        command: if flags.command.is_empty() { of_file.command } else { flags.command },
        caps: caps_source(flags.caps.or(of_file.caps), folder)?,
        cap: lever(flags.cap.or(of_file.cap).map(|cap| cap.0))?,
        deadline: deadline(flags.deadline, of_file.deadline, env, now)?,
        reserve: flag_or(flags.reserve, of_file.reserve, 300),
        min_viable: flag_or(flags.min_viable, of_file.min_viable, 120),
        grace: flag_or(flags.grace, of_file.grace, 5),
        ledger,
        sinks,
        require_sink,
        heartbeat: heartbeat(flag_or(flags.heartbeat, of_file.heartbeat, 30))?,
        logs,
        watch_disk: either(flags.watch_disk, of_file.watch_disk),
        reap_match: patterns("--reap-match", either(flags.reap_match, of_file.reap_match), &["qemu-system-*"])?,
        reap_scope: flags.reap_scope.or(of_file.reap_scope).unwrap_or(ReapScopeArg::Owned),
        allow_leftover: patterns("--allow-leftover", either(flags.allow_leftover, of_file.allow_leftover), &[])?,
        leftovers_fail: flags.leftovers.or(of_file.leftovers) == Some(LeftoversArg::Fail),
        tty: flags.tty || of_file.tty,
        keep_awake: flags.keep_awake || of_file.keep_awake,
        fail_fast: flags.fail_fast || of_file.fail_fast,
        rounds: rounds(flags.repeat.or(of_file.repeat), flags.r#for.or(of_file.r#for), flags.until_fail || of_file.until_fail)?,
        resume,
        min_evidence: min_evidence(flags.min_evidence.or(of_file.min_evidence))?,
        classify,
        pool: match (flags.pool.or(of_file.pool), flags.slots.or(of_file.slots)) {
            (Some(name), slots) => Some(super::pools::pool(&name, slots, env)?),
            // Whoever states a capacity means to share something; to run without a slot would be a silent surprise.
            (None, Some(slots)) => {
                return Err(bad(
                    "--slots",
                    &slots.to_string(),
                    "slots of which pool? Add --pool NAME, or pool = \"NAME\" to [run] in ledger.toml",
                ));
            }
            (None, None) => None,
        },
        without_mechanism: flags.without_mechanism,
        dry_run: flags.dry_run,
        json: flags.json,
        secrets: env.secrets(),
        variables: Variables::of(env.variables()),
        is_ci: env.is_ci(),
        actions,
    })
}

fn read_settings_file(named: Option<&Path>, folder: &Path) -> Result<SettingsFile, SettingsError> {
    let path = folder.join(named.unwrap_or(Path::new(SETTINGS_FILE)));
    if named.is_none() && !path.exists() {
        return Ok(SettingsFile::default());
    }
    let unreadable = |reason: String| SettingsError::Unreadable { path: path.clone(), reason };
    let bytes = bounded::read(&path, SETTINGS_FILE_MAX).map_err(|error| unreadable(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| unreadable("it is not UTF-8".to_owned()))?;
    if let Err(error) = text.parse::<toml::Table>() {
        return Err(SettingsError::NoToml { path, reason: error.to_string() });
    }
    toml::from_str(&text).map_err(|error| SettingsError::BadFile { path: path.clone(), reason: error.to_string() })
}

struct Named {
    run_id: Option<String>,
    attempt: Option<String>,
    sha: Option<String>,
    platform: Option<String>,
    target: Option<String>,
    resolved: Option<String>,
    event: Option<String>,
    legs: Option<u32>,
}

fn identity(named: Named, of_file: Named, shard: Option<Shard>, env: &Environment) -> Result<Identity, SettingsError> {
    let first = |flag: Option<String>, names: &[&str], of_file: Option<String>| {
        flag.or_else(|| env.first(names).map(str::to_owned)).or(of_file)
    };
    let run_id = first(named.run_id, &["GITHUB_RUN_ID"], of_file.run_id);
    let attempt = first(named.attempt, &["GITHUB_RUN_ATTEMPT"], of_file.attempt).unwrap_or_else(|| "1".into());
    if attempt.parse::<u32>().map_or(true, |number| number == 0) {
        return Err(bad("--attempt", &attempt, "an attempt is a whole number from 1"));
    }
    let platform = first(named.platform, &["LEDGER_PLATFORM", "PLATFORM_ID"], of_file.platform);
    let target = first(named.target, &["LEDGER_TARGET"], of_file.target);
    let given = Given { run: run_id.is_some(), platform: platform.is_some(), target: target.is_some() };
    let run_id = run_id.unwrap_or_else(|| format!("local-{}", uuid::Uuid::now_v7()));
    let platform = platform.unwrap_or_else(this_platform);
    let target = target.unwrap_or_else(|| "local".into());
    for (flag, value) in [("--run-id", &run_id), ("--platform", &platform), ("--target", &target)] {
        if value.is_empty() || value.len() > 200 || value.chars().any(char::is_control) {
            return Err(bad(flag, value, "it must have 1 to 200 bytes and no control characters"));
        }
    }
    let legs = match (named.legs, env.get("LEDGER_LEGS")) {
        (Some(legs), _) => legs,
        (None, Some(text)) => text.parse().map_err(|_| bad("LEDGER_LEGS", text, "it must be a whole number"))?,
        (None, None) => of_file.legs.unwrap_or(1),
    };
    if legs == 0 {
        return Err(bad("--legs", "0", "a run has at least one leg"));
    }
    Ok(Identity {
        leg: LegId {
            run_id: RunId::new(run_id),
            attempt: Attempt::new(attempt),
            platform: Platform::new(platform),
            target: Target::new(target),
            shard,
        },
        given,
        sha: first(named.sha, &["GITHUB_SHA"], of_file.sha),
        event: first(named.event, &["GITHUB_EVENT_NAME"], of_file.event),
        resolved: first(named.resolved, &["LEDGER_RESOLVED"], of_file.resolved),
        legs,
    })
}

/// As public CI data spells it: `linux-x86`, `macos-arm64`, `windows-x86`.
fn this_platform() -> String {
    let arch = match std::env::consts::ARCH {
        "x86_64" => "x86",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{}-{arch}", std::env::consts::OS)
}

fn caps_source(written: Option<CapsSource>, folder: &Path) -> Result<CapsSource, SettingsError> {
    match written {
        Some(CapsSource::File(path)) => {
            let full = folder.join(&path);
            if full.exists() { Ok(CapsSource::File(full)) } else { Err(SettingsError::NoCapsFile(path)) }
        }
        Some(other) => Ok(other),
        None => {
            let default = folder.join(CAPS_FILE);
            Ok(if default.exists() { CapsSource::File(default) } else { CapsSource::History })
        }
    }
}

/// `--cap` can only shorten; a cap below one second would be a wedge that never happened.
fn lever(cap: Option<Secs>) -> Result<Option<Secs>, SettingsError> {
    match cap {
        Some(cap) if cap < Secs::from_secs(1) => Err(bad("--cap", &cap.as_f64().to_string(), "a cap has at least 1 second")),
        other => Ok(other),
    }
}

fn deadline(flag: Option<String>, of_file: Option<String>, env: &Environment, now: Moment) -> Result<Option<Wall>, SettingsError> {
    let (flag, text) = match (flag, env.get("LEDGER_DEADLINE"), of_file) {
        (Some(text), _, _) => ("--deadline", text),
        (None, Some(text), _) => ("LEDGER_DEADLINE", text.to_owned()),
        (None, None, Some(text)) => ("deadline", text),
        (None, None, None) => return Ok(None),
    };
    let wrong = || bad(flag, &text, "write seconds since 1970, or +DURATION such as +55m");
    if let Some(relative) = text.strip_prefix('+') {
        return Ok(Some(now.wall.plus(parse_duration(relative).ok_or_else(wrong)?)));
    }
    let seconds = text.trim().parse::<f64>().ok().filter(|seconds| seconds.is_finite()).ok_or_else(wrong)?;
    if seconds < 1e8 {
        return Err(bad(flag, &text, "this is in the first years after 1970; for a span from now write it with a +"));
    }
    if seconds > 1e11 {
        return Err(bad(flag, &text, "an epoch is in seconds, and this looks like milliseconds"));
    }
    Ok(Some(Wall((seconds * 1000.0) as i64)))
}

fn heartbeat(every: Secs) -> Result<Secs, SettingsError> {
    let sound = every >= Secs::from_millis(100) && every <= Secs::from_secs(3600);
    if sound {
        Ok(every)
    } else {
        Err(bad("--heartbeat", &every.as_f64().to_string(), "it must be between 0.1 s and 1 h; leave it out for 30 s"))
    }
}

fn sinks(flags: Vec<String>, of_file: Vec<String>, env: &Environment) -> Vec<String> {
    if !flags.is_empty() {
        return flags;
    }
    match env.get("LEDGER_SINK") {
        Some(text) => text.split_whitespace().map(str::to_owned).collect(),
        None => of_file,
    }
}

fn patterns(flag: &'static str, written: Vec<String>, default: &[&str]) -> Result<Patterns, SettingsError> {
    let patterns = if written.is_empty() { default.iter().map(|text| (*text).to_owned()).collect() } else { written };
    Patterns::new(patterns).map_err(|error| bad(flag, &error.pattern, &error.why))
}

fn rounds(repeat: Option<u32>, span: Option<super::DurationArg>, until_fail: bool) -> Result<Rounds, SettingsError> {
    let none = |flag| bad(flag, "0", "a run has at least one round");
    if repeat == Some(0) {
        return Err(none("--repeat"));
    }
    if span.is_some_and(|span| span.0 == Secs::from_secs(0)) {
        return Err(none("--for"));
    }
    let open = span.is_some() || until_fail;
    let count = if open { repeat } else { Some(repeat.unwrap_or(1)) };
    Ok(Rounds { count, for_at_most: span.map(|span| span.0), until_fail })
}

fn rules(written: &[WrittenRule], path: &Path) -> Result<Rules, SettingsError> {
    let pairs = written.iter().map(|rule| (rule.pattern.as_str(), rule.outcome.as_str()));
    Rules::new(pairs).map_err(|error| SettingsError::BadRule { path: path.to_owned(), reason: error.to_string() })
}

/// Minimum evidence is one rule whose outcome nobody reads.
fn min_evidence(written: Option<String>) -> Result<Option<Rules>, SettingsError> {
    let Some(text) = written else { return Ok(None) };
    match Rules::new([(text.as_str(), "seen")]) {
        Ok(rules) => Ok(Some(rules)),
        Err(RuleError::Pattern { error, .. }) => Err(bad("--min-evidence", &text, &error)),
        Err(other) => Err(bad("--min-evidence", &text, &other.to_string())),
    }
}

fn either<T>(flags: Vec<T>, of_file: Vec<T>) -> Vec<T> {
    if flags.is_empty() { of_file } else { flags }
}

pub(super) fn bad(flag: &'static str, value: &str, reason: &str) -> SettingsError {
    SettingsError::BadValue { flag, value: value.chars().take(80).collect(), reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Moment = Moment { wall: Wall(1_700_000_000_000), mono_ms: 5_000, boot_ms: 5_000 };

    fn resolve(toml: &str, env: &Environment, edit: impl FnOnce(&mut RunFlags)) -> Result<RunSettings, String> {
        let folder = tempfile::tempdir().expect("a temp folder");
        for name in ["a.sh", "b.sh"] {
            std::fs::write(folder.path().join(name), "").expect("a file");
        }
        if !toml.is_empty() {
            std::fs::write(folder.path().join("ledger.toml"), toml).expect("a file");
        }
        let mut flags = RunFlags::default();
        edit(&mut flags);
        resolve_run(flags, env, folder.path(), NOW).map_err(|error| error.to_string())
    }

    #[test]
    fn a_flag_beats_the_environment_and_the_environment_beats_the_file() {
        let toml = "[run]\nfiles = [\"*.sh\"]\ncommand = [\"sh\", \"{file}\"]\nsinks = [\"file:///from-file\"]\ngrace = \"7s\"\nheartbeat = 5\n\
            run-id = \"file\"\nplatform = \"file\"\nsha = \"file\"\nlegs = 4\ndeadline = \"+8h\"\n";
        let env = Environment::of([
            ("LEDGER_SINK", "file:///from-env"),
            ("GITHUB_RUN_ID", "77"),
            ("LEDGER_PLATFORM", "macos-x86"),
            ("LEDGER_DEADLINE", "+10m"),
        ]);
        let settings = resolve(toml, &env, |flags| flags.target = Some("stable".into())).expect("it is well formed");
        assert_eq!(settings.sinks, ["file:///from-env"]);
        assert_eq!(settings.identity.leg.key(), "macos-x86|stable");
        assert_eq!(settings.identity.leg.run_id.as_str(), "77");
        assert_eq!((settings.identity.sha.as_deref(), settings.identity.legs), (Some("file"), 4));
        assert_eq!(settings.deadline, Some(NOW.wall.plus(Secs::from_secs(600))));
        assert_eq!((settings.grace, settings.heartbeat), (Secs::from_secs(7), Secs::from_secs(5)));
        assert_eq!(settings.scope, Scope::Full);
        assert_eq!(settings.command, ["sh", "{file}"]);
        let settings = resolve(toml, &env, |flags| {
            flags.sinks = vec!["file:///from-flag".into()];
            flags.files = vec!["a.sh".into()];
        });
        let settings = settings.expect("it is there");
        assert_eq!((settings.sinks, settings.scope), (vec!["file:///from-flag".to_owned()], Scope::Filtered));
    }

    #[test]
    fn nonsense_is_refused_with_its_value() {
        let env = Environment::default();
        let with = |edit: fn(&mut RunFlags)| {
            resolve("", &env, |flags| {
                flags.files = vec!["a.sh".into()];
                edit(flags);
            })
        };
        assert!(with(|_| {}).is_ok());
        let cases: Vec<(fn(&mut RunFlags), &str)> = vec![
            (|flags| flags.cap = Some("0".parse().expect("it is well formed")), "--cap 0"),
            (|flags| flags.cap = Some("0.5".parse().expect("it is well formed")), "--cap 0.5"),
            (|flags| flags.deadline = Some("soon".into()), "--deadline soon"),
            (|flags| flags.deadline = Some("1700000000000".into()), "milliseconds"),
            (|flags| flags.deadline = Some("3600".into()), "write it with a +"),
            (|flags| flags.attempt = Some("0".into()), "--attempt 0"),
            (|flags| flags.heartbeat = Some("0".parse().expect("it is well formed")), "--heartbeat 0"),
            (|flags| flags.caps = Some(CapsSource::File("none.json".into())), "no such caps file: 'none.json'"),
            (|flags| flags.require_sink = true, "--require-sink: no sink is set"),
            (|flags| flags.reap_match = vec!["[".into()], "--reap-match ["),
            (|flags| flags.min_evidence = Some("(".into()), "--min-evidence ("),
        ];
        for (edit, expect) in cases {
            let error = with(edit).expect_err("it is refused");
            assert!(error.contains(expect), "{error}");
        }
        assert!("NaN".parse::<super::super::DurationArg>().is_err());
        assert!(resolve("[run]\nfile = 1\n", &env, |_| {}).expect_err("it is refused").contains("unknown field"));
    }

    #[test]
    fn what_is_wrong_in_a_settings_file_is_told_with_what_is_right() {
        let duration = "expected a duration: seconds, such as 90, or text, such as \"5m\"";
        let list = "expected a list of texts, such as [\"bun\", \"test\", \"./{file}\"]";
        let table = [
            ("cap = true", duration),
            ("heartbeat = [1]", duration),
            ("grace = -1", "-1 is not a duration"),
            ("grace = \"soon\"", "'soon' is not a duration: write seconds, 90s, 5m or 1h30m"),
            ("command = \"bun test\"", list),
            ("files = \"a.sh\"", list),
            ("sinks = \"github:\"", list),
            ("reap-match = 1", list),
            ("tty = \"yes\"", "expected a boolean"),
            ("files = [\"a.sh\"", "is no TOML"),
        ];
        for (line, words) in table {
            let error = resolve(&format!("[run]\n{line}\n"), &Environment::default(), |_| {}).expect_err("it is refused");
            assert!(error.contains(words), "{line}: {error}");
        }
        let right = "[run]\nfiles = [\"a.sh\"]\ncap = 90\ngrace = 1.5\nheartbeat = \"1m\"\nreap-match = [\"vm-*\"]\n";
        let settings = resolve(right, &Environment::default(), |_| {}).expect("it is well formed");
        assert_eq!((settings.cap, settings.grace), (Some(Secs::from_secs(90)), Secs::from_millis(1500)));
    }

    #[test]
    fn a_pool_and_its_slots_may_be_said_in_different_places_and_slots_alone_are_refused() {
        let env = Environment::of([("HOME", "/h")]);
        let with = |toml: &str, pool: Option<&str>, slots: Option<u32>| {
            let settings = resolve(&format!("[run]\nfiles = [\"*.sh\"]\n{toml}"), &env, |flags| {
                flags.pool = pool.map(str::to_owned);
                flags.slots = slots;
            })?;
            Ok::<_, String>(settings.pool.map(|pool| (pool.name.as_str().to_owned(), pool.slots)))
        };
        let tp = |slots| Ok(Some(("tp".to_owned(), slots)));
        assert_eq!(with("pool = \"tp\"", None, Some(2)), tp(Some(2)));
        assert_eq!(with("slots = 2", Some("tp"), None), tp(Some(2)));
        assert_eq!(with("pool = \"tp\"\nslots = 3", None, Some(2)), tp(Some(2)));
        assert_eq!(with("pool = \"tp\"", None, None), tp(None));
        assert_eq!(with("", None, None), Ok(None));
        for alone in [with("slots = 2", None, None), with("", None, Some(2))] {
            assert!(alone.clone().is_err_and(|error| error.contains("--slots 2: slots of which pool?")), "{alone:?}");
        }
    }

    #[test]
    fn a_rule_never_makes_a_pass() {
        let env = Environment::default();
        let toml = "[run]\nfiles=[\"a.sh\"]\n[[classify]]\npattern=\"X\"\noutcome=\"pass\"\n";
        assert!(resolve(toml, &env, |_| {}).expect_err("it is refused").contains("never turns a failure into a pass"));
    }

    #[test]
    fn a_deadline_is_relative_or_an_epoch() {
        let env = Environment::of([("LEDGER_DEADLINE", "+55m")]);
        let settings = resolve("", &env, |flags| flags.files = vec!["a.sh".into()]).expect("it is well formed");
        assert_eq!(settings.deadline, Some(Wall(1_700_000_000_000 + 55 * 60_000)));
    }
}
