//! Several epochs of one attempt: what a newer one takes over from an older one, and which of them speaks for the leg.
//!
//! How each of them ended is decided elsewhere, in `core::classify`.

use std::collections::HashSet;

use super::{Evidence, count};
use crate::core::outcome::{Conclusion, Outcome};
use crate::core::row::{FileRow, LegRow, OtherEpoch};

/// An epoch that continued another has that one's records too. `evidence` is newest first.
pub fn resume(evidence: &mut [Evidence]) {
    for at in (0..evidence.len().saturating_sub(1)).rev() {
        let (newer, older) = evidence.split_at_mut(at + 1);
        let newer = &mut newer[at];
        let Some(continued) = newer.resumes.clone() else { continue };
        if let Some(before) = older.iter().find(|older| older.row.epoch.as_ref() == Some(&continued)) {
            take_over(&mut newer.row, &before.row);
        }
    }
}

fn take_over(row: &mut LegRow, before: &LegRow) {
    let mut taken = false;
    for file in &mut row.files {
        if file.outcome == Some(Outcome::NotRun) {
            let record = before.files.iter().find(|old| (old.index, old.round) == (file.index, file.round) && old.reported());
            if let Some(record) = record {
                *file = record.clone();
                taken = true;
            }
        }
    }
    if !taken {
        return;
    }
    row.files_reported = count(row.files.iter().filter(|file| file.reported()).count());
    row.files_failed = count(row.files.iter().filter(|file| file.failed()).count());
    row.started_at = before.started_at.or(row.started_at);
    if row.conclusion == Some(Conclusion::Pass) && row.files_failed > 0 {
        row.conclusion = Some(Conclusion::Fail);
    }
}

/// For each epoch, newest first, whether a newer one stands in its place: one that continued it, or ran the same files again. One that ran
/// other files stands beside it.
pub fn superseded(evidence: &[Evidence]) -> Vec<bool> {
    let covered = |at: usize, older: &Evidence| evidence[..at].iter().any(|newer| covers(newer, older));
    evidence.iter().enumerate().map(|(at, older)| covered(at, older)).collect()
}

fn covers(newer: &Evidence, older: &Evidence) -> bool {
    if older.row.epoch.is_some() && newer.resumes == older.row.epoch {
        return true;
    }
    // A ci-data record is the same leg, told by another instrument.
    if newer.row.epoch.is_none() || older.row.epoch.is_none() {
        return true;
    }
    let planned = files_of(&newer.row);
    let has_all = files_of(&older.row).is_subset(&planned);
    // A marker without room for every row knows the newest files, and how many there were.
    let is_whole = older.row.files_planned.is_none_or(|planned| older.row.files.len() >= planned as usize);
    has_all && (is_whole || older.row.files_planned == newer.row.files_planned)
}

fn files_of(row: &LegRow) -> HashSet<(&str, Option<&str>)> {
    row.files.iter().map(|file: &FileRow| (file.file.as_str(), file.file_b64.as_deref())).collect()
}

/// Of the epochs that nothing stands in the place of, the worst speaks for the leg, with the others beside it; the rest follow as what
/// earlier epochs left.
pub fn speaking_first(rows: Vec<LegRow>, superseded: &[bool]) -> Vec<LegRow> {
    let (standing, older): (Vec<_>, Vec<_>) = rows.into_iter().zip(superseded).partition(|(_, superseded)| !**superseded);
    let mut standing: Vec<LegRow> = standing.into_iter().map(|(row, _)| row).collect();
    // The first of equals is the newest.
    let Some(worst) = (0..standing.len()).min_by_key(|at| goodness(&standing[*at])) else { return Vec::new() };
    let mut first = standing.remove(worst);
    first.attempts = standing.iter().map(OtherEpoch::from).collect();
    first.beside = standing;
    std::iter::once(first).chain(older.into_iter().map(|(row, _)| row)).collect()
}

fn goodness(row: &LegRow) -> u8 {
    match row.conclusion {
        Some(Conclusion::Fail) => 0,
        _ if row.files_failed > 0 => 1,
        None => 2,
        Some(Conclusion::Incomplete) => 3,
        Some(Conclusion::Pass) => 4,
    }
}
