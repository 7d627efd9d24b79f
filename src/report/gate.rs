//! May the run pass? A leg that vanished never makes a gate look better.

use crate::core::outcome::Conclusion;
use crate::core::row::{LegRow, Summary};

#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Gate {
    /// Every planned leg passed.
    Open { legs: usize },
    /// Some file of some leg failed, of lost legs too.
    Failed { legs: Vec<String> },
    /// Nothing failed, and something is missing: a re-run of those legs may help.
    Incomplete { legs: Vec<String> },
}

impl Gate {
    pub fn exit_code(&self) -> i32 {
        match self {
            Gate::Open { .. } => 0,
            Gate::Failed { .. } => 1,
            Gate::Incomplete { .. } => 3,
        }
    }

    /// One sentence for stderr.
    pub fn why(&self) -> String {
        match self {
            Gate::Open { legs } => format!("gate: all {legs} legs passed"),
            Gate::Failed { legs } => format!("gate: failed in {}", list(legs)),
            Gate::Incomplete { legs } if legs.is_empty() => {
                "gate: no leg is known, and nothing that is missing can pass".to_owned()
            }
            Gate::Incomplete { legs } => format!("gate: nothing failed, but incomplete: {}", list(legs)),
        }
    }
}

/// Judges the newest attempt of every leg that exists or was planned.
pub fn gate(summary: &Summary) -> Gate {
    let of = |wanted: fn(&LegRow) -> bool| -> Vec<String> {
        summary.legs.iter().filter(|row| wanted(row)).map(|row| format!("{} ({})", row.leg().key(), row.terminal)).collect()
    };
    let failed = of(has_failed);
    if !failed.is_empty() {
        return Gate::Failed { legs: failed };
    }
    let incomplete = of(|row| row.conclusion != Some(Conclusion::Pass));
    if !incomplete.is_empty() || summary.legs.is_empty() {
        return Gate::Incomplete { legs: incomplete };
    }
    Gate::Open { legs: summary.legs.len() }
}

/// Whether a leg has failed already, however it ended.
pub fn has_failed(row: &LegRow) -> bool {
    row.conclusion == Some(Conclusion::Fail) || row.files_failed > 0
}

fn list(legs: &[String]) -> String {
    const SHOWN: usize = 8;
    let shown = legs.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    if legs.len() > SHOWN { format!("{shown} and {} more", legs.len() - SHOWN) } else { shown }
}
