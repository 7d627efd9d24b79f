//! One file's life as a state machine: `step(moment, input)` names what has become true and what to do next.
//!
//! It decides; it does nothing. The run loop performs the effects and feeds their results back as the next input. Caps count awake
//! time only, less the time in which the tree was paused.

use super::event::{Body, CapExpired, Component, FileFinished, FileRef, Heartbeat, LeftoverFound};
use super::moment::{Moment, Secs};
use super::outcome::{Cleanup, Outcome};
use super::process::{Evidence, Exit, ProcessId, Swept, TreeUse};
use super::sample::HostSample;
use super::stop::{CANCEL_GRACE, ORPHAN_GRACE};
use super::verdict::{self, End};

/// Evidence is taken at this share of the cap, in percent, while the file may still be saved.
const EARLY_EVIDENCE_PCT: u64 = 80;
/// Evidence that has not come by then is not waited for.
const EVIDENCE_BOUND: Secs = Secs::from_secs(2);

/// What the file may do and what is to be reported of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Bounds {
    pub at: FileRef,
    pub cap: Option<Secs>,
    pub cap_basis: Option<String>,
    pub grace: Secs,
    pub leftovers_fail: bool,
    pub log: Option<String>,
}

/// What the file printed, once its pipes are drained.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Printed {
    pub bytes: u64,
    pub last_output: Option<String>,
    pub components: Vec<Component>,
    /// The `[[classify]]` rule that matched: its outcome and its pattern.
    pub rule: Option<(Outcome, String)>,
    /// Set where minimum evidence was asked for: whether any of it was seen.
    pub evidence_of_tests: Option<bool>,
    pub notes: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// The leader runs, held by these mechanisms.
    Started {
        id: ProcessId,
        containment: String,
    },
    SpawnFailed {
        text: String,
    },
    LeaderExited {
        exit: Exit,
        /// Whether a signal of ours was on its way when the leader ended.
        signalled: bool,
        /// The kernel killed it, or something of its tree, for memory.
        oom: bool,
        /// When, on the steady clock: whoever was stopped or starved meanwhile hears of it late.
        at_ms: u64,
    },
    Evidence(Evidence),
    Swept {
        swept: Swept,
        used: TreeUse,
    },
    /// The owner was killed: no status will ever come.
    OwnerLost,
    Drained(Printed),
    /// Time has passed; nothing else happened.
    Tick,
    /// A first signal to ledger.
    Cancel,
    /// A second signal.
    KillNow,
    Paused,
    Resumed,
    /// A heartbeat is due and the host was sampled.
    Beat {
        sample: HostSample,
        last_output: Option<String>,
    },
}

#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub enum Effect {
    TakeEvidence,
    /// End the tree: TERM first where `term`, KILL after `grace`, then prove that it is gone.
    Sweep {
        term: bool,
        grace: Secs,
    },
    /// Skip what is left of the grace.
    KillNow,
    PauseTree,
    ResumeTree,
    /// Read what is left of the output, bounded.
    Drain,
    Record(Box<Body>),
    /// The file is over; its record is the last `Record`.
    Done {
        outcome: Outcome,
        cleanup: Cleanup,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Spawning,
    Running,
    /// The cap ran out and the last look is being taken.
    LastLook {
        until_ms: u64,
    },
    Sweeping,
    Draining,
    Over,
}

/// The watched file.
#[derive(Debug, Clone)]
pub struct Watch {
    bounds: Bounds,
    containment: Option<String>,
    began: Moment,
    last: Moment,
    phase: Phase,
    early_evidence: EarlyLook,
    paused_since: Option<Moment>,
    paused: Secs,
    slept: Secs,
    end: End,
    ended_after: Option<Secs>,
    swept: Option<Swept>,
    used: Option<TreeUse>,
    /// When a sweep that began with a longer grace than a cancelled file gets is to give none any more.
    kill_at_ms: Option<u64>,
}

#[derive(Debug, Clone, PartialEq)]
enum EarlyLook {
    NotYet,
    Asked,
    /// Goes out with the next heartbeat.
    Held(Evidence),
    Sent,
}

impl Watch {
    /// `began` is the moment just before the spawn is asked for.
    pub fn begin(bounds: Bounds, began: Moment) -> Self {
        Self {
            bounds,
            containment: None,
            began,
            last: began,
            phase: Phase::Spawning,
            early_evidence: EarlyLook::NotYet,
            paused_since: None,
            paused: Secs::ZERO,
            slept: Secs::ZERO,
            end: End::default(),
            ended_after: None,
            swept: None,
            used: None,
            kill_at_ms: None,
        }
    }

    /// Time that counts against the cap.
    pub fn elapsed(&self, now: Moment) -> Secs {
        let paused = self.paused_since.map_or(Secs::ZERO, |since| now.since(since));
        now.since(self.began).saturating_sub(self.paused).saturating_sub(paused)
    }

    pub fn at(&self) -> &FileRef {
        &self.bounds.at
    }

    pub fn cap(&self) -> Option<Secs> {
        self.bounds.cap
    }

    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// How long nothing needs to be decided by time alone. `None`: only an input can change anything.
    pub fn wake_in(&self, now: Moment) -> Option<Secs> {
        match self.phase {
            Phase::LastLook { until_ms } => Some(Secs::from_millis(until_ms.saturating_sub(now.mono_ms))),
            Phase::Sweeping => self.kill_at_ms.map(|at_ms| Secs::from_millis(at_ms.saturating_sub(now.mono_ms))),
            // A start that does not come to its end is the file's time too.
            Phase::Spawning | Phase::Running if self.paused_since.is_none() => {
                let cap = self.bounds.cap?;
                let next = if self.early_evidence == EarlyLook::NotYet { early_at(cap) } else { cap };
                Some(next.saturating_sub(self.elapsed(now)))
            }
            _ => None,
        }
    }

    pub fn step(&mut self, now: Moment, input: Input) -> Vec<Effect> {
        self.slept = self.slept.saturating_add(now.slept_since(self.last));
        self.last = now;
        let mut effects = Vec::new();
        match input {
            // It may come late, from an owner that was stopped by its own file.
            Input::Started { containment, .. } => {
                self.containment = Some(containment);
                if self.phase == Phase::Spawning {
                    self.phase = Phase::Running;
                }
            }
            Input::SpawnFailed { text } => {
                self.end.spawn_error = Some(text);
                if self.phase == Phase::Spawning {
                    self.sweep(false, Secs::ZERO, &mut effects);
                }
            }
            Input::LeaderExited { exit, signalled, oom, at_ms } => {
                let then = Moment { mono_ms: now.mono_ms.min(at_ms), ..now };
                self.leader_exited(then, exit, signalled, oom, &mut effects);
            }
            Input::OwnerLost if !matches!(self.phase, Phase::Draining | Phase::Over) => {
                self.end.owner_lost = true;
                let elapsed = self.elapsed(now);
                self.ended_after.get_or_insert(elapsed);
                // Whatever sweep the owner was in is lost with it; ledger itself must do one.
                self.phase = Phase::Sweeping;
                effects.push(Effect::Sweep { term: false, grace: Secs::ZERO });
            }
            Input::Evidence(evidence) => self.looked(now, evidence, &mut effects),
            Input::Swept { swept, used } if self.phase == Phase::Sweeping => self.tree_swept(now, swept, used, &mut effects),
            Input::Drained(printed) if self.phase == Phase::Draining => self.finish(now, printed, &mut effects),
            Input::Cancel => self.cancel(now, &mut effects),
            Input::KillNow => {
                self.cancel(now, &mut effects);
                self.kill_at_ms = None;
                effects.push(Effect::KillNow);
            }
            Input::Paused => {
                if self.paused_since.is_none() {
                    self.paused_since = Some(now);
                    effects.push(Effect::PauseTree);
                }
            }
            Input::Resumed => {
                if let Some(since) = self.paused_since.take() {
                    self.paused = self.paused.saturating_add(now.since(since));
                    effects.push(Effect::ResumeTree);
                }
            }
            Input::Beat { sample, last_output } => self.beat(now, sample, last_output, &mut effects),
            // A result that comes after its question was settled says nothing new.
            Input::Tick | Input::OwnerLost | Input::Swept { .. } | Input::Drained(_) => {}
        }
        self.look_at_the_clock(now, &mut effects);
        effects
    }

    fn look_at_the_clock(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        match self.phase {
            // A start that does not come to its end is the file's time too.
            Phase::Spawning | Phase::Running if self.paused_since.is_none() => {
                let Some(cap) = self.bounds.cap else { return };
                let elapsed = self.elapsed(now);
                if elapsed >= cap {
                    self.phase = Phase::LastLook { until_ms: now.mono_ms + EVIDENCE_BOUND.millis() };
                    effects.push(Effect::TakeEvidence);
                } else if elapsed >= early_at(cap) && self.early_evidence == EarlyLook::NotYet {
                    self.early_evidence = EarlyLook::Asked;
                    effects.push(Effect::TakeEvidence);
                }
            }
            Phase::LastLook { until_ms } if now.mono_ms >= until_ms => {
                let missing = vec![format!("no evidence came within {EVIDENCE_BOUND}")];
                self.expire(now, Evidence { missing, ..Evidence::default() }, effects);
            }
            Phase::Sweeping if self.kill_at_ms.is_some_and(|at_ms| now.mono_ms >= at_ms) => {
                self.kill_at_ms = None;
                effects.push(Effect::KillNow);
            }
            _ => {}
        }
    }

    fn looked(&mut self, now: Moment, evidence: Evidence, effects: &mut Vec<Effect>) {
        match self.phase {
            // An early look still under way when the cap runs out is answered first; its answer serves as the last look.
            Phase::LastLook { .. } => self.expire(now, evidence, effects),
            _ if self.early_evidence == EarlyLook::Asked => self.early_evidence = EarlyLook::Held(evidence),
            _ => {}
        }
    }

    fn expire(&mut self, now: Moment, evidence: Evidence, effects: &mut Vec<Effect>) {
        let expired = CapExpired {
            at: self.bounds.at.clone(),
            elapsed_s: self.elapsed(now),
            cap_s: self.bounds.cap.unwrap_or_default(),
            cap_basis: self.bounds.cap_basis.clone(),
            evidence,
        };
        effects.push(Effect::Record(Box::new(Body::CapExpired(expired))));
        self.end.timed_out = true;
        self.sweep(true, self.bounds.grace, effects);
    }

    fn leader_exited(&mut self, now: Moment, exit: Exit, signalled: bool, oom: bool, effects: &mut Vec<Effect>) {
        if self.end.exit.is_some() || matches!(self.phase, Phase::Draining | Phase::Over) {
            return;
        }
        self.end.exit = Some(exit);
        self.end.oom |= oom;
        let elapsed = self.elapsed(now);
        self.ended_after.get_or_insert(elapsed);
        if self.phase == Phase::Sweeping {
            // It was reaped before our signal reached it: its own status stands, and the cap did not end it.
            self.end.timed_out &= signalled;
            self.end.cancelled &= signalled;
            return;
        }
        self.sweep(true, ORPHAN_GRACE, effects);
    }

    fn cancel(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        match self.phase {
            Phase::Spawning | Phase::Running | Phase::LastLook { .. } => {
                self.end.cancelled = true;
                let grace = self.bounds.grace.min(CANCEL_GRACE);
                if self.paused_since.is_some() {
                    effects.push(Effect::ResumeTree);
                }
                self.sweep(true, grace, effects);
            }
            // It ended for another reason, and keeps that; only its grace is a cancelled file's from here on.
            Phase::Sweeping => self.kill_at_ms = Some(now.mono_ms + CANCEL_GRACE.millis()),
            Phase::Draining | Phase::Over => {}
        }
    }

    fn sweep(&mut self, term: bool, grace: Secs, effects: &mut Vec<Effect>) {
        if self.phase != Phase::Sweeping {
            self.phase = Phase::Sweeping;
            effects.push(Effect::Sweep { term, grace });
        }
    }

    fn tree_swept(&mut self, now: Moment, swept: Swept, used: TreeUse, effects: &mut Vec<Effect>) {
        let elapsed = self.elapsed(now);
        self.ended_after.get_or_insert(elapsed);
        if !swept.leftovers.is_empty() {
            let found = LeftoverFound { at: self.bounds.at.clone(), leftovers: swept.leftovers.clone() };
            effects.push(Effect::Record(Box::new(Body::LeftoverFound(found))));
        }
        self.swept = Some(swept);
        self.used = Some(used.rounded());
        self.phase = Phase::Draining;
        effects.push(Effect::Drain);
    }

    fn finish(&mut self, now: Moment, printed: Printed, effects: &mut Vec<Effect>) {
        let Some(swept) = self.swept.take() else { return };
        let decided = verdict::decide(&self.end, &swept, &printed, self.bounds.leftovers_fail);
        let spawned = self.end.spawn_error.is_none();
        let (exit_code, signal) = match self.end.exit {
            Some(Exit::Code(code)) => (Some(code), None),
            Some(Exit::Signal(signal)) => (None, Some(signal)),
            None => (None, None),
        };
        let paused = self.paused_since.map_or(self.paused, |since| self.paused.saturating_add(now.since(since)));
        let mut notes = decided.notes;
        notes.extend(swept.notes);
        notes.extend(printed.notes);
        let finished = FileFinished {
            at: self.bounds.at.clone(),
            status: decided.outcome.status(),
            outcome: decided.outcome.clone(),
            started_at: Some(self.began.wall),
            duration_s: self.ended_after.filter(|_| spawned),
            suspended_s: self.slept.saturating_add(paused),
            cap_s: self.bounds.cap,
            cap_basis: self.bounds.cap_basis.clone(),
            exit_code,
            signal,
            escalated: swept.escalated,
            containment: self.containment.take(),
            cleanup: swept.cleanup,
            cleanup_verified: swept.cleanup.verified(),
            leftovers: swept.leftovers,
            foreign: swept.foreign,
            notes,
            log: self.bounds.log.clone(),
            output_bytes: printed.bytes,
            last_output: printed.last_output,
            used: self.used.take(),
            components: printed.components,
        };
        self.phase = Phase::Over;
        effects.push(Effect::Record(Box::new(Body::FileFinished(Box::new(finished)))));
        effects.push(Effect::Done { outcome: decided.outcome, cleanup: swept.cleanup });
    }

    fn beat(&mut self, now: Moment, sample: HostSample, last_output: Option<String>, effects: &mut Vec<Effect>) {
        if self.phase == Phase::Over {
            return;
        }
        let evidence = match std::mem::replace(&mut self.early_evidence, EarlyLook::Sent) {
            EarlyLook::Held(evidence) => Some(evidence),
            other => {
                self.early_evidence = other;
                None
            }
        };
        let beat = Heartbeat {
            file: Some(self.bounds.at.clone()),
            elapsed_s: Some(self.elapsed(now)),
            cap_s: self.bounds.cap,
            sample,
            last_output,
            evidence,
        };
        effects.push(Effect::Record(Box::new(Body::Heartbeat(Box::new(beat)))));
    }
}

fn early_at(cap: Secs) -> Secs {
    Secs::from_millis(cap.millis() * EARLY_EVIDENCE_PCT / 100)
}

#[cfg(test)]
mod tests;
