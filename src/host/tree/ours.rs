//! What is ours, looked at, signalled and described: the same on every system. How the system finds what is ours, and how it reaches
//! all of it at once, is in the file of that system.

use std::collections::{BTreeSet, HashMap};

use super::hold::Hold;
use super::spare::Spare;
use super::system::{self, Bonds};
use super::{Details, LISTED, Mechanism};
use crate::core::moment::Moment;
use crate::core::process::{Fate, Leftover, OursBy, ProcessId, thousandths};
use crate::core::redact::shown_command;
use crate::core::stop::{Activity, Ended, Reach, Role, Scan, Seen};
use crate::host::cgroup::Leaf;
use crate::host::clock;
use crate::host::deliver::{Signal, deliver_all};
use crate::host::process::{self, Stat};
use crate::host::sweep::Answers;

/// So often the leaf is looked at for what the spared have forked just then.
const RELEASE_ROUNDS: usize = 8;

/// From where the closure over children starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Root {
    /// This process is the owner, and all its children are ours. Where there are subreapers it is one.
    Subreaper,
    /// This process adopts a lost owner's orphans, as soon as that has ended.
    Adopted { owner: ProcessId },
    /// Nobody holds the tree together.
    Nobody,
}

/// The last word of the kernel on this process's children, from the wait before a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Children {
    /// The wait said ECHILD. Below a subreaper that proves that nothing is left: an orphan is handed over before its parent ends.
    None,
    Some,
}

/// What makes a process ours, and what was seen of those that are.
#[derive(Debug)]
pub struct OurTree {
    pub disabled: Vec<Mechanism>,
    pub token: Option<String>,
    /// Gets TERM first, and is no leftover.
    pub leader: Option<ProcessId>,
    /// Whose session is ours.
    pub session: Option<ProcessId>,
    /// Left alive by an earlier sweep, and none of ours any more.
    pub spared_before: BTreeSet<ProcessId>,
    /// Nothing that started earlier (in the system's own unit) is ours.
    pub since: u64,
    pub noted: BTreeSet<ProcessId>,
    /// Those of them that were alive at two looks in a row: what ends by itself at once is not worth a record.
    settled: BTreeSet<ProcessId>,
    alive_before: BTreeSet<ProcessId>,
    pub leaf: Option<Leaf>,
    pub root: Root,
    /// An owner holds whatever descends from the file, so who hides what it carries is no reason to doubt.
    pub is_held_elsewhere: bool,
    pub spare: Spare,
    /// Spared by what an earlier sweep recorded, by number; the caller has made sure that numbers still mean the same.
    pub spare_pids: BTreeSet<i32>,
    pub(super) bonds: Bonds,
    details: HashMap<ProcessId, Details>,
    paused: Option<Vec<ProcessId>>,
    /// Stopped one by one for their end; who turns out to be spared is continued.
    stopped: BTreeSet<ProcessId>,
    pub(super) held: Option<Hold>,
    /// How many there were at the last look.
    pub(super) last_seen: usize,
    /// A signal has been sent: from then on a process shows its end, not its life.
    signalled: bool,
}

/// What one pass over the tree adds up to.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Tally {
    pub processes: u32,
    pub rss_mib: f64,
}

impl OurTree {
    pub fn new(root: Root) -> Self {
        Self {
            disabled: Vec::new(),
            token: None,
            leader: None,
            session: None,
            spared_before: BTreeSet::new(),
            since: 0,
            noted: BTreeSet::new(),
            settled: BTreeSet::new(),
            alive_before: BTreeSet::new(),
            leaf: None,
            root,
            is_held_elsewhere: false,
            spare: Spare::default(),
            spare_pids: BTreeSet::new(),
            bonds: Bonds::default(),
            details: HashMap::new(),
            paused: None,
            stopped: BTreeSet::new(),
            held: None,
            last_seen: 0,
            signalled: false,
        }
    }

    /// Whether its end has begun.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only Linux has a leaf to rely on"))]
    pub(super) fn is_signalled(&self) -> bool {
        self.signalled
    }

    pub fn has(&self, mechanism: Mechanism) -> bool {
        !self.disabled.contains(&mechanism)
    }

    /// One look at everything that is ours and has not ended.
    pub fn scan(&mut self, children: Children, now: Moment) -> Scan {
        let (stats, incomplete) = self.find(children);
        self.last_seen = stats.len();
        let seen = self.describe(&stats, now);
        Scan { seen, incomplete, blind_to: self.blind_to() }
    }

    /// Remembers who descends from us at present, and what they hold together.
    pub fn note(&mut self, children: Children) -> Tally {
        let (stats, _) = self.find(children);
        self.last_seen = stats.len();
        let mut tally = Tally::default();
        let mut alive = BTreeSet::new();
        for (stat, _) in stats.iter().filter(|(stat, _)| !stat.is_gone()) {
            self.noted.insert(stat.id);
            self.spare.has(stat.id);
            alive.insert(stat.id);
            tally.processes += 1;
            tally.rss_mib += stat.rss_mib();
        }
        self.settled.extend(self.alive_before.intersection(&alive));
        self.alive_before = alive;
        tally
    }

    /// Descendants that have stayed, and are not in `known`.
    pub fn settled_since(&self, known: &BTreeSet<ProcessId>) -> Vec<ProcessId> {
        self.settled.difference(known).copied().collect()
    }

    fn describe(&mut self, stats: &[(Stat, OursBy)], now: Moment) -> Vec<Seen> {
        let spared = self.spared(stats);
        let mut seen = Vec::with_capacity(stats.len());
        for (stat, ours_by) in stats {
            let role = match () {
                () if Some(stat.id) == self.leader => Role::Leader,
                () if spared.contains(&stat.id.pid) => Role::Spared,
                () => Role::Other,
            };
            if role != Role::Leader && !stat.is_gone() {
                self.look_closely(stat, now);
            }
            let activity = match stat.activity() {
                // By us, and not for long.
                Activity::Stopped if self.held.is_some() => Activity::Running,
                activity => activity,
            };
            seen.push(Seen { id: stat.id, ours_by: *ours_by, activity, role });
        }
        seen
    }

    /// A process that is seen between fork and exec still shows its parent's program, so a young one is looked at again.
    fn look_closely(&mut self, stat: &Stat, now: Moment) {
        let known = self.details.get(&stat.id);
        let settled = known.is_some_and(|known| self.signalled || known.age_s.is_none_or(|age| age > 1.0));
        if !settled && (known.is_some() || self.details.len() < LISTED) {
            self.details.insert(stat.id, details(stat, now));
        }
    }

    /// What `--allow-leftover` matches, and all that descends from it: a build server without its workers is no build server.
    fn spared(&mut self, stats: &[(Stat, OursBy)]) -> BTreeSet<i32> {
        let mut spared = self.spare_pids.clone();
        if self.spare.is_empty() && spared.is_empty() {
            return spared;
        }
        let leader = self.leader;
        for (stat, _) in stats.iter().filter(|(stat, _)| Some(stat.id) != leader && !stat.is_gone()) {
            if self.spare.has(stat.id) {
                spared.insert(stat.id.pid);
            }
        }
        loop {
            let before = spared.len();
            let more: Vec<i32> = stats.iter().map(|(s, _)| s).filter(|s| spared.contains(&s.ppid)).map(|s| s.id.pid).collect();
            spared.extend(more);
            if spared.len() == before {
                return spared;
            }
        }
    }

    pub fn term(&mut self, ids: &[ProcessId]) -> Answers {
        self.signalled = true;
        deliver_all(&self.term_whole(ids), Signal::Term)
    }

    pub fn freeze(&mut self, ids: &[ProcessId], reach: Reach) {
        if ids.is_empty() {
            self.hit_whole(Signal::Stop, reach);
            return;
        }
        self.signalled = true;
        self.end_hold(reach);
        let one_by_one = self.freeze_whole(ids, reach);
        let _ = deliver_all(&one_by_one, Signal::Stop);
        self.stopped.extend(one_by_one);
    }

    pub fn kill(&mut self, ids: &[ProcessId], reach: Reach) -> Answers {
        if ids.is_empty() {
            return Answers { unseen: self.hit_whole(Signal::Kill, reach), ..Answers::default() };
        }
        self.signalled = true;
        self.end_hold(reach);
        deliver_all(&self.kill_whole(ids, reach), Signal::Kill)
    }

    /// All that can be reached at once, unless some of it may have to be spared.
    fn hit_whole(&mut self, signal: Signal, reach: Reach) -> bool {
        if reach == Reach::Named || !self.spare.is_empty() || !self.spare_pids.is_empty() {
            return false;
        }
        self.signalled = true;
        self.end_hold(reach);
        self.hit_unseen(signal)
    }

    /// Stops the tree so that it can be continued: what was stopped already stays stopped then.
    pub fn pause(&mut self, children: Children, now: Moment) {
        // A second round catches what was forked during the first.
        for _ in 0..2 {
            let scan = self.scan(children, now);
            // Whoever waits in the kernel (a shell in vfork does) stops as soon as it comes back.
            let runs = |seen: &&Seen| matches!(seen.activity, Activity::Running | Activity::Uninterruptible);
            let running: Vec<ProcessId> = scan.seen.iter().filter(runs).map(|seen| seen.id).collect();
            let one_by_one = self.pause_whole(&running);
            let _ = deliver_all(&one_by_one, Signal::Stop);
            self.paused.get_or_insert_default().extend(one_by_one);
        }
    }

    pub fn resume(&mut self) {
        let Some(stopped) = self.paused.take() else { return };
        self.resume_whole();
        let _ = deliver_all(&stopped, Signal::Continue);
    }

    /// What a sweep found, for the record. A long list is cut, never a survivor before one that is gone, and the cut is said.
    pub fn leftovers(&self, ends: &[Ended], notes: &mut Vec<String>) -> Vec<Leftover> {
        if ends.len() > LISTED {
            notes.push(format!("{} leftovers, of which {LISTED} are listed", ends.len()));
        }
        let (alive, gone): (Vec<&Ended>, Vec<&Ended>) = ends.iter().partition(|end| end.fate.is_alive());
        let mut listed: Vec<&Ended> = alive.into_iter().chain(gone).take(LISTED).collect();
        listed.sort_unstable_by_key(|end| end.id);
        listed.into_iter().map(|end| self.leftover(end)).collect()
    }

    fn leftover(&self, end: &Ended) -> Leftover {
        // Of a crowd not everybody was looked at closely; who is still there can be.
        let now = || process::stat(end.id.pid).ok().filter(|stat| stat.id == end.id).map(|stat| details(&stat, clock::now()));
        let known = self.details.get(&end.id).cloned();
        let details = known.or_else(|| end.fate.is_alive().then(now).flatten()).unwrap_or_default();
        let still_there = matches!(end.fate, Fate::Survived | Fate::Unkillable);
        Leftover {
            pid: end.id.pid,
            comm: details.comm,
            exe: details.exe,
            argv: details.argv,
            age_s: details.age_s.map(thousandths),
            rss_mib: details.rss_mib.map(thousandths),
            ours_by: end.ours_by,
            fate: end.fate,
            waits_on: if still_there { system::waits_on(end.id.pid) } else { None },
        }
    }

    /// After a sweep: what was spared goes on, and leaves the leaf with what it has started meanwhile, so that the leaf can be removed.
    /// What could not be ended is not left frozen either.
    pub fn release(&self, ends: &[Ended]) {
        let (spared, survivors): (Vec<&Ended>, Vec<&Ended>) =
            ends.iter().filter(|end| end.fate.is_alive()).partition(|end| end.fate == Fate::Allowed);
        let stopped: Vec<ProcessId> = spared.iter().map(|end| end.id).filter(|id| self.stopped.contains(id)).collect();
        let _ = deliver_all(&stopped, Signal::Continue);
        let Some(leaf) = &self.leaf else { return };
        let _ = leaf.thaw();
        for end in &spared {
            let _ = leaf.release(end.id.pid);
        }
        // Only the spared can have forked since.
        let forked = || leaf.pids().ok().filter(|pids| !pids.is_empty() && !spared.is_empty() && survivors.is_empty());
        for pid in std::iter::from_fn(forked).take(RELEASE_ROUNDS).flatten() {
            let _ = leaf.release(pid);
        }
    }
}

fn details(stat: &Stat, now: Moment) -> Details {
    let pid = stat.id.pid;
    Details {
        comm: stat.comm.clone(),
        exe: process::exe_path(pid).ok().map(|path| crate::core::ids::base_name(&path).to_owned()),
        argv: process::argv(pid).map(|argv| shown_command(&argv)),
        age_s: (stat.id.start > 0).then(|| process::age_s(stat.id.start, now)),
        rss_mib: (stat.id.start > 0).then(|| stat.rss_mib()),
    }
}
