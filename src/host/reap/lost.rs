//! The tree of an owner that was killed. Its orphans have landed on ledger, which is a subreaper too.

use std::path::PathBuf;

use super::{Hurry, sweep_unowned};
use crate::core::ids::Token;
use crate::core::moment::Secs;
use crate::core::outcome::Cleanup;
use crate::core::pattern::Patterns;
use crate::core::process::{ProcessId, Swept};
use crate::core::stop::StopOrder;
use crate::host::adopted;
use crate::host::cgroup::Leaf;
use crate::host::tree::{Mechanism, OurTree, Root};

/// What is known of a tree whose owner is gone.
pub struct Lost {
    pub token: Token,
    pub disabled: Vec<Mechanism>,
    pub allow_leftover: Patterns,
    pub leaf: Option<PathBuf>,
    pub leader: Option<ProcessId>,
    pub owner: ProcessId,
}

pub fn sweep(order: StopOrder, lost: Lost, hurry: Hurry) -> Swept {
    let mut tree = OurTree::new(Root::Adopted { owner: lost.owner });
    tree.token = Some(lost.token.0);
    tree.disabled = lost.disabled;
    tree.spare = lost.allow_leftover.into();
    tree.leader = lost.leader;
    tree.session = lost.leader;
    tree.spared_before = adopted::expected();
    tree.since = lost.owner.start;
    tree.leaf = lost.leaf.and_then(|path| Leaf::open(path).ok());
    let mut swept = sweep_unowned(order, tree, hurry);
    swept.notes.push("the owner was lost; ledger itself swept".to_owned());
    swept
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

#[cfg(test)]
mod tests {
    /// On Linux its orphans land on ledger, which tests/proc shows.
    #[cfg(not(target_os = "linux"))]
    #[test]
    fn where_orphans_land_on_nobody_an_empty_look_proves_nothing() {
        use super::*;
        let owner = crate::host::identity::own_id();
        let token = Token(uuid::Uuid::new_v4().simple().to_string());
        let allow_leftover = Patterns::default();
        let lost = Lost { token, disabled: Vec::new(), allow_leftover, leaf: None, leader: None, owner };
        let swept = sweep(StopOrder::at_once(), lost, Hurry::default());
        assert_eq!((swept.cleanup, swept.leftovers.len()), (Cleanup::Unknown, 0), "{swept:?}");
        assert!(swept.notes.iter().any(|note| note.contains("whom it had followed is not known")), "{swept:?}");
    }
}
