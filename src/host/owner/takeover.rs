//! Sweeps from ledger's side: the tree of an owner that was lost. It blocks, so it runs on a thread of its own.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::adopted;
use crate::core::ids::Token;
use crate::core::moment::Secs;
use crate::core::outcome::Cleanup;
use crate::core::pattern::Patterns;
use crate::core::process::{ProcessId, Swept};
use crate::core::stop::{Reach, Scan, StopOrder};
use crate::host::cgroup::Leaf;
use crate::host::clock;
use crate::host::sweep::{Answers, Tree, Woken, perform};
use crate::host::tree::{Children, Mechanism, OurTree, Root};

/// What is known of a tree whose owner is gone.
pub struct Lost {
    pub token: Token,
    pub disabled: Vec<Mechanism>,
    pub allow_leftover: Patterns,
    pub leaf: Option<PathBuf>,
    pub leader: Option<ProcessId>,
    /// When the owner was born, in the system's own unit.
    pub since: u64,
    pub hurry: Arc<AtomicBool>,
}

struct LostTree {
    tree: OurTree,
    hurry: Arc<AtomicBool>,
}

pub fn sweep(order: StopOrder, lost: Lost) -> Swept {
    let began = clock::now();
    let mut tree = OurTree::new(Root::Adopted { except: adopted::owners() });
    tree.token = Some(lost.token.0);
    tree.disabled = lost.disabled;
    tree.spare = lost.allow_leftover;
    tree.leader = lost.leader;
    tree.since = lost.since;
    tree.leaf = lost.leaf.and_then(|path| Leaf::open(path).ok());
    let mut tree = LostTree { tree, hurry: lost.hurry };
    let verdict = perform(order, &mut tree);
    let mut notes = verdict.notes;
    notes.push("the owner was lost; ledger itself swept".to_owned());
    let leftovers = tree.tree.leftovers(&verdict.ends, &mut notes);
    tree.tree.release(&verdict.ends);
    let survivors: Vec<ProcessId> = verdict.ends.iter().filter(|end| end.fate.is_alive()).map(|end| end.id).collect();
    adopted::expect(&survivors);
    let took = clock::now().since(began);
    Swept { cleanup: verdict.cleanup, leftovers, foreign: Vec::new(), escalated: verdict.escalated, notes, took }
}

/// A sweep that could not be taken to its end.
pub fn unproved(why: String) -> Swept {
    Swept {
        cleanup: Cleanup::Unknown,
        leftovers: Vec::new(),
        foreign: Vec::new(),
        escalated: false,
        notes: vec![why],
        took: Secs::ZERO,
    }
}

impl Tree for LostTree {
    fn now_ms(&self) -> u64 {
        clock::now().mono_ms
    }

    fn scan(&mut self) -> Scan {
        let scan = self.tree.scan(Children::Some, clock::now().boot_ms);
        for seen in scan.seen.iter().filter(|seen| seen.activity == crate::core::stop::Activity::Zombie) {
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
        // Nobody tells this thread when a process ends, so it looks again when it was going to.
        let left = at_ms.saturating_sub(clock::now().mono_ms);
        std::thread::sleep(Duration::from_millis(left));
        if self.hurry.swap(false, Ordering::Relaxed) { Woken::KillNow } else { Woken::Look }
    }
}
