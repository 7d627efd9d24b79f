//! From what was seen of a file to its outcome: one decision, made once.

use super::outcome::{Cleanup, Outcome};
use super::process::{Exit, Fate, Swept};
use super::scan;
use super::watch::Printed;

/// How the file came to its end.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct End {
    pub spawn_error: Option<String>,
    pub exit: Option<Exit>,
    pub oom: bool,
    pub timed_out: bool,
    pub cancelled: bool,
    pub owner_lost: bool,
}

#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub struct Decided {
    pub outcome: Outcome,
    pub notes: Vec<String>,
}

/// Our own signals come first: a file that hit its cap is a timeout whatever its leader's status says then. A refinement by output
/// names a failure better and never makes it a pass.
pub fn decide(end: &End, swept: &Swept, printed: &Printed, leftovers_fail: bool) -> Decided {
    let mut notes = Vec::new();
    let outcome = base(end, printed, &mut notes);
    let left = swept.leftovers.iter().filter(|leftover| leftover.fate != Fate::Allowed).count();
    if outcome == Outcome::Pass && leftovers_fail && left > 0 {
        let what = if left == 1 { "1 leftover process is".to_owned() } else { format!("{left} leftover processes are") };
        notes.push(format!("exit 0, but {what} a failure under --leftovers fail"));
        return Decided { outcome: Outcome::TestFailure, notes };
    }
    if swept.cleanup == Cleanup::Dirty {
        notes.push("something of this file survived the sweep".to_owned());
    }
    Decided { outcome, notes }
}

fn base(end: &End, printed: &Printed, notes: &mut Vec<String>) -> Outcome {
    if let Some(text) = &end.spawn_error {
        notes.push(text.clone());
        return Outcome::SpawnFailure;
    }
    if end.timed_out {
        return Outcome::FileWatchdogTimeout;
    }
    if end.cancelled {
        return Outcome::Cancelled;
    }
    let failure = match end.exit {
        Some(Exit::Code(0)) if printed.evidence_of_tests == Some(false) => {
            notes.push("exit 0, but the output shows no test that ran".to_owned());
            return Outcome::NoTests;
        }
        Some(Exit::Code(0)) => return Outcome::Pass,
        _ if end.oom => return Outcome::OomKilled,
        Some(Exit::Signal(_)) => Outcome::Crash,
        Some(Exit::Code(status)) if is_exception(status) => Outcome::Crash,
        Some(Exit::Code(_)) => Outcome::TestFailure,
        None => {
            let who = if end.owner_lost { "its owner process was killed" } else { "no status came" };
            notes.push(format!("{who}; the exit status of the file is unknown"));
            Outcome::Crash
        }
    };
    let rule = printed.rule.as_ref().map(|(outcome, pattern)| (outcome.clone(), pattern.as_str()));
    match scan::refined(&failure, rule) {
        Some((refined, note)) => {
            notes.push(note);
            refined
        }
        None => failure,
    }
}

/// Windows ends a program whose exception nobody handled with the exception's number: an error of the system, 0xC0000000 and up. No status
/// of Unix is that large, and -1 (0xFFFFFFFF) is a failure that a program tells by itself.
fn is_exception(status: i32) -> bool {
    status as u32 >> 28 == 0xc
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::moment::Secs;
    use crate::core::process::{Leftover, OursBy};

    fn swept(fates: &[Fate]) -> Swept {
        let leftovers = fates
            .iter()
            .map(|fate| Leftover {
                pid: 1,
                comm: "sleep".into(),
                exe: None,
                argv: None,
                age_s: None,
                rss_mib: None,
                ours_by: OursBy::Subreaper,
                fate: *fate,
                waits_on: None,
            })
            .collect();
        Swept { cleanup: Cleanup::Clean, leftovers, foreign: vec![], escalated: false, notes: vec![], took: Secs::ZERO }
    }

    #[test]
    fn the_truth_table() {
        let code = |code| End { exit: Some(Exit::Code(code)), ..End::default() };
        let signal = |signal| End { exit: Some(Exit::Signal(signal)), ..End::default() };
        let plain = Printed::default();
        let refined = |word: &str| Printed { rule: Some((Outcome::parse(word), "r".into())), ..Printed::default() };
        let silent = Printed { evidence_of_tests: Some(false), ..Printed::default() };
        let table: Vec<(&str, End, Vec<Fate>, Printed, bool, &str)> = vec![
            ("exit 0", code(0), vec![], plain.clone(), false, "pass"),
            ("exit 1", code(1), vec![], plain.clone(), false, "test-failure"),
            ("exit 124 is not our timeout", code(124), vec![], plain.clone(), false, "test-failure"),
            ("exit 137 is not signal 9", code(137), vec![], plain.clone(), false, "test-failure"),
            ("-1 is a failure", code(-1), vec![], plain.clone(), false, "test-failure"),
            ("an access violation", code(0xc000_0005_u32 as i32), vec![], plain.clone(), false, "crash"),
            ("signal 11", signal(11), vec![], plain.clone(), false, "crash"),
            ("signal 9 by the kernel", End { oom: true, ..signal(9) }, vec![], plain.clone(), false, "oom-killed"),
            ("a child was taken for memory", End { oom: true, ..code(1) }, vec![], plain.clone(), false, "oom-killed"),
            ("oom, and yet it passed", End { oom: true, ..code(0) }, vec![], plain.clone(), false, "pass"),
            ("cap, then exit 0", End { timed_out: true, ..code(0) }, vec![], plain.clone(), false, "file-watchdog-timeout"),
            ("cancelled", End { cancelled: true, ..signal(15) }, vec![], plain.clone(), false, "cancelled"),
            (
                "no such program",
                End { spawn_error: Some("x".into()), ..End::default() },
                vec![],
                plain.clone(),
                false,
                "spawn-failure",
            ),
            ("owner killed", End { owner_lost: true, ..End::default() }, vec![], plain.clone(), false, "crash"),
            ("leftover, warned", code(0), vec![Fate::Killed], plain.clone(), false, "pass"),
            ("leftover, forbidden", code(0), vec![Fate::Killed], plain.clone(), true, "test-failure"),
            ("allowed leftover, forbidden", code(0), vec![Fate::Allowed], plain.clone(), true, "pass"),
            ("a rule refines a failure", code(1), vec![], refined("infra-download"), false, "infra-download"),
            ("no rule touches a pass", code(0), vec![], refined("infra-download"), false, "pass"),
            ("no tests", code(0), vec![], silent, false, "no-tests"),
        ];
        for (what, end, fates, printed, leftovers_fail, expect) in table {
            let decided = decide(&end, &swept(&fates), &printed, leftovers_fail);
            assert_eq!(decided.outcome.as_str(), expect, "{what}");
        }
    }
}
