//! The flags that say which legs are meant and what should exist, shared by the commands that read evidence.

use std::path::{Path, PathBuf};

use clap::Args;

use super::{Failure, World};
use crate::core::ids::{Attempt, Platform, RunId, Target};
use crate::core::job::{MAX_JOBS_BYTES, parse_listing};
use crate::core::moment::Wall;
use crate::core::plan::{MAX_PLAN_BYTES, PlannedLeg, parse_plan};
use crate::core::row::Summary;
use crate::host::bounded;
use crate::report::escape;
use crate::sink::{self, Variables, service_jobs};
use crate::source::assemble::{DEFAULT_JOB_NAME, Question, assemble};
use crate::source::lines::BYTE_ORDER_MARK;
use crate::source::{self, Found};

#[derive(Debug, Args)]
pub struct LegArgs {
    /// Only legs of this run; also the run that --plan and --jobs are of
    #[arg(long, value_name = "ID")]
    pub run_id: Option<String>,

    /// Only legs of this attempt
    #[arg(long, value_name = "N")]
    pub attempt: Option<String>,

    /// Only legs on this platform
    #[arg(long, value_name = "NAME")]
    pub platform: Option<String>,

    /// Only legs of this target
    #[arg(long, value_name = "NAME")]
    pub target: Option<String>,

    /// Whose check runs and jobs github: means (else GITHUB_REPOSITORY)
    #[arg(long, value_name = "OWNER/NAME")]
    pub repository: Option<String>,

    /// The commit whose check runs github: means (else GITHUB_SHA)
    #[arg(long, value_name = "SHA")]
    pub sha: Option<String>,
}

#[derive(Debug, Args)]
pub struct ExpectedArgs {
    /// What should exist, so that a leg without a trace still has a row: {"include":[{id,label,target,resolved,shard?}]} or the array
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,

    /// The CI service's job listing: an array, {"jobs":[…]}, or pages of these one after the other
    #[arg(long, value_name = "FILE")]
    pub jobs: Option<PathBuf>,

    /// How a leg's job is named; {label}, {target}, {id}, {resolved} and {shard} are replaced
    #[arg(long, value_name = "TEMPLATE", default_value = DEFAULT_JOB_NAME)]
    pub job_name: String,

    /// The step that runs the suite: whether it began tells a lost leg from one that never started
    #[arg(long, value_name = "NAME")]
    pub step_name: Option<String>,
}

impl LegArgs {
    /// The question about these legs, with nothing known of what should exist.
    pub fn question(&self, world: &World, now: Wall) -> Question {
        Question {
            run_id: self.run_id.as_deref().map(RunId::from),
            attempt: self.attempt.as_deref().map(Attempt::from),
            platform: self.platform.as_deref().map(Platform::from),
            target: self.target.as_deref().map(Target::from),
            default_run: world.environment.get("GITHUB_RUN_ID").map(RunId::from),
            variables: self.variables(world),
            ..Question::everything(now)
        }
    }
}

impl LegArgs {
    /// The environment, with what the flags say otherwise.
    fn variables(&self, world: &World) -> Variables {
        let mut variables = Variables::of(world.environment.variables());
        for (name, flag) in [("GITHUB_REPOSITORY", &self.repository), ("GITHUB_SHA", &self.sha), ("GITHUB_RUN_ID", &self.run_id)] {
            if let Some(value) = flag {
                variables = variables.with(name, value);
            }
        }
        variables
    }
}

/// The CI service's own word on the jobs of the run, where a sink is read, a token is there and no listing was given.
pub fn ask_for_jobs(sources: &[String], question: &mut Question, found: &mut Found) -> Result<(), Failure> {
    let remote = sources.iter().any(|source| source::is_sink(source) && !source.starts_with("file:"));
    let run = question.run_id.clone().or_else(|| question.default_run.clone());
    let (true, None, Some(run)) = (remote, &question.jobs, run) else { return Ok(()) };
    let asked = source::runtime().map_err(Failure::usage)?.block_on(service_jobs(&question.variables, &run));
    match asked {
        Ok(jobs) => question.jobs = jobs,
        Err(error) => found.warn(format!("the jobs of run {run} cannot be read, what the legs left must do: {error}")),
    }
    Ok(())
}

impl ExpectedArgs {
    /// Adds the plan and the jobs to a question.
    pub fn expect(&self, question: &mut Question, found: &mut Found) -> Result<(), Failure> {
        question.plan = self.read_plan()?;
        if let Some(path) = &self.jobs {
            let bytes = read_bounded(path, MAX_JOBS_BYTES)?;
            let listing = parse_listing(&bytes).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
            if listing.skipped > 0 {
                found.warn(format!("{}: {} entries are no jobs", path.display(), listing.skipped));
            }
            question.jobs = Some(listing.jobs);
        }
        question.job_name.clone_from(&self.job_name);
        question.step_name.clone_from(&self.step_name);
        Ok(())
    }

    pub fn read_plan(&self) -> Result<Vec<PlannedLeg>, Failure> {
        let Some(path) = &self.plan else { return Ok(Vec::new()) };
        let bytes = read_bounded(path, MAX_PLAN_BYTES)?;
        parse_plan(&bytes).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
    }
}

/// Reads every source into `found` and puts it together.
pub fn summarise(sources: &[String], question: &Question, found: Found) -> Result<Summary, Failure> {
    let (summary, failure) = summarise_what_is_there(sources, question, found)?;
    failure.map_or(Ok(summary), Err)
}

/// What those sources say that can be read, and the failure of one that cannot. Where none can be read and nothing is planned, that is all
/// there is.
pub fn summarise_what_is_there(
    sources: &[String],
    question: &Question,
    mut found: Found,
) -> Result<(Summary, Option<Failure>), Failure> {
    let is_planned = !question.plan.is_empty();
    let mut failures = Vec::new();
    for source in sources {
        match source::read(source, question, &mut found) {
            Ok(()) => {}
            // What was planned has its rows all the same, and a place with nothing in it hides none of them.
            Err(error) if is_planned && error.is_nothing() => found.warn(error.to_string()),
            Err(error) => {
                found.unread.push(source.clone());
                failures.push(Failure::usage(error).hint(if source::is_sink(source) {
                    format!("`ledger sink check {}` says what is missing", sink::printable(source))
                } else {
                    "name a ledger folder, a ci-data folder, or a sink URL such as file:///path; `ledger report --help`".to_owned()
                }));
            }
        }
    }
    if failures.len() == sources.len()
        && !is_planned
        && let Some(failure) = failures.pop()
    {
        return Err(failure);
    }
    let last = failures.pop();
    // The last one is the command's own failure; whoever reads the others' rows hears of them first.
    failures.into_iter().for_each(|failure| found.warn(failure.message));
    Ok((assemble(found, question), last))
}

/// Warnings quote names and lines that came with the evidence.
pub fn warn(warnings: &[String]) {
    warnings.iter().for_each(|warning| say!("ledger: warning: {}", escape::sentence(warning)));
}

/// Reads a file that somebody else made. More than `most` bytes are refused before they are read.
pub fn read_bounded(path: &Path, most: usize) -> Result<Vec<u8>, Failure> {
    let mut bytes = bounded::read(path, most as u64).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
    if bytes.starts_with(BYTE_ORDER_MARK) {
        bytes.drain(..BYTE_ORDER_MARK.len());
    }
    Ok(bytes)
}
