//! Performs `core::stop` on something that can be scanned and signalled. It must not decide anything itself.

use crate::core::process::ProcessId;
use crate::core::stop::{Effect, Input, Reach, Scan, Stop, StopOrder, Verdict};

/// What a sweep needs of a tree; simulated in tests.
pub trait Tree {
    /// Monotonic milliseconds.
    fn now_ms(&self) -> u64;
    fn scan(&mut self) -> Scan;
    fn term(&mut self, ids: &[ProcessId]) -> Answers;
    fn freeze(&mut self, ids: &[ProcessId], reach: Reach);
    fn kill(&mut self, ids: &[ProcessId], reach: Reach) -> Answers;
    /// Sleeps until then, or until there is news.
    fn wait_until(&mut self, at_ms: u64) -> Woken;
}

/// What became of signals that reached nobody.
#[derive(Debug, Default)]
pub struct Answers {
    pub refused: Vec<ProcessId>,
    pub vanished: Vec<ProcessId>,
    /// Nobody was named, and something was reached as a whole.
    pub unseen: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// The time has come, or a child ended.
    Look,
    KillNow,
}

/// Brings the tree to its end.
pub fn perform(order: StopOrder, tree: &mut dyn Tree) -> Verdict {
    let mut stop = Stop::new(order);
    let mut inputs = std::collections::VecDeque::from([Input::Begin]);
    loop {
        // The machine answers every scan with a next step, so an input is always waiting here until it is done.
        let input = inputs.pop_front().unwrap_or(Input::Woke);
        for effect in stop.step(tree.now_ms(), input) {
            match effect {
                Effect::Scan => inputs.push_back(Input::Scanned(tree.scan())),
                Effect::Term(ids) => inputs.push_back(signalled(tree.term(&ids))),
                Effect::Freeze(ids, reach) => tree.freeze(&ids, reach),
                Effect::Kill(ids, reach) => inputs.push_back(signalled(tree.kill(&ids, reach))),
                Effect::WaitUntil(at_ms) => inputs.push_back(match tree.wait_until(at_ms) {
                    Woken::Look => Input::Woke,
                    Woken::KillNow => Input::KillNow,
                }),
                Effect::Done(verdict) => return verdict,
            }
        }
    }
}

fn signalled(answers: Answers) -> Input {
    Input::Signalled { refused: answers.refused, vanished: answers.vanished, unseen: answers.unseen }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::core::moment::Secs;
    use crate::core::outcome::Cleanup;
    use crate::core::process::OursBy;
    use crate::core::stop::{Activity, Role, Seen};

    /// How a simulated process takes a signal.
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Nature {
        /// Ends so many milliseconds after TERM.
        Obeys(u64),
        Ignores,
        /// Ignores TERM, and has a new child whenever it is looked at and not stopped.
        Forks,
        /// Signals are refused.
        Foreign,
        /// KILL takes so long.
        Sleeps(u64),
    }

    #[derive(Debug)]
    struct Simulated {
        nature: Nature,
        dies_at: Option<u64>,
        stopped: bool,
    }

    struct World {
        now: u64,
        processes: BTreeMap<ProcessId, Simulated>,
        leader: ProcessId,
        next_pid: i32,
        incomplete_until: u64,
    }

    impl World {
        fn new(natures: &[Nature], incomplete_until: u64) -> Self {
            let processes: BTreeMap<ProcessId, Simulated> = (2..)
                .zip(natures)
                .map(|(pid, &nature)| (ProcessId { pid, start: 1 }, Simulated { nature, dies_at: None, stopped: false }))
                .collect();
            let next_pid = 2 + i32::try_from(natures.len()).expect("few");
            Self { now: 0, processes, leader: ProcessId { pid: 2, start: 1 }, next_pid, incomplete_until }
        }

        fn bury(&mut self) {
            let now = self.now;
            self.processes.retain(|_, process| process.dies_at.is_none_or(|at| at > now));
        }

        fn each(&mut self, ids: &[ProcessId], act: impl Fn(&mut Simulated, u64)) -> Answers {
            self.bury();
            let mut answers = Answers::default();
            for id in ids {
                let Some(process) = self.processes.get_mut(id) else {
                    answers.vanished.push(*id);
                    continue;
                };
                if process.nature == Nature::Foreign {
                    answers.refused.push(*id);
                } else {
                    act(process, self.now);
                }
            }
            answers
        }
    }

    impl Tree for World {
        fn now_ms(&self) -> u64 {
            self.now
        }

        fn scan(&mut self) -> Scan {
            self.bury();
            let births = self.processes.values().filter(|process| process.nature == Nature::Forks && !process.stopped).count();
            // A bound, because the simulation itself is not to be the fork bomb.
            for _ in 0..births.min(2) {
                if self.next_pid > 60 {
                    break;
                }
                let id = ProcessId { pid: self.next_pid, start: 1 };
                self.next_pid += 1;
                self.processes.insert(id, Simulated { nature: Nature::Ignores, dies_at: None, stopped: false });
            }
            let role = |id: &ProcessId| if *id == self.leader { Role::Leader } else { Role::Other };
            let activity = |process: &Simulated| match process.nature {
                Nature::Sleeps(_) => Activity::Uninterruptible,
                _ if process.stopped => Activity::Stopped,
                _ => Activity::Running,
            };
            let seen = |(id, process): (&ProcessId, &Simulated)| Seen {
                id: *id,
                ours_by: OursBy::Subreaper,
                activity: activity(process),
                role: role(id),
            };
            let incomplete = (self.now < self.incomplete_until).then(|| "not yet".to_owned());
            Scan { seen: self.processes.iter().map(seen).collect(), incomplete, blind_to: None }
        }

        fn term(&mut self, ids: &[ProcessId]) -> Answers {
            self.each(ids, |process, now| {
                if let Nature::Obeys(after) = process.nature {
                    process.dies_at = Some(now + after);
                }
            })
        }

        fn freeze(&mut self, ids: &[ProcessId], _: Reach) {
            let _ = self.each(ids, |process, _| {
                process.stopped = true;
            });
        }

        fn kill(&mut self, ids: &[ProcessId], _: Reach) -> Answers {
            self.each(ids, |process, now| {
                let after = if let Nature::Sleeps(after) = process.nature { after } else { 1 };
                process.dies_at.get_or_insert(now + after);
            })
        }

        fn wait_until(&mut self, at_ms: u64) -> Woken {
            assert!(at_ms > self.now, "a wait that does not pass time would never end");
            self.now = at_ms;
            Woken::Look
        }
    }

    fn nature() -> impl Strategy<Value = Nature> {
        prop_oneof![
            4 => (0_u64..8000).prop_map(Nature::Obeys),
            2 => Just(Nature::Ignores),
            1 => Just(Nature::Forks),
            1 => Just(Nature::Foreign),
            1 => (0_u64..20_000).prop_map(Nature::Sleeps),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        /// Whatever the tree is like: it ends in time, clean means empty, and dirty names a survivor.
        #[test]
        fn a_sweep_ends_and_tells_the_truth(
            natures in prop::collection::vec(nature(), 0..12),
            grace_ms in 0_u64..6000,
            incomplete_until in prop_oneof![Just(0_u64), 0_u64..2000],
        ) {
            let mut world = World::new(&natures, incomplete_until);
            let order = StopOrder::ask(Secs::from_millis(grace_ms));
            let verdict = perform(order, &mut world);
            world.bury();
            // Who becomes fewer is waited for anew; who does not is given up in the order's own time.
            let bound = order.bound().millis() + 2000;
            prop_assert!(world.now <= bound, "{} ms", world.now);
            match verdict.cleanup {
                Cleanup::Clean => prop_assert!(world.processes.is_empty()),
                Cleanup::Dirty => prop_assert!(verdict.ends.iter().any(|end| end.fate.is_alive())),
                Cleanup::Unknown => prop_assert!(incomplete_until > 0),
            }
        }
    }

    #[test]
    fn an_empty_tree_takes_no_time() {
        let mut world = World::new(&[], 0);
        assert_eq!(perform(StopOrder::ask(Secs::from_secs(5)), &mut world).cleanup, Cleanup::Clean);
        assert_eq!(world.now, 0);
    }
}
