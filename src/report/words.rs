//! The words that every format for people shares: what a leg came to, in which order legs are told, how they are counted.

use std::collections::HashSet;

use crate::core::outcome::{Conclusion, Outcome, StoppedBy, Terminal};
use crate::core::process::{Fate, Leftover};
use crate::core::row::{FileRow, LegRow, Summary};
use crate::report::escape;

/// What a leg came to, in the order in which a reader wants to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    Incomplete,
    Fail,
    Running,
    Pass,
}

impl Verdict {
    pub fn of(row: &LegRow) -> Self {
        match row.conclusion {
            Some(Conclusion::Pass) => Verdict::Pass,
            Some(Conclusion::Fail) => Verdict::Fail,
            Some(Conclusion::Incomplete) => Verdict::Incomplete,
            None => Verdict::Running,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Incomplete => "incomplete",
            Verdict::Fail => "fail",
            Verdict::Running => "running",
            Verdict::Pass => "pass",
        }
    }
}

/// Legs in the order of telling: incomplete, failed, running, passed; inside that by run, newest first, and key.
pub fn told_in_order(summary: &Summary) -> Vec<&LegRow> {
    let mut legs: Vec<&LegRow> = summary.rows().collect();
    legs.sort_by(|a, b| {
        Verdict::of(a)
            .cmp(&Verdict::of(b))
            .then_with(|| b.started_at.cmp(&a.started_at))
            .then_with(|| (&a.platform, &a.target, a.shard).cmp(&(&b.platform, &b.target, b.shard)))
    });
    legs
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    pub planned: usize,
    pub pass: usize,
    pub fail: usize,
    pub incomplete: usize,
    pub running: usize,
}

impl Counts {
    pub fn of(summary: &Summary) -> Self {
        let count = |verdict| summary.legs.iter().filter(|row| Verdict::of(row) == verdict).count();
        Self {
            planned: summary.legs.len(),
            pass: count(Verdict::Pass),
            fail: count(Verdict::Fail),
            incomplete: count(Verdict::Incomplete),
            running: count(Verdict::Running),
        }
    }

    /// `15 planned, 12 pass, 1 fail, 2 incomplete`. While results are missing it never claims that nothing failed.
    pub fn sentence(self) -> String {
        let mut text = format!("{} planned, {} pass", self.planned, self.pass);
        let missing = self.incomplete + self.running > 0;
        if self.fail > 0 || !missing {
            text.push_str(&format!(", {} fail", self.fail));
        }
        text.push_str(&format!(", {} incomplete", self.incomplete));
        if self.running > 0 {
            text.push_str(&format!(", {} running", self.running));
        }
        if self.fail == 0 && missing {
            text.push_str("; what is missing may have failed");
        }
        text
    }
}

/// `macos-x86 · stable` or `macos-x86 · stable 2/3`, inert.
pub fn leg_title(row: &LegRow) -> String {
    let shard = row.shard.map(|shard| format!(" {shard}")).unwrap_or_default();
    format!("{} · {}{shard}", escape::name(row.platform.as_str()), escape::name(row.target.as_str()))
}

/// Names of the rows of one report, each its own: where several runs are told, or several epochs of one leg, the name says which.
pub struct Titles<'a> {
    several_runs: bool,
    twice: HashSet<(&'a str, String)>,
}

impl<'a> Titles<'a> {
    pub fn of(legs: &[&'a LegRow]) -> Self {
        let mut seen = HashSet::new();
        let place = |row: &&'a LegRow| (row.run_id.as_str(), row.leg().key());
        Self {
            several_runs: legs.windows(2).any(|pair| pair[0].run_id != pair[1].run_id),
            twice: legs.iter().map(place).filter(|place| !seen.insert(place.clone())).collect(),
        }
    }

    pub fn title(&self, row: &LegRow) -> String {
        let mut title = leg_title(row);
        if self.several_runs {
            title.push_str(&format!(" (run {})", escape::name(row.run_id.as_str())));
        }
        if self.twice.contains(&(row.run_id.as_str(), row.leg().key())) {
            title.extend(row.started_at.map(|began| format!(" (began {began})")));
        }
        title
    }
}

/// The verdict with the class of end where it says more: `incomplete (runner-lost)`, `fail (stopped: dirty)`.
pub fn leg_result(row: &LegRow) -> String {
    let verdict = Verdict::of(row).as_str();
    match (row.terminal, row.stopped_by) {
        (Terminal::Complete | Terminal::Running, _) => verdict.to_owned(),
        (terminal, Some(by)) => format!("{verdict} ({terminal}: {})", by.as_str()),
        (terminal, None) => format!("{verdict} ({terminal})"),
    }
}

/// `9 of 12`, or `9 of ?` for a plan that is open or unknown.
pub fn leg_files(row: &LegRow) -> String {
    match row.files_planned {
        Some(planned) => format!("{} of {planned}", row.files_reported),
        None => format!("{} of ?", row.files_reported),
    }
}

/// How long the leg took, or at most lived.
pub fn leg_time(row: &LegRow) -> String {
    match (row.duration_s, row.job_elapsed_s) {
        (Some(duration), _) => duration.to_string(),
        (None, Some(elapsed)) => format!("≤ {elapsed}"),
        (None, None) => "–".to_owned(),
    }
}

/// The path, with its round where there are several.
pub fn file_title(file: &FileRow) -> String {
    let round = if file.round > 1 { format!(" (round {})", file.round) } else { String::new() };
    format!("{}{round}", escape::name(&file.file))
}

/// The outcome as a word; a file whose record never came has none.
pub fn file_result(file: &FileRow) -> String {
    match &file.outcome {
        Some(outcome) => escape::name(outcome.as_str()),
        None if file.started_at.is_none() => "not begun".to_owned(),
        None => "no record".to_owned(),
    }
}

pub fn passed(file: &FileRow) -> bool {
    file.outcome == Some(Outcome::Pass)
}

/// What a reader should know of a file beyond its outcome, as short clauses.
pub fn file_notes(file: &FileRow) -> Vec<String> {
    let mut notes = Vec::new();
    match (file.exit_code, file.signal) {
        (_, Some(signal)) => notes.push(format!("signal {signal}")),
        (Some(code), None) if code != 0 => notes.push(format!("exit {code}")),
        _ => {}
    }
    if file.escalated == Some(true) {
        notes.push("killed after the grace".to_owned());
    }
    if let Some(gap) = file.suspended_s.filter(|gap| gap.millis() > 0) {
        notes.push(format!("suspended for {gap}"));
    }
    if file.cleanup_verified == Some(false) {
        notes.push("cleanup failed: something of it is still alive".to_owned());
    } else if is_unproved(file) {
        notes.push("cleanup could not be proved".to_owned());
    }
    if !file.leftovers.is_empty() {
        notes.push(format!("left {} behind", plural(leftovers_of(file), "process", "processes")));
    }
    notes.extend(file.notes.iter().map(|note| escape::sentence(note)));
    notes
}

/// How many processes a file left. A record lists the first hundred and notes how many there were.
pub fn leftovers_of(file: &FileRow) -> usize {
    let noted = file.notes.iter().filter_map(|note| note.split_once(" leftovers, of which ")?.0.parse().ok());
    noted.max().unwrap_or(0).max(file.leftovers.len())
}

/// `qemu-system-x86_64 (pid 1, 3.1 s old, 41 MiB, killed)`.
pub fn leftover(process: &Leftover) -> String {
    let mut facts = vec![format!("pid {}", process.pid)];
    facts.extend(process.age_s.map(|age| format!("{:.1} s old", age.max(0.0) + 0.0)));
    facts.extend(process.rss_mib.map(|rss| format!("{rss:.0} MiB")));
    facts.push(fate(process.fate).to_owned());
    facts.extend(process.waits_on.as_deref().map(|on| format!("waits on {}", escape::name(on))));
    format!("{} ({})", escape::name(process.exe.as_deref().unwrap_or(&process.comm)), facts.join(", "))
}

pub fn fate(fate: Fate) -> &'static str {
    match fate {
        Fate::Terminated => "ended after TERM",
        Fate::Killed => "killed",
        Fate::Exited => "ended by itself",
        Fate::Allowed => "allowed",
        Fate::Unkillable => "not ours to kill",
        Fate::Survived => "still alive",
    }
}

/// The facts of a leg that did not end by itself, each a clause.
pub fn leg_facts(row: &LegRow) -> Vec<String> {
    let mut facts = Vec::new();
    let mut fact = |label: &str, value: Option<String>| facts.extend(value.map(|value| format!("{label}: {value}")));
    fact("in file", row.current_file.as_deref().map(escape::name));
    fact("last finished", row.last_file.as_deref().map(escape::name));
    fact("last moved on", row.last_checkpoint_ts.map(|ts| ts.to_string()));
    fact("last heartbeat", row.last_heartbeat_ts.map(|ts| ts.to_string()));
    fact("step", row.stalled_step.as_deref().map(escape::name));
    fact("job", row.job_conclusion.as_deref().map(escape::name));
    fact("job lived at most", row.job_elapsed_s.map(|elapsed| elapsed.to_string()));
    fact("the service says", row.annotation.as_deref().map(escape::sentence));
    let why = row.resource_why.as_deref().map(|why| format!(" ({})", escape::sentence(why))).unwrap_or_default();
    fact("host", Some(format!("{}{why}", row.resource_verdict.as_str())));
    if row.job_matched == Some(false) {
        facts.push("no job of this name was found".to_owned());
    }
    facts
}

/// Leftovers of every file of a leg with the file that left them.
pub fn leg_leftovers(row: &LegRow) -> Vec<(&FileRow, &Leftover)> {
    row.files.iter().flat_map(|file| file.leftovers.iter().map(move |process| (file, process))).collect()
}

/// Whether a sweep could not tell if anything of the file is left.
pub fn is_unproved(file: &FileRow) -> bool {
    file.cleanup_verified.is_none() && file.reported() && file.containment.is_some()
}

/// Files of a leg whose sweep proved nothing, each with what is known of why.
pub fn leg_unproved(row: &LegRow) -> Vec<String> {
    let told = |file: &FileRow| {
        let why: Vec<String> = file.notes.iter().map(|note| escape::sentence(note)).collect();
        let why = if why.is_empty() { String::new() } else { format!(" ({})", why.join("; ")) };
        format!("{}: cleanup could not be proved{why}", file_title(file))
    };
    row.files.iter().filter(|file| is_unproved(file)).map(told).collect()
}

/// Sinks that did not get everything.
pub fn leg_unsent(row: &LegRow) -> Vec<String> {
    let behind = row.sinks.iter().filter(|sink| sink.unsent > 0 || sink.degraded);
    behind
        .map(|sink| {
            let error = sink.error.as_deref().map(|error| format!(": {}", escape::sentence(error))).unwrap_or_default();
            if sink.unsent == 0 {
                return format!("{} has everything, late{error}", escape::name(&sink.url));
            }
            format!(
                "{} did not get {}{error}; `ledger sink push --sink {}` sends what is kept where it ran",
                escape::name(&sink.url),
                plural(usize::try_from(sink.unsent).unwrap_or(usize::MAX), "event", "events"),
                escape::name(&sink.url)
            )
        })
        .collect()
}

pub fn stopped(by: StoppedBy) -> &'static str {
    match by {
        StoppedBy::Dirty => "leftovers survived the reap: this host may be poisoned",
        StoppedBy::Budget => "the budget was spent before every file could start",
        StoppedBy::FailFast => "a file failed and the run was asked to stop there",
        StoppedBy::Ledger => "the ledger could not be written",
    }
}

pub fn plural(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}
