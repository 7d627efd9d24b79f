//! Sweeps from ledger's own side: the tree of an owner that was lost, strays outside every closure, foreign matches under
//! `--reap-scope host`, and what dead runs left.
//!
//! They block, so they run on a thread of their own. What is ours is decided in `host::tree`, how it ends in `core::stop`.

pub mod dead;
pub(in crate::host) mod lost;
pub(in crate::host) mod strays;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::core::moment::Moment;
use crate::core::outcome::Cleanup;
use crate::core::process::{ProcessId, Swept};
use crate::core::stop::{Activity, Reach, Scan, StopOrder, Verdict};
use crate::host::sweep::{Answers, Tree, Woken, perform};
use crate::host::tree::{Children, OurTree};
use crate::host::{adopted, clock};

/// What becomes of a process that `--reap-match` names and that is not provably ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReapScope {
    /// Counted and shown, untouched.
    #[default]
    Owned,
    /// Killed too. For a throw-away runner; wrong where somebody has a virtual machine open.
    Host,
}

/// Set by a second signal; a sweep under way then gives no more grace.
pub type Hurry = Arc<AtomicBool>;

/// A tree swept without an owner.
struct Unowned {
    tree: OurTree,
    hurry: Hurry,
}

/// Brings a tree without an owner to its end.
fn sweep_unowned(order: StopOrder, tree: OurTree, hurry: Hurry) -> Swept {
    let began = clock::now();
    let mut unowned = Unowned { tree, hurry };
    let verdict = perform(hurried(order, &unowned.hurry), &mut unowned);
    unowned.tree.let_go();
    unowned.tree.release(&verdict.ends);
    let survivors: Vec<ProcessId> = verdict.ends.iter().filter(|end| end.fate.is_alive()).map(|end| end.id).collect();
    adopted::expect(&survivors);
    describe(verdict, &unowned.tree, began)
}

fn describe(verdict: Verdict, tree: &OurTree, began: Moment) -> Swept {
    let mut notes = verdict.notes;
    let leftovers = tree.leftovers(&verdict.ends, &mut notes);
    let took = clock::now().since(began);
    Swept { cleanup: verdict.cleanup, leftovers, foreign: Vec::new(), escalated: verdict.escalated, notes, took }
}

fn hurried(order: StopOrder, hurry: &Hurry) -> StopOrder {
    if hurry.load(Ordering::Relaxed) { StopOrder { verify: order.verify, ..StopOrder::at_once() } } else { order }
}

/// What two proofs are worth together: the worse one.
fn worse(one: Cleanup, other: Cleanup) -> Cleanup {
    match (one, other) {
        (Cleanup::Dirty, _) | (_, Cleanup::Dirty) => Cleanup::Dirty,
        (Cleanup::Unknown, _) | (_, Cleanup::Unknown) => Cleanup::Unknown,
        (Cleanup::Clean, Cleanup::Clean) => Cleanup::Clean,
    }
}

impl Tree for Unowned {
    fn now_ms(&self) -> u64 {
        clock::now().mono_ms
    }

    fn scan(&mut self) -> Scan {
        self.tree.hold_if_crowded(false);
        let scan = self.tree.scan(Children::Some, clock::now());
        for seen in scan.seen.iter().filter(|seen| seen.activity == Activity::Zombie) {
            adopted::reap_one(seen.id.pid);
        }
        scan
    }

    fn term(&mut self, ids: &[ProcessId]) -> Answers {
        self.tree.term(ids)
    }

    fn freeze(&mut self, ids: &[ProcessId], reach: Reach) {
        self.tree.freeze(ids, reach);
    }

    fn kill(&mut self, ids: &[ProcessId], reach: Reach) -> Answers {
        self.tree.kill(ids, reach)
    }

    fn wait_until(&mut self, at_ms: u64) -> Woken {
        self.tree.let_go();
        pause_until(at_ms, &self.hurry)
    }
}

/// Nobody tells this thread when a process ends, so it looks again when it was going to.
fn pause_until(at_ms: u64, hurry: &Hurry) -> Woken {
    std::thread::sleep(Duration::from_millis(at_ms.saturating_sub(clock::now().mono_ms)));
    if hurry.load(Ordering::Relaxed) { Woken::KillNow } else { Woken::Look }
}
