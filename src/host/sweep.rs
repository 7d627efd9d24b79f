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
    Input::Signalled { refused: answers.refused, vanished: answers.vanished }
}
