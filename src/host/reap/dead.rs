//! What a dead run of this machine left behind: found by token and by the recorded processes with their start times, never by name.
//!
//! The caller has made sure that the run's writer is dead and that its boot is this boot.

use std::collections::BTreeSet;

use super::{Hurry, sweep_unowned};
use crate::core::ids::Token;
use crate::core::process::{Leftover, ProcessId, Swept};
use crate::core::stop::{Ended, StopOrder};
use crate::host::cgroup::Leaf;
use crate::host::clock;
use crate::host::tree::{Children, OurTree, Root};

/// What the dead run's ledger says of its last file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadRun {
    pub token: Token,
    pub owner: Option<ProcessId>,
    pub leader: Option<ProcessId>,
}

/// What is still alive of it.
pub fn find(run: &DeadRun) -> Vec<Leftover> {
    let mut tree = tree_of(run);
    let scan = tree.scan(Children::Some, clock::now());
    let alive = scan.seen.iter().filter(|seen| seen.activity != crate::core::stop::Activity::Zombie);
    let ends: Vec<Ended> =
        alive.map(|seen| Ended { id: seen.id, ours_by: seen.ours_by, fate: crate::core::process::Fate::Survived }).collect();
    tree.leftovers(&ends, &mut Vec::new())
}

/// Ends what is still alive of it.
pub fn sweep(run: &DeadRun, order: StopOrder, hurry: Hurry) -> Swept {
    sweep_unowned(order, tree_of(run), hurry)
}

fn tree_of(run: &DeadRun) -> OurTree {
    let mut tree = OurTree::new(Root::Nobody);
    tree.token = Some(run.token.0.clone());
    // An owner that outlives its ledger is about to end, or hangs: it belongs to what is left.
    tree.noted = BTreeSet::from_iter([run.owner, run.leader].into_iter().flatten());
    tree.session = run.leader;
    // Whoever carries the token was started by the owner or later.
    tree.since = run.owner.or(run.leader).map_or(0, |first| first.start);
    // It outlives the owner, and in it is also what has shed token and session.
    tree.leaf = run.owner.and_then(|owner| Leaf::find(owner.pid, run.token.as_str()));
    tree
}
