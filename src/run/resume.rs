//! `--resume`: which leg a run goes on with, and what of it is on record. Nothing is written here.

use std::collections::HashMap;
use std::ffi::OsString;

use super::RunError;
use super::plan::Planned;
use crate::core::fold::Leg;
use crate::core::ids::{Epoch, FilePath, LegId};
use crate::core::outcome::Outcome;
use crate::core::redact::{MASK, Redactor};
use crate::core::row::FileRow;
use crate::settings::{self, Resume, RunSettings, Written, path_of};
use crate::source::ledger::{self, PlanOf, Resumable};

/// The epoch that a run continues.
#[derive(Debug, Clone)]
pub struct Resumed {
    pub leg: LegId,
    pub epoch: Epoch,
    pub carried: Vec<FileRow>,
}

impl Resumed {
    /// The leg of the files that are named.
    pub fn of_these(settings: &RunSettings, files: &[Planned], total: Option<u32>) -> Result<Self, RunError> {
        let paths: Vec<FilePath> = files.iter().map(|file| file.path.clone()).collect();
        let differs = |leg: &Leg| {
            other_leg(settings, leg)
                .or_else(|| other_command(settings, leg))
                .or_else(|| (total != leg.started.files_planned).then(|| OTHER_ROUNDS.to_owned()))
        };
        find(settings, &PlanOf::These(&paths), &differs).map(|leg| Self::of(&leg))
    }

    fn of(leg: &Leg) -> Self {
        let mut carried: Vec<FileRow> =
            leg.files().iter().filter(|row| row.reported() && row.outcome != Some(Outcome::Cancelled)).cloned().collect();
        carried.iter_mut().for_each(|row| row.evidence = None);
        Self { leg: leg.id.clone(), epoch: leg.epoch.clone(), carried }
    }
}

const OTHER_ROUNDS: &str = "has another number of rounds (--repeat, --for)";

/// Makes the settings whole with what is on record of the newest unfinished leg, where nobody has named files. Others stay as they are.
pub fn from_record(mut settings: RunSettings) -> Result<(RunSettings, Option<Resumed>), RunError> {
    let Resume::AsRecorded(written) = settings.resume.clone() else { return Ok((settings, None)) };
    let differs = |leg: &Leg| {
        let command = if written.command { other_command(&settings, leg) } else { None };
        let other_rounds = written.repeat.is_some_and(|repeat| planned(leg, repeat) != leg.started.files_planned);
        other_leg(&settings, leg).or(command).or_else(|| other_rounds.then(|| OTHER_ROUNDS.to_owned()))
    };
    let leg = find(&settings, &PlanOf::Whichever, &differs)?;
    let resumed = Resumed::of(&leg);
    let unusable = |why: String| RunError::Recorded { leg: leg.id.to_string(), why };
    let rounds = rounds(&settings, &written, &leg).map_err(unusable)?;
    check_files(&settings, &leg, &resumed, rounds).map_err(unusable)?;
    settings.command = command(&settings, &leg).map_err(unusable)?;
    settings.rounds.count = rounds;
    settings.files = leg.started.plan.iter().map(|file| file.path()).collect();
    settings.scope = written.scope.unwrap_or(leg.started.scope);
    let started = &leg.started;
    let identity = &mut settings.identity;
    identity.leg = leg.id.clone();
    identity.sha = identity.sha.take().or_else(|| started.sha.clone());
    identity.event = identity.event.take().or_else(|| started.event.clone());
    identity.resolved = identity.resolved.take().or_else(|| started.resolved.clone());
    Ok((settings, Some(resumed)))
}

fn find(settings: &RunSettings, plan: &PlanOf<'_>, differs: &dyn Fn(&Leg) -> Option<String>) -> Result<Leg, RunError> {
    let nothing = |why: &str| RunError::Resume(format!("{why} in '{}'", settings.ledger.display()));
    if !settings.ledger.exists() {
        return Err(nothing("there is no ledger"));
    }
    let with = match plan {
        PlanOf::These(_) => "unfinished leg with this plan",
        PlanOf::Whichever => "unfinished leg",
    };
    match ledger::resumable(&settings.ledger, plan, differs).map_err(RunError::History)? {
        Resumable::Leg(leg) => Ok(*leg),
        Resumable::Nothing(None) => Err(nothing(&format!("no {with} is"))),
        Resumable::Nothing(Some(other)) => {
            Err(nothing(&format!("{other}; give what it was begun with, or run without --resume. No other {with} is")))
        }
    }
}

/// What makes an unfinished leg another one than this run would be: its records would be told as this one's.
fn other_leg(settings: &RunSettings, leg: &Leg) -> Option<String> {
    let (now, then) = (&settings.identity, &leg.id);
    let mut wanted = now.leg.clone();
    if let Resume::AsRecorded(_) = settings.resume {
        // What nobody has named is whichever is there.
        wanted.shard = wanted.shard.or(then.shard);
        if !now.given.platform {
            wanted.platform = then.platform.clone();
        }
        if !now.given.target {
            wanted.target = then.target.clone();
        }
    }
    // A run that nobody has named is whichever is there.
    let of_the_run = |leg: &LegId| (leg.run_id.clone(), leg.attempt.clone());
    let other = |now: &Option<String>, then: &Option<String>| now.is_some() && then.is_some() && now != then;
    match () {
        () if wanted.key() != then.key() => Some(format!("is not {}", wanted.key())),
        () if now.given.run && of_the_run(&now.leg) != of_the_run(then) => {
            Some(format!("is not run {}, attempt {}", now.leg.run_id, now.leg.attempt))
        }
        () if other(&now.resolved, &leg.started.resolved) => Some("tests another resolved version".to_owned()),
        () if other(&now.sha, &leg.started.sha) => Some("tests another commit".to_owned()),
        () => None,
    }
}

fn other_command(settings: &RunSettings, leg: &Leg) -> Option<String> {
    (as_stored(settings) != leg.started.command).then(|| format!("was run by '{}'", leg.started.command.join(" ")))
}

/// The command of the settings as a record would have it.
fn as_stored(settings: &RunSettings) -> Vec<String> {
    let command: Vec<String> = settings.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    Redactor::new(&settings.secrets).command(&command)
}

fn planned(leg: &Leg, rounds: u32) -> Option<u32> {
    Some(files_of(leg).saturating_mul(rounds))
}

fn files_of(leg: &Leg) -> u32 {
    u32::try_from(leg.started.plan.len()).unwrap_or(u32::MAX)
}

/// The number of rounds is on record, and an open end is not.
fn rounds(settings: &RunSettings, written: &Written, leg: &Leg) -> Result<Option<u32>, String> {
    let is_open = settings.rounds.for_at_most.is_some() || settings.rounds.until_fail;
    let recorded = leg.started.files_planned.map(|planned| planned / files_of(leg).max(1));
    match written.repeat.or(recorded) {
        None if !is_open => {
            Err("it was begun with --for or --until-fail, and how long it was to go on is not on record; write that \
             again, for example `ledger run --resume --for 8h`"
                .to_owned())
        }
        rounds => Ok(rounds),
    }
}

/// What is to run must be there.
fn check_files(settings: &RunSettings, leg: &Leg, resumed: &Resumed, rounds: Option<u32>) -> Result<(), String> {
    let mut records: HashMap<u32, u32> = HashMap::new();
    resumed.carried.iter().for_each(|row| *records.entry(row.index).or_default() += 1);
    let due = |index: u32| rounds.is_none_or(|rounds| records.get(&index).is_none_or(|&records| records < rounds));
    for file in leg.started.plan.iter().filter(|file| due(file.index)) {
        settings::check(&path_of(&file.path()), &settings.folder).map_err(|error| {
            format!(
                "{error}; bring it back (the names are looked up from the working folder), or name what is to run without --resume"
            )
        })?;
    }
    Ok(())
}

/// A record hides values and is UTF-8: what was changed by that is no command.
fn command(settings: &RunSettings, leg: &Leg) -> Result<Vec<OsString>, String> {
    let recorded = &leg.started.command;
    if as_stored(settings) == *recorded {
        return Ok(settings.command.clone());
    }
    let mask = String::from_utf8_lossy(MASK);
    if recorded.iter().any(|word| word.contains(&*mask) || word.contains(char::REPLACEMENT_CHARACTER)) {
        return Err(format!(
            "its command '{}' is on record with a part of it hidden; write it again, `ledger run --resume -- COMMAND...`",
            recorded.join(" ")
        ));
    }
    Ok(recorded.iter().map(OsString::from).collect())
}
