//! The plan of just those legs that are worth running again: incomplete, and without a failure that a re-run would only repeat.

use serde_json::{Value, json};

use super::gate::has_failed;
use crate::core::outcome::Conclusion;
use crate::core::plan::PlannedLeg;
use crate::core::row::{LegRow, Summary};

/// A matrix in the shape of `--plan`, on one line, as a workflow's output wants it.
pub fn rerun(summary: &Summary, plan: &[PlannedLeg]) -> String {
    let include: Vec<Value> = summary.legs.iter().filter(|row| worth_it(row)).map(|row| planned(row, plan)).collect();
    format!("{}\n", json!({ "include": include }))
}

fn worth_it(row: &LegRow) -> bool {
    row.conclusion == Some(Conclusion::Incomplete) && !has_failed(row)
}

fn planned(row: &LegRow, plan: &[PlannedLeg]) -> Value {
    let key = row.leg().key();
    match plan.iter().find(|leg| leg.key() == key) {
        Some(leg) => json!(leg),
        None => json!(PlannedLeg {
            id: row.platform.clone(),
            label: None,
            target: row.target.clone(),
            resolved: row.resolved.clone(),
            shard: row.shard,
            more: serde_json::Map::new(),
        }),
    }
}
