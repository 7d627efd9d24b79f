//! Legs as the shared files count them: shards of one leg are one leg, and each marks one version.

use std::collections::{BTreeMap, BTreeSet};

use crate::core::ids::Attempt;
use crate::core::moment::Wall;
use crate::core::outcome::{Conclusion, Scope, Terminal};
use crate::core::row::{LegRow, OtherEpoch, Summary};
use crate::core::version::is_version;

/// One leg, its shards put together.
#[derive(Debug, Clone)]
pub struct MergedLeg<'a> {
    /// `None` while any shard runs and none has failed.
    pub conclusion: Option<Conclusion>,
    /// When the leg's word was given: the newest moment that its evidence knows.
    pub date: Option<Wall>,
    pub scope: Option<Scope>,
    pub version: Option<String>,
    /// The row that decided: a failed shard, else an incomplete one, else the last to end.
    pub row: &'a LegRow,
    pub rows: Vec<&'a LegRow>,
}

/// Puts shards together and finds the version of each leg. The legs come in the order of run, platform and target.
pub fn merged_legs(summary: &Summary) -> Vec<MergedLeg<'_>> {
    let mut groups: BTreeMap<(&str, &str, &str), Vec<&LegRow>> = BTreeMap::new();
    for row in &summary.legs {
        groups.entry((row.run_id.as_str(), row.platform.as_str(), row.target.as_str())).or_default().push(row);
    }
    let siblings = Siblings::of(summary);
    groups.into_values().map(|rows| merge(rows, &siblings)).collect()
}

/// What each leg had come to before its newest attempt, attempt by attempt: its shards in that attempt, or in the last one before it that
/// left a shard anything.
pub fn earlier_attempts(summary: &Summary) -> Vec<Vec<LegRow>> {
    let mut groups: BTreeMap<(&str, &str, &str), Vec<&LegRow>> = BTreeMap::new();
    for row in summary.legs.iter().filter(|row| !row.attempts.is_empty() || row.shard.is_some()) {
        groups.entry((row.run_id.as_str(), row.platform.as_str(), row.target.as_str())).or_default().push(row);
    }
    let mut views = Vec::new();
    for rows in groups.into_values() {
        let newest = rows.iter().map(|row| row.attempt.ordinal()).max().unwrap_or(0);
        let of_all = rows.iter().flat_map(|row| row.attempts.iter().map(|other| &other.attempt).chain([&row.attempt]));
        let attempts: BTreeSet<u64> = of_all.map(Attempt::ordinal).filter(|at| *at < newest).collect();
        views.extend(attempts.into_iter().map(|at| rows.iter().filter_map(|row| as_of(row, at)).collect()));
    }
    views
}

/// The row of a leg as it was in this attempt.
fn as_of(row: &LegRow, attempt: u64) -> Option<LegRow> {
    if row.attempt.ordinal() <= attempt {
        return Some(OtherEpoch::from(row).row(row.leg()));
    }
    // The newest stand first, and the first of an attempt speaks for it.
    row.attempts.iter().find(|other| other.attempt.ordinal() <= attempt).map(|other| other.row(row.leg()))
}

/// Those earlier attempts, each put together as the newest one is.
pub fn merged_attempts<'a>(earlier: &'a [Vec<LegRow>], summary: &Summary) -> Vec<MergedLeg<'a>> {
    if earlier.is_empty() {
        return Vec::new();
    }
    let siblings = Siblings::of(summary);
    earlier.iter().map(|rows| merge(rows.iter().collect(), &siblings)).collect()
}

/// The newest moment that a row's evidence knows of. Nothing of the reader's own time is in it, so that two folds of the same
/// evidence say the same.
pub fn date_of(row: &LegRow) -> Option<Wall> {
    row.ended_at.or_else(|| [row.last_checkpoint_ts, row.last_heartbeat_ts, row.started_at].into_iter().flatten().max())
}

fn merge<'a>(mut rows: Vec<&'a LegRow>, siblings: &Siblings) -> MergedLeg<'a> {
    rows.sort_by(|a, b| (a.shard, &a.attempt, &a.epoch).cmp(&(b.shard, &b.attempt, &b.epoch)));
    let shards = rows.iter().filter_map(|row| row.shard).map(|shard| shard.count).max().unwrap_or(1);
    let is = |wanted: Option<Conclusion>| move |row: &&&LegRow| row.conclusion == wanted;
    let failed = rows.iter().find(is(Some(Conclusion::Fail)));
    let running = rows.iter().find(is(None));
    let incomplete = rows.iter().find(is(Some(Conclusion::Incomplete)));
    let last = rows.iter().max_by_key(|row| date_of(row));
    let row = *failed.or(running).or(incomplete).or(last).expect("a group has a row");
    let all_there = rows.len() >= shards as usize;
    let conclusion = match row.conclusion {
        Some(Conclusion::Pass) if !all_there => Some(Conclusion::Incomplete),
        other => other,
    };
    let version = rows.iter().find_map(|row| row.resolved.clone()).or_else(|| siblings.version(row));
    MergedLeg {
        conclusion,
        // A leg that left nothing is as old as what its run left.
        date: rows.iter().filter_map(|row| date_of(row)).max().or_else(|| siblings.dates.get(row.run_id.as_str()).copied()),
        scope: rows.iter().find_map(|row| row.scope).or_else(|| siblings.scope(row)),
        version,
        row,
        rows,
    }
}

/// What other legs of the same run know.
struct Siblings {
    versions: BTreeMap<(String, String), String>,
    scopes: BTreeMap<String, Scope>,
    dates: BTreeMap<String, Wall>,
}

impl Siblings {
    fn of(summary: &Summary) -> Self {
        let mut siblings = Self { versions: BTreeMap::new(), scopes: BTreeMap::new(), dates: BTreeMap::new() };
        for row in summary.legs.iter().chain(&summary.others) {
            if let Some(date) = date_of(row) {
                let known = siblings.dates.entry(row.run_id.0.clone()).or_insert(date);
                *known = date.max(*known);
            }
            if let Some(resolved) = &row.resolved {
                let key = (row.run_id.0.clone(), row.target.0.clone());
                // Siblings that disagree are rare; the smallest word wins, whatever the order of the legs.
                let known = siblings.versions.entry(key).or_insert_with(|| resolved.clone());
                if resolved < known {
                    known.clone_from(resolved);
                }
            }
            if let Some(scope) = row.scope {
                let known = siblings.scopes.entry(row.run_id.0.clone()).or_insert(scope);
                if scope == Scope::Filtered {
                    *known = scope;
                }
            }
        }
        siblings
    }

    fn version(&self, row: &LegRow) -> Option<String> {
        if is_version(row.target.as_str()) {
            return Some(row.target.0.clone());
        }
        self.versions.get(&(row.run_id.0.clone(), row.target.0.clone())).cloned()
    }

    /// A leg that left nothing has the scope of its run; a run of which nothing is known was meant to be whole.
    fn scope(&self, row: &LegRow) -> Option<Scope> {
        match self.scopes.get(row.run_id.as_str()) {
            Some(scope) => Some(*scope),
            None if row.terminal == Terminal::NotStarted || row.job_matched == Some(true) => Some(Scope::Full),
            None => None,
        }
    }
}
