//! `attempted-legs.json`: `{run_id: {ts, sha, event, attempt, planned, complete, completed?, incomplete?, running?, attempts?}}`.
//!
//! Where nothing was lost there is no `incomplete`; what earlier attempts left behind stays under `attempts`. `completed` and `running`
//! name the legs that `complete` and `planned` count, so that folds that each saw some of a run's legs can be put together: leg by leg, in
//! any order, again and again, with the same bytes in the end.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::merged::date_of;
use super::shared_json::{OlderFileError, parse_older, render, text};
use crate::core::ids::Attempt;
use crate::core::moment::Wall;
use crate::core::outcome::Terminal;
use crate::core::row::{LegRow, OtherEpoch, Summary};

/// Folds the runs of `summary` onto an older file.
pub fn attempted_legs(summary: &Summary, older: Option<&[u8]>) -> Result<String, OlderFileError> {
    let mut runs = parse_older(older)?;
    let mut by_run: BTreeMap<&str, Vec<&LegRow>> = BTreeMap::new();
    for row in &summary.legs {
        by_run.entry(row.run_id.as_str()).or_default().push(row);
    }
    for (run, rows) in by_run {
        let mut entry = Run::of(&rows);
        if let Some(Value::Object(older)) = runs.remove(run) {
            entry = Run::read(older).join(entry);
        }
        runs.insert(run.to_owned(), entry.write());
    }
    Ok(render(&Value::Object(runs)))
}

/// How a leg stands. Of one attempt a later word counts more: what ran has ended, what was lost has come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Running,
    Incomplete,
    Complete,
    /// Lost, beside another epoch of the same attempt that came to its end.
    LostBeside,
}

#[derive(Debug, Clone)]
struct Leg {
    state: State,
    row: Value,
}

/// One run, leg by leg.
#[derive(Debug, Default)]
struct Run {
    ts: Value,
    sha: Value,
    event: Value,
    attempt: Value,
    legs: BTreeMap<String, Leg>,
    attempts: Attempts,
    /// What an older file counts and does not name.
    planned: u64,
    unnamed: u64,
    /// What somebody else has written beside it.
    more: Map<String, Value>,
}

impl Run {
    fn of(rows: &[&LegRow]) -> Self {
        let newest = |pick: fn(&LegRow) -> Option<&String>| {
            let known = rows.iter().filter_map(|row| Some((date_of(row), pick(row)?)));
            known.max().map(|(_, word)| word.clone())
        };
        let mut run = Self {
            ts: json!(rows.iter().filter_map(|row| date_of(row)).max()),
            sha: json!(newest(|row| row.sha.as_ref())),
            event: json!(newest(|row| row.event.as_ref())),
            attempt: json!(rows.iter().map(|row| &row.attempt).max_by_key(|attempt| attempt.ordinal())),
            ..Self::default()
        };
        for row in rows {
            let key = row.leg().key();
            for earlier in row.attempts.iter().filter(|earlier| earlier.terminal != Terminal::Running) {
                run.attempts.add(&key, earlier_row(earlier));
            }
            run.legs.insert(key, Leg::of(row));
        }
        run
    }

    fn read(mut entry: Map<String, Value>) -> Self {
        let mut run = Self { attempts: Attempts::of(entry.remove("attempts")), ..Self::default() };
        let number = |value: Option<Value>| value.as_ref().and_then(Value::as_u64).unwrap_or(0);
        for (list, state) in [("completed", State::Complete), ("incomplete", State::Incomplete), ("running", State::Running)] {
            let Some(Value::Object(rows)) = entry.remove(list) else { continue };
            for (key, row) in rows {
                let state = if row.get("beside").is_some() { State::LostBeside } else { state };
                run.take(key, Leg { state, row });
            }
        }
        run.planned = number(entry.remove("planned"));
        run.unnamed = number(entry.remove("complete")).saturating_sub(run.count(|state| state == State::Complete));
        for (name, field) in [("ts", &mut run.ts), ("sha", &mut run.sha), ("event", &mut run.event), ("attempt", &mut run.attempt)]
        {
            *field = entry.remove(name).unwrap_or_default();
        }
        run.more = entry;
        run
    }

    /// Two folds of one run. Which of them came first does not show.
    fn join(mut self, other: Self) -> Self {
        let (a, b) = (date(&self.ts), date(&other.ts));
        let later = |mine: Value, theirs: Value| {
            let rank = |date: Wall, word: &Value| (!word.is_null(), date, word.to_string());
            if rank(a, &mine) >= rank(b, &theirs) { mine } else { theirs }
        };
        self.sha = later(self.sha, other.sha);
        self.event = later(self.event, other.event);
        self.ts = later(self.ts, other.ts);
        if (ordinal(&self.attempt), self.attempt.to_string()) < (ordinal(&other.attempt), other.attempt.to_string()) {
            self.attempt = other.attempt;
        }
        for (key, leg) in other.legs {
            self.take(key, leg);
        }
        for (key, rows) in other.attempts.0 {
            rows.into_iter().for_each(|row| self.attempts.add(&key, row));
        }
        self.planned = self.planned.max(other.planned);
        self.unnamed = self.unnamed.max(other.unnamed);
        for (key, value) in other.more {
            let (theirs, mine) = (value.to_string(), self.more.get(&key).map(Value::to_string));
            if mine.is_none_or(|mine| mine < theirs) {
                self.more.insert(key, value);
            }
        }
        self
    }

    /// Per leg the newest attempt counts; what it pushes aside stays under `attempts`.
    fn take(&mut self, key: String, leg: Leg) {
        let Some(known) = self.legs.remove(&key) else {
            self.legs.insert(key, leg);
            return;
        };
        let (older, newer) = if known.rank() <= leg.rank() { (known, leg) } else { (leg, known) };
        if older.attempt() < newer.attempt() && older.state != State::Running {
            self.attempts.add(&key, reduced(&older.row));
        }
        self.legs.insert(key, newer);
    }

    fn count(&self, wanted: impl Fn(State) -> bool) -> u64 {
        self.legs.values().filter(|leg| wanted(leg.state)).count() as u64
    }

    fn write(self) -> Value {
        let named = self.count(|state| state == State::Complete);
        let open = self.count(|state| state != State::Complete);
        let planned = self.planned.max(named + open);
        let complete = (named + self.unnamed).min(planned - open);
        let mut entry = Value::Object(self.more);
        for (name, value) in [("ts", self.ts), ("sha", self.sha), ("event", self.event), ("attempt", self.attempt)] {
            entry[name] = value;
        }
        (entry["planned"], entry["complete"]) = (json!(planned), json!(complete));
        for (key, leg) in self.legs {
            let list = match leg.state {
                State::Complete => "completed",
                State::Incomplete | State::LostBeside => "incomplete",
                State::Running => "running",
            };
            entry[list][key] = leg.row;
        }
        if !self.attempts.0.is_empty() {
            entry["attempts"] = json!(self.attempts.0);
        }
        entry
    }
}

impl Leg {
    fn of(row: &LegRow) -> Self {
        match row.terminal {
            Terminal::Complete => Self { state: State::Complete, row: earlier_row(&OtherEpoch::from(row)) },
            Terminal::Running => Self { state: State::Running, row: json!({ "attempt": row.attempt }) },
            _ if row.beside.is_empty() => Self { state: State::Incomplete, row: incomplete_row(row) },
            _ => {
                let mut value = incomplete_row(row);
                value["beside"] = json!(row.beside.len());
                Self { state: State::LostBeside, row: value }
            }
        }
    }

    fn attempt(&self) -> u64 {
        self.row.get("attempt").map_or(0, ordinal)
    }

    /// Which of two words counts; what they say tells equals apart, so that no order shows.
    fn rank(&self) -> (u64, State, u64, String) {
        let reported = self.row.get("files_reported").and_then(Value::as_u64).unwrap_or(0);
        (self.attempt(), self.state, reported, self.row.to_string())
    }
}

fn incomplete_row(row: &LegRow) -> Value {
    let host = row.last_host.as_ref().map(|host| {
        json!({
            "ts": host.ts,
            "load_1m": host.load_1m,
            "mem_available_mib": host.mem_available_mib,
            "mem_total_mib": host.mem_total_mib,
            "process_count": host.process_count,
            "qemu_count": host.qemu_count,
        })
    });
    let mut value = json!({
        "platform": row.platform,
        "target": row.target,
        "resolved": row.resolved,
        "attempt": row.attempt,
        "terminal": row.terminal,
        "why": row.why,
        "last_file": row.last_file,
        "current_file": row.current_file,
        "files_reported": row.files_reported,
        "files_planned": row.files_planned,
        "files_failed": row.files_failed,
        "last_checkpoint_ts": row.last_checkpoint_ts,
        "stalled_step": row.stalled_step,
        "job_matched": row.job_matched,
        "job_conclusion": row.job_conclusion,
        "job_elapsed_s": row.job_elapsed_s,
        "annotation": row.annotation,
        "resource_verdict": row.resource_verdict,
        "last_host": host,
    });
    if let Some(shard) = row.shard {
        value["shard"] = json!(shard);
    }
    value
}

/// What stays of an earlier attempt. A row that a newer attempt pushes aside is reduced to the same fields; of one that came to its end its
/// counts say all.
fn earlier_row(earlier: &OtherEpoch) -> Value {
    reduced(&json!({
        "attempt": earlier.attempt,
        "terminal": earlier.terminal,
        "why": earlier.why,
        "last_file": earlier.last_file,
        "current_file": earlier.current_file,
        "files_reported": earlier.files_reported,
        "files_planned": earlier.files_planned,
        "files_failed": earlier.files_failed,
    }))
}

const FIELDS: [&str; 8] =
    ["attempt", "terminal", "files_reported", "files_planned", "files_failed", "why", "last_file", "current_file"];
const FIELDS_OF_COMPLETE: usize = 5;

fn reduced(row: &Value) -> Value {
    let is_complete = text(row, "terminal") == Some(Terminal::Complete.as_str());
    let fields = if is_complete { &FIELDS[..FIELDS_OF_COMPLETE] } else { &FIELDS[..] };
    Value::Object(fields.iter().map(|field| ((*field).to_owned(), row.get(*field).cloned().unwrap_or_default())).collect())
}

/// Earlier attempts by leg; each said once, in the order of attempts.
#[derive(Debug, Default)]
struct Attempts(BTreeMap<String, Vec<Value>>);

impl Attempts {
    fn of(written: Option<Value>) -> Self {
        let mut attempts = Self::default();
        for (leg, rows) in written.as_ref().and_then(Value::as_object).into_iter().flatten() {
            for row in rows.as_array().into_iter().flatten() {
                attempts.add(leg, row.clone());
            }
        }
        attempts
    }

    fn add(&mut self, leg: &str, row: Value) {
        let rows = self.0.entry(leg.to_owned()).or_default();
        if !rows.contains(&row) {
            rows.push(row);
            rows.sort_by_key(|row| (row.get("attempt").map_or(0, ordinal), row.to_string()));
        }
    }
}

fn ordinal(attempt: &Value) -> u64 {
    attempt.as_str().map_or(0, |attempt| Attempt::from(attempt).ordinal())
}

fn date(ts: &Value) -> Wall {
    ts.as_str().and_then(Wall::parse).unwrap_or(Wall(i64::MIN))
}
