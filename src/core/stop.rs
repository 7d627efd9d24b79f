//! How a process tree is brought to its end: one state machine for the owner of a file, for strays and for what dead runs left.
//!
//! `step` takes what has happened and the time, and answers with what to do next; whoever performs that feeds the result back as
//! the next input. Nothing in here looks at a process or sends a signal.
//!
//! The order: TERM the leader, TERM the rest, one grace in all, freeze, KILL, wait until two scans in a row are complete and
//! empty. A tree that is empty from the start costs two scans and no wait.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::moment::Secs;
use super::outcome::Cleanup;
use super::process::{Fate, OursBy, ProcessId};

/// How long processes that end by themselves right after their leader are given before they count as leftovers: a pipeline's last
/// members end some milliseconds after the shell. Only a tree that is not empty waits for it.
pub const SETTLE: Secs = Secs::from_millis(100);
/// The grace where the leader is already gone: nobody is left who could still be tidying up for the rest.
pub const ORPHAN_GRACE: Secs = Secs::from_secs(1);
/// A cancelled leg has seven seconds in all on a hosted runner; no grace of what is cancelled is longer.
pub const CANCEL_GRACE: Secs = Secs::from_secs(3);
/// How long KILL may be refused before the tree is called dirty, and how long uninterruptible sleep may last: on a machine that does
/// nothing but fork, a dying process waits seconds for a lock.
pub const REFUSED: Secs = Secs::from_secs(2);
pub const STUCK: Secs = Secs::from_secs(5);
/// So many looks at least have to show no fewer.
const LOOKS_IN_VAIN: u32 = 3;
/// So many times the order's `verify` at most.
const LONGEST_VERIFY: u64 = 6;
/// What still lives this long after KILL gets it again, by itself, and then after twice as long each time: cgroup.kill passes over a
/// process whose first thread has ended while others run (measured on Linux 6.18).
const KILL_AGAIN: Secs = Secs::from_millis(50);
/// How long scans may stay incomplete before nothing is proved. Who is never there when it is looked at has to stand still for it, so
/// after a quarter of this all that can be reached as a whole is frozen, and after half of it killed unseen.
const UNSURE: Secs = Secs::from_millis(500);
/// So many processes are looked at within a millisecond.
const LOOKED_AT_IN_A_MS: usize = 40;
/// A frozen tree shows no new process after two rounds; a fork bomb that outruns SIGSTOP is met by KILL again and again anyway.
const FREEZE_ROUNDS: u32 = 8;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopOrder {
    pub manner: Manner,
    /// Time between TERM and KILL, for the whole tree.
    pub grace: Secs,
    /// How long to wait for killed processes to be gone before the tree is called dirty.
    pub verify: Secs,
}

impl StopOrder {
    /// TERM, then KILL after `grace`.
    pub fn ask(grace: Secs) -> Self {
        Self { manner: Manner::TermFirst, grace, verify: Secs::from_secs(10) }
    }

    /// On cancellation: at most 3 s of grace and 1.5 s of verification, so that the tree is dead within 5 s.
    pub fn cancel(grace: Secs) -> Self {
        Self { manner: Manner::TermFirst, grace: grace.min(CANCEL_GRACE), verify: Secs::from_millis(1500) }
    }

    /// No TERM and no grace.
    pub fn at_once() -> Self {
        Self { manner: Manner::KillAtOnce, grace: Secs::ZERO, verify: Secs::from_secs(10) }
    }

    /// The longest that bringing a tree to its end may take.
    pub fn bound(self) -> Secs {
        let verify = Secs::from_millis(self.verify.millis() * LONGEST_VERIFY);
        self.grace.saturating_add(verify)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Manner {
    TermFirst,
    KillAtOnce,
}

/// What a process is doing, as far as stopping it is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    Running,
    Stopped,
    Uninterruptible,
    /// Ended; its parent has not asked yet. No survivor.
    Zombie,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Leader,
    Other,
    /// `--allow-leftover` matches it, or an ancestor of it: never signalled.
    Spared,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    pub id: ProcessId,
    pub ours_by: OursBy,
    pub activity: Activity,
    pub role: Role,
}

/// One look at everything that is ours.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scan {
    pub seen: Vec<Seen>,
    /// Why something of ours may have been overlooked; `None` for a whole scan.
    pub incomplete: Option<String>,
    /// What even a whole scan cannot see here, so that an empty one proves nothing.
    pub blind_to: Option<&'static str>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    Begin,
    Scanned(Scan),
    /// The answer to `Term` and `Kill`: which processes could not be signalled, and which were gone already.
    Signalled {
        refused: Vec<ProcessId>,
        vanished: Vec<ProcessId>,
        /// The answer to a `Kill` of nobody in particular: something was reached as a whole.
        unseen: bool,
    },
    /// The time of `WaitUntil` has come, or a child ended before it.
    Woke,
    /// A second signal, or ledger's death: no more grace.
    KillNow,
}

#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Effect {
    Scan,
    Term(Vec<ProcessId>),
    /// An empty list, here and in `Kill`, is nobody in particular: whatever can be reached as a whole.
    Freeze(Vec<ProcessId>, Reach),
    Kill(Vec<ProcessId>, Reach),
    /// A monotonic time in milliseconds.
    WaitUntil(u64),
    Done(Verdict),
}

/// Whether a mechanism that acts on all of ours at once may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    Whole,
    /// Something of ours is spared, so only the processes that are named.
    Named,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    pub cleanup: Cleanup,
    /// What outlived its leader, or needed KILL; the leader itself is not in it unless it survived.
    pub ends: Vec<Ended>,
    pub escalated: bool,
    pub notes: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    pub id: ProcessId,
    pub ours_by: OursBy,
    pub fate: Fate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Looking,
    Settling {
        until: u64,
    },
    Asking {
        rest_at: Option<u64>,
        until: u64,
    },
    Freezing {
        round: u32,
    },
    /// `moved` is when there were last fewer than ever before.
    Killing {
        began: u64,
        moved: u64,
        fewest: usize,
        looks: u32,
    },
    Done,
}

#[derive(Debug, Clone, Copy)]
struct Track {
    ours_by: OursBy,
    role: Role,
    termed: bool,
    frozen: bool,
    /// How often KILL was sent, and when last.
    kills: u32,
    killed_at: u64,
    refused: bool,
    /// It was alive when the leader was not.
    outlived: bool,
    gone: bool,
}

/// The machine. Begin with `Input::Begin`; it ends with `Effect::Done`.
#[derive(Debug)]
pub struct Stop {
    order: StopOrder,
    phase: Phase,
    tracks: BTreeMap<ProcessId, Track>,
    empties: u32,
    unsure_since: Option<u64>,
    /// How often in a row KILL went to nobody in particular.
    unseen_kills: u32,
    /// That has reached somebody.
    killed_unseen: bool,
    poll_ms: u64,
    notes: Vec<String>,
}

impl Stop {
    pub fn new(order: StopOrder) -> Self {
        Self {
            order,
            phase: Phase::Looking,
            tracks: BTreeMap::new(),
            empties: 0,
            unsure_since: None,
            unseen_kills: 0,
            killed_unseen: false,
            poll_ms: 1,
            notes: Vec::new(),
        }
    }

    /// Takes one input at a monotonic time and says what to do, in order.
    pub fn step(&mut self, now_ms: u64, input: Input) -> Vec<Effect> {
        if self.phase == Phase::Done {
            return Vec::new();
        }
        match input {
            Input::Woke if matches!(self.phase, Phase::Asking { until, .. } if now_ms >= until) => self.freeze_known(),
            Input::Begin | Input::Woke => vec![Effect::Scan],
            Input::KillNow => self.hurry(),
            Input::Signalled { refused, vanished, unseen } => {
                self.answered(&refused, &vanished);
                if unseen && !std::mem::replace(&mut self.killed_unseen, true) {
                    self.notes.push("what was never met alive in a look was killed as a whole".to_owned());
                }
                Vec::new()
            }
            Input::Scanned(scan) => self.scanned(now_ms, scan),
        }
    }

    fn hurry(&mut self) -> Vec<Effect> {
        self.order.manner = Manner::KillAtOnce;
        if matches!(self.phase, Phase::Settling { .. } | Phase::Asking { .. }) {
            self.phase = Phase::Freezing { round: 0 };
        }
        vec![Effect::Scan]
    }

    fn answered(&mut self, refused: &[ProcessId], vanished: &[ProcessId]) {
        for id in refused {
            if let Some(track) = self.tracks.get_mut(id) {
                track.refused = true;
            }
        }
        for id in vanished {
            if let Some(track) = self.tracks.get_mut(id) {
                track.gone = true;
                // The signal that is being answered is the newest one: it did not do this, but one before it may have.
                if track.kills > 0 {
                    track.kills -= 1;
                } else {
                    track.termed = false;
                }
            }
        }
    }

    fn scanned(&mut self, now: u64, scan: Scan) -> Vec<Effect> {
        self.note(&scan);
        let live: Vec<Seen> =
            scan.seen.into_iter().filter(|seen| seen.activity != Activity::Zombie && seen.role != Role::Spared).collect();
        if live.is_empty() {
            return self.found_nothing(now, scan.incomplete, scan.blind_to);
        }
        self.empties = 0;
        self.unsure_since = None;
        self.unseen_kills = 0;
        match self.phase {
            Phase::Looking => self.first_seen(now, &live),
            Phase::Settling { until } if now < until => vec![Effect::WaitUntil(self.next_poll(now, live.len()).min(until))],
            Phase::Settling { .. } => {
                let grace = self.order.grace.min(ORPHAN_GRACE);
                self.phase = Phase::Asking { rest_at: None, until: now + grace.millis() };
                self.note_outlived(&live);
                self.ask(now, &live)
            }
            Phase::Asking { .. } => self.ask(now, &live),
            Phase::Freezing { round } => self.freeze(now, round, &live),
            Phase::Killing { began, moved, fewest, looks } => {
                let (moved, looks) = if live.len() < fewest { (now, 0) } else { (moved, looks + 1) };
                self.phase = Phase::Killing { began, moved, fewest: fewest.min(live.len()), looks };
                self.kill(now, &live)
            }
            Phase::Done => Vec::new(),
        }
    }

    /// Keeps the books: who was seen, who outlived the leader, who is gone.
    fn note(&mut self, scan: &Scan) {
        let alive = |seen: &&Seen| seen.activity != Activity::Zombie;
        let leader_alive = scan.seen.iter().filter(alive).any(|seen| seen.role == Role::Leader);
        let settled = !matches!(self.phase, Phase::Looking | Phase::Settling { .. });
        let mut present = Vec::with_capacity(scan.seen.len());
        for seen in scan.seen.iter().filter(alive) {
            present.push(seen.id);
            let track = self.tracks.entry(seen.id).or_insert(Track {
                ours_by: seen.ours_by,
                role: seen.role,
                termed: false,
                frozen: false,
                kills: 0,
                killed_at: 0,
                refused: false,
                outlived: false,
                gone: false,
            });
            track.role = seen.role;
            track.gone = false;
            track.outlived |= !leader_alive && (settled || seen.role == Role::Spared);
        }
        // Whoever is seen ended has ended, also in a look that may have missed others.
        for seen in scan.seen.iter().filter(|seen| seen.activity == Activity::Zombie) {
            if let Some(track) = self.tracks.get_mut(&seen.id) {
                track.gone = true;
            }
        }
        if scan.incomplete.is_none() {
            present.sort_unstable();
            for (id, track) in &mut self.tracks {
                track.gone |= present.binary_search(id).is_err();
            }
        }
    }

    fn note_outlived(&mut self, live: &[Seen]) {
        for seen in live {
            if let Some(track) = self.tracks.get_mut(&seen.id) {
                track.outlived = true;
            }
        }
    }

    fn found_nothing(&mut self, now: u64, incomplete: Option<String>, blind_to: Option<&'static str>) -> Vec<Effect> {
        let Some(why) = incomplete else {
            self.unsure_since = None;
            self.empties += 1;
            if self.empties < 2 {
                return vec![Effect::Scan];
            }
            self.notes.extend(blind_to.map(str::to_owned));
            return self.finish(if blind_to.is_some() { Cleanup::Unknown } else { Cleanup::Clean });
        };
        self.empties = 0;
        let unsure_ms = now.saturating_sub(*self.unsure_since.get_or_insert(now));
        if unsure_ms >= UNSURE.millis() && self.unseen_kills >= LOOKS_IN_VAIN {
            self.notes.push(why);
            return self.finish(Cleanup::Unknown);
        }
        let mut effects = Vec::new();
        if unsure_ms >= UNSURE.millis() / 2 {
            self.unseen_kills += 1;
            effects.push(Effect::Kill(Vec::new(), self.reach()));
        } else if unsure_ms >= UNSURE.millis() / 4 {
            if !matches!(self.phase, Phase::Killing { .. }) {
                self.phase = Phase::Freezing { round: 0 };
            }
            effects.push(Effect::Freeze(Vec::new(), self.reach()));
        }
        effects.push(Effect::WaitUntil(self.next_poll(now, 0)));
        effects
    }

    fn first_seen(&mut self, now: u64, live: &[Seen]) -> Vec<Effect> {
        if self.order.manner == Manner::KillAtOnce || self.order.grace == Secs::ZERO {
            return self.freeze(now, 0, live);
        }
        if live.iter().any(|seen| seen.role == Role::Leader) {
            let half = self.order.grace.millis() / 2;
            self.phase = Phase::Asking { rest_at: Some(now + half), until: now + self.order.grace.millis() };
            return self.ask(now, live);
        }
        let until = now + SETTLE.millis();
        self.phase = Phase::Settling { until };
        vec![Effect::WaitUntil(self.next_poll(now, live.len()).min(until))]
    }

    /// TERM goes to the leader first, which may want to end its own children in order; to the rest when the leader is gone or
    /// half the grace is spent.
    fn ask(&mut self, now: u64, live: &[Seen]) -> Vec<Effect> {
        let Phase::Asking { rest_at, until } = self.phase else { return Vec::new() };
        // A stopped process cannot act on TERM, and where all are stopped nobody can continue them: no grace is owed.
        if now >= until || live.iter().all(|seen| seen.activity == Activity::Stopped) {
            return self.freeze(now, 0, live);
        }
        let leader_alive = live.iter().any(|seen| seen.role == Role::Leader);
        let rest_too = !leader_alive || rest_at.is_none_or(|at| now >= at);
        if rest_too {
            self.phase = Phase::Asking { rest_at: None, until };
        }
        let mut fresh = Vec::new();
        for seen in live.iter().filter(|seen| rest_too || seen.role == Role::Leader) {
            if let Some(track) = self.tracks.get_mut(&seen.id)
                && !track.termed
            {
                track.termed = true;
                fresh.push(seen.id);
            }
        }
        let mut effects = Vec::new();
        if !fresh.is_empty() {
            self.poll_ms = 1;
            effects.push(Effect::Term(fresh));
        }
        let mut wake = self.next_poll(now, live.len()).min(until);
        // No look is under way when the grace ends.
        if wake + look_ms(live.len()) > until {
            wake = until;
        }
        if let Phase::Asking { rest_at: Some(at), .. } = self.phase {
            wake = wake.min(at);
        }
        effects.push(Effect::WaitUntil(wake));
        effects
    }

    /// The grace is over: whoever was seen last is stopped before the next look, which in a large tree is most of what an end costs.
    fn freeze_known(&mut self) -> Vec<Effect> {
        let known = self.tracks.iter_mut().filter(|(_, track)| !track.gone && track.role != Role::Spared);
        let ids = known.map(|(id, track)| (track.frozen = true, *id).1).collect();
        self.phase = Phase::Freezing { round: 1 };
        vec![Effect::Freeze(ids, self.reach()), Effect::Scan]
    }

    fn freeze(&mut self, now: u64, round: u32, live: &[Seen]) -> Vec<Effect> {
        let mut fresh = Vec::new();
        for seen in live {
            if let Some(track) = self.tracks.get_mut(&seen.id)
                && !track.frozen
            {
                track.frozen = true;
                fresh.push(seen.id);
            }
        }
        if fresh.is_empty() || round >= FREEZE_ROUNDS {
            self.poll_ms = 1;
            self.phase = Phase::Killing { began: now, moved: now, fewest: live.len(), looks: 0 };
            return self.kill(now, live);
        }
        self.phase = Phase::Freezing { round: round + 1 };
        vec![Effect::Freeze(fresh, self.reach()), Effect::Scan]
    }

    /// Thousands take their time to end: they are waited for while they become fewer, yet not for ever. Where this process itself
    /// hardly gets to look, time alone says nothing.
    fn kill(&mut self, now: u64, live: &[Seen]) -> Vec<Effect> {
        let Phase::Killing { began, moved, looks, .. } = self.phase else { return Vec::new() };
        let waited = now.saturating_sub(moved);
        let refused = |seen: &Seen| self.tracks.get(&seen.id).is_some_and(|track| track.refused);
        let hopeless = |seen: &Seen| refused(seen) || seen.activity == Activity::Uninterruptible;
        let stuck =
            (waited >= REFUSED.millis() && live.iter().all(refused)) || (waited >= STUCK.millis() && live.iter().all(hopeless));
        let in_vain = waited >= self.order.verify.millis() && looks >= LOOKS_IN_VAIN;
        if in_vain || stuck || now.saturating_sub(began) >= self.order.verify.millis() * LONGEST_VERIFY {
            return self.finish(Cleanup::Dirty);
        }
        let (mut fresh, mut again) = (Vec::new(), Vec::new());
        for seen in live {
            let Some(track) = self.tracks.get_mut(&seen.id) else { continue };
            track.outlived = true;
            match track.kills {
                0 => fresh.push(seen.id),
                kills if now.saturating_sub(track.killed_at) >= KILL_AGAIN.millis() << kills.min(6) >> 1 => again.push(seen.id),
                _ => continue,
            }
            track.kills += 1;
            track.killed_at = now;
            // The answer to this signal counts, and not the one to TERM.
            track.refused = false;
        }
        let mut effects = Vec::new();
        if !fresh.is_empty() {
            effects.push(Effect::Kill(fresh, self.reach()));
        }
        if !again.is_empty() {
            effects.push(Effect::Kill(again, Reach::Named));
        }
        effects.push(Effect::WaitUntil(self.next_poll(now, live.len())));
        effects
    }

    /// 1, 2, 4, 8, 16, 20, 20 … ms: short for the tree that ends at once, and no load for the one that does not. A look at many takes
    /// its time, which those that are ending could use.
    fn next_poll(&mut self, now: u64, live: usize) -> u64 {
        let wait = self.poll_ms.max(look_ms(live) * 2);
        self.poll_ms = (self.poll_ms * 2).min(20);
        now + wait
    }

    fn reach(&self) -> Reach {
        let spares = self.tracks.values().any(|track| track.role == Role::Spared && !track.gone);
        if spares { Reach::Named } else { Reach::Whole }
    }

    fn finish(&mut self, cleanup: Cleanup) -> Vec<Effect> {
        self.phase = Phase::Done;
        let unproved = cleanup == Cleanup::Unknown;
        let ends = self
            .tracks
            .iter()
            .filter_map(|(id, track)| {
                let survived = !track.gone && !unproved && track.role != Role::Spared;
                let listed = track.outlived && (track.role != Role::Leader || survived);
                listed.then(|| Ended { id: *id, ours_by: track.ours_by, fate: fate(track, survived) })
            })
            .collect();
        let escalated = self.killed_unseen || self.tracks.values().any(|track| track.kills > 0);
        let notes = std::mem::take(&mut self.notes);
        vec![Effect::Done(Verdict { cleanup, ends, escalated, notes })]
    }
}

fn look_ms(processes: usize) -> u64 {
    (processes / LOOKED_AT_IN_A_MS) as u64
}

fn fate(track: &Track, survived: bool) -> Fate {
    match () {
        () if track.role == Role::Spared => Fate::Allowed,
        () if survived && track.refused => Fate::Unkillable,
        () if survived => Fate::Survived,
        () if track.kills > 0 => Fate::Killed,
        () if track.termed => Fate::Terminated,
        () => Fate::Exited,
    }
}

#[cfg(test)]
mod tests;
