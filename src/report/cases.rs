//! Legs and files as the test cases that JUnit and CTRF viewers know.
//!
//! A viewer shows what failed and forgets the rest, so nothing that is missing may look like success: every planned file is a case, and a
//! leg that did not pass although each of its files did gets a case of its own.

use base64::Engine as _;

use crate::core::moment::{Secs, Wall};
use crate::core::outcome::Outcome;
use crate::core::row::{FileRow, LegRow};
use crate::report::escape;
use crate::report::words::{self, Verdict};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Passed,
    /// The test said no.
    Failed,
    /// It never came to an answer: killed, lost, never run.
    Error,
    /// Its leg still runs.
    Pending,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    pub kind: Kind,
    /// Inert and never empty.
    pub name: String,
    /// Of the file, where the case is one.
    pub path: Option<String>,
    /// The outcome word, or the class of end of the leg.
    pub word: String,
    pub message: String,
    pub output: String,
    pub started_at: Option<Wall>,
    pub duration: Option<Secs>,
    pub facts: Vec<(&'static str, String)>,
}

pub fn of(leg: &LegRow) -> Vec<Case> {
    let mut cases: Vec<Case> = leg.files.iter().map(|file| file_case(leg, file)).collect();
    let shown = cases.iter().any(|case| case.kind != Kind::Passed);
    if Verdict::of(leg) != Verdict::Pass && !shown {
        cases.push(leg_case(leg));
    }
    cases
}

fn file_case(leg: &LegRow, file: &FileRow) -> Case {
    let running = Verdict::of(leg) == Verdict::Running;
    let kind = match &file.outcome {
        Some(Outcome::Pass) => Kind::Passed,
        Some(Outcome::TestFailure) => Kind::Failed,
        None | Some(Outcome::NotRun) if running => Kind::Pending,
        _ => Kind::Error,
    };
    let missing = matches!(file.outcome, None | Some(Outcome::NotRun));
    let mut message = words::file_notes(file);
    if missing {
        message.push(format!(
            "{} left no record: {}",
            if file.outcome.is_none() && file.started_at.is_some() { "it began and" } else { "it" },
            escape::sentence(&leg.why)
        ));
    }
    let message =
        if message.is_empty() { words::file_result(file) } else { format!("{}: {}", words::file_result(file), message.join("; ")) };
    let output = match (&file.last_output, &file.outcome) {
        (Some(output), _) => escape::block(output),
        (None, None) => leg.last_output.as_deref().map(escape::block).unwrap_or_default(),
        _ => String::new(),
    };
    Case {
        kind,
        name: named(words::file_title(file)),
        path: Some(escape::name(&file.file)),
        word: named(words::file_result(file)),
        message,
        output,
        started_at: file.started_at,
        duration: file.duration_s,
        facts: file_facts(file),
    }
}

fn leg_case(leg: &LegRow) -> Case {
    let kind = if Verdict::of(leg) == Verdict::Running { Kind::Pending } else { Kind::Error };
    Case {
        kind,
        name: "(the leg itself)".to_owned(),
        path: None,
        word: leg.terminal.to_string(),
        message: format!("{}: {}", words::leg_result(leg), escape::sentence(&leg.why)),
        output: leg.last_output.as_deref().map(escape::block).unwrap_or_default(),
        started_at: leg.started_at,
        duration: leg.duration_s,
        facts: Vec::new(),
    }
}

fn named(name: String) -> String {
    if name.trim().is_empty() { "(no name)".to_owned() } else { name }
}

fn file_facts(file: &FileRow) -> Vec<(&'static str, String)> {
    let mut facts = vec![("index", file.index.to_string()), ("round", file.round.to_string())];
    facts.extend(raw_name(file).map(|b64| ("file_b64", b64)));
    let mut fact = |name, value: Option<String>| facts.extend(value.map(|value| (name, value)));
    fact("cap_s", file.cap_s.map(|cap| cap.as_f64().to_string()));
    fact("cap_basis", file.cap_basis.as_deref().map(escape::sentence));
    fact("exit_code", file.exit_code.map(|code| code.to_string()));
    fact("signal", file.signal.map(|signal| signal.to_string()));
    fact("containment", file.containment.as_deref().map(escape::name));
    fact("cleanup_verified", file.cleanup_verified.map(|verified| verified.to_string()));
    fact("suspended_s", file.suspended_s.filter(|gap| gap.millis() > 0).map(|gap| gap.as_f64().to_string()));
    fact("log", file.log.as_deref().map(escape::name));
    for process in file.leftovers.iter().take(20) {
        facts.push(("leftover", words::leftover(process)));
    }
    for part in file.components.iter().take(50) {
        facts.push(("component", format!("{} {} s", escape::name(&part.name), part.seconds)));
    }
    facts
}

/// The bytes of a name that a case cannot bear as it is: it is no text, or acts, or is too long.
fn raw_name(file: &FileRow) -> Option<String> {
    let is_shown = escape::name(&file.file) == file.file && escape::xml(&file.file) == file.file;
    let bytes = || base64::engine::general_purpose::STANDARD.encode(&file.file);
    file.file_b64.clone().or_else(|| (!is_shown).then(bytes))
}

/// What a viewer shows beside the cases of a leg.
pub fn leg_facts(leg: &LegRow) -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("run_id", escape::name(leg.run_id.as_str())),
        ("attempt", escape::name(leg.attempt.as_str())),
        ("platform", escape::name(leg.platform.as_str())),
        ("target", escape::name(leg.target.as_str())),
        ("terminal", leg.terminal.to_string()),
        ("conclusion", leg.conclusion.map_or("running", |conclusion| conclusion.as_str()).to_owned()),
        ("why", escape::sentence(&leg.why)),
        ("files_reported", leg.files_reported.to_string()),
        ("resource_verdict", leg.resource_verdict.as_str().to_owned()),
    ];
    let mut fact = |name, value: Option<String>| facts.extend(value.map(|value| (name, value)));
    fact("shard", leg.shard.map(|shard| shard.to_string()));
    fact("files_planned", leg.files_planned.map(|planned| planned.to_string()));
    fact("files_failed", Some(leg.files_failed.to_string()));
    fact("stopped_by", leg.stopped_by.map(|by| by.as_str().to_owned()));
    fact("scope", leg.scope.map(|scope| scope.as_str().to_owned()));
    fact("epoch", leg.epoch.as_ref().map(|epoch| escape::name(epoch.as_str())));
    fact("ended_at", leg.ended_at.map(|ended| ended.to_string()));
    fact("resolved", leg.resolved.as_deref().map(escape::name));
    fact("sha", leg.sha.as_deref().map(escape::name));
    fact("event", leg.event.as_deref().map(escape::name));
    fact("last_file", leg.last_file.as_deref().map(escape::name));
    fact("current_file", leg.current_file.as_deref().map(escape::name));
    fact("last_checkpoint_ts", leg.last_checkpoint_ts.map(|ts| ts.to_string()));
    fact("stalled_step", leg.stalled_step.as_deref().map(escape::name));
    fact("annotation", leg.annotation.as_deref().map(escape::sentence));
    if let Some(host) = &leg.last_host {
        fact("host.cpu_count", host.cpu_count.map(|n| n.to_string()));
        fact("host.load_1m", host.load_1m.map(|load| load.to_string()));
        fact("host.mem_total_mib", host.mem_total_mib.map(|mib| mib.to_string()));
        fact("host.mem_available_mib", host.mem_available_mib.map(|mib| mib.to_string()));
        fact("host.swap_used_mib", host.swap_used_mib.map(|mib| mib.to_string()));
        fact("host.qemu_count", host.qemu_count.map(|n| n.to_string()));
    }
    facts
}
