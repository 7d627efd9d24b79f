//! Choosing a policy by evidence: history is replayed in time order, and each healthy record is held against the cap that earlier
//! legs alone would have given.
//!
//! The replay never sees the future: a leg that starts is judged by the legs that had ended by then, as `--caps history` is frozen
//! at the start of a run. Nothing in here chooses on the data it is checked with unless the caller asks for that.

use std::ops::Range;

use serde::Serialize;

use super::cap::{BoundBy, Estimator, Per, Policy, Settled};
use super::history::{History, PastLeg};
use super::moment::Secs;

/// What one policy would have done.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    pub policy: Policy,
    pub records: u64,
    /// Healthy files that the cap would have killed.
    pub false_kills: u64,
    /// Those among them that had passed before; the others were never seen and met the floor.
    pub false_kills_known: u64,
    /// Records without any earlier pass.
    pub unknown: u64,
    /// Healthy files that came within a fifth of their cap.
    pub near: u64,
    pub mean_cap_s: f64,
    pub mean_duration_s: f64,
    /// Mean cap ÷ mean duration.
    pub ratio: f64,
    /// What a hang costs: the mean cap where each file hangs in proportion to the time it runs, and the widest cap of all.
    pub hang_cost_s: f64,
    pub widest_cap_s: Secs,
    pub killed: Vec<Kill>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Kill {
    pub file: String,
    pub platform: String,
    pub run_id: String,
    pub duration_s: Secs,
    pub cap_s: Secs,
    /// How many passes the cap rested on.
    pub n: u32,
}

/// More kills than this are counted and not listed.
const KILLS_LISTED: usize = 20;

/// Replays `legs` and judges those whose place in the order of starts lies in `part`; the legs before it are history all the same.
/// One verdict per policy, in their order.
pub fn replay(legs: &[PastLeg], policies: &[Policy], part: Range<usize>) -> Vec<Verdict> {
    let mut by_start: Vec<&PastLeg> = legs.iter().collect();
    by_start.sort_by(|a, b| (a.started, a.ended, &a.run_id, &a.platform).cmp(&(b.started, b.ended, &b.run_id, &b.platform)));
    let mut by_end = by_start.clone();
    by_end.sort_by(|a, b| (a.ended, &a.run_id, &a.platform).cmp(&(b.ended, &b.run_id, &b.platform)));
    let mut ended = by_end.into_iter().peekable();
    let mut history = History::default();
    let mut sums = vec![Sum::default(); policies.len()];
    for (place, leg) in by_start.into_iter().enumerate() {
        // A leg of no length would otherwise be its own history.
        while let Some(past) = ended.next_if(|past| past.ended <= leg.started && past.started < leg.started) {
            history.learn(past);
        }
        if part.contains(&place) {
            for (policy, sum) in policies.iter().zip(&mut sums) {
                sum.judge(leg, policy, &history);
            }
        }
    }
    policies.iter().zip(sums).map(|(policy, sum)| sum.verdict(policy)).collect()
}

#[derive(Debug, Clone, Default)]
struct Sum {
    records: u64,
    false_kills: u64,
    false_kills_known: u64,
    unknown: u64,
    near: u64,
    caps_ms: u64,
    durations_ms: u64,
    weighted: f64,
    widest: Secs,
    killed: Vec<Kill>,
}

impl Sum {
    fn judge(&mut self, leg: &PastLeg, policy: &Policy, history: &History) {
        for (file, duration) in &leg.passes {
            let estimate = policy.estimate(history.passes(&file.as_str().into()), Some(&leg.platform));
            let known = estimate.bound_by != BoundBy::NoHistory;
            self.records += 1;
            self.unknown += u64::from(!known);
            self.caps_ms += estimate.cap.millis();
            self.durations_ms += duration.millis();
            self.weighted += estimate.cap.as_f64() * duration.as_f64();
            self.widest = self.widest.max(estimate.cap);
            let killed = *duration > estimate.cap;
            self.near += u64::from(!killed && duration.as_f64() >= 0.8 * estimate.cap.as_f64());
            if killed {
                self.false_kills += 1;
                self.false_kills_known += u64::from(known);
                if self.killed.len() < KILLS_LISTED {
                    self.killed.push(Kill {
                        file: file.clone(),
                        platform: leg.platform.0.clone(),
                        run_id: leg.run_id.0.clone(),
                        duration_s: *duration,
                        cap_s: estimate.cap,
                        n: estimate.n,
                    });
                }
            }
        }
    }

    fn verdict(self, policy: &Policy) -> Verdict {
        let per = |total: f64, count: f64| if count > 0.0 { total / count } else { 0.0 };
        let durations = self.durations_ms as f64 / 1000.0;
        let caps = self.caps_ms as f64 / 1000.0;
        Verdict {
            policy: policy.clone(),
            records: self.records,
            false_kills: self.false_kills,
            false_kills_known: self.false_kills_known,
            unknown: self.unknown,
            near: self.near,
            mean_cap_s: per(caps, self.records as f64),
            mean_duration_s: per(durations, self.records as f64),
            ratio: per(caps, durations),
            hang_cost_s: per(self.weighted, durations),
            widest_cap_s: self.widest,
            killed: self.killed,
        }
    }
}

/// The policy that others are measured by: twice the worst pass, between ten and twenty minutes, per file, not rounded.
pub fn reference() -> Policy {
    plain(Estimator::Max, 2.0, 0, 600)
}

/// The policies that a table for people compares: the reference, its tighter sisters, one of each kind, and the default.
pub fn table() -> Vec<Policy> {
    let known = |estimator, multiplier, headroom| Policy {
        settled: Some(Settled { passes: 2, floor: Secs::from_secs(120) }),
        round: Secs::from_secs(60),
        ..plain(estimator, multiplier, headroom, 600)
    };
    vec![
        reference(),
        plain(Estimator::Max, 1.5, 0, 300),
        Policy { round: Secs::from_secs(60), ..plain(Estimator::Max, 1.5, 0, 300) },
        Policy { per: Per::FilePlatform { pool_below: 5 }, round: Secs::from_secs(60), ..plain(Estimator::Max, 1.5, 0, 300) },
        Policy { round: Secs::from_secs(60), ..plain(Estimator::Quantile(0.95), 2.0, 0, 300) },
        known(Estimator::Max, 1.5, 0),
        known(Estimator::Max, 1.25, 90),
        known(Estimator::Quantile(0.99), 1.25, 90),
        known(Estimator::Midway, 1.25, 90),
        Policy::default(),
    ]
}

/// The grid that the default was looked for in. A multiplier below 1.25 is not in it: by ratio alone such a policy wins, and on legs that
/// it was not chosen on it killed a file that was known (ci/decisions/0002). Of equals, the one that trusts a file later stands first.
pub fn grid() -> Vec<Policy> {
    let mut policies = Vec::new();
    for estimator in [
        Estimator::Max,
        Estimator::Recent(20),
        Estimator::Recent(40),
        Estimator::Quantile(0.95),
        Estimator::Quantile(0.99),
        Estimator::Midway,
    ] {
        for multiplier in [1.25, 1.5, 2.0] {
            for headroom in [0, 30, 60, 90, 120, 150] {
                for passes in [5, 3, 2, 1] {
                    for per in [Per::File, Per::FilePlatform { pool_below: 5 }] {
                        policies.push(Policy {
                            settled: Some(Settled { passes, floor: Secs::from_secs(120) }),
                            round: Secs::from_secs(60),
                            per,
                            ..plain(estimator, multiplier, headroom, 600)
                        });
                    }
                }
            }
        }
    }
    policies
}

fn plain(estimator: Estimator, multiplier: f64, headroom: u64, floor: u64) -> Policy {
    Policy {
        estimator,
        multiplier,
        headroom: Secs::from_secs(headroom),
        floor: Secs::from_secs(floor),
        settled: None,
        ceiling: Secs::from_secs(1200),
        round: Secs::ZERO,
        per: Per::File,
    }
}

/// Which verdict wins: no more false kills than the first one (the reference) has, of both sorts; then the smallest ratio. `None`
/// when only the reference itself is left.
pub fn winner(verdicts: &[Verdict]) -> Option<usize> {
    let reference = verdicts.first()?;
    let fair = |verdict: &Verdict| {
        verdict.false_kills <= reference.false_kills && verdict.false_kills_known <= reference.false_kills_known
    };
    (1..verdicts.len()).filter(|at| fair(&verdicts[*at])).min_by(|a, b| verdicts[*a].ratio.total_cmp(&verdicts[*b].ratio))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::moment::Wall;
    use proptest::prelude::*;

    fn leg(started: i64, ended: i64, seconds: &[u64]) -> PastLeg {
        PastLeg {
            run_id: format!("{started}").as_str().into(),
            platform: "p".into(),
            started: Wall(started * 1000),
            ended: Wall(ended * 1000),
            passes: seconds.iter().map(|s| ("a.test.ts".to_owned(), Secs::from_secs(*s))).collect(),
        }
    }

    #[test]
    fn a_leg_is_history_only_once_it_has_ended() {
        let policy = plain(Estimator::Max, 2.0, 0, 10);
        let caps = |legs: &[PastLeg]| {
            (0..legs.len()).map(|at| replay(legs, std::slice::from_ref(&policy), at..at + 1)[0].mean_cap_s).collect::<Vec<_>>()
        };
        // The second starts while the first still runs; the third starts the moment the first ends.
        assert_eq!(caps(&[leg(0, 100, &[50]), leg(50, 200, &[50]), leg(100, 150, &[50])]), [10.0, 10.0, 100.0]);
        // A leg without a length is not its own history.
        assert_eq!(caps(&[leg(5, 5, &[50])]), [10.0]);
    }

    #[test]
    fn kills_and_ratio_are_counted() {
        let legs = [leg(0, 100, &[20]), leg(200, 300, &[50]), leg(400, 500, &[30])];
        let verdict = &replay(&legs, &[plain(Estimator::Max, 2.0, 0, 10)], 0..3)[0];
        assert_eq!((verdict.records, verdict.unknown, verdict.false_kills, verdict.false_kills_known), (3, 1, 2, 1));
        assert_eq!((verdict.mean_cap_s, verdict.ratio), (50.0, 1.5), "caps 10, 40, 100 against 20, 50, 30");
        assert_eq!(verdict.killed[1].cap_s, Secs::from_secs(40));
    }

    proptest! {
        /// The judgement of a leg does not change when anything about legs that end later does.
        #[test]
        fn the_future_is_never_seen(
            legs in proptest::collection::vec((0i64..1000, 1i64..200, 1u64..900), 2..30),
            at in 0usize..30,
            other in 1u64..900,
        ) {
            let mut legs: Vec<PastLeg> = legs.into_iter().map(|(start, length, s)| leg(start, start + length, &[s])).collect();
            legs.sort_by_key(|leg| (leg.started, leg.ended));
            let at = at % legs.len();
            let policy = [Policy::default()];
            let before = replay(&legs, &policy, at..at + 1);
            let now = legs[at].started;
            for leg in legs.iter_mut().filter(|leg| leg.ended > now && leg.started != now) {
                leg.passes[0].1 = Secs::from_secs(other);
            }
            prop_assert_eq!(before, replay(&legs, &policy, at..at + 1));
        }
    }
}
