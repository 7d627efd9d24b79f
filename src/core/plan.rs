//! What should exist: the matrix of legs, and the share of files that one shard takes.
//!
//! A plan file comes from outside: it is bounded, and its words are data.

use serde::{Deserialize, Serialize};

use super::ids::{FilePath, Platform, Shard, Target, leg_key};
use super::moment::Secs;

/// A service starts at most 256 jobs of one matrix; ten times as many fit.
pub const MAX_PLAN_LEGS: usize = 4096;
pub const MAX_PLAN_BYTES: usize = 4 << 20;

/// One leg that should exist.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedLeg {
    /// The platform.
    pub id: Platform,
    /// The platform as job names write it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    pub target: Target,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
    /// What else the matrix says of it, such as the runner it wants: nothing to ledger, and needed by whoever starts it again.
    #[serde(flatten)]
    pub more: serde_json::Map<String, serde_json::Value>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanFileError {
    #[error("more than {MAX_PLAN_BYTES} bytes")]
    TooLarge,
    #[error("more than {MAX_PLAN_LEGS} legs")]
    TooMany,
    #[error("no plan: {0}; a plan is {{\"include\":[{{\"id\":…,\"target\":…}}]}} or the bare array")]
    Shape(String),
    #[error("the plan has the leg {0} twice")]
    Twice(String),
}

impl PlannedLeg {
    /// The leg's key inside its run.
    pub fn key(&self) -> String {
        leg_key(&self.id, &self.target, self.shard)
    }

    /// The name of the leg's job, out of a template such as `Integration ({label} · {target})`.
    pub fn job_name(&self, template: &str) -> String {
        let shard = self.shard.map(|shard| shard.to_string()).unwrap_or_default();
        let label = self.label.as_deref().unwrap_or(self.id.as_str());
        let resolved = self.resolved.as_deref().unwrap_or_default();
        let words = [
            ("{label}", label),
            ("{target}", self.target.as_str()),
            ("{id}", self.id.as_str()),
            ("{platform}", self.id.as_str()),
            ("{resolved}", resolved),
            ("{shard}", shard.as_str()),
        ];
        // From left to right, once: a value that looks like a placeholder is not replaced again.
        let mut name = String::new();
        let mut rest = template;
        while let Some(at) = rest.find('{') {
            name.push_str(&rest[..at]);
            rest = &rest[at..];
            match words.iter().find(|(word, _)| rest.starts_with(word)) {
                Some((word, value)) => {
                    name.push_str(value);
                    rest = &rest[word.len()..];
                }
                None => {
                    name.push('{');
                    rest = &rest[1..];
                }
            }
        }
        name + rest
    }
}

/// Reads a plan: `{"include":[…]}` or the bare array.
pub fn parse_plan(bytes: &[u8]) -> Result<Vec<PlannedLeg>, PlanFileError> {
    if bytes.len() > MAX_PLAN_BYTES {
        return Err(PlanFileError::TooLarge);
    }
    let shape = |error: serde_json::Error| PlanFileError::Shape(error.to_string().chars().take(200).collect());
    let value: serde_json::Value = serde_json::from_slice(bytes).map_err(shape)?;
    let list = match value {
        serde_json::Value::Object(mut object) => object.remove("include").unwrap_or_default(),
        other => other,
    };
    if list.as_array().is_some_and(|list| list.len() > MAX_PLAN_LEGS) {
        return Err(PlanFileError::TooMany);
    }
    let legs: Vec<PlannedLeg> = serde_json::from_value(list).map_err(shape)?;
    let mut seen = std::collections::HashSet::new();
    match legs.iter().map(PlannedLeg::key).find(|key| !seen.insert(key.clone())) {
        Some(twice) => Err(PlanFileError::Twice(twice)),
        None => Ok(legs),
    }
}

/// Places in `files` that shard `shard` takes, in the order of the plan.
///
/// The longest file goes first, each to the share that has least so far; a file without history counts as the median of the others.
/// The same files and times give the same shares on every machine, and every file is in exactly one share.
pub fn share(files: &[FilePath], expect: impl Fn(&FilePath) -> Option<Secs>, shard: Shard) -> Vec<usize> {
    let mut known: Vec<Secs> = files.iter().filter_map(&expect).collect();
    let usual = super::history::median(&mut known).unwrap_or(Secs::from_secs(60));
    let mut by_cost: Vec<(Secs, &FilePath, usize)> =
        files.iter().enumerate().map(|(at, file)| (expect(file).unwrap_or(usual), file, at)).collect();
    by_cost.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(b.1)).then(a.2.cmp(&b.2)));
    let mut loads = vec![(Secs::ZERO, 0usize); shard.count as usize];
    let mut mine = Vec::new();
    for (cost, _, at) in by_cost {
        // By load, then by number of files: shares stay even where nothing costs anything.
        let Some(least) = (0..loads.len()).min_by_key(|share| loads[*share]) else { break };
        loads[least] = (loads[least].0.saturating_add(cost), loads[least].1 + 1);
        if least + 1 == shard.index as usize {
            mine.push(at);
        }
    }
    mine.sort_unstable();
    mine
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn both_shapes_of_a_plan_are_read() {
        let bare = br#"[{"id":"linux-x86","label":"linux/x86_64","target":"stable","resolved":"7.23.2"},{"id":"b","target":"t","shard":"1/2"}]"#;
        let legs = parse_plan(bare).expect("the bare array is a plan");
        let include = format!(r#"{{"include":{}}}"#, String::from_utf8_lossy(bare));
        assert_eq!(parse_plan(include.as_bytes()), Ok(legs.clone()));
        assert_eq!(legs[1].key(), "b|t|1/2");
        assert_eq!(legs[0].job_name("Integration ({label} · {target})"), "Integration (linux/x86_64 · stable)");
        assert_eq!(legs[1].job_name("{label} {x} {shard}{"), "b {x} 1/2{");
        for text in ["", "{}", "3", "{\"include\":3}", "[{\"id\":\"a\"}]", r#"[{"id":"a","target":"t"},{"id":"a","target":"t"}]"#] {
            assert!(parse_plan(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn shares_are_even_and_keep_the_plan_order() {
        let files: Vec<FilePath> = ["a", "b", "c", "d", "e"].map(FilePath::from).to_vec();
        let cost = |file: &FilePath| match file.text() {
            "a" => Some(Secs::from_secs(10)),
            "c" => Some(Secs::from_secs(300)),
            "e" => None,
            _ => Some(Secs::from_secs(100)),
        };
        assert_eq!(share(&files, cost, Shard { index: 1, count: 2 }), [2, 0].iter().rev().copied().collect::<Vec<_>>());
        assert_eq!(share(&files, cost, Shard { index: 2, count: 2 }), [1, 3, 4]);
    }

    proptest! {
        #[test]
        fn every_file_is_in_exactly_one_share(costs in proptest::collection::vec(proptest::option::of(0u64..900), 0..40), count in 1u32..9) {
            let files: Vec<FilePath> = (0..costs.len()).map(|at| FilePath::from(format!("{at}.test.ts").as_str())).collect();
            let expect = |file: &FilePath| {
                let at: usize = file.text().split('.').next().and_then(|at| at.parse().ok()).unwrap_or(0);
                costs[at].map(Secs::from_secs)
            };
            let mut all: Vec<usize> = (1..=count).flat_map(|index| share(&files, expect, Shard { index, count })).collect();
            all.sort_unstable();
            prop_assert_eq!(all, (0..files.len()).collect::<Vec<_>>());
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse_plan(&bytes);
        }
    }
}
