//! Linux: the cgroup leaf, the closure over children below a subreaper, and, where neither holds, session, token and notes.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rustix::process::{Pid, Signal};

use super::hold::Hold;
use super::{Children, Mechanism, OurTree, Root};
use crate::core::process::{OursBy, ProcessId};
use crate::core::stop::{Activity, Reach};
use crate::host::adopted;
use crate::host::cgroup::Leaf;
use crate::host::process::{self, Stat, Unread};

/// What a look keeps for the signals that follow it.
#[derive(Debug, Default)]
pub struct Bonds {
    in_leaf: BTreeSet<i32>,
    /// The process groups of our own children, in sessions that began below us: whoever is in them is ours too. Each has a member that
    /// only we wait for, so that its number stays its own until we do.
    groups: BTreeSet<i32>,
}

/// One look: processes by number, each with the first reason found why it is ours, and what was read of them on the way.
#[derive(Default)]
struct Look {
    found: BTreeMap<i32, OursBy>,
    stats: HashMap<i32, Result<Stat, Unread>>,
    missing: Option<String>,
    /// The kernel said that somebody was in the leaf, just before its members were listed.
    leaf_is_populated: bool,
    /// Nobody looks below what the leaf holds. While a tree is being ended this is enough: a process that has left the leaf is handed
    /// over to the subreaper when its parent ends, and is seen then.
    leaf_is_enough: bool,
}

impl Look {
    fn claim(&mut self, pid: i32, why: OursBy) {
        self.found.entry(pid).or_insert(why);
    }

    fn stat(&mut self, pid: i32) -> &Result<Stat, Unread> {
        self.stats.entry(pid).or_insert_with(|| process::stat(pid))
    }

    /// The children of a process, by the cheapest way there is.
    fn children(&mut self, pid: i32) -> Result<Vec<i32>, Unread> {
        match self.stat(pid) {
            // Its children have been handed over.
            Ok(stat) if stat.is_gone() => Ok(Vec::new()),
            Ok(stat) if stat.threads == 1 => process::children_of_only_thread(pid),
            _ => process::children(pid),
        }
    }
}

impl OurTree {
    /// Whether it can be found again without notes of it.
    pub fn is_found_without_notes(&self) -> bool {
        self.leaf.is_some() || self.has(Mechanism::Subreaper)
    }

    /// Without a subreaper an orphan is seen only by what it carries and by its cgroup, and whoever has the rights can leave a cgroup.
    pub(super) fn blind_to(&self) -> Option<&'static str> {
        (self.root == Root::Subreaper && !self.has(Mechanism::Subreaper))
            .then_some("no subreaper holds this tree: an orphan that has left its cgroup, session and token would not be seen")
    }

    /// Everything that is ours, zombies too, and why something may have been overlooked.
    pub(super) fn find(&mut self, children: Children) -> (Vec<(Stat, OursBy)>, Option<String>) {
        let mut look = Look::default();
        self.find_in_leaf(&mut look);
        let rooted = self.root == Root::Subreaper && self.has(Mechanism::Subreaper);
        let own = std::process::id() as i32;
        let mut landed = Vec::new();
        match self.root {
            // No child, nothing below: that is the kernel's word.
            Root::Subreaper if rooted && children == Children::None => {}
            Root::Subreaper if rooted => {
                look.leaf_is_enough = self.is_signalled() && self.spare.is_empty();
                self.find_below(&[own], &mut look, OursBy::Subreaper);
            }
            Root::Subreaper => self.find_below(&[own], &mut look, OursBy::Descendant),
            Root::Adopted { owner } => landed = self.find_adopted(owner, &mut look),
            Root::Nobody => {}
        }
        let mut unreadable = if rooted { Vec::new() } else { self.find_strays(&mut look) };
        if let Some(pid) = landed.into_iter().find(|pid| !look.found.contains_key(pid)) {
            look.missing =
                Some(format!("process {pid} was orphaned onto ledger, by this file or by what ledger came with or has spared"));
        }
        let mut stats = Vec::with_capacity(look.found.len());
        for (pid, ours_by) in std::mem::take(&mut look.found) {
            match look.stats.remove(&pid).unwrap_or_else(|| process::stat(pid)) {
                Ok(stat) => stats.push((stat, ours_by)),
                Err(Unread::Gone) => {}
                Err(_) => unreadable.push((pid, ours_by)),
            }
        }
        // They exist and cannot be looked at: alive, nameless, and without a start time.
        stats.extend(unreadable.into_iter().map(|(pid, ours_by)| (unknown_process(pid), ours_by)));
        let met_in_leaf = |stat: &Stat| self.bonds.in_leaf.contains(&stat.id.pid) && !stat.is_gone();
        if look.leaf_is_populated && !stats.iter().any(|(stat, _)| met_in_leaf(stat)) {
            look.missing.get_or_insert_with(|| "its control group was not empty, and nobody in it was met alive".to_owned());
        }
        let in_ours = |stat: &&Stat| rooted && stat.ppid == own && stat.session != own_session() && stat.group > 1;
        self.bonds.groups = stats.iter().map(|(stat, _)| stat).filter(in_ours).map(|stat| stat.group).collect();
        // Whoever of our own children has ended since the wait may have handed us others after they were listed.
        let ended_meanwhile = |stat: &Stat| stat.is_gone() && stat.ppid == own;
        let is_whole = stats.iter().any(|(stat, _)| !stat.is_gone()) && !stats.iter().any(|(stat, _)| ended_meanwhile(stat));
        if rooted && children == Children::Some && !is_whole {
            look.missing.get_or_insert_with(|| "there were children, and they ended while they were looked at".to_owned());
        }
        (stats, look.missing)
    }

    fn find_in_leaf(&mut self, look: &mut Look) {
        self.bonds.in_leaf.clear();
        let Some(leaf) = &self.leaf else { return };
        let populated = leaf.is_populated();
        look.leaf_is_populated = matches!(populated, Ok(true));
        let members = populated.and_then(|populated| if populated { leaf.pids() } else { Ok(Vec::new()) });
        match members {
            Ok(mut pids) => {
                // A file may have moved them here. They would stand still, and end, with it.
                pids.retain(|&pid| !self.is_owner_or_ledger(pid) || leaf.release(pid).is_err());
                self.bonds.in_leaf.extend(&pids);
                look.found.extend(pids.into_iter().map(|pid| (pid, OursBy::Cgroup)));
            }
            // It can only be removed empty: another ledger of this host takes away what a dead owner left.
            Err(_) if leaf.is_removed() => {}
            Err(error) => look.missing = Some(format!("{}: {error}", leaf.path().display())),
        }
    }

    fn is_owner_or_ledger(&self, pid: i32) -> bool {
        let parent = || rustix::process::getppid().is_some_and(|parent| parent.as_raw_nonzero().get() == pid);
        pid == std::process::id() as i32 || (self.root == Root::Subreaper && parent())
    }

    /// Everything below `roots`, without the roots themselves.
    fn find_below(&self, roots: &[i32], look: &mut Look, why: OursBy) {
        let mut parents = (!self.has(Mechanism::Children)).then(family);
        let mut open = roots.to_vec();
        let mut visited = BTreeSet::new();
        while let Some(pid) = open.pop() {
            if !visited.insert(pid) || (look.leaf_is_enough && self.bonds.in_leaf.contains(&pid)) {
                continue;
            }
            let listed = match &parents {
                Some(family) => Ok(family.get(&pid).cloned().unwrap_or_default()),
                None => look.children(pid),
            };
            let children = match listed {
                Ok(children) => children,
                Err(Unread::Unsupported) => parents.insert(family()).get(&pid).cloned().unwrap_or_default(),
                Err(Unread::Gone) => Vec::new(),
                Err(Unread::Denied) => {
                    look.missing = Some(format!("the children of process {pid} cannot be listed"));
                    Vec::new()
                }
            };
            for child in children {
                look.claim(child, why);
                open.push(child);
            }
        }
    }

    /// Any child of ledger that is nobody else's was orphaned onto it. Where others than the lost owner may have done that, it takes more
    /// to make it ours; the answer is those of them that live.
    fn find_adopted(&self, owner: ProcessId, look: &mut Look) -> Vec<i32> {
        // Looked at before the children are: its orphans land here before it shows its end.
        let owner_lives = process::is_alive(owner);
        if owner_lives {
            look.missing = Some(format!("its owner, process {}, has not ended yet", owner.pid));
        }
        let Ok(mut landed) = adopted::orphans() else {
            look.missing = Some("ledger's own children cannot be listed".to_owned());
            return Vec::new();
        };
        if adopted::has_company() {
            landed.retain(|pid| process::stat(*pid).is_ok_and(|stat| !stat.is_gone()));
            self.find_below(owner_lives.then_some(owner.pid).as_slice(), look, OursBy::Subreaper);
            return landed;
        }
        for &pid in &landed {
            look.claim(pid, OursBy::Subreaper);
        }
        landed.extend(owner_lives.then_some(owner.pid));
        self.find_below(&landed, look, OursBy::Subreaper);
        Vec::new()
    }

    /// Without a root: session, token and notes over all processes, and whatever descends from those. Answers with what is ours by a
    /// note and cannot be looked at any more.
    fn find_strays(&self, look: &mut Look) -> Vec<(i32, OursBy)> {
        let Ok(pids) = process::all() else {
            look.missing = Some("/proc cannot be listed".to_owned());
            return Vec::new();
        };
        let own = std::process::id() as i32;
        let mut unreadable = Vec::new();
        let mut stats = Vec::new();
        for pid in pids.into_iter().filter(|&pid| pid != own) {
            match process::stat(pid) {
                Ok(stat) => stats.push(stat),
                Err(Unread::Denied) if self.noted.iter().any(|id| id.pid == pid) => unreadable.push((pid, OursBy::Descendant)),
                Err(_) => {}
            }
        }
        let session = self.session_in_use(&stats);
        // Whatever an owner that died has orphaned lands on ledger, so who hides what it carries is no reason to doubt.
        let lands_on_us = matches!(self.root, Root::Adopted { .. }) && self.has(Mechanism::Subreaper);
        let no_doubt = lands_on_us || self.is_held_elsewhere;
        let mut doubt = None;
        let mut first = Vec::new();
        let candidates = stats.iter().filter(|stat| !stat.is_kernel_thread && stat.id.start >= self.since);
        for stat in candidates.filter(|stat| !self.spared_before.contains(&stat.id)) {
            if let Some(why) = self.claim(stat, session, &mut doubt) {
                look.claim(stat.id.pid, why);
                first.push(stat.id.pid);
            }
        }
        look.missing = look.missing.take().or(doubt.filter(|_| !no_doubt));
        self.find_below(&first, look, OursBy::Descendant);
        unreadable
    }

    /// The file's session, unless its number has gone to a later process that leads another session under it.
    fn session_in_use(&self, stats: &[Stat]) -> Option<i32> {
        let leader = self.session.filter(|_| self.has(Mechanism::Session))?;
        let reused = stats.iter().any(|stat| stat.id.pid == leader.pid && stat.id.start != leader.start);
        (!reused).then_some(leader.pid)
    }

    fn claim(&self, stat: &Stat, session: Option<i32>, missing: &mut Option<String>) -> Option<OursBy> {
        if session.is_some_and(|session| stat.session == session) {
            return Some(OursBy::Session);
        }
        if self.noted.contains(&stat.id) && self.has(Mechanism::Descendant) {
            return Some(OursBy::Descendant);
        }
        let token = self.token.as_deref().filter(|_| self.has(Mechanism::Token) && !stat.is_gone())?;
        match process::carries_token(stat.id.pid, token) {
            Ok(true) => return Some(OursBy::Token),
            Ok(false) | Err(Unread::Gone) => {}
            // Another user's process is no descendant of ours unless it was noted as one. One of our own user that hides its
            // environment and was born after the file began may be.
            Err(_) if process::is_our_users(stat.id.pid) => {
                *missing = Some(format!("the environment of process {} ({}) cannot be read", stat.id.pid, stat.comm));
            }
            Err(_) => {}
        }
        None
    }

    /// Everybody is asked one by one.
    pub(super) fn term_whole(&mut self, ids: &[ProcessId]) -> Vec<ProcessId> {
        ids.to_vec()
    }

    /// Stops all of ours at once as far as that goes, and answers with those that are still to be stopped one by one.
    pub(super) fn freeze_whole(&self, ids: &[ProcessId], reach: Reach) -> Vec<ProcessId> {
        self.reach(ids, reach, Leaf::freeze)
    }

    /// The same for KILL.
    pub(super) fn kill_whole(&self, ids: &[ProcessId], reach: Reach) -> Vec<ProcessId> {
        self.reach(ids, reach, Leaf::kill)
    }

    /// Those that are never met, whom only what takes forks along can reach: the leaf, or else the process groups of our own children.
    /// Answers whether there was anybody to reach.
    pub(super) fn hit_unseen(&self, signal: crate::host::deliver::Signal) -> bool {
        let (act, signal): (fn(&Leaf) -> std::io::Result<()>, Signal) = match signal {
            crate::host::deliver::Signal::Stop => (Leaf::freeze, Signal::STOP),
            _ => (Leaf::kill, Signal::KILL),
        };
        let leaf = self.leaf.as_ref().filter(|leaf| self.has(Mechanism::CgroupKill) && matches!(leaf.is_populated(), Ok(true)));
        let by_leaf = leaf.is_some_and(|leaf| act(leaf).is_ok());
        by_leaf | self.bonds.groups.iter().fold(false, |hit, &group| hit | signal_group(group, signal))
    }

    pub(super) fn stand_still(&self, leader_is_unreaped: bool) -> Option<Hold> {
        let by_leaf = self.leaf.as_ref().is_some_and(|leaf| self.has(Mechanism::CgroupKill) && leaf.freeze().is_ok());
        // What stopped itself would be continued with the rest, and a leader that stands still forks nothing.
        let runs = |leader: &ProcessId| process::activity(*leader).is_some_and(|activity| activity != Activity::Stopped);
        let group = self.leader.filter(|leader| leader_is_unreaped && runs(leader)).map(|leader| leader.pid);
        let by_group = || group.filter(|&group| signal_group(group, Signal::STOP)).map(Hold::Group);
        if by_leaf { Some(Hold::Leaf) } else { by_group() }
    }

    pub(super) fn move_on(&self, hold: Hold) {
        match hold {
            Hold::Leaf => self.resume_whole(),
            Hold::Group(group) => {
                signal_group(group, Signal::CONT);
            }
        }
    }

    /// Stops them so that `resume_whole` undoes it.
    pub(super) fn pause_whole(&self, ids: &[ProcessId]) -> Vec<ProcessId> {
        self.reach(ids, Reach::Whole, Leaf::freeze)
    }

    pub(super) fn resume_whole(&self) {
        if let Some(leaf) = &self.leaf {
            let _ = leaf.thaw();
        }
    }

    /// Acts on the whole leaf where that is allowed and works, and answers with those that are still to be signalled one by one.
    fn reach(&self, ids: &[ProcessId], reach: Reach, act: fn(&Leaf) -> std::io::Result<()>) -> Vec<ProcessId> {
        let whole = reach == Reach::Whole && self.has(Mechanism::CgroupKill);
        match &self.leaf {
            Some(leaf) if whole && act(leaf).is_ok() => {
                ids.iter().filter(|id| !self.bonds.in_leaf.contains(&id.pid)).copied().collect()
            }
            _ => ids.to_vec(),
        }
    }
}

fn own_session() -> i32 {
    rustix::process::getsid(None).map_or(0, |session| session.as_raw_nonzero().get())
}

fn signal_group(group: i32, signal: Signal) -> bool {
    Pid::from_raw(group).is_some_and(|group| rustix::process::kill_process_group(group, signal).is_ok())
}

/// Children by parent, over all processes.
fn family() -> HashMap<i32, Vec<i32>> {
    let mut family: HashMap<i32, Vec<i32>> = HashMap::new();
    for stat in process::all().unwrap_or_default().into_iter().filter_map(|pid| process::stat(pid).ok()) {
        family.entry(stat.ppid).or_default().push(stat.id.pid);
    }
    family
}

fn unknown_process(pid: i32) -> Stat {
    Stat {
        id: ProcessId { pid, start: 0 },
        ppid: 0,
        group: 0,
        session: 0,
        state: '?',
        comm: String::new(),
        cpu_ticks: 0,
        children_ticks: 0,
        rss_pages: 0,
        threads: 1,
        is_kernel_thread: false,
    }
}

/// `D io_schedule`: the state, and the kernel function it sleeps in.
pub fn waits_on(pid: i32) -> Option<String> {
    let stat = process::stat(pid).ok()?;
    Some(match process::wait_channel(pid) {
        Some(channel) => format!("{} {channel}", stat.state),
        None => stat.state.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::clock;

    #[test]
    fn a_leaf_that_another_has_removed_holds_nothing() {
        let name = crate::host::cgroup::leaf_name(std::process::id() as i32, "removed0");
        let leaf = match Leaf::make(&name) {
            Ok(leaf) => leaf,
            Err(why) => return eprintln!("SKIPPED: no leaf can be made: {why}"),
        };
        std::fs::remove_dir(leaf.path()).expect("it is empty");
        let mut tree = OurTree::new(Root::Nobody);
        tree.leaf = Some(leaf);
        let scan = tree.scan(Children::Some, clock::now());
        assert_eq!((scan.seen.len(), scan.incomplete), (0, None));
    }

    /// A socket can close before its owner ends, and until then nothing that the owner holds has landed on ledger.
    #[test]
    fn while_a_lost_owner_lives_nothing_is_proved_and_what_it_holds_is_seen() {
        let mut owner = std::process::Command::new("sh").args(["-c", "sleep 100 & wait"]).spawn().expect("sh is there");
        let id = process::stat(owner.id() as i32).expect("it lives").id;
        let mut tree = OurTree::new(Root::Adopted { owner: id });
        tree.since = u64::MAX;
        let began = clock::now();
        let child = loop {
            let scan = tree.scan(Children::Some, clock::now());
            assert!(scan.incomplete.is_some());
            if let Some(seen) = scan.seen.iter().find(|seen| process::stat(seen.id.pid).is_ok_and(|stat| stat.ppid == id.pid)) {
                break seen.id;
            }
            assert!(clock::now().since(began).millis() < 20_000, "its child is never seen");
        };
        let _ = crate::host::deliver::deliver(child, crate::host::deliver::Signal::Kill);
        let _ = owner.kill();
        let _ = owner.wait();
        let why = tree.scan(Children::Some, clock::now()).incomplete;
        assert!(why.as_ref().is_none_or(|why| !why.contains("has not ended yet")), "{why:?}");
    }
}
