//! What people and the CI service are told while a leg runs. Decides nothing; the words come from `report`.

use super::console::Console;
use super::plan::{Plan, Planned};
use super::session::Session;
use crate::core::event::{Body, PlannedFile, SinkDegraded};
use crate::core::ids::{FilePath, LegId};
use crate::core::moment::{Moment, Secs};
use crate::core::outcome::Cleanup;
use crate::core::row::FileRow;
use crate::core::sample::HostSample;
use crate::core::watch::Watch;
use crate::host::terminal;
use crate::report::github::{self, Level};
use crate::report::live::Bar;
use crate::report::progress::{self, Eta, Progress};
use crate::report::style::{Colour, Glyphs, Style};
use crate::report::words;
use crate::settings::{ActionsFiles, Resume, RunSettings};

/// Lines beside the output of files: they go to logs as often as to terminals.
const PLAIN: Style = Style { width: 0, colour: Colour::Off, glyphs: Glyphs::Unicode };

/// `--dry-run`: what would run, a line each.
pub fn plan(settings: &RunSettings, plan: &Plan) -> String {
    let mut out = String::new();
    let mut line = |text: String| {
        out.push_str(&crate::report::escape::message(&text));
        out.push('\n');
    };
    let leg = leg_of(settings, plan);
    let carried = plan.resumed.as_ref().map_or(String::new(), |resumed| format!(", {} on record already", resumed.carried.len()));
    line(format!("{leg} ({} files{carried}, {})", plan.files.len(), settings.scope.as_str()));
    for file in due(plan) {
        let cap = match &file.choice {
            Some(choice) => format!("cap {} ({})", choice.cap, choice.basis),
            None => "no cap".to_owned(),
        };
        line(format!("{:>4}  {}  {cap}", file.index, crate::report::escape::name(file.path.text())));
    }
    if let Some(deadline) = settings.deadline {
        line(format!("deadline {deadline}, reserve {}, min-viable {}", settings.reserve, settings.min_viable));
    }
    out
}

/// `--dry-run --json`: the same as one document, its files as `run-started` records them.
pub fn plan_document(settings: &RunSettings, plan: &Plan) -> String {
    let leg = leg_of(settings, plan);
    let files: Vec<PlannedFile> = due(plan).map(Planned::event).collect();
    let document = serde_json::json!({
        "v": 1, "run_id": leg.run_id, "attempt": leg.attempt, "platform": leg.platform, "target": leg.target, "shard": leg.shard,
        "scope": settings.scope, "files_planned": plan.total, "files": files,
        "on_record": plan.resumed.as_ref().map_or(0, |resumed| resumed.carried.len()), "deadline": settings.deadline,
        "reserve_s": settings.reserve, "min_viable_s": settings.min_viable, "warnings": plan.warnings,
    });
    format!("{document:#}\n")
}

fn leg_of<'a>(settings: &'a RunSettings, plan: &'a Plan) -> &'a LegId {
    plan.resumed.as_ref().map_or(&settings.identity.leg, |resumed| &resumed.leg)
}

/// The files that are not on record already in every round.
fn due(plan: &Plan) -> impl Iterator<Item = &Planned> {
    let rounds = plan.total.map_or(1, |total| total / u32::try_from(plan.files.len()).unwrap_or(u32::MAX).max(1));
    plan.files.iter().filter(move |file| (1..=rounds).any(|round| !plan.is_done(file.index, round)))
}

pub fn begin(console: &Console, settings: &RunSettings, plan: &Plan, recovered: &[String]) {
    let in_actions = settings.actions.is_some();
    let warn = |text: String| console.say(warning(&text, in_actions));
    recovered.iter().for_each(|text| console.say(format!("ledger: recovered: {text}")));
    if let (Resume::AsRecorded(_), Some(resumed)) = (&settings.resume, &plan.resumed) {
        console.say(format!(
            "ledger: resumes {} ({} files, {} on record already)",
            resumed.leg,
            plan.files.len(),
            resumed.carried.len()
        ));
    }
    plan.warnings.iter().for_each(|text| warn(text.clone()));
    if settings.is_ci && settings.sinks.is_empty() {
        warn(
            "no sink is set: if this runner is lost, it will leave NOTHING. Set --sink (or LEDGER_SINK), for example --sink github: or \
             --sink s3://bucket/prefix"
                .to_owned(),
        );
    }
}

fn warning(text: &str, in_actions: bool) -> String {
    if in_actions {
        github::annotation(Level::Warning, None, "ledger", text).trim_end().to_owned()
    } else {
        format!("ledger: warning: {text}")
    }
}

pub fn sink_degraded(sink: &SinkDegraded, in_actions: bool) -> String {
    let text = format!(
        "the sink {} does not answer ({}); the run goes on, {} events are kept and sent when it answers again, after the end of the run by `ledger sink \
         push --sink {}`",
        sink.url, sink.error, sink.unsent, sink.url
    );
    warning(&text, in_actions)
}

pub fn budget_spent(session: &Session, planned: &Planned, left: Secs, needed: Secs) {
    let text = format!(
        "the budget is spent before '{}': {left} are left before the reserve of {}, and it needs {needed}; it and all later files are not run",
        planned.path, session.settings.reserve
    );
    session.console.say(warning(&text, session.settings.actions.is_some()));
}

pub async fn file_begins(session: &Session, planned: &Planned, round: u32, cap: Option<Secs>) {
    if session.settings.actions.is_some() {
        let cap = cap.map_or(String::new(), |cap| format!(" (cap {cap})"));
        let nth = nth(session, round, planned.index);
        let title = format!("[{nth}/{}] {}{cap}", total(session), planned.path);
        session.console.out(github::group(&title).trim_end().to_owned()).await;
    }
}

pub async fn file_ended(session: &Session, planned: &Planned, record: &Body, sample: &HostSample) {
    let Body::FileFinished(finished) = record else { return };
    let row = FileRow::of(finished);
    if session.settings.actions.is_some() {
        session.console.out(github::END_GROUP.to_owned()).await;
        let path = session.settings.actions.as_ref().and_then(|actions| in_repository(&planned.path, actions));
        for annotation in github::file_annotations(&row, path.as_deref().unwrap_or(&row.file)) {
            session.console.out(annotation.trim_end().to_owned()).await;
        }
    } else {
        for leftover in &row.leftovers {
            let name = crate::report::escape::name(leftover.exe.as_deref().unwrap_or(&leftover.comm));
            let argv = crate::report::escape::name(leftover.argv.as_deref().unwrap_or_default());
            session.console.say(format!(
                "ledger: warning: '{}' left {name} (pid {}) behind: {}; {argv}",
                planned.path,
                leftover.pid,
                words::fate(leftover.fate)
            ));
        }
    }
    if finished.cleanup == Cleanup::Unknown {
        let why: Vec<String> = finished.notes.iter().map(|note| crate::report::escape::sentence(note)).collect();
        let why = if why.is_empty() { String::new() } else { format!(" ({})", why.join("; ")) };
        let text = format!("whether anything of '{}' is left could not be proved{why}; the next file may meet it", planned.path);
        session.console.say(warning(&text, session.settings.actions.is_some()));
    }
    let position = usize::try_from(planned.index).unwrap_or(usize::MAX);
    let line = progress::line(
        &Progress {
            nth: nth(session, finished.at.round, planned.index),
            planned: session.plan.total,
            file: planned.path.text(),
            outcome: row.outcome.as_ref(),
            cleanup: Some(finished.cleanup),
            elapsed: row.duration_s,
            cap: row.cap_s,
            eta: Eta::of(session.plan.expected_from(position), None),
            sample: Some(sample),
        },
        PLAIN,
    );
    session.console.say(line.trim_end().to_owned());
}

/// The CI service wants paths from the top of the checkout, which need not be the working folder.
fn in_repository(path: &FilePath, actions: &ActionsFiles) -> Option<String> {
    let below = actions.below_workspace.as_ref()?;
    let path = std::path::Path::new(path.text());
    let parts = path.components().filter_map(|part| match part {
        std::path::Component::Normal(name) => Some(name.to_string_lossy()),
        _ => None,
    });
    // What leads out of the folder, or does not begin in it, is left as it was written.
    let plain = path.components().all(|part| matches!(part, std::path::Component::Normal(_) | std::path::Component::CurDir));
    plain.then(|| below.iter().map(String::as_str).map(Into::into).chain(parts).collect::<Vec<_>>().join("/"))
}

/// The bar while a file runs.
pub fn bar(session: &Session, watch: &Watch, now: Moment, last_line: Option<&str>) -> Bar {
    let at = watch.at();
    let position = usize::try_from(at.index).unwrap_or(1).saturating_sub(1);
    let elapsed = watch.elapsed(now);
    let last = last_line.and_then(|text| text.lines().next_back()).unwrap_or_default();
    Bar {
        nth: nth(session, at.round, at.index),
        planned: session.plan.total,
        file: at.file.clone(),
        elapsed,
        cap: watch.cap(),
        eta: Eta::of(session.plan.expected_from(position), Some(elapsed)),
        host: progress::host(Some(&session.last_sample)),
        last: last.to_owned(),
        style: Style { width: terminal::width().unwrap_or(session.style.width), ..session.style },
    }
}

fn nth(session: &Session, round: u32, index: u32) -> u32 {
    let per_round = u32::try_from(session.plan.files.len()).unwrap_or(u32::MAX);
    per_round.saturating_mul(round.saturating_sub(1)).saturating_add(index)
}

fn total(session: &Session) -> String {
    session.plan.total.map_or("?".to_owned(), |total| total.to_string())
}
