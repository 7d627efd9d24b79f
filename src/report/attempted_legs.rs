//! `attempted-legs.json`: `{run_id: {ts, sha, event, attempt, planned, complete, incomplete?, attempts?}}`.
//!
//! Where nothing was lost there is no `incomplete`; what earlier attempts left behind stays under `attempts`. Folding again, in any
//! order, onto an older file gives the same bytes.

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
        let entry = entry(&rows);
        let merged = match runs.remove(run) {
            Some(older) => merge(older, entry),
            None => entry,
        };
        runs.insert(run.to_owned(), merged);
    }
    Ok(render(&Value::Object(runs)))
}

fn entry(rows: &[&LegRow]) -> Value {
    let newest = |pick: fn(&LegRow) -> Option<&String>| {
        let mut known: Vec<_> = rows.iter().filter_map(|row| Some((date_of(row), pick(row)?))).collect();
        known.sort();
        known.last().map(|(_, word)| (*word).clone())
    };
    let complete = rows.iter().filter(|row| row.terminal == Terminal::Complete).count();
    let attempt = rows.iter().map(|row| &row.attempt).max_by_key(|attempt| attempt.ordinal());
    let mut entry = json!({
        "ts": rows.iter().filter_map(|row| date_of(row)).max(),
        "sha": newest(|row| row.sha.as_ref()),
        "event": newest(|row| row.event.as_ref()),
        "attempt": attempt,
        "planned": rows.len(),
        "complete": complete,
    });
    let lost: Map<String, Value> = rows
        .iter()
        .filter(|row| !matches!(row.terminal, Terminal::Complete | Terminal::Running))
        .map(|row| (row.leg().key(), incomplete_row(row)))
        .collect();
    if !lost.is_empty() {
        entry["incomplete"] = Value::Object(lost);
    }
    let mut attempts = Attempts::default();
    for row in rows {
        for earlier in row.attempts.iter().filter(|earlier| earlier.terminal != Terminal::Complete) {
            attempts.add(&row.leg().key(), earlier_row(earlier));
        }
    }
    attempts.write(&mut entry);
    entry
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

/// What stays of an earlier attempt. A row that a newer attempt pushes aside is reduced to the same fields.
fn earlier_row(earlier: &OtherEpoch) -> Value {
    json!({
        "attempt": earlier.attempt,
        "terminal": earlier.terminal,
        "why": earlier.why,
        "last_file": earlier.last_file,
        "current_file": earlier.current_file,
        "files_reported": earlier.files_reported,
        "files_planned": earlier.files_planned,
        "files_failed": earlier.files_failed,
    })
}

fn reduced(row: &Value) -> Value {
    let fields = ["attempt", "terminal", "why", "last_file", "current_file", "files_reported", "files_planned", "files_failed"];
    Value::Object(fields.iter().map(|field| ((*field).to_owned(), row.get(*field).cloned().unwrap_or_default())).collect())
}

/// Earlier attempts by leg; each said once, in the order of attempts.
#[derive(Debug, Default)]
struct Attempts(BTreeMap<String, Vec<Value>>);

impl Attempts {
    fn of(entry: &Value) -> Self {
        let mut attempts = Self::default();
        for (leg, rows) in entry.get("attempts").and_then(Value::as_object).into_iter().flatten() {
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
            rows.sort_by_key(|row| (ordinal(row), row.to_string()));
        }
    }

    fn write(self, entry: &mut Value) {
        if !self.0.is_empty() {
            entry["attempts"] = json!(self.0);
        }
    }
}

/// Two folds of one run: the newer attempt stands, then the one that knows of more legs; what the other left is kept.
fn merge(a: Value, b: Value) -> Value {
    let rank = |entry: &Value| {
        let number = |key| entry.get(key).and_then(Value::as_u64).unwrap_or(0);
        let lost = entry.get("incomplete").and_then(Value::as_object).map_or(0, Map::len) as u64;
        (ordinal(entry), number("complete") + lost, number("complete"), date(entry), without_attempts(entry).to_string())
    };
    let (old, new) = if rank(&a) <= rank(&b) { (a, b) } else { (b, a) };
    let mut attempts = Attempts::of(&new);
    for (leg, rows) in Attempts::of(&old).0 {
        rows.into_iter().for_each(|row| attempts.add(&leg, row));
    }
    if ordinal(&old) < ordinal(&new) {
        for (leg, row) in old.get("incomplete").and_then(Value::as_object).into_iter().flatten() {
            let row = reduced(row);
            if ordinal(&row) < ordinal(&new) {
                attempts.add(leg, row);
            }
        }
    }
    let mut merged = without_attempts(&new);
    attempts.write(&mut merged);
    merged
}

fn without_attempts(entry: &Value) -> Value {
    let mut entry = entry.clone();
    if let Some(object) = entry.as_object_mut() {
        object.remove("attempts");
    }
    entry
}

fn ordinal(entry: &Value) -> u64 {
    text(entry, "attempt").map_or(0, |attempt| Attempt::from(attempt).ordinal())
}

fn date(entry: &Value) -> Wall {
    text(entry, "ts").and_then(Wall::parse).unwrap_or(Wall(i64::MIN))
}
