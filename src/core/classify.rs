//! How a leg ended, from everything that is known of it: one pure function over the leg's own record, its lease, the CI service's job
//! and the plan. The order of evidence is DESIGN §6; the truth table below is its test.

use super::ids::Seq;
use super::job::Job;
use super::lease::{self, Lease};
use super::moment::{Secs, Wall};
use super::outcome::{Conclusion, Outcome, Terminal};
use super::resource;
use super::row::{FileRow, LegRow};

/// What is known of the process that writes the leg.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    /// On this host and boot, and it lives.
    Alive,
    /// On this host and boot, and it is dead.
    Dead,
    /// Elsewhere, or not to be told.
    Unknown,
}

/// What the leg itself left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trace {
    /// Nothing at all: the leg is known from a plan or a job only.
    None,
    /// A ledger or an archive, with no lease to judge silence by.
    Ledger,
    /// A ledger of which nothing can be read beyond this event.
    Damaged { after: Seq },
    /// Whether it left anything is not known: where it would have been left could not be read.
    Unread,
    /// Something was left, and none of it can be read. The row's own `why` says what stands in the way.
    Unreadable,
    /// A marker in a sink: its lease, and its age by the sink's own clock.
    Marker { lease: Secs, age: Secs },
}

#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    pub trace: Trace,
    pub writer: Writer,
    pub job: Option<&'a Job>,
    /// Name of the suite's step, exact or a part of it.
    pub step_name: Option<&'a str>,
    pub now: Wall,
}

/// The class and its reason. `Own` means that the leg's own record stands as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Class {
    Own,
    Of { terminal: Terminal, why: String, stalled_step: Option<String> },
}

/// Gives a row its final class. The row comes with `running` unless its own events or its suite record say how it ended.
pub fn settle(row: &mut LegRow, facts: &Facts<'_>) {
    if let Some(job) = facts.job {
        row.job_conclusion.clone_from(&job.conclusion);
        row.job_elapsed_s = elapsed(job, facts.now);
        row.annotation = job.annotations.iter().find(|text| !text.trim().is_empty()).cloned();
    }
    let (verdict, figures) = resource::judge(row.last_host.as_ref());
    row.resource_verdict = verdict;
    row.resource_why = figures;
    if let Class::Of { terminal, why, stalled_step } = class_of(row.terminal != Terminal::Running, facts) {
        row.terminal = terminal;
        row.why = match facts.trace {
            Trace::Unreadable => format!("{why}: {}", row.why),
            _ => with_progress(&why, row, facts),
        };
        row.stalled_step = stalled_step;
        row.conclusion = match terminal {
            Terminal::Running => None,
            _ => Some(Conclusion::Incomplete),
        };
        if terminal == Terminal::Running {
            // What has not begun may still begin.
            let never_began = |file: &&mut FileRow| file.outcome == Some(Outcome::NotRun);
            row.files.iter_mut().filter(never_began).for_each(|file| (file.outcome, file.status) = (None, None));
        }
    }
}

/// The order of evidence, strongest first.
pub fn class_of(has_own_record: bool, facts: &Facts<'_>) -> Class {
    if has_own_record {
        return Class::Own;
    }
    let over = facts.job.filter(|job| job.is_over());
    if let Some(step) = over.and_then(Job::lost_in) {
        let why = format!("job reached a terminal state with '{}' still in progress — the runner stopped reporting", step.name);
        return of(Terminal::RunnerLost, why, Some(step.name.clone()));
    }
    match facts.trace {
        Trace::Marker { lease, age } => by_lease(lease::judge(lease, age), lease, facts, over),
        Trace::Ledger => by_writer(facts, over),
        Trace::Damaged { after } => {
            let why = format!("its ledger is damaged after event {after}, and what came then is unknown");
            of(Terminal::AttemptedIncomplete, why, None)
        }
        Trace::Unreadable => of(Terminal::AttemptedIncomplete, "it left something that cannot be read".to_owned(), None),
        Trace::None => by_job_alone(facts),
        Trace::Unread => match by_job_alone(facts) {
            told @ Class::Of { terminal: Terminal::Running, .. } => told,
            // What a listed step says stands; what a missing record says does not.
            told @ Class::Of { terminal: Terminal::NotStarted, .. } if says_of_steps(facts) => told,
            _ => of(Terminal::AttemptedIncomplete, UNREAD.to_owned(), None),
        },
    }
}

fn says_of_steps(facts: &Facts<'_>) -> bool {
    let names_the_suite = |job: &&Job| facts.step_name.is_some() && !job.steps.is_empty();
    facts.job.is_some_and(|job| job.failed_step().is_some() || names_the_suite(&job))
}

const UNREAD: &str = "its evidence could not be read, and what it left there is unknown";

fn by_lease(verdict: Lease, lease: Secs, facts: &Facts<'_>, over: Option<&Job>) -> Class {
    if facts.writer == Writer::Dead {
        return of(Terminal::AttemptedIncomplete, "its writer died on this host without a last record".to_owned(), None);
    }
    // A job whose steps nobody listed says nothing of them.
    if let Some(job) = over.filter(|job| !job.steps.is_empty()) {
        let why = match job.failed_step() {
            Some(step) => format!("the job failed in '{}', and the leg left no end of its own", step.name),
            None => "every step of the job ended, yet the leg left no end of its own: a failed close".to_owned(),
        };
        return of(Terminal::AttemptedIncomplete, why, None);
    }
    match verdict {
        Lease::Good { left } => of(Terminal::Running, format!("its lease is good for another {left}"), None),
        Lease::Lapsed { silent } => {
            let why = format!("nothing was heard for {silent}, and its lease is {lease}");
            let stalled = facts.job.and_then(Job::unfinished_step).map(|step| step.name.clone());
            of(Terminal::RunnerLost, why, stalled)
        }
    }
}

fn by_writer(facts: &Facts<'_>, over: Option<&Job>) -> Class {
    match (facts.writer, over) {
        (Writer::Alive, _) => of(Terminal::Running, "its writer is alive on this host".to_owned(), None),
        (Writer::Dead, _) => {
            of(Terminal::AttemptedIncomplete, "its writer died on this host without a last record".to_owned(), None)
        }
        (Writer::Unknown, None) if facts.job.is_some() => {
            of(Terminal::Running, "it left no record of its end yet, and its job is not over".to_owned(), None)
        }
        (Writer::Unknown, _) => {
            of(Terminal::AttemptedIncomplete, "it ran and left its ledger, but no record of its end".to_owned(), None)
        }
    }
}

fn by_job_alone(facts: &Facts<'_>) -> Class {
    let Some(job) = facts.job else {
        return of(Terminal::NotStarted, "it was planned and left no trace".to_owned(), None);
    };
    if !job.is_over() {
        return of(Terminal::Running, format!("its job is {} and no marker was written yet", job.status.replace('_', " ")), None);
    }
    let suite = facts.step_name.map(|name| {
        job.steps.iter().find(|step| step.name == name).or_else(|| job.steps.iter().find(|step| step.name.contains(name)))
    });
    let end = |conclusion: &Option<String>| conclusion.clone().unwrap_or_else(|| "no conclusion".to_owned());
    match (suite, job.failed_step()) {
        (Some(Some(step)), _) if step.began() => {
            let why = format!("'{}' began and ended ({}) without leaving a record", step.name, end(&step.conclusion));
            of(Terminal::AttemptedIncomplete, why, None)
        }
        (_, Some(step)) => of(Terminal::NotStarted, format!("the job died in '{}' before the suite began", step.name), None),
        (Some(_), None) => {
            of(Terminal::NotStarted, format!("the job ended ({}) and the suite's step never began", end(&job.conclusion)), None)
        }
        // Without the name of the suite's step: a job that went through its steps went through that one too.
        (None, None) if job.conclusion.as_deref() == Some("success") => {
            of(Terminal::AttemptedIncomplete, "its job succeeded without leaving a record".to_owned(), None)
        }
        (None, None) => {
            of(Terminal::NotStarted, format!("the job ended ({}) without leaving a record", end(&job.conclusion)), None)
        }
    }
}

fn of(terminal: Terminal, why: String, stalled_step: Option<String>) -> Class {
    Class::Of { terminal, why, stalled_step }
}

/// A lost or incomplete leg's sentence says how far it had got, and tells a hung file from a machine that is gone.
fn with_progress(why: &str, row: &LegRow, facts: &Facts<'_>) -> String {
    if matches!(facts.trace, Trace::None | Trace::Unread) {
        return why.to_owned();
    }
    let planned = row.files_planned.map_or("?".to_owned(), |planned| planned.to_string());
    let at = match (&row.current_file, &row.last_file) {
        (Some(current), _) => format!(" in {current}"),
        (None, Some(last)) => format!(" after {last}"),
        (None, None) => String::new(),
    };
    let hung = match (row.last_heartbeat_ts, row.last_checkpoint_ts) {
        (Some(beat), Some(step))
            if row.terminal == Terminal::RunnerLost && beat.since(step) > row.lease_s.unwrap_or(Secs::ZERO) =>
        {
            format!("; heartbeats went on for {} after the last step forward", beat.since(step))
        }
        _ => String::new(),
    };
    format!("{why}; {} of {planned} files reported{at}{hung}", row.files_reported)
}

fn elapsed(job: &Job, now: Wall) -> Option<Secs> {
    let started = job.started_at?;
    let until = job.completed_at.unwrap_or(now);
    (until >= started).then(|| until.since(started))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::job::Step;

    fn step(name: &str, status: &str, conclusion: Option<&str>) -> Step {
        let started_at = (status != "pending" && status != "queued").then_some(Wall(1));
        Step { name: name.into(), status: status.into(), conclusion: conclusion.map(Into::into), started_at }
    }

    fn job(status: &str, conclusion: Option<&str>, steps: Vec<Step>) -> Job {
        Job { status: status.into(), conclusion: conclusion.map(Into::into), steps, ..Job::default() }
    }

    #[test]
    fn the_truth_table() {
        use Terminal::*;
        let lost = job(
            "completed",
            Some("failure"),
            vec![step("Setup", "completed", Some("success")), step("Suite", "in_progress", None)],
        );
        let failed_before = job(
            "completed",
            Some("failure"),
            vec![step("Setup", "completed", Some("failure")), step("Suite", "in_progress", None)],
        );
        let failed_after = job(
            "completed",
            Some("failure"),
            vec![step("Suite", "in_progress", None), step("Clean up", "completed", Some("failure"))],
        );
        let setup_died = job(
            "completed",
            Some("failure"),
            vec![step("Setup", "completed", Some("failure")), step("Suite", "completed", Some("skipped"))],
        );
        let closed = job("completed", Some("success"), vec![step("Suite", "completed", Some("success"))]);
        let open = job("in_progress", None, vec![step("Suite", "in_progress", None)]);
        let queued = job("queued", None, vec![]);
        let never = job("completed", Some("cancelled"), vec![]);
        let good = Trace::Marker { lease: Secs::from_secs(90), age: Secs::from_secs(90) };
        let lapsed = Trace::Marker { lease: Secs::from_secs(90), age: Secs::from_secs(91) };
        use Writer::*;
        let table: Vec<(&str, Trace, Writer, Option<&Job>, Terminal)> = vec![
            ("nothing", Trace::None, Unknown, None, NotStarted),
            ("job queued, no marker", Trace::None, Unknown, Some(&queued), Running),
            ("job open, no marker", Trace::None, Unknown, Some(&open), Running),
            ("job over, step open", Trace::None, Unknown, Some(&lost), RunnerLost),
            ("job over, step open, marker good", good, Unknown, Some(&lost), RunnerLost),
            ("job over, step open, another failed", good, Unknown, Some(&failed_before), AttemptedIncomplete),
            ("job alone, suite ended", Trace::None, Unknown, Some(&closed), AttemptedIncomplete),
            ("job over, step open, a later one failed", Trace::None, Unknown, Some(&failed_after), RunnerLost),
            ("job over, step open, an earlier one failed", Trace::None, Unknown, Some(&failed_before), AttemptedIncomplete),
            ("ledger from elsewhere, job still open", Trace::Ledger, Unknown, Some(&open), Running),
            ("ledger from elsewhere, job closed", Trace::Ledger, Unknown, Some(&closed), AttemptedIncomplete),
            ("job alone, setup died", Trace::None, Unknown, Some(&setup_died), NotStarted),
            ("job alone, never scheduled", Trace::None, Unknown, Some(&never), NotStarted),
            ("marker good", good, Unknown, None, Running),
            ("marker lapsed", lapsed, Unknown, None, RunnerLost),
            ("marker lapsed, job still open", lapsed, Unknown, Some(&open), RunnerLost),
            ("marker lapsed, job closed", lapsed, Unknown, Some(&closed), AttemptedIncomplete),
            ("marker good, writer dead here", good, Dead, None, AttemptedIncomplete),
            ("marker lapsed, writer dead here", lapsed, Dead, None, AttemptedIncomplete),
            ("ledger, writer alive", Trace::Ledger, Alive, None, Running),
            ("ledger, writer dead", Trace::Ledger, Dead, None, AttemptedIncomplete),
            ("ledger from elsewhere", Trace::Ledger, Unknown, None, AttemptedIncomplete),
            ("ledger from elsewhere, step open", Trace::Ledger, Unknown, Some(&lost), RunnerLost),
            ("marker good, job over, no step listed", good, Unknown, Some(&never), Running),
            ("marker lapsed, job over, no step listed", lapsed, Unknown, Some(&never), RunnerLost),
            ("its place could not be read", Trace::Unread, Unknown, None, AttemptedIncomplete),
            ("its place could not be read, setup died", Trace::Unread, Unknown, Some(&setup_died), NotStarted),
            ("its place could not be read, job open", Trace::Unread, Unknown, Some(&open), Running),
            ("its place could not be read, job closed", Trace::Unread, Unknown, Some(&closed), AttemptedIncomplete),
            ("nothing readable", Trace::Unreadable, Unknown, None, AttemptedIncomplete),
            ("nothing readable, job closed", Trace::Unreadable, Unknown, Some(&closed), AttemptedIncomplete),
            ("nothing readable, step open", Trace::Unreadable, Unknown, Some(&lost), RunnerLost),
        ];
        for (what, trace, writer, job, expect) in table {
            let facts = Facts { trace, writer, job, step_name: Some("Suite"), now: Wall(0) };
            assert!(matches!(class_of(true, &facts), Class::Own), "{what}: the leg's own record beats everything");
            match class_of(false, &facts) {
                Class::Of { terminal, .. } => assert_eq!(terminal, expect, "{what}"),
                Class::Own => panic!("{what}: no own record"),
            }
        }
    }

    #[test]
    fn a_job_alone_without_the_name_of_the_suites_step() {
        let class = |job: &Job| {
            let facts = Facts { trace: Trace::None, writer: Writer::Unknown, job: Some(job), step_name: None, now: Wall(0) };
            match class_of(false, &facts) {
                Class::Of { terminal, why, .. } => (terminal, why),
                Class::Own => panic!("no own record"),
            }
        };
        let passed = job("completed", Some("success"), vec![step("Suite", "completed", Some("success"))]);
        assert_eq!(class(&passed).0, Terminal::AttemptedIncomplete);
        let died = job("completed", Some("failure"), vec![step("Setup", "completed", Some("failure"))]);
        let (terminal, why) = class(&died);
        assert_eq!(terminal, Terminal::NotStarted);
        assert!(why.contains("'Setup'"), "it names the step it died in: {why}");
        assert_eq!(class(&job("completed", Some("cancelled"), vec![])).0, Terminal::NotStarted);
    }
}
