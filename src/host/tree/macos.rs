//! macOS: descent, session and token. There is no group that nobody can leave, so what is known is said exactly:
//!
//! - Descent goes by the kernel's unique ids: a process keeps its parent's also after that parent has ended and launchd has taken the
//!   process over. One that was born between two looks of a parent that both came and went between them is not found by descent; the
//!   owner looks at every fork it is told of, which makes that gap small and does not close it.
//! - The session survives every change of parent, and its number is not given away while anybody is in it.
//! - The token is read where the kernel shows an environment. Apple's own programs hide theirs; one of our user that was born while the
//!   file ran, hides it, and whose parent is gone and unknown makes the look incomplete. One that launchd itself started is not ours.
//!
//! By reading xnu-11417, not by trying: no Mac has run this.

use std::collections::{BTreeMap, BTreeSet};

use super::hold::Hold;
use super::{Children, Mechanism, OurTree, Root, UNKNOWN_FOLLOWED};
use crate::core::process::OursBy;
use crate::core::process::ProcessId;
use crate::core::stop::Reach;
use crate::host::process::{self, Stat, Unread};

/// What a look keeps for the next one, and for the signals that follow it.
#[derive(Debug, Default)]
pub struct Bonds {
    /// The unique ids of ours, each with the number of looks since it was last seen. Somebody born of it just before it ended may have
    /// been missed by the look under way, so it is kept for one more.
    ours: BTreeMap<u64, u8>,
    in_group: BTreeSet<i32>,
}

/// All processes at one moment, parents before their children.
struct Census {
    stats: Vec<Stat>,
    /// Unique ids of all that live.
    alive: BTreeSet<u64>,
    launchd: Option<u64>,
}

impl Census {
    fn take() -> std::io::Result<Self> {
        let own = std::process::id() as i32;
        let mut stats: Vec<Stat> = process::all()?.into_iter().filter_map(look_at).collect();
        let alive = stats.iter().filter(|stat| !stat.is_gone()).map(|stat| stat.unique).collect();
        let launchd = stats.iter().find(|stat| stat.id.pid == 1).map(|stat| stat.unique);
        stats.retain(|stat| stat.id.pid > 1 && stat.id.pid != own);
        stats.sort_unstable_by_key(|stat| stat.unique);
        Ok(Self { stats, alive, launchd })
    }
}

fn look_at(pid: i32) -> Option<Stat> {
    match process::stat(pid) {
        Ok(stat) => Some(stat),
        Err(Unread::Gone) => None,
        Err(Unread::Denied) => process::glimpse(pid).ok(),
    }
}

impl OurTree {
    /// What an owner cannot see is doubted process by process (`claim`). Whoever a lost owner had followed out of the session is known
    /// to nobody, and may have no token to show.
    pub(super) fn blind_to(&self) -> Option<&'static str> {
        matches!(self.root, Root::Adopted { .. }).then_some(UNKNOWN_FOLLOWED)
    }

    /// Everything that is ours, zombies too, and why something may have been overlooked. That this process has no children proves
    /// nothing here: orphans are launchd's.
    pub(super) fn find(&mut self, _: Children) -> (Vec<(Stat, OursBy)>, Option<String>) {
        let census = match Census::take() {
            Ok(census) => census,
            Err(error) => return (Vec::new(), Some(format!("the processes cannot be listed: {error}"))),
        };
        let owner = self.owners_unique();
        let session = self.session_in_use(&census.stats);
        let mut missing = None;
        let mut found = Vec::new();
        for stat in &census.stats {
            if self.spared_before.contains(&stat.id) {
                continue;
            }
            let known = self.bonds.ours.contains_key(&stat.unique) || Some(stat.parent_unique) == owner;
            if let Some(why) = self.claim(stat, known, session, &census, &mut missing) {
                self.bonds.ours.insert(stat.unique, 0);
                found.push((stat.clone(), why));
            }
        }
        self.forget(&census);
        self.bonds.in_group = self.held_group().map_or_else(BTreeSet::new, |group| {
            found.iter().filter(|(stat, _)| stat.group == group).map(|(stat, _)| stat.id.pid).collect()
        });
        (found, missing)
    }

    /// The owner's own unique id, whose children are ours. Elsewhere than in an owner nobody's are.
    fn owners_unique(&self) -> Option<u64> {
        let is_owner = self.root == Root::Subreaper && self.has(Mechanism::Descendant);
        is_owner.then(|| process::glimpse(std::process::id() as i32).ok()).flatten().map(|own| own.unique)
    }

    /// The file's session, unless its number has gone to a later process that leads another session under it.
    fn session_in_use(&self, stats: &[Stat]) -> Option<i32> {
        let leader = self.session.filter(|_| self.has(Mechanism::Session))?;
        let reused = stats.iter().any(|stat| stat.id.pid == leader.pid && stat.id.start != leader.start);
        (!reused).then_some(leader.pid)
    }

    fn claim(
        &self,
        stat: &Stat,
        known: bool,
        session: Option<i32>,
        census: &Census,
        missing: &mut Option<String>,
    ) -> Option<OursBy> {
        if session.is_some() && process::session(stat.id.pid) == session {
            return Some(OursBy::Session);
        }
        let noted = Some(stat.id) == self.leader || self.noted.contains(&stat.id);
        if known || self.bonds.ours.contains_key(&stat.parent_unique) || (noted && self.has(Mechanism::Descendant)) {
            return Some(OursBy::Descendant);
        }
        let token = self.token.as_deref().filter(|_| self.has(Mechanism::Token) && !stat.is_gone())?;
        if !process::may_read_arguments_of(stat.uid) {
            // Not even the head of its environment is shown, and descent and session have had their say.
            return None;
        }
        match process::carries_token(stat.id.pid, token) {
            Ok(true) => return Some(OursBy::Token),
            Ok(false) | Err(Unread::Gone) => {}
            Err(Unread::Denied) => {
                let accounted = census.launchd == Some(stat.parent_unique) || census.alive.contains(&stat.parent_unique);
                if !accounted && stat.id.start >= self.since {
                    let (pid, comm) = (stat.id.pid, &stat.comm);
                    *missing = Some(format!("process {pid} ({comm}) hides its environment, and what started it has ended"));
                }
            }
        }
        None
    }

    /// What has ended cannot have children any more, once everybody it had has been seen.
    fn forget(&mut self, census: &Census) {
        let present: BTreeSet<u64> = census.stats.iter().map(|stat| stat.unique).collect();
        self.bonds.ours.retain(|unique, looks| {
            *looks = if present.contains(unique) { 0 } else { *looks + 1 };
            *looks < 2
        });
        let ids: BTreeSet<ProcessId> = census.stats.iter().map(|stat| stat.id).collect();
        self.noted.retain(|id| ids.contains(id));
    }

    /// The leader's process group, while this process keeps the leader from being waited for: its number can be nobody else's.
    fn held_group(&self) -> Option<i32> {
        let is_owner = self.root == Root::Subreaper && self.has(Mechanism::Session);
        self.leader.filter(|_| is_owner).map(|leader| leader.pid)
    }

    /// Everybody is asked one by one.
    #[expect(clippy::unused_self, reason = "the same surface on every system")]
    pub(super) fn term_whole(&mut self, ids: &[ProcessId]) -> Vec<ProcessId> {
        ids.to_vec()
    }

    /// Stops the leader's group at once, and answers with those that are still to be stopped one by one.
    pub(super) fn freeze_whole(&self, ids: &[ProcessId], reach: Reach) -> Vec<ProcessId> {
        self.reach(ids, reach, rustix::process::Signal::STOP)
    }

    /// The same for KILL.
    pub(super) fn kill_whole(&self, ids: &[ProcessId], reach: Reach) -> Vec<ProcessId> {
        self.reach(ids, reach, rustix::process::Signal::KILL)
    }

    /// The leader's group, which may hold nobody any more.
    pub(super) fn hit_unseen(&self, signal: crate::host::deliver::Signal) -> bool {
        let _ = match signal {
            crate::host::deliver::Signal::Stop => self.freeze_whole(&[], Reach::Whole),
            _ => self.kill_whole(&[], Reach::Whole),
        };
        false
    }

    /// Never asked for: how many threads want to run is not known here.
    #[expect(clippy::unused_self, reason = "the same surface on every system")]
    pub(super) fn stand_still(&self, _: bool) -> Option<Hold> {
        None
    }

    pub(super) fn move_on(&self, _: Hold) {}

    /// One by one, so that `resume` continues none that was stopped before.
    pub(super) fn pause_whole(&self, ids: &[ProcessId]) -> Vec<ProcessId> {
        ids.to_vec()
    }

    /// Nothing was stopped as a whole.
    #[expect(clippy::unused_self, reason = "the same surface on every system")]
    pub(super) fn resume_whole(&self) {}

    fn reach(&self, ids: &[ProcessId], reach: Reach, signal: rustix::process::Signal) -> Vec<ProcessId> {
        let group = self.held_group().filter(|_| reach == Reach::Whole).and_then(rustix::process::Pid::from_raw);
        match group {
            Some(group) if rustix::process::kill_process_group(group, signal).is_ok() => {
                ids.iter().filter(|id| !self.bonds.in_group.contains(&id.pid)).copied().collect()
            }
            _ => ids.to_vec(),
        }
    }
}

/// The state letter; what the kernel waits for is not told to others than a debugger.
pub fn waits_on(pid: i32) -> Option<String> {
    look_at(pid).map(|stat| stat.state.to_string())
}
