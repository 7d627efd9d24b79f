//! `ledger caps`

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::asked::{LegArgs, read_bounded};
use super::{Failure, World, out, print};
use crate::core::backtest;
use crate::core::cap::{Estimator, Per, Policy, Settled};
use crate::core::capcheck::{FindingKind, check};
use crate::core::capfile::{CapsFile, MAX_CAPS_FILE_BYTES, Window};
use crate::core::history::{History, PastLeg, find};
use crate::core::ids::{FilePath, Platform, RunId};
use crate::core::moment::{Secs, Wall};
use crate::host::clock;
use crate::report::caps::{self, Part};
use crate::report::shared_json;
use crate::settings::DurationArg;
use crate::source::assemble::past_legs;
use crate::source::{self, Found};

/// Caps by evidence: make a caps file, hold it against newer history, explain a number, choose a policy
#[derive(Debug, Args)]
pub struct CapsArgs {
    #[command(subcommand)]
    command: CapsCommand,
}

#[derive(Debug, Subcommand)]
enum CapsCommand {
    Derive(Box<DeriveArgs>),
    Check(CheckArgs),
    Explain(Box<ExplainArgs>),
    Backtest(Box<BacktestArgs>),
}

/// Where history comes from, and how much of it
#[derive(Debug, Args)]
struct HistoryArgs {
    /// Ledger folders, archives, ci-data, JUnit or timing files, sinks [default: .ledger]
    #[arg(long = "from", value_name = "SOURCE", num_args = 1..)]
    from: Vec<String>,

    /// Only these runs
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    runs: Vec<String>,

    /// Only the newest so many legs
    #[arg(long, value_name = "LEGS")]
    last: Option<usize>,

    /// Only legs that ended at or after this time (RFC 3339, a date, or seconds since 1970)
    #[arg(long, value_name = "TIME")]
    since: Option<String>,

    /// Only legs that ended before this time
    #[arg(long, value_name = "TIME")]
    until: Option<String>,

    #[command(flatten)]
    legs: LegArgs,
}

/// cap = clamp(estimate × multiplier + headroom, floor, ceiling), rounded up; without a flag the default policy's part stands
#[derive(Debug, Clone, Default, Args)]
struct PolicyArgs {
    /// What of a file's passes counts: max, recent:N, quantile:0.99, midway
    #[arg(long, value_name = "WHAT", help_heading = "Policy")]
    estimator: Option<Estimator>,

    /// The estimate is multiplied by this
    #[arg(long, value_name = "FACTOR", help_heading = "Policy")]
    multiplier: Option<f64>,

    /// Added after that
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true, help_heading = "Policy")]
    headroom: Option<DurationArg>,

    /// No cap is shorter; a file without history gets this
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true, help_heading = "Policy")]
    floor: Option<DurationArg>,

    /// After so many passes the settled floor holds instead
    #[arg(long, value_name = "N", requires = "settled_floor", help_heading = "Policy")]
    settled_passes: Option<u32>,

    /// The floor of a file that has passed often enough
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true, requires = "settled_passes", help_heading = "Policy")]
    settled_floor: Option<DurationArg>,

    /// No cap is longer
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true, help_heading = "Policy")]
    ceiling: Option<DurationArg>,

    /// Caps are rounded up to whole multiples of this; 0 leaves them
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true, help_heading = "Policy")]
    round: Option<DurationArg>,

    /// Which passes count: file, file+platform or file+platform:N (pooled below N passes)
    #[arg(long, value_name = "WHICH", help_heading = "Policy")]
    per: Option<Per>,
}

/// Make a caps file out of history
#[derive(Debug, Args)]
struct DeriveArgs {
    #[command(flatten)]
    history: HistoryArgs,

    #[command(flatten)]
    policy: PolicyArgs,

    /// Write the file here in one step; without it, to stdout
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// One JSON document: what was done, or without --out the caps file itself
    #[arg(long)]
    json: bool,
}

/// Compare a checked-in caps file with newer history; exit 1 when a healthy run came near a cap, would have been killed, or has no cap
#[derive(Debug, Args)]
struct CheckArgs {
    /// The caps file
    #[arg(default_value = "ledger-caps.json")]
    caps: PathBuf,

    #[command(flatten)]
    history: HistoryArgs,

    /// One JSON document
    #[arg(long)]
    json: bool,
}

/// Show where a file's cap comes from, with its history as a plot
#[derive(Debug, Args)]
struct ExplainArgs {
    /// The test file, as a plan would name it
    file: String,

    /// A caps file to look at too [default: ledger-caps.json where it exists]
    #[arg(long, value_name = "FILE")]
    caps: Option<PathBuf>,

    #[command(flatten)]
    history: HistoryArgs,

    #[command(flatten)]
    policy: PolicyArgs,

    /// One JSON document
    #[arg(long)]
    json: bool,
}

/// Replay history in time order: what each policy would have killed, and what a hang would have cost
#[derive(Debug, Args)]
struct BacktestArgs {
    #[command(flatten)]
    history: HistoryArgs,

    /// The one policy to judge; without any of its flags a table of policies is judged
    #[command(flatten)]
    policy: PolicyArgs,

    /// Also judge this policy, such as estimator=max,multiplier=1.5,floor=300; may be given more than once
    #[arg(long = "policy", value_name = "KEY=VALUE,…")]
    policies: Vec<String>,

    /// Judge a whole grid, and show the best of it
    #[arg(long)]
    grid: bool,

    /// How many of the grid are shown
    #[arg(long, value_name = "N", default_value_t = 20, requires = "grid")]
    best: usize,

    /// Choose on the legs before the newest share of this, and check on that share
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    holdout: f64,

    /// One JSON document
    #[arg(long)]
    json: bool,
}

pub fn run(args: &CapsArgs, world: &World) -> Result<i32, Failure> {
    match &args.command {
        CapsCommand::Derive(args) => derive(args, world),
        CapsCommand::Check(args) => run_check(args, world),
        CapsCommand::Explain(args) => explain(args, world),
        CapsCommand::Backtest(args) => run_backtest(args, world),
    }
}

impl HistoryArgs {
    /// The legs of the window, oldest first. None at all is an error: caps without evidence are a typo.
    fn read(&self, world: &World) -> Result<Vec<PastLeg>, Failure> {
        let sources = if self.from.is_empty() { vec![".ledger".to_owned()] } else { self.from.clone() };
        let question = self.legs.question(world, clock::now().wall);
        let mut found = Found::default();
        for source in &sources {
            source::read(source, &question, &mut found)
                .map_err(|error| Failure::usage(error).hint("name where history is with --from, such as ci-data/runs"))?;
        }
        super::asked::warn(&found.warnings);
        let mut legs = past_legs(found, &question);
        self.window(&mut legs)?;
        if legs.is_empty() {
            return Err(Failure::usage(format!("{}: no healthy pass is in that window", sources.join(", ")))
                .hint("`ledger report` shows what is there"));
        }
        Ok(legs)
    }

    fn window(&self, legs: &mut Vec<PastLeg>) -> Result<(), Failure> {
        for run in &self.runs {
            if !legs.iter().any(|leg| leg.run_id.as_str() == run) {
                return Err(Failure::usage(format!("--runs {run}: no leg of that run has a healthy pass")));
            }
        }
        let (since, until) = (read_day("--since", self.since.as_deref())?, read_day("--until", self.until.as_deref())?);
        legs.retain(|leg| {
            (self.runs.is_empty() || self.runs.iter().any(|run| run == leg.run_id.as_str()))
                && since.is_none_or(|since| leg.ended >= since)
                && until.is_none_or(|until| leg.ended < until)
        });
        if let Some(last) = self.last {
            let from = legs.len().saturating_sub(last);
            legs.drain(..from);
        }
        Ok(())
    }
}

/// A time, or a day that begins at midnight UTC.
fn read_day(flag: &str, text: Option<&str>) -> Result<Option<Wall>, Failure> {
    let Some(text) = text else { return Ok(None) };
    let day = (text.len() == 10).then(|| Wall::parse(&format!("{text}T00:00:00Z"))).flatten();
    day.map_or_else(|| super::report::read_time(flag, text), Ok).map(Some)
}

impl PolicyArgs {
    fn is_given(&self) -> Result<bool, Failure> {
        self.policy(Policy::default()).map(|policy| policy != Policy::default())
    }

    /// `base` with the parts that were given. A floor of one's own holds for settled files too, unless these have theirs.
    fn policy(&self, base: Policy) -> Result<Policy, Failure> {
        let given = |duration: Option<DurationArg>, base: Secs| duration.map_or(base, |duration| duration.0);
        let settled = match (self.settled_passes.zip(self.settled_floor), self.floor) {
            (Some((passes, floor)), _) => Some(Settled { passes, floor: floor.0 }),
            (None, Some(_)) => None,
            (None, None) => base.settled,
        };
        let policy = Policy {
            estimator: self.estimator.unwrap_or(base.estimator),
            multiplier: self.multiplier.unwrap_or(base.multiplier),
            headroom: given(self.headroom, base.headroom),
            floor: given(self.floor, base.floor),
            settled,
            ceiling: given(self.ceiling, base.ceiling),
            round: given(self.round, base.round),
            per: self.per.unwrap_or(base.per),
        };
        policy.check().map_err(Failure::usage)
    }

    /// Reads `estimator=max,multiplier=1.5,…`.
    fn parse(text: &str) -> Result<Self, Failure> {
        let wrong = |why: String| Failure::usage(format!("--policy {text}: {why}"));
        let mut args = Self::default();
        for part in text.split(',').filter(|part| !part.trim().is_empty()) {
            let (key, value) = part.split_once('=').ok_or_else(|| wrong(format!("'{part}' is no key=value")))?;
            let value = value.trim();
            let duration = || value.parse::<DurationArg>().map(Some).map_err(&wrong);
            match key.trim() {
                "estimator" => {
                    args.estimator = Some(value.parse().map_err(|error: crate::core::cap::PolicyError| wrong(error.to_string()))?)
                }
                "multiplier" => args.multiplier = Some(value.parse().map_err(|_| wrong(format!("'{value}' is no number")))?),
                "headroom" => args.headroom = duration()?,
                "floor" => args.floor = duration()?,
                "settled-passes" => {
                    args.settled_passes = Some(value.parse().map_err(|_| wrong(format!("'{value}' is no number")))?)
                }
                "settled-floor" => args.settled_floor = duration()?,
                "ceiling" => args.ceiling = duration()?,
                "round" => args.round = duration()?,
                "per" => args.per = Some(value.parse().map_err(|error: crate::core::cap::PolicyError| wrong(error.to_string()))?),
                other => return Err(wrong(format!("'{other}' is no part of a policy"))),
            }
        }
        Ok(args)
    }
}

fn derive(args: &DeriveArgs, world: &World) -> Result<i32, Failure> {
    let legs = args.history.read(world)?;
    let policy = args.policy.policy(Policy::default())?;
    let history = History::of(&legs);
    let window = window_of(&legs, &history);
    let runs = window.runs.len();
    let caps = CapsFile::derive(&history, &policy, window, clock::now().wall);
    let document = serde_json::to_value(&caps).expect("a caps file has string keys only");
    let Some(path) = &args.out else {
        print(&shared_json::render(&document))?;
        return Ok(0);
    };
    let mut changed = true;
    out::merge_into(path, |older| {
        // A file that would say the same keeps its bytes: a checked-in file that changes has changed.
        if let Some(older) = older.filter(|older| same_caps(older, &document)) {
            changed = false;
            return Ok(String::from_utf8_lossy(older).into_owned());
        }
        Ok(shared_json::render(&document))
    })?;
    if args.json {
        let done = json!({
            "v": 1, "out": path.display().to_string(), "changed": changed, "files": caps.files.len(), "legs": legs.len(), "runs": runs,
            "records": history.records(), "policy": policy,
        });
        print(&format!("{done:#}\n"))?;
    } else {
        let word = if changed { "written" } else { "unchanged" };
        say!(
            "ledger: {}: {word}; {} files out of {} healthy records of {} legs in {runs} runs; {policy}",
            path.display(),
            caps.files.len(),
            history.records(),
            legs.len()
        );
    }
    Ok(0)
}

fn window_of(legs: &[PastLeg], history: &History) -> Window {
    let mut runs: Vec<RunId> = legs.iter().map(|leg| leg.run_id.clone()).collect();
    runs.sort();
    runs.dedup();
    Window {
        runs,
        records: history.records() as u64,
        since: legs.iter().map(|leg| leg.ended).min(),
        until: legs.iter().map(|leg| leg.ended).max(),
    }
}

fn same_caps(older: &[u8], new: &Value) -> bool {
    let Ok(mut older) = serde_json::from_slice::<Value>(older) else { return false };
    let mut new = new.clone();
    for value in [&mut older, &mut new] {
        if let Some(object) = value.as_object_mut() {
            object.remove("derived_at");
        }
    }
    older == new
}

fn read_caps(path: &Path) -> Result<CapsFile, Failure> {
    let bytes = read_bounded(path, MAX_CAPS_FILE_BYTES)
        .map_err(|failure| failure.hint("`ledger caps derive --from SOURCE --out ledger-caps.json` makes one"))?;
    CapsFile::parse(&bytes).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
}

fn run_check(args: &CheckArgs, world: &World) -> Result<i32, Failure> {
    let caps = read_caps(&args.caps)?;
    let legs = args.history.read(world)?;
    let folder = args.caps.parent().unwrap_or(Path::new(""));
    let findings = check(&caps, &History::of(&legs), |key| folder.join(key).exists() || Path::new(key).exists());
    let matters = findings.iter().filter(|finding| finding.kind.matters()).count();
    if args.json {
        let document = json!({
            "v": 1, "caps": args.caps.display().to_string(), "legs": legs.len(), "findings": findings, "matters": matters > 0,
        });
        print(&format!("{document:#}\n"))?;
    } else if findings.is_empty() {
        print(&format!("{}: nothing to say of {} files over {} legs\n", args.caps.display(), caps.files.len(), legs.len()))?;
    } else {
        print(&caps::findings(&findings, world.terminal.stdout))?;
        if matters > 0 {
            let derive = "`ledger caps derive --from SOURCE --out FILE` makes the file anew";
            say!("ledger: {}: {matters} findings matter; {derive}", args.caps.display());
        }
        if findings.iter().any(|finding| finding.kind == FindingKind::Gone) {
            say!("ledger: a file that is gone costs nothing; the next derive drops it");
        }
    }
    Ok(i32::from(matters > 0))
}

fn explain(args: &ExplainArgs, world: &World) -> Result<i32, Failure> {
    let default = Path::new("ledger-caps.json");
    let path = args.caps.as_deref().or_else(|| default.exists().then_some(default));
    let caps = path.map(read_caps).transpose()?;
    let policy = args.policy.policy(caps.as_ref().and_then(|caps| caps.policy.clone()).unwrap_or_default())?;
    let history = match args.history.read(world) {
        Ok(legs) => History::of(&legs),
        // A caps file can be explained without any history beside it.
        Err(_) if caps.is_some() && args.history.from.is_empty() => History::default(),
        Err(failure) => return Err(failure),
    };
    let file = FilePath::from(args.file.as_str());
    let platform = args.history.legs.platform.as_deref().map(Platform::from);
    let passes = history.passes(&file);
    let estimate = policy.estimate(passes, platform.as_ref());
    let in_file = caps.as_ref().and_then(|caps| find(&caps.files, &args.file));
    if passes.is_empty() && in_file.is_none() {
        say!("ledger: no pass of {} is known under that name", args.file);
    }
    if args.json {
        let passes: Vec<Value> = passes
            .iter()
            .map(|pass| json!({"run_id": pass.run_id, "platform": pass.platform, "ended": pass.known_since, "duration_s": pass.duration}))
            .collect();
        let document = json!({
            "v": 1, "file": args.file, "policy": policy, "cap_s": estimate.cap, "cap_basis": estimate.basis(&policy), "n": estimate.n,
            "worst_s": estimate.worst, "median_s": estimate.median, "caps_file": in_file, "passes": passes,
        });
        print(&format!("{document:#}\n"))?;
        return Ok(0);
    }
    let style = world.terminal.stdout;
    let mut text = format!("{}\n", crate::report::escape::name(&args.file));
    if let (Some(path), Some(cap)) = (path, in_file) {
        text.push_str(&format!("in {}: {} (n {}, worst {})\n", path.display(), cap.cap_s, cap.n, seconds(cap.worst_s)));
    }
    text.push_str(&format!("by this history: {}, {}\n", estimate.cap, estimate.basis(&policy)));
    text.push_str(&format!("policy: {policy}\nmedian {}, worst {}\n\n", seconds(estimate.median), seconds(estimate.worst)));
    if !passes.is_empty() {
        text.push_str(&caps::plot(passes, &estimate, style));
    }
    print(&style.glyphs(&text))?;
    Ok(0)
}

fn seconds(span: Option<Secs>) -> String {
    span.map_or("–".to_owned(), |span| span.to_string())
}

fn run_backtest(args: &BacktestArgs, world: &World) -> Result<i32, Failure> {
    if !(0.0..1.0).contains(&args.holdout) {
        return Err(Failure::usage(format!("--holdout {}: a share from 0 up to, not with, 1 is wanted", args.holdout)));
    }
    let legs = args.history.read(world)?;
    let policies = policies(args)?;
    let chosen_on = ((legs.len() as f64) * (1.0 - args.holdout)).round() as usize;
    let judge = |name: &str, part: std::ops::Range<usize>| Part {
        name: name.to_owned(),
        legs: part.len(),
        verdicts: backtest::replay(&legs, &policies, part),
    };
    let mut parts = match args.holdout > 0.0 {
        true => vec![judge("chosen on", 0..chosen_on), judge("checked on", chosen_on..legs.len()), judge("all", 0..legs.len())],
        false => vec![judge("all", 0..legs.len())],
    };
    let winner = parts.first().and_then(|part| backtest::winner(&part.verdicts)).map(|at| policies[at].clone());
    if args.grid {
        keep_best(&mut parts, args.best);
    }
    let default = Policy::default();
    let marked = |policy: &Policy| match (winner.as_ref() == Some(policy), *policy == default) {
        (true, true) => Some("wins, default"),
        (true, false) => Some("wins"),
        (false, true) => Some("default"),
        (false, false) => None,
    };
    if args.json {
        let document =
            json!({ "v": 1, "legs": legs.len(), "reference": policies[0], "winner": winner, "default": default, "parts": parts });
        print(&format!("{document:#}\n"))?;
    } else {
        print(&caps::backtest(&parts, marked, world.terminal.stdout))?;
    }
    Ok(0)
}

/// The reference always stands first: it is what others are measured by.
fn policies(args: &BacktestArgs) -> Result<Vec<Policy>, Failure> {
    let mut policies = vec![backtest::reference()];
    for text in &args.policies {
        policies.push(PolicyArgs::parse(text)?.policy(Policy::default())?);
    }
    if args.policy.is_given()? {
        policies.push(args.policy.policy(Policy::default())?);
    }
    if args.grid {
        policies.extend(backtest::grid());
    }
    if policies.len() == 1 {
        policies = backtest::table();
    }
    policies.push(Policy::default());
    let mut seen: Vec<Policy> = Vec::new();
    policies.retain(|policy| {
        let is_new = !seen.contains(policy);
        if is_new {
            seen.push(policy.clone());
        }
        is_new
    });
    Ok(policies)
}

/// Of a grid: the reference, the default, and the best by the part that is chosen on, in that order of merit.
fn keep_best(parts: &mut [Part], best: usize) {
    let Some(first) = parts.first() else { return };
    let reference = &first.verdicts[0];
    let default = Policy::default();
    let fair = |at: &usize| {
        let verdict = &first.verdicts[*at];
        verdict.false_kills <= reference.false_kills && verdict.false_kills_known <= reference.false_kills_known
    };
    let mut order: Vec<usize> = (1..first.verdicts.len()).filter(fair).collect();
    order.sort_by(|a, b| first.verdicts[*a].ratio.total_cmp(&first.verdicts[*b].ratio));
    order.truncate(best);
    let is_default = |at: &usize| first.verdicts[*at].policy == default;
    let default_at = (0..first.verdicts.len()).find(is_default).filter(|at| !order.contains(at));
    let kept: Vec<usize> = std::iter::once(0).chain(order).chain(default_at).collect();
    for part in parts {
        part.verdicts = kept.iter().map(|at| part.verdicts[*at].clone()).collect();
    }
}
