//! `tested-versions.json`: `{version: {platform: {conclusion, date, run_id}}}`.
//!
//! A fold that does not care about order: of each version and platform the newest pass or fail counts, and beside it the newest lost
//! attempt, where that one is newer. Folding the same legs again, or onto a file that already has them, changes nothing.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::merged::{MergedLeg, earlier_attempts, merged_attempts, merged_legs};
use super::shared_json::{OlderFileError, parse_older, render, text};
use crate::core::moment::Wall;
use crate::core::outcome::{Conclusion, Scope};
use crate::core::row::Summary;

/// What becomes of legs that did not end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IncompleteRows {
    /// They are rows, and `last_attempt` beside an older pass or fail.
    Row,
    /// They are rows of a file of their own.
    Sidecar,
    /// Only `attempted-legs` has them.
    Omit,
}

#[derive(Debug, Clone, PartialEq)]
pub struct TestedVersions {
    pub text: String,
    /// The incomplete rows, where a file of their own was asked for.
    pub sidecar: Option<String>,
    pub warnings: Vec<String>,
}

/// Folds the legs of `summary` onto an older file.
pub fn tested_versions(
    summary: &Summary,
    older: Option<&[u8]>,
    older_sidecar: Option<&[u8]>,
    incomplete: IncompleteRows,
) -> Result<TestedVersions, OlderFileError> {
    let mut cells = Cells::default();
    let kept = cells.read(parse_older(older)?);
    let kept_beside = cells.read(parse_older(older_sidecar)?);
    let mut warnings = Vec::new();
    for leg in merged_legs(summary) {
        cells.take(&leg, &mut warnings);
    }
    let earlier = earlier_attempts(summary);
    for leg in merged_attempts(&earlier, summary) {
        cells.take(&leg, &mut Vec::new());
    }
    Ok(TestedVersions {
        text: render(&cells.main(incomplete, kept)),
        sidecar: (incomplete == IncompleteRows::Sidecar).then(|| render(&cells.sidecar(kept_beside))),
        warnings,
    })
}

/// The versions out of `asked` that `platform` has neither passed nor failed: an incomplete row is no test.
pub fn due(tested: &str, asked: &[String], platform: &str) -> Result<Vec<String>, OlderFileError> {
    let versions = parse_older(Some(tested.as_bytes()))?;
    let is_tested = |version: &String| {
        let row = versions.get(version).and_then(|row| row.get(platform));
        row.and_then(|row| text(row, "conclusion")).is_some_and(|word| word != Conclusion::Incomplete.as_str())
    };
    Ok(asked.iter().filter(|version| !is_tested(version)).cloned().collect())
}

/// One version on one platform.
#[derive(Debug, Default)]
struct Cell {
    verdict: Option<Value>,
    lost: Option<Value>,
}

#[derive(Debug, Default)]
struct Cells(BTreeMap<String, BTreeMap<String, Cell>>);

impl Cells {
    /// Takes the rows of a file, and gives back what in it are none: that is somebody else's, and stays as it is.
    fn read(&mut self, older: Map<String, Value>) -> Map<String, Value> {
        let mut kept = Map::new();
        for (version, platforms) in older {
            let platforms = match platforms {
                Value::Object(platforms) if !platforms.is_empty() => platforms,
                other => {
                    kept.insert(version, other);
                    continue;
                }
            };
            for (platform, mut row) in platforms {
                let lost = row.as_object_mut().and_then(|row| row.remove("last_attempt"));
                let cell = self.cell(&version, &platform);
                keep_newer(if is_incomplete(&row) { &mut cell.lost } else { &mut cell.verdict }, row);
                if let Some(lost) = lost {
                    keep_newer(&mut cell.lost, lost);
                }
            }
        }
        kept
    }

    fn take(&mut self, leg: &MergedLeg<'_>, warnings: &mut Vec<String>) {
        let Some(conclusion) = leg.conclusion.filter(|_| leg.scope == Some(Scope::Full)) else {
            return;
        };
        let name = leg.row.leg();
        let Some(version) = leg.version.as_deref() else {
            warnings.push(format!("{name}: no version is known for target '{}'; only attempted-legs has it", name.target));
            return;
        };
        let Some(date) = leg.date else {
            warnings.push(format!("{name}: nothing says when; only attempted-legs has it"));
            return;
        };
        let mut row = json!({"conclusion": conclusion.as_str(), "date": date, "run_id": name.run_id});
        let cell = self.cell(version, name.platform.as_str());
        if conclusion != Conclusion::Incomplete {
            keep_newer(&mut cell.verdict, row);
            return;
        }
        row["terminal"] = json!(leg.row.terminal);
        row["last_file"] = json!(leg.row.last_file);
        row["files_reported"] = json!(leg.row.files_reported);
        row["files_planned"] = json!(leg.row.files_planned);
        row["target"] = json!(leg.row.target);
        row["attempt"] = json!(leg.row.attempt);
        keep_newer(&mut cell.lost, row);
    }

    fn cell(&mut self, version: &str, platform: &str) -> &mut Cell {
        self.0.entry(version.to_owned()).or_default().entry(platform.to_owned()).or_default()
    }

    fn main(&self, incomplete: IncompleteRows, kept: Map<String, Value>) -> Value {
        let keep_lost = incomplete == IncompleteRows::Row;
        self.collect(kept, |cell| match (&cell.verdict, cell.newer_lost().filter(|_| keep_lost)) {
            (Some(verdict), Some(lost)) => {
                let mut row = verdict.clone();
                if let Some(row) = row.as_object_mut() {
                    row.insert("last_attempt".to_owned(), lost.clone());
                }
                Some(row)
            }
            (Some(verdict), None) => Some(verdict.clone()),
            (None, lost) => lost.cloned(),
        })
    }

    fn sidecar(&self, kept: Map<String, Value>) -> Value {
        self.collect(kept, |cell| cell.newer_lost().cloned())
    }

    fn collect(&self, kept: Map<String, Value>, row: impl Fn(&Cell) -> Option<Value>) -> Value {
        let mut versions = kept;
        for (version, platforms) in &self.0 {
            let rows: Map<String, Value> =
                platforms.iter().filter_map(|(platform, cell)| Some((platform.clone(), row(cell)?))).collect();
            if !rows.is_empty() {
                versions.insert(version.clone(), Value::Object(rows));
            }
        }
        Value::Object(versions)
    }
}

impl Cell {
    /// The lost attempt, unless a pass or fail of the same time or later has made up for it.
    fn newer_lost(&self) -> Option<&Value> {
        let lost = self.lost.as_ref()?;
        let made_up = self.verdict.as_ref().is_some_and(|verdict| date(verdict) >= date(lost));
        (!made_up).then_some(lost)
    }
}

fn is_incomplete(row: &Value) -> bool {
    text(row, "conclusion") == Some(Conclusion::Incomplete.as_str())
}

fn date(row: &Value) -> Wall {
    text(row, "date").and_then(Wall::parse).unwrap_or(Wall(i64::MIN))
}

/// A newer row supersedes an older one. Of the same moment a fail counts before a pass, and then what they say tells them apart, so
/// that no order of folding shows.
fn keep_newer(kept: &mut Option<Value>, row: Value) {
    let rank = |row: &Value| (date(row), text(row, "conclusion") != Some(Conclusion::Pass.as_str()), row.to_string());
    match kept {
        Some(old) if rank(old) >= rank(&row) => {}
        _ => *kept = Some(row),
    }
}
