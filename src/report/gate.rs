//! May the run pass? A leg that vanished never makes a gate look better.

use crate::core::outcome::Conclusion;
use crate::core::row::{LegRow, OtherEpoch, Summary};
use crate::report::escape;

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
            Gate::Open { legs: 1 } => "gate: its one leg passed".to_owned(),
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
    let one_run = summary.legs.windows(2).all(|pair| pair[0].run_id == pair[1].run_id);
    let name = |row: &LegRow| match one_run {
        true => format!("{} ({})", escape::name(&row.leg().key()), row.terminal),
        false => format!("{} of run {} ({})", escape::name(&row.leg().key()), escape::name(row.run_id.as_str()), row.terminal),
    };
    let of = |wanted: fn(&LegRow) -> bool| -> Vec<String> { summary.legs.iter().filter(|row| wanted(row)).map(name).collect() };
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

/// Whether a leg has failed already, however it ended. An earlier failure stands until a later attempt has passed, and beside a pass that
/// another writer of the same attempt brought home at the same time.
pub fn has_failed(row: &LegRow) -> bool {
    let passed = row.conclusion == Some(Conclusion::Pass);
    let at_once = |other: &OtherEpoch| {
        other.attempt == row.attempt && other.ended_at.zip(row.started_at).is_some_and(|(end, start)| end > start)
    };
    let stands = |other: &&OtherEpoch| !passed || at_once(other);
    row.with_beside().any(|row| failed(row.conclusion, row.files_failed))
        || row.attempts.iter().filter(stands).any(|other| failed(other.conclusion, other.files_failed))
}

fn failed(conclusion: Option<Conclusion>, files: u32) -> bool {
    conclusion == Some(Conclusion::Fail) || files > 0
}

fn list(legs: &[String]) -> String {
    const SHOWN: usize = 8;
    let shown = legs.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    if legs.len() > SHOWN { format!("{shown} and {} more", legs.len() - SHOWN) } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::moment::Wall;
    use crate::core::outcome::Terminal;
    use crate::core::plan::parse_plan;
    use crate::report::rerun::rerun;

    fn leg(platform: &str, terminal: Terminal, conclusion: Option<Conclusion>, failed: u32) -> LegRow {
        let mut row = LegRow::named(crate::core::ids::LegId {
            run_id: "1".into(),
            attempt: "1".into(),
            platform: platform.into(),
            target: "stable".into(),
            shard: None,
        });
        (row.terminal, row.conclusion, row.files_failed) = (terminal, conclusion, failed);
        row
    }

    fn code(legs: &[LegRow]) -> i32 {
        gate(&summary(legs)).exit_code()
    }

    fn summary(legs: &[LegRow]) -> Summary {
        Summary::of(Wall(0), legs.to_vec())
    }

    #[test]
    fn the_truth_table() {
        use Conclusion::{Fail, Incomplete, Pass};
        let pass = || leg("pass", Terminal::Complete, Some(Pass), 0);
        let table = [
            ("passed", leg("a", Terminal::Complete, Some(Pass), 0), 0, false),
            ("failed", leg("a", Terminal::Complete, Some(Fail), 1), 1, false),
            ("failed by its suite's word alone", leg("a", Terminal::Complete, Some(Fail), 0), 1, false),
            ("stopped with a failure", leg("a", Terminal::Stopped, Some(Fail), 1), 1, false),
            ("stopped by the budget", leg("a", Terminal::Stopped, Some(Incomplete), 0), 3, true),
            ("lost", leg("a", Terminal::RunnerLost, Some(Incomplete), 0), 3, true),
            ("lost after a failure", leg("a", Terminal::RunnerLost, Some(Incomplete), 1), 1, false),
            ("cancelled", leg("a", Terminal::Cancelled, Some(Incomplete), 0), 3, true),
            ("never started", leg("a", Terminal::NotStarted, Some(Incomplete), 0), 3, true),
            ("attempted", leg("a", Terminal::AttemptedIncomplete, Some(Incomplete), 0), 3, true),
            ("running", leg("a", Terminal::Running, None, 0), 3, false),
            ("running after a failure", leg("a", Terminal::Running, None, 1), 1, false),
        ];
        for (what, row, exit, worth_a_rerun) in table {
            assert_eq!(code(std::slice::from_ref(&row)), exit, "{what}");
            assert_eq!(code(&[pass(), row.clone()]), exit, "{what}, beside a pass");
            assert_eq!(code(&[row.clone(), leg("f", Terminal::Complete, Some(Fail), 1)]), 1, "{what}, beside a failure");
            let plan = parse_plan(br#"[{"id":"a","label":"A","target":"stable","resolved":"7","runner":"big","legs":[1]}]"#)
                .expect("a plan");
            let again = rerun(&summary(&[pass(), row]), &plan);
            let expect = r#"{"include":[{"id":"a","label":"A","legs":[1],"resolved":"7","runner":"big","target":"stable"}]}"#;
            assert_eq!(again.trim_end() == expect, worth_a_rerun, "{what}: {again}");
            assert_eq!(again.trim_end() == r#"{"include":[]}"#, !worth_a_rerun, "{what}: {again}");
        }
        assert_eq!(code(&[]), 3, "no leg at all is no pass");
    }

    #[test]
    fn what_it_says_is_one_inert_line() {
        let row = leg("a\n::error::x\u{1b}[31m\u{9b}", Terminal::Complete, Some(Conclusion::Fail), 1);
        let why = gate(&summary(&[row])).why();
        assert!(!why.chars().any(char::is_control), "{why:?}");
        assert_eq!(Gate::Open { legs: 1 }.why(), "gate: its one leg passed");
    }

    #[test]
    fn a_failure_beside_a_pass_of_other_files_stands() {
        let mut row = leg("a", Terminal::RunnerLost, Some(Conclusion::Incomplete), 0);
        assert_eq!(code(std::slice::from_ref(&row)), 3);
        row.beside = vec![leg("a", Terminal::Complete, Some(Conclusion::Fail), 1)];
        assert_eq!(code(&[row]), 1);
    }

    #[test]
    fn a_failure_stands_until_a_later_attempt_has_passed() {
        use Conclusion::{Fail, Incomplete, Pass};
        let at = |attempt: &str, conclusion: Option<Conclusion>, from: i64, to: i64| {
            let mut row = leg("a", Terminal::Complete, conclusion, u32::from(conclusion == Some(Fail)));
            (row.attempt, row.started_at, row.ended_at) = (attempt.into(), Some(Wall(from)), Some(Wall(to)));
            row
        };
        let table = [
            ("a re-run passed", at("2", Some(Pass), 20, 30), at("1", Some(Fail), 0, 10), 0),
            ("a re-run was lost", at("2", Some(Incomplete), 20, 30), at("1", Some(Fail), 0, 10), 1),
            ("a re-run has only begun", at("2", None, 20, 30), at("1", Some(Fail), 0, 10), 1),
            ("a re-run of a lost one was lost", at("2", Some(Incomplete), 20, 30), at("1", Some(Incomplete), 0, 10), 3),
            ("a pass, run again and lost", at("2", Some(Incomplete), 20, 30), at("1", Some(Pass), 0, 10), 3),
            ("tried again within its attempt", at("1", Some(Pass), 20, 30), at("1", Some(Fail), 0, 10), 0),
            ("the same leg twice at once", at("1", Some(Pass), 5, 30), at("1", Some(Fail), 0, 10), 1),
            ("attempt 2 beside attempt 1", at("2", Some(Pass), 5, 30), at("1", Some(Fail), 0, 10), 0),
        ];
        for (what, mut row, earlier, exit) in table {
            row.attempts = vec![OtherEpoch::from(&earlier)];
            assert_eq!(code(&[row]), exit, "{what}");
        }
    }
}
