//! Records without an epoch, ci-data and JUnit: which of two that bear one leg's name speaks for it.
//!
//! A newer record supersedes an older one. A failure never vanishes: where times do not decide, the worse one counts.

use crate::core::moment::Wall;
use crate::core::outcome::{Conclusion, Terminal};
use crate::core::row::LegRow;

/// The larger one speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Weight {
    /// It has a word of its own, or a failure without one: more than a leg of which nothing is known but that it began.
    says_something: bool,
    date: Option<Wall>,
    failed: bool,
    incomplete: bool,
    files: u32,
}

impl Weight {
    pub fn of(row: &LegRow) -> Self {
        let failed = row.conclusion == Some(Conclusion::Fail) || row.files_failed > 0;
        Self {
            says_something: row.terminal != Terminal::Running || failed,
            date: row.ended_at.or(row.last_checkpoint_ts).or(row.started_at),
            failed,
            incomplete: row.conclusion != Some(Conclusion::Pass),
            files: row.files_reported,
        }
    }

    /// Whether the two have the same time to say it, and say different things.
    pub fn is_as_new_as(&self, other: &Self) -> bool {
        let same_time = self.says_something == other.says_something && self.date == other.date;
        same_time && (self.failed, self.incomplete) != (other.failed, other.incomplete)
    }
}

/// Whether two records of one name are the same record told twice, or one an earlier look at the other, so that nothing is lost when only
/// the one that reaches further is kept.
pub fn are_one(a: &LegRow, b: &LegRow) -> bool {
    let ended = |row: &LegRow| row.terminal != Terminal::Running;
    let date = |row: &LegRow| row.ended_at.or(row.last_checkpoint_ts);
    let (more, less) = if (ended(a), date(a)) >= (ended(b), date(b)) { (a, b) } else { (b, a) };
    let grown = less.files_failed <= more.files_failed;
    match (ended(more), ended(less)) {
        (true, true) => {
            let word = |row: &LegRow| (row.terminal, row.conclusion, date(row), row.files_reported, row.files_failed);
            word(a) == word(b)
        }
        (true, false) => grown && date(less) <= date(more),
        _ => grown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::ids::LegId;
    use crate::source::assemble::{Question, assemble};
    use crate::source::{Found, ci_data};

    const LINE: &str = r#"{"kind":"suite","ts":"TS","run_id":"7","platform":"p","scope":"full","conclusion":"WORD","target":"t","files":2,"failed":FAILED}"#;

    fn record(day: u32, word: &str) -> String {
        let failed = if word == "fail" { "1" } else { "0" };
        LINE.replace("TS", &format!("2026-11-{day}T19:00:00.000Z")).replace("WORD", word).replace("FAILED", failed) + "\n"
    }

    /// The one leg's conclusion, how many other records stand beside it, and the warnings.
    fn judged(sources: &[String]) -> (Option<Conclusion>, usize, Vec<String>) {
        let mut found = Found::default();
        for (at, text) in sources.iter().enumerate() {
            ci_data::read(text.as_bytes(), "x", &format!("place-{at}"), &mut found).expect("it can be read");
        }
        let summary = assemble(found, &Question::everything(Wall(0)));
        assert_eq!(summary.legs.len(), 1);
        (summary.legs[0].conclusion, summary.legs[0].attempts.len(), summary.warnings)
    }

    #[test]
    fn of_two_records_the_newer_speaks_and_of_one_time_the_worse() {
        use Conclusion::{Fail, Pass};
        for (one, other, expect) in [
            (record(29, "pass"), record(30, "fail"), Fail),
            (record(29, "fail"), record(30, "pass"), Pass),
            (record(29, "fail"), record(29, "pass"), Fail),
        ] {
            let tie = one[..60] == other[..60];
            for sources in [
                vec![one.clone(), other.clone()],
                vec![other.clone(), one.clone()],
                vec![format!("{one}{other}")],
                vec![format!("{other}{one}")],
            ] {
                let (word, beside, warnings) = judged(&sources);
                assert_eq!((word, beside, warnings.len()), (Some(expect), 1, usize::from(tie)), "{sources:?}: {warnings:?}");
                assert!(
                    !tie || sources.len() == 1 || (warnings[0].contains("place-0") && warnings[0].contains("place-1")),
                    "{warnings:?}"
                );
            }
        }
        let same = record(29, "pass");
        assert_eq!(judged(&[same.clone(), same.clone()]), (Some(Pass), 0, Vec::new()), "one record told twice is one");
    }

    #[test]
    fn an_earlier_look_at_a_leg_is_no_second_leg() {
        let row = |terminal, conclusion, at, failed| {
            let mut row = LegRow::named(LegId {
                run_id: "1".into(),
                attempt: "1".into(),
                platform: "p".into(),
                target: "t".into(),
                shard: None,
            });
            (row.terminal, row.conclusion, row.files_failed, row.last_checkpoint_ts) =
                (terminal, conclusion, failed, Some(Wall(at)));
            row
        };
        let passed = row(Terminal::Complete, Some(Conclusion::Pass), 10, 0);
        for (other, one) in [
            (row(Terminal::Running, None, 5, 0), true),
            (row(Terminal::Running, None, 5, 1), false),
            (row(Terminal::Running, None, 15, 0), false),
            (row(Terminal::Complete, Some(Conclusion::Pass), 11, 0), false),
        ] {
            assert_eq!((are_one(&passed, &other), are_one(&other, &passed)), (one, one), "{other:?}");
        }
        assert!(
            Weight::of(&passed) > Weight::of(&row(Terminal::Running, None, 15, 0)),
            "its own record beats a leg that only began"
        );
        assert!(Weight::of(&passed) < Weight::of(&row(Terminal::Running, None, 15, 1)), "but no failure");
    }
}
