//! A tree that fills the run queues keeps its owner from running, and a look at two thousand processes takes minutes then. So it
//! stands still while it is looked at, by one call for all of it. It must not be held in between: its grace is its own.

use super::OurTree;
use crate::core::stop::Reach;
use crate::host::process;

/// So many are a crowd whenever they please.
const MANY: usize = 256;

/// What makes it stand still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only Linux can, and says how many threads want to run"))]
pub(super) enum Hold {
    Leaf,
    /// SIGSTOP to the leader's process group.
    Group(i32),
}

impl OurTree {
    /// Before a look; answers whether it was needed. The leader's group is its own for as long as nobody has waited for the leader.
    pub fn hold_if_crowded(&mut self, leader_is_unreaped: bool) -> bool {
        let is_crowded = self.held.is_none() && (self.last_seen > MANY || process::is_host_crowded());
        if is_crowded {
            self.held = self.stand_still(leader_is_unreaped);
        }
        is_crowded
    }

    /// After it.
    pub fn let_go(&mut self) {
        if let Some(hold) = self.held.take() {
            self.move_on(hold);
        }
    }

    /// Now it is frozen or killed: the hold has become part of that, or, where something is spared, is over.
    pub(super) fn end_hold(&mut self, reach: Reach) {
        match reach {
            Reach::Whole => self.held = None,
            Reach::Named => self.let_go(),
        }
    }
}
