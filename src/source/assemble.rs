//! Evidence of many sources into one summary: one row per leg, with what other epochs and attempts left beside it.
//!
//! What is decided here is only which evidence speaks for a leg; how the leg ended is `core::classify`'s word.

use std::collections::{BTreeMap, BTreeSet};

use super::records::{Weight, are_one};
use super::unnamed::tell_apart;
use super::{Evidence, Found, epochs};
use crate::core::classify::{Facts, Trace, Writer, settle};
use crate::core::history::PastLeg;
use crate::core::ids::{Attempt, LegId, Platform, RunId, Shard, Target};
use crate::core::job::{Job, Join, join};
use crate::core::moment::Wall;
use crate::core::outcome::{Conclusion, Terminal};
use crate::core::plan::PlannedLeg;
use crate::core::row::{LegRow, OtherEpoch, REPORT_VERSION, Summary};
use crate::core::version::is_version;
use crate::sink::Variables;

/// What is asked of the evidence.
#[derive(Debug, Clone)]
pub struct Question {
    /// These narrow the legs; `run_id` also says which run the plan and the jobs are of.
    pub run_id: Option<RunId>,
    pub attempt: Option<Attempt>,
    pub platform: Option<Platform>,
    pub target: Option<Target>,
    /// The run that the plan and the jobs are of, where nothing else says it.
    pub default_run: Option<RunId>,
    pub plan: Vec<PlannedLeg>,
    /// `None` where no listing was read: then nothing is said about jobs.
    pub jobs: Option<Vec<Job>>,
    /// Template of a leg's job name.
    pub job_name: String,
    /// Name of the suite's step.
    pub step_name: Option<String>,
    /// Whether a sink is asked for whole runs, also where only some legs of them are.
    pub whole_runs: bool,
    /// Whether samples along a leg are wanted. An archive keeps none in its summaries and folds its events again for them.
    pub samples: bool,
    pub now: Wall,
    /// `now`, where it was set by hand and is not the clock's.
    pub set_clock: Option<Wall>,
    /// Where a sink's credentials and addresses come from.
    pub variables: Variables,
}

/// How public projects name the job of a leg.
pub const DEFAULT_JOB_NAME: &str = "Integration ({label} · {target})";

/// A leg's place: everything but the attempt.
type Place = (RunId, Platform, Target, Option<Shard>);

pub fn assemble(found: Found, question: &Question) -> Summary {
    let unread = !found.unread.is_empty();
    let mut assembling = Assembling::of(question, found.warnings, unread);
    // All legs of a run are folded, whichever are asked for: siblings know versions, and the plan is of the run.
    for evidence in tell_apart(found.evidence) {
        if question.asks_for_run(&evidence.row.leg()) {
            assembling.add(evidence);
        }
    }
    assembling.run = assembling.run_of_the_plan();
    assembling.add_planned();
    assembling.add_missing_shards();
    assembling.finish()
}

/// What the evidence teaches about cost: every epoch of every leg that is over, each told once.
pub fn past_legs(found: Found, question: &Question) -> Vec<PastLeg> {
    let mut assembling = Assembling::of(question, Vec::new(), false);
    for evidence in tell_apart(found.evidence) {
        if question.asks_for_leg(&evidence.row.leg()) {
            assembling.add(evidence);
        }
    }
    let mut past: Vec<PastLeg> =
        assembling.places.into_values().flatten().filter_map(|evidence| over(evidence, question.now)).collect();
    past.sort_by(|a, b| (a.ended, &a.run_id, &a.platform).cmp(&(b.ended, &b.run_id, &b.platform)));
    past
}

fn over(evidence: Evidence, now: Wall) -> Option<PastLeg> {
    let mut row = evidence.row;
    settle(&mut row, &Facts { trace: evidence.trace, writer: evidence.writer, job: None, step_name: None, now });
    PastLeg::of(&row)
}

impl Question {
    /// All legs, and nothing else known of them.
    pub fn everything(now: Wall) -> Self {
        Self {
            run_id: None,
            attempt: None,
            platform: None,
            target: None,
            default_run: None,
            plan: Vec::new(),
            jobs: None,
            job_name: DEFAULT_JOB_NAME.to_owned(),
            step_name: None,
            whole_runs: false,
            samples: false,
            now,
            set_clock: None,
            variables: Variables::default(),
        }
    }

    pub fn asks_for_leg(&self, leg: &LegId) -> bool {
        self.asks_for_run(leg) && self.asks_for_place(&leg.platform, &leg.target)
    }

    fn asks_for_run(&self, leg: &LegId) -> bool {
        self.run_id.as_ref().is_none_or(|run| *run == leg.run_id)
            && self.attempt.as_ref().is_none_or(|attempt| *attempt == leg.attempt)
    }

    fn asks_for_place(&self, platform: &Platform, target: &Target) -> bool {
        self.platform.as_ref().is_none_or(|asked| asked == platform) && self.target.as_ref().is_none_or(|asked| asked == target)
    }
}

struct Assembling<'q> {
    question: &'q Question,
    warnings: Vec<String>,
    places: BTreeMap<Place, Vec<Evidence>>,
    /// What the row of this place says of others that have none.
    unlisted: BTreeMap<Place, String>,
    /// The run that plan and jobs are of.
    run: Option<RunId>,
    /// Whether a source could not be read: then a leg without a trace may have left one there.
    unread: bool,
}

impl<'q> Assembling<'q> {
    fn of(question: &'q Question, warnings: Vec<String>, unread: bool) -> Self {
        Self { question, warnings, places: BTreeMap::new(), unlisted: BTreeMap::new(), run: None, unread }
    }

    fn add(&mut self, evidence: Evidence) {
        let row = &evidence.row;
        let place = (row.run_id.clone(), row.platform.clone(), row.target.clone(), row.shard);
        let known = self.places.entry(place).or_default();
        let is_same = |known: &&mut Evidence| {
            let same = known.row.attempt == evidence.row.attempt && known.row.epoch == evidence.row.epoch;
            // Without an epoch two records may be of one leg that was told twice, or of two that share a name.
            same && (known.row.epoch.is_some() || are_one(&known.row, &evidence.row))
        };
        match known.iter_mut().find(is_same) {
            Some(known) => unite(known, evidence),
            None => known.push(evidence),
        }
    }

    fn run_of_the_plan(&mut self) -> Option<RunId> {
        if self.question.plan.is_empty() && self.question.jobs.is_none() {
            return None;
        }
        if let Some(run) = &self.question.run_id {
            return Some(run.clone());
        }
        let newest = self
            .places
            .iter()
            .max_by_key(|(place, evidence)| (evidence.iter().filter_map(|evidence| evidence.row.started_at).max(), &place.0));
        let newest = newest.map(|(place, _)| place.0.clone());
        let runs: std::collections::BTreeSet<&RunId> = self.places.keys().map(|place| &place.0).collect();
        match &self.question.default_run {
            Some(run) if runs.is_empty() || runs.contains(run) => Some(run.clone()),
            _ => {
                if let (2.., Some(run)) = (runs.len(), &newest) {
                    self.warnings.push(format!(
                        "the plan and the jobs are taken to be of run {run}, the newest of {}; --run-id says otherwise",
                        runs.len()
                    ));
                }
                newest.or_else(|| self.question.default_run.clone())
            }
        }
    }

    /// A planned leg without any trace still has a row.
    fn add_planned(&mut self) {
        let Some(run) = self.run.clone() else {
            if !self.question.plan.is_empty() {
                self.warnings.push("the plan is of no run that is known here: give --run-id".to_owned());
            }
            return;
        };
        for planned in &self.question.plan {
            let place = (run.clone(), planned.id.clone(), planned.target.clone(), planned.shard);
            self.places.entry(place).or_default();
        }
    }

    /// One shard of n that left a trace says that the others should have.
    fn add_missing_shards(&mut self) {
        let mut present: BTreeMap<(RunId, Platform, Target, u32), BTreeSet<u32>> = BTreeMap::new();
        for (run, platform, target, shard) in self.places.keys() {
            if let Some(Shard { index, count }) = *shard {
                present.entry((run.clone(), platform.clone(), target.clone(), count)).or_default().insert(index);
            }
        }
        for ((run, platform, target, count), present) in present {
            let mut missing = (1..=count).filter(|index| !present.contains(index));
            let shown = missing.by_ref().take(MAX_MISSING_SHARDS);
            let place = |index| (run.clone(), platform.clone(), target.clone(), Some(Shard { index, count }));
            for index in shown {
                self.places.entry(place(index)).or_default();
            }
            // One more row speaks for all the rest, so that no gate opens without them.
            let Some(first) = missing.next() else { continue };
            let unlisted = 1 + missing.count();
            self.places.entry(place(first)).or_default();
            let why = format!("{unlisted} of {count} shards are missing from here on; they have no rows of their own");
            self.warnings
                .push(format!("run {run} {platform}|{target}: {unlisted} more missing shards have one row, {first}/{count}"));
            self.unlisted.insert(place(first), why);
        }
    }

    fn finish(mut self) -> Summary {
        let mut legs = Vec::with_capacity(self.places.len());
        for (place, evidence) in std::mem::take(&mut self.places) {
            legs.extend(self.leg(&place, evidence));
        }
        let mut started: BTreeMap<RunId, Wall> = BTreeMap::new();
        for row in &legs {
            let first = row.started_at.unwrap_or(self.question.now);
            let known = started.entry(row.run_id.clone()).or_insert(first);
            *known = first.min(*known);
        }
        legs.sort_by_cached_key(|row| {
            (started.get(&row.run_id).copied(), row.run_id.clone(), row.platform.clone(), row.target.clone(), row.shard)
        });
        let (legs, others) = legs.into_iter().partition(|row| self.question.asks_for_place(&row.platform, &row.target));
        Summary { v: REPORT_VERSION, generated_at: self.question.now, legs, warnings: self.warnings, others }
    }

    /// The newest attempt that has evidence, with the rest beside it.
    fn leg(&mut self, place: &Place, evidence: Vec<Evidence>) -> Option<LegRow> {
        let planned = self.planned(place);
        let mut attempts: BTreeMap<(u64, Attempt), Vec<Evidence>> = BTreeMap::new();
        for evidence in evidence {
            attempts.entry((evidence.row.attempt.ordinal(), evidence.row.attempt.clone())).or_default().push(evidence);
        }
        for attempt in self.attempts_of_jobs(place, &planned) {
            attempts.entry((attempt.ordinal(), attempt.clone())).or_default();
        }
        if attempts.is_empty() {
            let attempt = self.question.attempt.clone().unwrap_or_else(|| "1".into());
            attempts.insert((attempt.ordinal(), attempt), Vec::new());
        }
        let mut rows: Vec<LegRow> = Vec::new();
        for ((_, attempt), evidence) in attempts.into_iter().rev() {
            let is_newest = rows.is_empty();
            rows.extend(self.attempt(place, &planned, attempt, evidence, is_newest));
        }
        let mut rows = rows.into_iter();
        let mut newest = rows.next()?;
        newest.attempts.extend(rows.map(|row| OtherEpoch::from(&row)));
        if !newest.beside.is_empty() && self.question.asks_for_place(&newest.platform, &newest.target) {
            self.warnings.push(format!(
                "{}: {} epochs of this attempt ran other files under the same name, and the worst of them speaks for the leg; a second \
                 step needs a --target of its own",
                newest.leg(),
                newest.beside.len() + 1
            ));
        }
        if let Some(why) = self.unlisted.get(place) {
            newest.why = format!("{}; {why}", newest.why);
        }
        Some(newest)
    }

    /// The rows of one attempt, the one that speaks for it first.
    fn attempt(
        &mut self,
        place: &Place,
        planned: &PlannedLeg,
        attempt: Attempt,
        mut evidence: Vec<Evidence>,
        is_newest: bool,
    ) -> Vec<LegRow> {
        let (run_id, platform, target, shard) = place.clone();
        let id = LegId { run_id, attempt, platform, target, shard };
        if evidence.is_empty() {
            let trace = if self.unread { Trace::Unread } else { Trace::None };
            evidence.push(Evidence {
                row: LegRow::named(id.clone()),
                trace,
                writer: Writer::Unknown,
                resumes: None,
                unnamed: None,
            });
        }
        self.put_in_order(&id, &mut evidence);
        epochs::resume(&mut evidence);
        let superseded = epochs::superseded(&evidence);
        let question = self.question;
        let job = self.job(&id, planned, is_newest);
        let rows = evidence
            .into_iter()
            .enumerate()
            .map(|(at, evidence)| {
                let mut row = evidence.row;
                let matched = job.as_ref().map(|job| job.is_some());
                // The job is the newest writer's; an older epoch of the same attempt has none to itself.
                let job = job.flatten().filter(|_| at == 0);
                row.job_matched = matched;
                let step_name = question.step_name.as_deref();
                let facts = Facts { trace: evidence.trace, writer: evidence.writer, job, step_name, now: question.now };
                settle(&mut row, &facts);
                if row.resolved.is_none() {
                    row.resolved.clone_from(&planned.resolved);
                }
                if row.resolved.is_none() && row.conclusion == Some(Conclusion::Incomplete) && is_version(row.target.as_str()) {
                    row.resolved = Some(row.target.0.clone());
                }
                let is_traceless = matches!(evidence.trace, Trace::None | Trace::Unread);
                if row.ended_at.is_none() && row.terminal != Terminal::Running && is_traceless {
                    row.ended_at = job.and_then(|job| job.completed_at);
                }
                row
            })
            .collect();
        epochs::speaking_first(rows, &superseded)
    }

    /// The evidence that speaks for an attempt comes first. Of records without an epoch the newer supersedes the older; where their times
    /// do not decide, the worse one counts.
    fn put_in_order(&mut self, id: &LegId, evidence: &mut Vec<Evidence>) {
        evidence.sort_by(|a, b| b.row.epoch.cmp(&a.row.epoch).then_with(|| Weight::of(&b.row).cmp(&Weight::of(&a.row))));
        let with_epoch = evidence.partition_point(|evidence| evidence.row.epoch.is_some());
        if let [first, second, ..] = &evidence[with_epoch..]
            && Weight::of(&first.row).is_as_new_as(&Weight::of(&second.row))
        {
            let told = |evidence: &Evidence| {
                let word = evidence.row.conclusion.map_or("running", Conclusion::as_str);
                format!("{} says {word}", evidence.row.source.as_deref().unwrap_or("one"))
            };
            self.warnings.push(format!(
                "{id}: two records of the same time differ, and the worse counts: {}, {}",
                told(first),
                told(second)
            ));
        }
        if with_epoch == 0 || with_epoch == evidence.len() {
            return;
        }
        // A ci-data record of the same attempt is the same leg, told by another instrument: one of the two is enough.
        let has_own_word = |evidence: &Evidence| evidence.row.terminal != Terminal::Running;
        let told_twice = evidence.first().is_some_and(has_own_word) || !evidence[with_epoch..].iter().any(has_own_word);
        let mut others = evidence.split_off(with_epoch);
        if !told_twice {
            evidence.splice(0..0, others);
        } else if evidence.iter().all(|evidence| evidence.row.files_failed == 0) {
            // Yet no failure goes with it.
            others.retain(|other| other.row.files_failed > 0 || other.row.conclusion == Some(Conclusion::Fail));
            evidence.append(&mut others);
        }
    }

    fn planned(&self, place: &Place) -> PlannedLeg {
        let (run, platform, target, shard) = place;
        let of_the_plan = self
            .question
            .plan
            .iter()
            .find(|leg| self.run.as_ref() == Some(run) && leg.id == *platform && leg.target == *target && leg.shard == *shard);
        of_the_plan.cloned().unwrap_or_else(|| PlannedLeg {
            id: platform.clone(),
            label: None,
            target: target.clone(),
            resolved: None,
            shard: *shard,
            more: serde_json::Map::new(),
        })
    }

    /// Attempts that only the service knows of.
    fn attempts_of_jobs(&self, place: &Place, planned: &PlannedLeg) -> Vec<Attempt> {
        let Some(jobs) = self.question.jobs.as_ref().filter(|_| self.run.as_ref() == Some(&place.0)) else {
            return Vec::new();
        };
        let name = planned.job_name(&self.question.job_name);
        let of_the_run = |job: &&Job| job.name == name && job.run_id.as_deref().is_none_or(|run| run == place.0.as_str());
        let attempts = jobs.iter().filter(of_the_run).filter_map(|job| job.run_attempt);
        attempts.map(|attempt| Attempt::new(attempt.to_string())).collect()
    }

    /// The leg's job: `None` where no listing speaks of this run, `Some(None)` where the listing has no such job.
    fn job(&mut self, id: &LegId, planned: &PlannedLeg, is_newest: bool) -> Option<Option<&'q Job>> {
        let question = self.question;
        let jobs = question.jobs.as_ref().filter(|_| self.run.as_ref() == Some(&id.run_id))?;
        let name = planned.job_name(&question.job_name);
        match join(jobs, id, &name) {
            Join::One(job) => return Some(Some(job)),
            // A listing often has the newest attempt only.
            _ if !is_newest => {}
            Join::None => self.warnings.push(format!("{id}: no job is named '{name}'; --job-name says how jobs are named")),
            Join::Many(n) => self.warnings.push(format!("{id}: {n} jobs are named '{name}', and nothing tells them apart")),
        }
        Some(None)
    }
}

/// A share of more than this many is no test suite; a hostile `1/10000` must not make ten thousand rows.
const MAX_MISSING_SHARDS: usize = 256;

/// Two sources know of one epoch: the row that reaches further stands, and a lease is worth keeping whoever has it.
fn unite(known: &mut Evidence, other: Evidence) {
    let reach = |evidence: &Evidence| {
        let head = evidence.row.head.as_ref().map(|head| head.seq);
        let own = matches!(evidence.row.terminal, Terminal::Complete | Terminal::Stopped | Terminal::Cancelled);
        // What a reader once made of silence is less than a leg's own record, and less than its events.
        let ended = evidence.row.terminal != Terminal::Running;
        (own, head, evidence.row.progress_seq, ended, evidence.row.files_reported, evidence.row.files.len())
    };
    let (mut best, rest) = if reach(&other) > reach(known) { (other, known.clone()) } else { (known.clone(), other) };
    if best.writer == Writer::Unknown {
        best.writer = rest.writer;
    }
    best.trace = match (best.trace, rest.trace) {
        (Trace::Marker { age, .. }, younger @ Trace::Marker { age: other, .. }) if other < age => younger,
        (marker @ Trace::Marker { .. }, _) | (_, marker @ Trace::Marker { .. }) => marker,
        (Trace::Ledger, _) | (_, Trace::Ledger) => Trace::Ledger,
        (damaged @ Trace::Damaged { .. }, _) | (_, damaged @ Trace::Damaged { .. }) => damaged,
        (Trace::Unreadable, _) | (_, Trace::Unreadable) => Trace::Unreadable,
        (Trace::Unread, _) | (_, Trace::Unread) => Trace::Unread,
        (Trace::None, Trace::None) => Trace::None,
    };
    best.resumes = best.resumes.or(rest.resumes);
    *known = best;
}
#[cfg(test)]
mod tests {
    use super::*;

    fn found(shards: impl IntoIterator<Item = u32>, count: u32) -> Found {
        let mut found = Found::default();
        for index in shards {
            let shard = Some(Shard { index, count });
            let id = LegId { run_id: "1".into(), attempt: "1".into(), platform: "p".into(), target: "t".into(), shard };
            let row = LegRow { terminal: Terminal::Complete, conclusion: Some(Conclusion::Pass), ..LegRow::named(id) };
            found.evidence.push(Evidence { row, trace: Trace::Ledger, writer: Writer::Unknown, resumes: None, unnamed: None });
        }
        found
    }

    #[test]
    fn missing_shards_have_rows_and_beyond_a_bound_one_row_for_all() {
        let question = Question::everything(Wall(0));
        let told = assemble(found(1..=256, 300), &question);
        assert_eq!((told.legs.len(), told.warnings.len()), (300, 0));
        assert!(told.legs[256..].iter().all(|leg| leg.terminal == Terminal::NotStarted));
        let told = assemble(found([9_999], 10_000), &question);
        assert_eq!((told.legs.len(), told.warnings.len()), (1 + MAX_MISSING_SHARDS + 1, 1), "{:?}", told.warnings);
        let rest = &told.legs[MAX_MISSING_SHARDS];
        assert_eq!(rest.shard.map(|shard| shard.index), Some(257));
        assert!(rest.why.contains("9743 of 10000 shards are missing") && rest.terminal == Terminal::NotStarted, "{}", rest.why);
    }
}
