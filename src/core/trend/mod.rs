//! Does cost climb with position, does anything accumulate?
//!
//! A file's cost is judged against a reference of the same file, so that a plan which happens to end with slow files shows no climb.
//! What is claimed stays inside what the samples carry: every answer says how many points it has, and what was not seen is named.
//! Nothing in here knows where the legs came from.

mod resources;
mod stats;
#[cfg(test)]
mod tests;
mod words;

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::outcome::Outcome;
use super::row::{FileRow, LegRow};
pub use resources::{Held, Resource, Seen};
pub use stats::Fit;
use stats::{fit, least_squares, median, median_interval};

/// What is asked of the legs.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The leg that is judged.
    pub leg: &'a LegRow,
    /// Legs that say what a file costs elsewhere. Without any, the leg is judged against itself: only its resources can be.
    pub reference: &'a [&'a LegRow],
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trend {
    pub leg: String,
    pub reference: Vec<String>,
    /// Files of the leg that passed undisturbed and have a reference, in the order in which they ran.
    pub files: Vec<FileCost>,
    /// How much dearer a file is here than in the reference, wherever it stands.
    pub level: Option<Level>,
    /// Ratio per file by position, as it was measured.
    pub raw: Option<Fit>,
    /// The same without time in which no VM was alive. `null` where no sample tells.
    pub without_idle: Option<Fit>,
    /// The same without the parts that the files named themselves.
    pub without_components: Option<Fit>,
    /// The file that moves the raw slope most, and the slope without it.
    pub lever: Option<Lever>,
    /// The same files run in separate groups: how much dearer they were in this one sequence.
    pub isolation: Option<Isolation>,
    pub resources: Vec<Resource>,
    pub seen: Seen,
    /// In words, the answer first.
    pub verdict: Vec<String>,
    /// What could not be seen, in words.
    pub not_seen: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileCost {
    /// Place among the files that ran, from 1.
    pub position: usize,
    pub file: String,
    pub duration_s: f64,
    /// Median of the reference.
    pub reference_s: f64,
    pub reference_n: usize,
    pub ratio: f64,
    /// Time inside the file in which no VM was alive. `null` where no sample tells.
    pub idle_s: Option<f64>,
    /// The same for the reference.
    pub reference_idle_s: Option<f64>,
    pub components_s: f64,
    pub components: BTreeMap<String, f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lever {
    pub file: String,
    pub position: usize,
    /// The least-squares slope of the others.
    pub without: f64,
    /// How far this file moves it.
    pub moves: f64,
}

/// The median ratio with the 95 % interval of the sign test, which needs 6 files.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Level {
    pub files: usize,
    pub median_ratio: f64,
    pub low: Option<f64>,
    pub high: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Isolation {
    pub groups: usize,
    pub level: Level,
}

/// Answers for one leg.
pub fn analyse(question: Question<'_>) -> Trend {
    let leg = question.leg;
    let reference: Vec<&LegRow> = question.reference.iter().copied().filter(|other| !same(other, leg)).collect();
    let costs = costs_of(&reference);
    let ran: Vec<&FileRow> = leg.files.iter().filter(|file| file.started_at.is_some() || file.duration_s.is_some()).collect();
    let mut files = Vec::new();
    for (at, file) in ran.iter().enumerate() {
        if let (Some(duration), Some(costs)) = (cost(file), costs.get(file.file.as_str())) {
            files.extend(file_cost(at + 1, leg, file, duration, costs));
        }
    }
    let by_position = |value: fn(&FileCost) -> Option<f64>| -> Vec<(f64, f64)> {
        files.iter().filter_map(|file| Some((file.position as f64, value(file)?))).collect()
    };
    let raw = by_position(|file| Some(file.ratio));
    let with_components = files.iter().any(|file| file.components_s > 0.0);
    let mut trend = Trend {
        leg: leg.leg().to_string(),
        reference: reference.iter().map(|other| other.leg().to_string()).collect(),
        level: level(&files),
        raw: fit(&raw),
        without_idle: fit(&by_position(without_idle)),
        without_components: if with_components { fit(&by_position(without_components)) } else { None },
        lever: lever(&files, &raw),
        isolation: isolation(leg, &reference, &files),
        resources: resources::of(leg, &ran),
        seen: resources::seen(leg, &ran),
        files,
        verdict: Vec::new(),
        not_seen: Vec::new(),
    };
    trend.verdict = words::verdict(&trend, leg);
    trend.not_seen = words::not_seen(&trend, leg, ran.len());
    trend
}

fn same(a: &LegRow, b: &LegRow) -> bool {
    std::ptr::eq(a, b) || (a.leg() == b.leg() && a.epoch == b.epoch)
}

/// Only an undisturbed pass tells what a file costs: a killed one tells its cap, a suspended one the night.
fn cost(file: &FileRow) -> Option<f64> {
    let undisturbed = file.outcome == Some(Outcome::Pass) && file.suspended_s.is_none_or(|gap| gap.millis() == 0);
    file.duration_s.filter(|_| undisturbed).map(|duration| duration.as_f64()).filter(|seconds| *seconds > 0.0)
}

#[derive(Debug, Default)]
struct Costs {
    durations: Vec<f64>,
    idle: Vec<f64>,
    components: Vec<f64>,
}

fn costs_of<'a>(reference: &[&'a LegRow]) -> HashMap<&'a str, Costs> {
    let mut costs: HashMap<&str, Costs> = HashMap::new();
    for leg in reference {
        for file in &leg.files {
            let Some(duration) = cost(file) else { continue };
            let of_file = costs.entry(file.file.as_str()).or_default();
            of_file.durations.push(duration);
            of_file.components.push(components_s(file, duration));
            of_file.idle.extend(resources::idle_s(leg, file));
        }
    }
    costs
}

fn file_cost(position: usize, leg: &LegRow, file: &FileRow, duration_s: f64, costs: &Costs) -> Option<FileCost> {
    let reference_s = median(&costs.durations)?;
    let mut components = BTreeMap::new();
    for part in &file.components {
        *components.entry(part.name.clone()).or_insert(0.0) += part.seconds;
    }
    Some(FileCost {
        position,
        file: file.file.clone(),
        duration_s,
        reference_s,
        reference_n: costs.durations.len(),
        ratio: duration_s / reference_s,
        idle_s: resources::idle_s(leg, file),
        reference_idle_s: median(&costs.idle),
        components_s: components_s(file, duration_s),
        components,
    })
}

/// Parts may overlap or lie; together they are never more than the file.
fn components_s(file: &FileRow, duration_s: f64) -> f64 {
    // The sum of nothing is -0.0 where it is asked of the iterator.
    file.components.iter().fold(0.0_f64, |sum, part| sum + part.seconds.max(0.0)).min(duration_s)
}

/// Time without a VM comes off both sides where both know it. A reference that does not know it keeps its whole time: the ratio is then
/// too small by the same share for every file like it, which moves the level and not the slope.
fn without_idle(file: &FileCost) -> Option<f64> {
    let left = file.duration_s - file.idle_s?;
    let reference = file.reference_s - file.reference_idle_s.unwrap_or(0.0);
    (left >= 0.0 && reference > 0.0).then(|| left / reference)
}

fn without_components(file: &FileCost) -> Option<f64> {
    Some((file.duration_s - file.components_s) / file.reference_s)
}

fn lever(files: &[FileCost], points: &[(f64, f64)]) -> Option<Lever> {
    let whole = least_squares(points).filter(|_| points.len() >= 4)?;
    let without = |at: usize| {
        let others: Vec<(f64, f64)> = points.iter().enumerate().filter(|(n, _)| *n != at).map(|(_, point)| *point).collect();
        least_squares(&others)
    };
    let moved = (0..points.len()).filter_map(|at| Some((at, without(at)?)));
    let (at, without) = moved.max_by(|a, b| (whole - a.1).abs().total_cmp(&(whole - b.1).abs()))?;
    Some(Lever { file: files[at].file.clone(), position: files[at].position, without, moves: whole - without })
}

/// The reference is a set of groups where each ran some of the files, and none ran as many as the leg.
fn isolation(leg: &LegRow, reference: &[&LegRow], files: &[FileCost]) -> Option<Isolation> {
    let smaller = reference.iter().all(|other| !other.files.is_empty() && other.files.len() < leg.files.len());
    if reference.len() < 2 || !smaller {
        return None;
    }
    Some(Isolation { groups: reference.len(), level: level(files)? })
}

fn level(files: &[FileCost]) -> Option<Level> {
    let ratios: Vec<f64> = files.iter().map(|file| file.ratio).collect();
    let interval = median_interval(&ratios);
    Some(Level {
        files: files.len(),
        median_ratio: median(&ratios)?,
        low: interval.map(|(low, _)| low),
        high: interval.map(|(_, high)| high),
    })
}
