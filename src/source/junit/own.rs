//! A suite of ledger's own report: a leg, whose cases are files. Its properties carry what JUnit has no place for.
//!
//! The properties came through somebody else's hands: they name the leg, and never make it better than its cases are.

use base64::Engine as _;
use serde::de::DeserializeOwned;

use crate::core::ids::{Epoch, LegId};
use crate::core::moment::{Secs, Wall};
use crate::core::outcome::{Conclusion, Outcome, Scope, Terminal};
use crate::core::row::{FileRow, LegRow};
use crate::source::{against_files, count};

/// Properties of one suite or case.
const MAX_PROPERTIES: usize = 256;
/// The word of a file that began and left no record.
const NO_RECORD: &str = "no record";

#[derive(Debug, Clone, Default)]
pub(super) struct Properties(Vec<(String, String)>);

impl Properties {
    pub fn put(&mut self, name: String, value: String) {
        if self.0.len() < MAX_PROPERTIES {
            self.0.push((name, value));
        }
    }

    fn text(&self, name: &str) -> Option<String> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    }

    fn number<N: std::str::FromStr>(&self, name: &str) -> Option<N> {
        self.text(name)?.parse().ok()
    }

    fn time(&self, name: &str) -> Option<Wall> {
        Wall::parse(&self.text(name)?)
    }

    fn seconds(&self, name: &str) -> Option<Secs> {
        Secs::from_f64(self.number(name)?)
    }

    /// A word of a closed set.
    fn word<W: DeserializeOwned>(&self, name: &str) -> Option<W> {
        serde_json::from_value(serde_json::Value::String(self.text(name)?)).ok()
    }
}

/// Whether a suite with these properties is a leg that ledger wrote.
pub(super) fn is_leg(properties: &Properties) -> bool {
    ["run_id", "attempt", "platform", "target", "terminal", "why"]
        .iter()
        .all(|name| properties.0.iter().any(|(known, _)| known == name))
}

#[derive(Debug)]
pub(super) struct OwnLeg {
    row: LegRow,
}

impl OwnLeg {
    pub fn new(properties: &Properties, started: Option<Wall>, took: Option<Secs>) -> Self {
        let text = |name: &str| properties.text(name);
        let id = |name: &str| text(name).unwrap_or_default();
        let mut row = LegRow::named(LegId {
            run_id: id("run_id").as_str().into(),
            attempt: id("attempt").as_str().into(),
            platform: id("platform").as_str().into(),
            target: id("target").as_str().into(),
            shard: properties.number("shard"),
        });
        row.terminal = properties.word("terminal").unwrap_or(Terminal::AttemptedIncomplete);
        // A word that is not known is a fail, never dropped.
        row.conclusion = text("conclusion").filter(|_| row.terminal != Terminal::Running).map(|word| match word.as_str() {
            "pass" => Conclusion::Pass,
            "incomplete" | "running" => Conclusion::Incomplete,
            _ => Conclusion::Fail,
        });
        row.loop_finished = row.terminal == Terminal::Complete;
        row.why = id("why");
        row.stopped_by = properties.word("stopped_by");
        row.scope = properties.word::<Scope>("scope");
        row.epoch = text("epoch").and_then(|epoch| Epoch::parse(epoch).ok());
        row.files_planned = properties.number("files_planned");
        row.files_reported = properties.number("files_reported").unwrap_or(0);
        row.files_failed = properties.number("files_failed").unwrap_or(0);
        (row.resolved, row.sha, row.event) = (text("resolved"), text("sha"), text("event"));
        (row.last_file, row.current_file) = (text("last_file"), text("current_file"));
        row.last_checkpoint_ts = properties.time("last_checkpoint_ts");
        (row.stalled_step, row.annotation) = (text("stalled_step"), text("annotation"));
        row.started_at = started;
        row.duration_s = took;
        row.ended_at = properties.time("ended_at").or_else(|| Some(started?.plus(took?)));
        Self { row }
    }

    pub fn add(&mut self, case: OwnCase) {
        self.row.files.extend(case.into_row());
    }

    /// `whole` is whether the suite was closed.
    pub fn into_row(self, whole: bool) -> LegRow {
        let mut row = self.row;
        let claimed = row.files_failed;
        if !row.files.is_empty() {
            row.files_reported = count(row.files.iter().filter(|file| file.reported()).count());
        }
        let failed = row.files.iter().filter(|file| file.reported() && file.outcome != Some(Outcome::Pass)).count();
        row.files_failed = count(failed).max(claimed);
        if !whole {
            (row.terminal, row.loop_finished) = (Terminal::AttemptedIncomplete, false);
            row.conclusion = Some(Conclusion::Incomplete);
            row.why = format!("its record is cut short; before that it said: {}", row.why);
        }
        against_files::hold(&mut row);
        row
    }
}

#[derive(Debug)]
pub(super) struct OwnCase {
    name: Option<String>,
    took: Option<Secs>,
    started: Option<Wall>,
    passed: bool,
    word: Option<String>,
    pub properties: Properties,
}

impl OwnCase {
    pub fn new(name: Option<String>, took: Option<Secs>, started: Option<Wall>) -> Self {
        Self { name, took, started, passed: true, word: None, properties: Properties::default() }
    }

    pub fn not_passed(&mut self, word: Option<String>) {
        self.passed = false;
        self.word = self.word.take().or(word);
    }

    /// A case that was never closed may have failed.
    pub fn cut_short(mut self) -> Self {
        if self.passed {
            self.not_passed(Some(NO_RECORD.to_owned()));
        }
        self
    }

    /// `None` for the case that stands for the leg itself.
    fn into_row(self) -> Option<FileRow> {
        let index = self.properties.number("index")?;
        let round = self.properties.number("round").unwrap_or(1);
        let name = self.name.unwrap_or_default();
        let shown = name.strip_suffix(&format!(" (round {round})")).unwrap_or(&name).to_owned();
        let b64 = self.properties.text("file_b64");
        let bytes = b64.as_deref().and_then(|b64| base64::engine::general_purpose::STANDARD.decode(b64).ok());
        // Raw bytes that are text say what the name of a case cannot hold, such as a line end.
        let (file, b64) = match bytes.map(String::from_utf8) {
            Some(Ok(text)) => (text, None),
            Some(Err(bytes)) => (String::from_utf8_lossy(bytes.as_bytes()).into_owned(), b64),
            None => (shown, None),
        };
        let mut row = FileRow::not_run(index, round, file, b64);
        row.outcome = match (self.passed, self.word.as_deref()) {
            (true, _) => Some(Outcome::Pass),
            (false, Some(NO_RECORD)) => None,
            (false, Some("pass") | None) => Some(Outcome::TestFailure),
            (false, Some(word)) => Some(Outcome::parse(word)),
        };
        row.status = row.outcome.as_ref().map(Outcome::status);
        row.started_at = self.started;
        row.duration_s = self.took.filter(|_| row.reported());
        row.cap_s = self.properties.seconds("cap_s").filter(|_| row.outcome != Some(Outcome::NotRun));
        row.cap_basis = self.properties.text("cap_basis").filter(|_| row.cap_s.is_some());
        row.exit_code = self.properties.number("exit_code");
        row.signal = self.properties.number("signal");
        row.suspended_s = self.properties.seconds("suspended_s");
        row.containment = self.properties.text("containment");
        row.cleanup_verified = self.properties.number("cleanup_verified");
        row.log = self.properties.text("log");
        Some(row)
    }
}
