//! Caps as tables: what an estimate gives, how a deadline bounds it, what is refused.

use super::*;
use crate::core::ids::RunId;
use crate::core::moment::Wall;
use proptest::prelude::*;

fn passes(on: &[(&str, u64)]) -> Vec<Pass> {
    let pass = |(platform, seconds): &(&str, u64)| Pass {
        platform: (*platform).into(),
        run_id: RunId::from("1"),
        known_since: Wall(0),
        duration: Secs::from_secs(*seconds),
    };
    on.iter().map(pass).collect()
}

fn plain(multiplier: f64, floor: u64, ceiling: u64, round: u64) -> Policy {
    Policy {
        estimator: Estimator::Max,
        multiplier,
        headroom: Secs::ZERO,
        floor: Secs::from_secs(floor),
        settled: None,
        ceiling: Secs::from_secs(ceiling),
        round: Secs::from_secs(round),
        per: Per::File,
    }
}

#[test]
fn the_formula_and_its_words() {
    let one = passes(&[("p", 168)]);
    let table = [
        (plain(1.5, 300, 1200, 60), one.clone(), 300, "history: worst 168 s of 1 pass × 1.5, raised to the floor"),
        (plain(2.0, 300, 1200, 60), one.clone(), 360, "history: worst 168 s of 1 pass × 2"),
        (plain(2.0, 300, 1200, 0), one.clone(), 336, "history: worst 168 s of 1 pass × 2"),
        (plain(20.0, 300, 1200, 60), one.clone(), 1200, "history: worst 168 s of 1 pass × 20, cut at the ceiling"),
        (plain(2.0, 300, 1200, 60), vec![], 300, "floor: no history"),
        (plain(2.0, 310, 1200, 60), vec![], 360, "floor: no history"),
        (
            Policy { headroom: Secs::from_secs(90), ..plain(1.25, 1, 1200, 60) },
            passes(&[("p", 100), ("q", 400)]),
            600,
            "history: worst 400 s of 2 passes × 1.25 + 90 s",
        ),
        (
            Policy { estimator: Estimator::Recent(2), ..plain(1.0, 1, 1200, 0) },
            passes(&[("p", 45), ("q", 40), ("q", 30)]),
            40,
            "history: worst 40 s of the last 2 of 3 passes × 1",
        ),
        (
            Policy { estimator: Estimator::Recent(2), ..plain(1.25, 1, 1200, 0) },
            passes(&[("p", 500), ("q", 40), ("q", 30)]),
            500,
            "history: worst 500 s of 3 passes, long ago, × 0.8 × 1.25",
        ),
        (
            Policy { estimator: Estimator::Quantile(0.5), ..plain(1.0, 1, 1200, 0) },
            passes(&[("p", 500), ("q", 40), ("q", 30)]),
            40,
            "history: quantile 40 s of 3 passes × 1",
        ),
        (
            Policy { settled: Some(Settled { passes: 2, floor: Secs::from_secs(60) }), ..plain(1.0, 600, 1200, 60) },
            passes(&[("p", 3)]),
            600,
            "history: worst 3 s of 1 pass × 1, raised to the floor",
        ),
        (
            Policy { settled: Some(Settled { passes: 2, floor: Secs::from_secs(60) }), ..plain(1.0, 600, 1200, 60) },
            passes(&[("p", 3), ("p", 70)]),
            120,
            "history: worst 70 s of 2 passes × 1",
        ),
    ];
    for (policy, passes, cap, basis) in table {
        let estimate = policy.estimate(&passes, Some(&"p".into()));
        assert_eq!((estimate.cap, estimate.basis(&policy)), (Secs::from_secs(cap), basis.to_owned()));
    }
}

#[test]
fn platforms_are_pooled_where_there_is_little_data() {
    let known = passes(&[("fast", 10), ("fast", 12), ("slow", 500)]);
    let policy = Policy { per: Per::FilePlatform { pool_below: 2 }, ..plain(1.0, 1, 1200, 0) };
    let cap = |platform: &str| policy.estimate(&known, Some(&platform.into())).cap.millis() / 1000;
    assert_eq!((cap("fast"), cap("slow"), cap("new")), (12, 500, 500));
    let midway = Policy { estimator: Estimator::Midway, ..plain(1.0, 1, 1200, 0) };
    assert_eq!(midway.estimate(&known, Some(&"fast".into())).cap, Secs::from_secs(256));
    assert_eq!(midway.estimate(&known, Some(&"new".into())).cap, Secs::from_secs(500));
}

#[test]
fn the_deadline_is_asked_whole_first_then_viable() {
    /// Cap, remaining, reserve, min viable → what the file gets.
    type Row = (Option<u64>, Option<u64>, u64, u64, &'static str);
    let choice = |cap| CapChoice { cap: Secs::from_secs(cap), basis: "history".into(), expect: None };
    let table: &[Row] = &[
        (Some(300), None, 300, 120, "whole 300"),
        (None, None, 300, 120, "whole none"),
        (Some(300), Some(600), 300, 120, "whole 300"),
        (Some(300), Some(599), 300, 120, "shortened 299"),
        (Some(60), Some(361), 300, 120, "whole 60"),
        (Some(60), Some(359), 300, 120, "not run 59"),
        (Some(300), Some(420), 300, 120, "shortened 120"),
        (Some(300), Some(419), 300, 120, "not run 119"),
        (Some(300), Some(10), 300, 120, "not run 0"),
        (Some(300), Some(0), 0, 0, "not run 0"),
        (None, Some(1000), 300, 120, "shortened 700"),
        (None, Some(301), 300, 120, "not run 1"),
    ];
    for (cap, remaining, reserve, viable, expect) in table {
        let choice = cap.map(choice);
        let seconds = Secs::from_secs;
        let got = match bound(choice.as_ref(), remaining.map(seconds), seconds(*reserve), seconds(*viable)) {
            Bound::Whole { cap: Some(cap), .. } => format!("whole {}", cap.millis() / 1000),
            Bound::Whole { cap: None, .. } => "whole none".to_owned(),
            Bound::Shortened { cap, basis } => {
                assert_eq!(basis, "deadline");
                format!("shortened {}", cap.millis() / 1000)
            }
            Bound::NotRun { left, .. } => format!("not run {}", left.millis() / 1000),
        };
        assert_eq!(got, *expect, "cap {cap:?} remaining {remaining:?}");
    }
}

#[test]
fn nonsense_is_refused() {
    let bad = [
        Policy { multiplier: f64::NAN, ..Policy::default() },
        Policy { multiplier: 0.5, ..Policy::default() },
        Policy { floor: Secs::ZERO, ..Policy::default() },
        Policy { floor: Secs::from_secs(2000), ..Policy::default() },
        Policy { estimator: Estimator::Quantile(0.0), ..Policy::default() },
    ];
    for policy in bad {
        assert!(policy.clone().check().is_err(), "{policy:?}");
    }
    for text in ["", "recent:0", "quantile", "quantile:2", "median", "max:3"] {
        assert!(text.parse::<Estimator>().is_err(), "{text}");
    }
}

proptest! {
    #[test]
    fn a_cap_lies_between_its_bounds(
        seconds in proptest::collection::vec(0u64..5_000, 0..20),
        multiplier in 1.0f64..4.0,
        floor in 1u64..900,
        more in 0u64..900,
        round in 0u64..120,
    ) {
        let policy = plain(multiplier, floor, floor + more, round).check().expect("the ranges above are sound");
        let known: Vec<(&str, u64)> = seconds.iter().map(|s| ("p", *s)).collect();
        let cap = policy.estimate(&passes(&known), None).cap.as_f64();
        prop_assert!(cap >= floor as f64 && cap < (floor + more + round.max(1)) as f64);
    }

    #[test]
    fn a_policy_survives_its_text(multiplier in 1.0f64..9.0, recent in 1u32..99, settled in proptest::option::of((0u32..9, 1u64..600))) {
        let settled = settled.map(|(passes, floor)| Settled { passes, floor: Secs::from_secs(floor) });
        let policy = Policy { multiplier, estimator: Estimator::Recent(recent), settled, ..Policy::default() };
        let text = serde_json::to_string(&policy).expect("a policy is JSON");
        prop_assert_eq!(serde_json::from_str::<Policy>(&text).expect("it is read back"), policy);
    }
}
