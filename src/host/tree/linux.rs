//! Linux: the cgroup leaf, the closure over children below a subreaper, and, where neither holds, session, token and notes.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Details, LISTED, Mechanism};
use crate::core::pattern::{Patterns, ProgramName};
use crate::core::process::{Fate, Leftover, OursBy, ProcessId};
use crate::core::stop::{Activity, Ended, Reach, Role, Scan, Seen};
use crate::host::cgroup::Leaf;
use crate::host::deliver::{Signal, deliver_all};
use crate::host::process::{self, Stat, Unread};
use crate::host::sweep::Answers;

/// From where the closure over children starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Root {
    /// This process is a subreaper and all its children are ours.
    Subreaper,
    /// This process has adopted a dead owner's orphans; these children of it are something else.
    Adopted { except: BTreeSet<i32> },
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
    /// Nothing that started earlier (clock ticks since boot) is ours.
    pub since: u64,
    pub noted: BTreeSet<ProcessId>,
    pub leaf: Option<Leaf>,
    pub root: Root,
    pub spare: Patterns,
    details: HashMap<ProcessId, Details>,
    in_leaf: BTreeSet<i32>,
    paused: Option<Vec<ProcessId>>,
    /// A signal has been sent: from then on a process shows its end, not its life.
    signalled: bool,
}

/// What one pass over the tree adds up to.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Tally {
    pub processes: u32,
    pub rss_mib: f64,
}

/// One look: processes by number, each with the first reason found why it is ours, and what was read of them on the way.
#[derive(Default)]
struct Look {
    found: BTreeMap<i32, OursBy>,
    stats: HashMap<i32, Result<Stat, Unread>>,
    missing: Option<String>,
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
    pub fn new(root: Root) -> Self {
        Self {
            disabled: Vec::new(),
            token: None,
            leader: None,
            session: None,
            spared_before: BTreeSet::new(),
            since: 0,
            noted: BTreeSet::new(),
            leaf: None,
            root,
            spare: Patterns::default(),
            details: HashMap::new(),
            in_leaf: BTreeSet::new(),
            paused: None,
            signalled: false,
        }
    }

    pub fn has(&self, mechanism: Mechanism) -> bool {
        !self.disabled.contains(&mechanism)
    }

    /// One look at everything that is ours and has not ended.
    pub fn scan(&mut self, children: Children, boot_ms: u64) -> Scan {
        let (stats, incomplete) = self.find(children);
        let seen = self.describe(&stats, boot_ms);
        Scan { seen, incomplete }
    }

    /// Remembers who descends from us at present, and what they hold together.
    pub fn note(&mut self, children: Children) -> Tally {
        let (stats, _) = self.find(children);
        let mut tally = Tally::default();
        for (stat, _) in stats.iter().filter(|(stat, _)| !stat.is_gone()) {
            self.noted.insert(stat.id);
            tally.processes += 1;
            tally.rss_mib += stat.rss_mib();
        }
        tally
    }

    fn find(&mut self, children: Children) -> (Vec<(Stat, OursBy)>, Option<String>) {
        let mut look = Look::default();
        self.find_in_leaf(&mut look);
        let rooted = self.root == Root::Subreaper && self.has(Mechanism::Subreaper);
        let own = std::process::id() as i32;
        match self.root.clone() {
            // No child, nothing below: that is the kernel's word.
            Root::Subreaper if rooted && children == Children::None => {}
            Root::Subreaper if rooted => self.find_below(&[own], &mut look, OursBy::Subreaper),
            Root::Subreaper => self.find_below(&[own], &mut look, OursBy::Descendant),
            Root::Adopted { except } => self.find_adopted(&except, &mut look),
            Root::Nobody => {}
        }
        let mut unreadable = if rooted { Vec::new() } else { self.find_strays(&mut look) };
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
        if rooted && children == Children::Some && stats.is_empty() {
            look.missing.get_or_insert_with(|| "the system says there are children and does not list them".to_owned());
        }
        (stats, look.missing)
    }

    fn find_in_leaf(&mut self, look: &mut Look) {
        self.in_leaf.clear();
        let Some(leaf) = &self.leaf else { return };
        let members = leaf.is_populated().and_then(|populated| if populated { leaf.pids() } else { Ok(Vec::new()) });
        match members {
            Ok(pids) => {
                self.in_leaf.extend(&pids);
                look.found.extend(pids.into_iter().map(|pid| (pid, OursBy::Cgroup)));
            }
            Err(error) => look.missing = Some(format!("{}: {error}", leaf.path().display())),
        }
    }

    /// Everything below `roots`, without the roots themselves.
    fn find_below(&self, roots: &[i32], look: &mut Look, why: OursBy) {
        let mut parents = (!self.has(Mechanism::Children)).then(family);
        let mut open = roots.to_vec();
        let mut visited = BTreeSet::new();
        while let Some(pid) = open.pop() {
            if !visited.insert(pid) {
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

    /// ledger's own children are its owners; any other child was orphaned onto it.
    fn find_adopted(&self, except: &BTreeSet<i32>, look: &mut Look) {
        let Ok(children) = process::children(std::process::id() as i32) else {
            look.missing = Some("ledger's own children cannot be listed".to_owned());
            return;
        };
        let mut adopted = children;
        adopted.retain(|pid| {
            let spared = process::stat(*pid).is_ok_and(|stat| self.spared_before.contains(&stat.id));
            !spared && !except.contains(pid)
        });
        for &pid in &adopted {
            look.claim(pid, OursBy::Subreaper);
        }
        self.find_below(&adopted, look, OursBy::Subreaper);
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
        let mut first = Vec::new();
        let candidates = stats.iter().filter(|stat| !stat.is_kernel_thread && stat.id.start >= self.since);
        for stat in candidates.filter(|stat| !self.spared_before.contains(&stat.id)) {
            if let Some(why) = self.claim(stat, session, &mut look.missing) {
                look.claim(stat.id.pid, why);
                first.push(stat.id.pid);
            }
        }
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

    fn describe(&mut self, stats: &[(Stat, OursBy)], boot_ms: u64) -> Vec<Seen> {
        let spared = self.spared(stats);
        let mut seen = Vec::with_capacity(stats.len());
        for (stat, ours_by) in stats {
            let role = match () {
                () if Some(stat.id) == self.leader => Role::Leader,
                () if spared.contains(&stat.id.pid) => Role::Spared,
                () => Role::Other,
            };
            if role != Role::Leader && !stat.is_gone() {
                self.look_closely(stat, boot_ms);
            }
            seen.push(Seen { id: stat.id, ours_by: *ours_by, activity: stat.activity(), role });
        }
        seen
    }

    /// A process that is seen between fork and exec still shows its parent's program, so a young one is looked at again.
    fn look_closely(&mut self, stat: &Stat, boot_ms: u64) {
        let known = self.details.get(&stat.id);
        let settled = known.is_some_and(|known| self.signalled || known.age_s.is_none_or(|age| age > 1.0));
        if !settled && (known.is_some() || self.details.len() < LISTED) {
            self.details.insert(stat.id, details(stat, boot_ms));
        }
    }

    /// What `--allow-leftover` matches, and all that descends from it: a build server without its workers is no build server.
    fn spared(&self, stats: &[(Stat, OursBy)]) -> BTreeSet<i32> {
        let mut spared = BTreeSet::new();
        if self.spare.is_empty() {
            return spared;
        }
        for (stat, _) in stats.iter().filter(|(stat, _)| Some(stat.id) != self.leader && !stat.is_gone()) {
            let exe = process::exe_path(stat.id.pid).ok();
            let argv = process::argv(stat.id.pid);
            if self.spare.match_leftover(ProgramName { exe: exe.as_deref(), argv: argv.as_deref() }) {
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
        deliver_all(ids, Signal::Term)
    }

    pub fn freeze(&mut self, ids: &[ProcessId], reach: Reach) {
        self.signalled = true;
        let one_by_one = self.reach(ids, reach, Leaf::freeze);
        let _ = deliver_all(&one_by_one, Signal::Stop);
    }

    pub fn kill(&mut self, ids: &[ProcessId], reach: Reach) -> Answers {
        self.signalled = true;
        deliver_all(&self.reach(ids, reach, Leaf::kill), Signal::Kill)
    }

    /// Acts on the whole leaf where that is allowed and works, and answers with those that are still to be signalled one by one.
    fn reach(&self, ids: &[ProcessId], reach: Reach, act: fn(&Leaf) -> std::io::Result<()>) -> Vec<ProcessId> {
        let whole = reach == Reach::Whole && self.has(Mechanism::CgroupKill);
        match &self.leaf {
            Some(leaf) if whole && act(leaf).is_ok() => ids.iter().filter(|id| !self.in_leaf.contains(&id.pid)).copied().collect(),
            _ => ids.to_vec(),
        }
    }

    /// Stops the tree so that it can be continued: what was stopped already stays stopped then.
    pub fn pause(&mut self, children: Children, boot_ms: u64) {
        // A second round catches what was forked during the first.
        for _ in 0..2 {
            let scan = self.scan(children, boot_ms);
            let running: Vec<ProcessId> =
                scan.seen.iter().filter(|seen| seen.activity == Activity::Running).map(|seen| seen.id).collect();
            let one_by_one = self.reach(&running, Reach::Whole, Leaf::freeze);
            let _ = deliver_all(&one_by_one, Signal::Stop);
            self.paused.get_or_insert_default().extend(one_by_one);
        }
    }

    pub fn resume(&mut self) {
        let Some(stopped) = self.paused.take() else { return };
        if let Some(leaf) = &self.leaf {
            let _ = leaf.thaw();
        }
        let _ = deliver_all(&stopped, Signal::Continue);
    }

    /// What a sweep found, for the record. A long list is cut, and the cut is said.
    pub fn leftovers(&self, ends: &[Ended], notes: &mut Vec<String>) -> Vec<Leftover> {
        if ends.len() > LISTED {
            notes.push(format!("{} leftovers, of which {LISTED} are listed", ends.len()));
        }
        ends.iter().take(LISTED).map(|end| self.leftover(end)).collect()
    }

    fn leftover(&self, end: &Ended) -> Leftover {
        let details = self.details.get(&end.id).cloned().unwrap_or_default();
        let still_there = matches!(end.fate, Fate::Survived | Fate::Unkillable);
        Leftover {
            pid: end.id.pid,
            comm: details.comm,
            exe: details.exe,
            argv: details.argv,
            age_s: details.age_s,
            rss_mib: details.rss_mib,
            ours_by: end.ours_by,
            fate: end.fate,
            waits_on: if still_there { waits_on(end.id.pid) } else { None },
        }
    }

    /// Lets the spared leave the leaf, so that it can be removed.
    pub fn release(&self, ends: &[Ended]) {
        let Some(leaf) = &self.leaf else { return };
        for end in ends.iter().filter(|end| end.fate == Fate::Allowed) {
            let _ = leaf.release(end.id.pid);
        }
    }
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

fn details(stat: &Stat, boot_ms: u64) -> Details {
    let pid = stat.id.pid;
    Details {
        comm: stat.comm.clone(),
        exe: process::exe_path(pid).ok().map(|path| crate::core::ids::base_name(&path).to_owned()),
        argv: process::argv(pid).map(|argv| argv.join(" ")),
        age_s: (stat.id.start > 0).then(|| process::age_s(stat.id.start, boot_ms)),
        rss_mib: (stat.id.start > 0).then(|| stat.rss_mib()),
    }
}

/// `D io_schedule`: the state, and the kernel function it sleeps in.
fn waits_on(pid: i32) -> Option<String> {
    let stat = process::stat(pid).ok()?;
    Some(match process::wait_channel(pid) {
        Some(channel) => format!("{} {channel}", stat.state),
        None => stat.state.to_string(),
    })
}
