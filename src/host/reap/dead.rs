//! What a dead run of this machine left behind: found by token and by the recorded processes with their start times, never by name.
//!
//! The caller has made sure that the run's writer is dead and that its boot is this boot.

use std::collections::BTreeSet;

use super::{Hurry, sweep_unowned};
use crate::core::ids::Token;
use crate::core::pattern::Patterns;
use crate::core::process::{Fate, Leftover, ProcessId, Swept};
use crate::core::stop::{Activity, Ended, Role, StopOrder};
use crate::host::cgroup::{self, Leaf};
use crate::host::clock;
use crate::host::tree::{Children, OurTree, Root};

/// What the dead run's ledger says of its last file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadRun {
    pub token: Token,
    pub owner: Option<ProcessId>,
    pub leader: Option<ProcessId>,
    /// Who was seen to descend from the file while it ran.
    pub descendants: BTreeSet<ProcessId>,
    /// What is left alone: a daemon that was meant to live on does so also when its run did not.
    pub allow_leftover: Patterns,
    /// Processes that the run itself had spared already, and what descends from them.
    pub spared: BTreeSet<i32>,
}

/// What is still alive of it.
pub fn find(run: &DeadRun) -> Vec<Leftover> {
    let mut tree = tree_of(run);
    let scan = tree.scan(Children::Some, clock::now());
    let alive = scan.seen.iter().filter(|seen| seen.activity != Activity::Zombie);
    let fate = |role| if role == Role::Spared { Fate::Allowed } else { Fate::Survived };
    let ends: Vec<Ended> = alive.map(|seen| Ended { id: seen.id, ours_by: seen.ours_by, fate: fate(seen.role) }).collect();
    tree.leftovers(&ends, &mut Vec::new())
}

/// Ends what is still alive of it and is not to be spared, and takes away the groups that dead owners left empty.
pub fn sweep(run: &DeadRun, order: StopOrder, hurry: Hurry) -> Swept {
    let swept = sweep_unowned(order, tree_of(run), hurry);
    cgroup::remove_dead_leaves();
    swept
}

fn tree_of(run: &DeadRun) -> OurTree {
    let mut tree = OurTree::new(Root::Nobody);
    tree.token = Some(run.token.0.clone());
    // An owner that outlives its ledger is about to end, or hangs: it belongs to what is left.
    tree.noted = run.descendants.iter().copied().chain([run.owner, run.leader].into_iter().flatten()).collect();
    tree.session = run.leader;
    tree.spare = run.allow_leftover.clone().into();
    tree.spare_pids = run.spared.clone();
    // Whoever carries the token was started by the owner or later.
    tree.since = run.owner.or(run.leader).map_or(0, |first| first.start);
    // It outlives the owner, and in it is also what has shed token and session.
    tree.leaf = run.owner.and_then(|owner| Leaf::find(owner.pid, run.token.as_str()));
    tree
}
