//! A checked-in caps file held against newer history: what it lacks, what came near, what is far too wide, what is gone.

use std::collections::HashSet;

use serde::Serialize;

use super::cap::Policy;
use super::capfile::{CapsFile, FileCap};
use super::history::{History, Pass, find};
use super::ids::{Platform, RunId};
use super::moment::Secs;

/// A healthy pass that used this share of its cap came near: one slow day more and it is killed.
pub const NEAR: f64 = 0.8;
/// A cap of more than so many times what its own policy would give now is far too wide: a hang costs that much for nothing.
pub const WIDE: f64 = 2.0;

/// What is to be said of one file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    pub file: String,
    pub kind: FindingKind,
    /// The cap in the file, the cap that its policy would give on the newer history, and the worst newer pass.
    pub cap_s: Option<Secs>,
    pub would_be_s: Option<Secs>,
    pub worst_s: Option<Secs>,
    pub platform: Option<Platform>,
    pub n: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FindingKind {
    /// A healthy pass took longer than the cap: it would have been killed.
    WouldKill,
    /// A healthy pass used 80 % of the cap or more.
    Near,
    /// The history has it and the caps file does not: it runs under the floor.
    NoCap,
    TooWide,
    /// Neither the newer history nor the project has it.
    Gone,
}

impl FindingKind {
    /// Whether it matters now: a healthy run would be killed, or soon may be.
    pub fn matters(self) -> bool {
        matches!(self, FindingKind::WouldKill | FindingKind::Near | FindingKind::NoCap)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            FindingKind::WouldKill => "would kill",
            FindingKind::Near => "near",
            FindingKind::NoCap => "no cap",
            FindingKind::TooWide => "too wide",
            FindingKind::Gone => "gone",
        }
    }
}

/// Compares. `exists` says whether the project still has a key of the caps file.
pub fn check(caps: &CapsFile, newer: &History, exists: impl Fn(&str) -> bool) -> Vec<Finding> {
    let policy = caps.policy.clone().unwrap_or_default();
    let window: HashSet<&RunId> = caps.window.runs.iter().collect();
    let mut findings = Vec::new();
    for (file, passes) in newer.files() {
        match find(&caps.files, file) {
            Some(cap) => {
                let fresh = news(cap, passes, &policy, &window);
                findings.extend(against(file, cap, &fresh, passes, &policy));
            }
            None => findings.push(Finding {
                would_be_s: Some(policy.estimate(passes, None).cap),
                worst_s: passes.iter().map(|pass| pass.duration).max(),
                ..finding(file, FindingKind::NoCap, passes)
            }),
        }
    }
    for (file, cap) in &caps.files {
        if newer.passes(&file.as_str().into()).is_empty() && !known_otherwise(newer, file) && !exists(file) {
            findings.push(Finding { cap_s: Some(cap.cap_s), worst_s: cap.worst_s, ..finding(file, FindingKind::Gone, &[]) });
        }
    }
    findings.sort_by(|a, b| (a.kind, &a.file, &a.platform).cmp(&(b.kind, &b.file, &b.platform)));
    findings
}

/// A caps file keyed by base names speaks of files that a history knows by paths.
fn known_otherwise(newer: &History, key: &str) -> bool {
    newer.files().any(|(file, _)| super::ids::base_name(file) == key)
}

/// The passes that say something new: a cap that its own window gave has heard of that window. One that was cut by hand has not.
fn news(cap: &FileCap, passes: &[Pass], policy: &Policy, window: &HashSet<&RunId>) -> Vec<Pass> {
    let (old, fresh): (Vec<Pass>, Vec<Pass>) = passes.iter().cloned().partition(|pass| window.contains(&pass.run_id));
    let as_derived = cap.cap_s >= policy.estimate(&old, None).cap;
    if as_derived { fresh } else { passes.to_vec() }
}

fn against(file: &str, cap: &FileCap, fresh: &[Pass], all: &[Pass], policy: &Policy) -> Option<Finding> {
    // The pass that came nearest to the cap that it ran, or would have run, under.
    let cap_of = |pass: &Pass| cap.platforms.get(pass.platform.as_str()).map_or(cap.cap_s, |own| own.cap_s);
    let share = |pass: &Pass| pass.duration.as_f64() / cap_of(pass).as_f64();
    let nearest = |passes: &[Pass]| passes.iter().max_by(|a, b| share(a).total_cmp(&share(b))).cloned();
    let would_be = policy.estimate(all, None).cap;
    let nearest_fresh = nearest(fresh);
    let kind = match nearest_fresh.as_ref().map_or(0.0, share) {
        share if share > 1.0 => FindingKind::WouldKill,
        share if share >= NEAR => FindingKind::Near,
        _ if cap.cap_s.as_f64() > WIDE * would_be.as_f64() => FindingKind::TooWide,
        _ => return None,
    };
    let nearest = nearest_fresh.or_else(|| nearest(all))?;
    Some(Finding {
        cap_s: Some(cap_of(&nearest)),
        would_be_s: Some(would_be),
        worst_s: Some(nearest.duration),
        platform: Some(nearest.platform.clone()),
        ..finding(file, kind, all)
    })
}

fn finding(file: &str, kind: FindingKind, passes: &[Pass]) -> Finding {
    let n = u32::try_from(passes.len()).unwrap_or(u32::MAX);
    Finding { file: file.to_owned(), kind, cap_s: None, would_be_s: None, worst_s: None, platform: None, n }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::history::PastLeg;
    use crate::core::moment::Wall;

    #[test]
    fn each_sort_of_finding() {
        let caps =
            br#"{"v":1,"files":{"near.ts":{"cap_s":100},"over.ts":{"cap_s":100},"fine.ts":{"cap_s":600},"wide.ts":{"cap_s":1500},
            "slow.ts":{"cap_s":1000,"platforms":{"arm":{"cap_s":100}}},"gone.ts":{"cap_s":300},"kept.ts":{"cap_s":300}}}"#;
        let caps = CapsFile::parse(caps).expect("a caps file");
        let leg = |platform: &str, passes: &[(&str, u64)]| PastLeg {
            run_id: "1".into(),
            platform: platform.into(),
            started: Wall(0),
            ended: Wall(1),
            passes: passes.iter().map(|(file, s)| ((*file).to_owned(), Secs::from_secs(*s))).collect(),
        };
        let legs = [
            leg(
                "x86",
                &[("test/near.ts", 80), ("over.ts", 101), ("fine.ts", 79), ("wide.ts", 10), ("new.ts", 5), ("slow.ts", 700)],
            ),
            leg("arm", &[("test/near.ts", 40), ("slow.ts", 90)]),
        ];
        let found = check(&caps, &History::of(&legs), |key| key == "kept.ts");
        let told: Vec<(&str, &str)> = found.iter().map(|finding| (finding.kind.as_str(), finding.file.as_str())).collect();
        let expect = [
            ("would kill", "over.ts"),
            ("near", "slow.ts"),
            ("near", "test/near.ts"),
            ("no cap", "new.ts"),
            ("too wide", "wide.ts"),
            ("gone", "gone.ts"),
        ];
        assert_eq!(told, expect);
        assert_eq!(found[1].platform, Some("arm".into()), "held against the platform's own cap");
    }

    #[test]
    fn a_cap_has_heard_of_its_own_window() {
        let leg = |run: &str, seconds: u64| PastLeg {
            run_id: run.into(),
            platform: "p".into(),
            started: Wall(0),
            ended: Wall(1),
            passes: vec![("a.ts".into(), Secs::from_secs(seconds))],
        };
        let policy = r#"{"estimator":"max","multiplier":1,"headroom_s":0,"floor_s":60,"ceiling_s":1200,"round_s":0,"per":"file"}"#;
        let caps = |cap: u64| {
            let text = format!(r#"{{"v":1,"window":{{"runs":["old"]}},"policy":{policy},"files":{{"a.ts":{{"cap_s":{cap}}}}}}}"#);
            CapsFile::parse(text.as_bytes()).expect("a caps file")
        };
        let kinds = |cap: u64, legs: &[PastLeg]| -> Vec<FindingKind> {
            check(&caps(cap), &History::of(legs), |_| true).into_iter().map(|finding| finding.kind).collect()
        };
        assert_eq!(kinds(300, &[leg("old", 300)]), [], "as it was derived");
        assert_eq!(kinds(290, &[leg("old", 300)]), [FindingKind::WouldKill], "cut by hand");
        assert_eq!(kinds(300, &[leg("old", 300), leg("new", 240)]), [FindingKind::Near]);
        assert_eq!(kinds(300, &[leg("old", 300), leg("new", 239)]), []);
    }
}
