//! After a sweep: who carries the file's token outside the owner's reach, and what `--reap-match` names besides.

use super::{Hurry, ReapScope, hurried, pause_until, sweep_unowned, worse};
use crate::core::ids::Token;
use crate::core::outcome::Cleanup;
use crate::core::pattern::Patterns;
use crate::core::process::{Fate, Foreign, OursBy, ProcessId, Swept};
use crate::core::redact::shown_command;
use crate::core::stop::{Reach, Role, Scan, Seen, StopOrder};
use crate::host::deliver::{Signal, deliver_all};
use crate::host::sweep::{Answers, Tree, Woken, perform};
use crate::host::table::{Carriers, Depth, Match, SharedTable};
use crate::host::tree::{LISTED, Mechanism, OurTree, Root, Spare};
use crate::host::{adopted, clock, process};

/// As long as scans of a tree may stay incomplete before nothing is proved.
const ASLEEP_MS: u64 = 500;
const ASK_AGAIN_MS: u64 = 20;

/// Where to look, and what may be done.
pub struct Strays {
    pub table: SharedTable,
    pub token: Token,
    pub allow_leftover: Patterns,
    pub scope: ReapScope,
    /// When the file began, in the system's own unit.
    pub since: u64,
    pub disabled: Vec<Mechanism>,
    /// Whether a cgroup, a subreaper or a job held the file's tree: then nothing of it can be out here but what others started for it.
    pub is_held: bool,
}

/// Adds to `swept` what is found, and ends what may be ended.
pub fn add(swept: &mut Swept, order: StopOrder, strays: &Strays, hurry: &Hurry) {
    let began = clock::now();
    let depth = match strays.scope {
        ReapScope::Owned => Depth::Since(strays.since),
        ReapScope::Host => Depth::Thorough,
    };
    if let Err(error) = strays.table.refresh(depth) {
        swept.cleanup = worse(swept.cleanup, Cleanup::Unknown);
        swept.notes.push(format!("the processes cannot be listed: {error}"));
        return;
    }
    end_carriers(swept, order, strays, hurry);
    let matches = foreign_matches(&strays.table);
    if !matches.is_empty() {
        swept.foreign = show(&matches, &mut swept.notes);
        if strays.scope == ReapScope::Host {
            end_matches(swept, order, strays, hurry);
        }
    }
    swept.took = swept.took.saturating_add(clock::now().since(began));
}

/// The token is the proof where the closure did not reach: handed to a daemon that somebody else had started, for example.
fn end_carriers(swept: &mut Swept, order: StopOrder, strays: &Strays, hurry: &Hurry) {
    if strays.disabled.contains(&Mechanism::Token) {
        return;
    }
    let known =
        |id: &ProcessId| adopted::is_expected(*id) || swept.leftovers.iter().any(|left| left.pid == id.pid && left.fate.is_alive());
    let carriers = carriers(strays, hurry, |id| !known(id) && process::is_alive(*id));
    let (fresh, asleep) = (carriers.found, carriers.asleep.first());
    if let Some(id) = asleep.filter(|_| !strays.is_held) {
        swept.cleanup = worse(swept.cleanup, Cleanup::Unknown);
        swept.notes.push(format!("process {} sleeps and cannot be asked whether it is of this file", id.pid));
    }
    if fresh.is_empty() {
        return;
    }
    let mut tree = OurTree::new(Root::Nobody);
    tree.token = Some(strays.token.0.clone());
    tree.spare = strays.allow_leftover.clone().into();
    tree.since = strays.since;
    tree.spared_before = adopted::expected();
    tree.is_held_elsewhere = strays.is_held;
    strays.table.mark_stale();
    let more = sweep_unowned(order, tree, std::sync::Arc::clone(hurry));
    swept.cleanup = worse(swept.cleanup, more.cleanup);
    swept.escalated |= more.escalated;
    swept.leftovers.extend(more.leftovers);
    swept.notes.extend(more.notes);
}

/// Those that count. Whoever sleeps is asked again for a while: what keeps a process from answering for so long is no busy disk.
fn carriers(strays: &Strays, hurry: &Hurry, counts: impl Fn(&ProcessId) -> bool) -> Carriers {
    let until_ms = clock::now().mono_ms + ASLEEP_MS;
    loop {
        let mut carriers = strays.table.lock().carriers(strays.token.as_str(), strays.since);
        carriers.found.retain(&counts);
        carriers.asleep.retain(&counts);
        let now_ms = clock::now().mono_ms;
        let is_late = carriers.asleep.is_empty() || strays.is_held || now_ms >= until_ms;
        if is_late || pause_until(now_ms + ASK_AGAIN_MS, hurry) == Woken::KillNow {
            return carriers;
        }
    }
}

/// What is named and neither ours nor spared by us.
fn foreign_matches(table: &SharedTable) -> Vec<Match> {
    let mut matches = table.lock().matches();
    // A pattern may match ledger too.
    let is_ours = |pid: i32| u32::try_from(pid) == Ok(std::process::id()) || adopted::is_owner(pid);
    matches.retain(|found| !is_ours(found.id.pid) && !adopted::is_expected(found.id) && process::is_alive(found.id));
    matches
}

fn show(matches: &[Match], notes: &mut Vec<String>) -> Vec<Foreign> {
    if matches.len() > LISTED {
        notes.push(format!("{} foreign processes, of which {LISTED} are listed", matches.len()));
    }
    let foreign = |found: &Match| Foreign {
        pid: found.id.pid,
        exe: found.exe.clone(),
        argv: process::argv(found.id.pid).map(|argv| shown_command(&argv)),
        fate: None,
    };
    matches.iter().take(LISTED).map(foreign).collect()
}

fn end_matches(swept: &mut Swept, order: StopOrder, strays: &Strays, hurry: &Hurry) {
    let mut tree =
        Matches { table: strays.table.clone(), spare: strays.allow_leftover.clone().into(), hurry: std::sync::Arc::clone(hurry) };
    let verdict = perform(hurried(order, hurry), &mut tree);
    for foreign in &mut swept.foreign {
        let end = verdict.ends.iter().find(|end| end.id.pid == foreign.pid);
        foreign.fate = Some(end.map_or(Fate::Exited, |end| end.fate));
    }
    swept.cleanup = worse(swept.cleanup, verdict.cleanup);
    swept.escalated |= verdict.escalated;
    swept.notes.extend(verdict.notes);
}

/// Everything `--reap-match` names, as one tree without a root.
struct Matches {
    table: SharedTable,
    spare: Spare,
    hurry: Hurry,
}

impl Tree for Matches {
    fn now_ms(&self) -> u64 {
        clock::now().mono_ms
    }

    fn scan(&mut self) -> Scan {
        if let Err(error) = self.table.refresh(Depth::Thorough) {
            return Scan { incomplete: Some(format!("the processes cannot be listed: {error}")), ..Scan::default() };
        }
        let seen = |found: Match| {
            adopted::reap_one(found.id.pid);
            let activity = process::activity(found.id)?;
            let role = if self.spare.has(found.id) { Role::Spared } else { Role::Other };
            Some(Seen { id: found.id, ours_by: OursBy::Descendant, activity, role })
        };
        let seen = foreign_matches(&self.table).into_iter().filter_map(seen).collect();
        Scan { seen, ..Scan::default() }
    }

    fn term(&mut self, ids: &[ProcessId]) -> Answers {
        deliver_all(ids, Signal::Term)
    }

    fn freeze(&mut self, ids: &[ProcessId], _: Reach) {
        let _ = deliver_all(ids, Signal::Stop);
    }

    fn kill(&mut self, ids: &[ProcessId], _: Reach) -> Answers {
        deliver_all(ids, Signal::Kill)
    }

    fn wait_until(&mut self, at_ms: u64) -> Woken {
        pause_until(at_ms, &self.hurry)
    }
}
