//! Events to a leg: the one transition function that live running, recovery and report share.
//!
//! `Leg::apply` takes the events of one epoch in order. An event that cannot follow is a typed error and changes nothing; a live
//! writer treats it as a defect, a reader counts it and goes on. The size of a `Leg` does not grow with its heartbeats.

use std::collections::{HashMap, HashSet};

use super::event::{Body, Envelope, FileFinished, FileRef, FileStarted, LoopFinished, PlannedFile, RunFinished, RunStarted};
use super::ids::{Epoch, LegId, Seq, Token};
use super::moment::{Secs, Wall};
use super::outcome::{Conclusion, Outcome, Terminal};
use super::process::ProcessId;
use super::row::{FileRow, Head, LegRow, Note, ResourceVerdict};
use super::sample::HostSample;

/// More samples than a page can show are thinned to every second one, again and again.
const SAMPLES_KEPT: usize = 512;
/// Files whose details a live leg still holds: more than a marker has room for.
const DETAILS_KEPT: usize = 64;
/// So many files without a record are listed at most, and always a whole round of the plan; the rest are counted. `--repeat` and a plan
/// from outside may speak of billions.
const NOT_RUN_LISTED: usize = 10_000;
/// Notes beyond this are counted by their absence; a flapping sink must not fill a marker.
const NOTES_KEPT: usize = 100;

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum FoldError {
    #[error("event {seq} ({kind}) comes before run-started")]
    BeforeStart { seq: Seq, kind: &'static str },
    #[error("event {seq} ({kind}) repeats run-started")]
    SecondStart { seq: Seq, kind: &'static str },
    #[error("event {seq} ({kind}) comes after run-finished")]
    AfterEnd { seq: Seq, kind: &'static str },
    #[error("event {seq} ({kind}) follows event {last}: numbers have a gap or go back")]
    OutOfOrder { seq: Seq, kind: &'static str, last: Seq },
    #[error("event {seq} belongs to {found}, not to {expected}")]
    OtherLeg { seq: Seq, found: Box<LegId>, expected: Box<LegId> },
    #[error("event {seq} (file-started) begins '{file}' while '{running}' is running")]
    TwoFiles { seq: Seq, file: String, running: String },
    #[error("event {seq} ({kind}) speaks of '{file}', which is not running")]
    NotRunning { seq: Seq, kind: &'static str, file: String },
}

/// What marks the processes of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    pub token: Token,
    pub owner: Option<ProcessId>,
}

/// What one epoch of a leg has come to.
#[derive(Debug, Clone, PartialEq)]
pub struct Leg {
    pub id: LegId,
    pub epoch: Epoch,
    pub head: Head,
    pub started_at: Wall,
    pub started: Box<RunStarted>,
    /// Records of files in the order in which they began; `outcome` is absent for the one that runs.
    files: Vec<FileRow>,
    current: Option<FileRef>,
    mark: Option<Mark>,
    last_file: Option<String>,
    cancelled: Option<String>,
    loop_finished: Option<(Wall, LoopFinished)>,
    run_finished: Option<(Wall, RunFinished)>,
    last_checkpoint: Wall,
    last_heartbeat: Option<Wall>,
    last_event: Wall,
    first_mono_ms: u64,
    last_mono_ms: u64,
    pub progress_seq: u64,
    pub heartbeat_seq: u64,
    last_output: Option<String>,
    last_host: Option<HostSample>,
    samples: Vec<HostSample>,
    sample_stride: u32,
    sample_skip: u32,
    notes: Vec<Note>,
    degraded: Vec<String>,
}

impl Leg {
    /// A leg begins with its `run-started`.
    pub fn begin(envelope: &Envelope, head: Head) -> Result<Self, FoldError> {
        let Body::RunStarted(started) = &envelope.body else {
            return Err(FoldError::BeforeStart { seq: envelope.seq, kind: envelope.body.kind() });
        };
        Ok(Self {
            id: envelope.leg(),
            epoch: envelope.epoch.clone(),
            head,
            started_at: envelope.ts,
            started: started.clone(),
            files: started.carried.clone(),
            current: None,
            mark: None,
            last_file: started.carried.last().map(|row| row.file.clone()),
            cancelled: None,
            loop_finished: None,
            run_finished: None,
            last_checkpoint: envelope.ts,
            last_heartbeat: None,
            last_event: envelope.ts,
            first_mono_ms: envelope.mono_ms,
            last_mono_ms: envelope.mono_ms,
            progress_seq: 1,
            heartbeat_seq: 0,
            last_output: None,
            last_host: None,
            samples: Vec::new(),
            sample_stride: 1,
            sample_skip: 0,
            notes: started.recovered.iter().map(|text| note(envelope.ts, "recovered", text.clone())).collect(),
            degraded: Vec::new(),
        })
    }

    /// Takes the next event. On an error the leg is unchanged.
    pub fn apply(&mut self, envelope: &Envelope, head: Head) -> Result<(), FoldError> {
        self.check(envelope)?;
        if envelope.body.is_progress() {
            self.progress_seq += 1;
            self.last_checkpoint = envelope.ts;
        }
        self.last_event = envelope.ts;
        self.last_mono_ms = envelope.mono_ms;
        self.head = head;
        self.take(envelope);
        Ok(())
    }

    fn check(&self, envelope: &Envelope) -> Result<(), FoldError> {
        let (seq, kind) = (envelope.seq, envelope.body.kind());
        if envelope.leg() != self.id || envelope.epoch != self.epoch {
            return Err(FoldError::OtherLeg { seq, found: Box::new(envelope.leg()), expected: Box::new(self.id.clone()) });
        }
        if seq != self.head.seq.next() {
            return Err(FoldError::OutOfOrder { seq, kind, last: self.head.seq });
        }
        if self.run_finished.is_some() {
            return Err(FoldError::AfterEnd { seq, kind });
        }
        let running = |at: &FileRef| self.current.as_ref().is_some_and(|now| (now.index, now.round) == (at.index, at.round));
        match &envelope.body {
            Body::RunStarted(_) => Err(FoldError::SecondStart { seq, kind }),
            Body::FileStarted(started) => match &self.current {
                Some(now) => Err(FoldError::TwoFiles { seq, file: started.at.file.clone(), running: now.file.clone() }),
                None => Ok(()),
            },
            Body::CapExpired(expired) if !running(&expired.at) => {
                Err(FoldError::NotRunning { seq, kind, file: expired.at.file.clone() })
            }
            Body::LeftoverFound(found) if !running(&found.at) => {
                Err(FoldError::NotRunning { seq, kind, file: found.at.file.clone() })
            }
            Body::FileFinished(finished) if !running(&finished.at) => {
                Err(FoldError::NotRunning { seq, kind, file: finished.at.file.clone() })
            }
            _ => Ok(()),
        }
    }

    fn take(&mut self, envelope: &Envelope) {
        let ts = envelope.ts;
        match &envelope.body {
            Body::RunStarted(_) => {}
            Body::FileStarted(started) => self.file_started(ts, started),
            Body::CapExpired(expired) => {
                if let Some(row) = self.files.last_mut() {
                    row.evidence = Some(expired.evidence.clone());
                }
            }
            Body::LeftoverFound(found) => {
                if let Some(row) = self.files.last_mut() {
                    row.leftovers.clone_from(&found.leftovers);
                }
            }
            Body::FileFinished(finished) => self.file_finished(finished),
            Body::HostSampled(sampled) => self.sampled(&sampled.sample),
            Body::Heartbeat(beat) => {
                self.heartbeat_seq += 1;
                self.last_heartbeat = Some(ts);
                if beat.last_output.is_some() {
                    self.last_output.clone_from(&beat.last_output);
                }
                self.sampled(&beat.sample);
            }
            Body::Suspended(gap) => {
                let text = format!("{}: {} ({} ms of wall-clock step)", gap.why.words(), gap.gap_s, gap.wall_step_ms);
                self.note(ts, "suspended", text);
            }
            Body::SinkDegraded(sink) => {
                if !self.degraded.contains(&sink.url) {
                    self.degraded.push(sink.url.clone());
                }
                self.note(ts, "sink-degraded", format!("{}: {} ({} unsent)", sink.url, sink.error, sink.unsent));
            }
            Body::SinkRecovered(sink) => {
                self.degraded.retain(|url| *url != sink.url);
                self.note(ts, "sink-recovered", format!("{} after {}", sink.url, sink.down_s));
            }
            Body::SlotWaiting(wait) => {
                self.note(ts, "slot-waiting", format!("pool {}: {} of {} held", wait.pool, wait.held, wait.capacity));
            }
            Body::SlotAcquired(slot) => {
                self.note(ts, "slot-acquired", format!("pool {} slot {} after {}", slot.pool, slot.slot, slot.waited_s));
            }
            Body::SlotReleased(slot) => self.note(ts, "slot-released", format!("pool {} slot {}", slot.pool, slot.slot)),
            Body::SlotQuarantined(slot) => {
                self.note(ts, "slot-quarantined", format!("pool {} slot {}: {}", slot.pool, slot.slot, slot.reason));
            }
            Body::Cancelled(cancelled) => self.cancelled = Some(cancelled.signal.clone()),
            Body::LoopFinished(finished) => self.loop_finished = Some((ts, finished.clone())),
            Body::RunFinished(finished) => self.run_finished = Some((ts, finished.clone())),
        }
    }

    fn file_started(&mut self, ts: Wall, started: &FileStarted) {
        let at = &started.at;
        let mut row = FileRow::not_run(at.index, at.round, at.file.clone(), at.file_b64.clone());
        row.outcome = None;
        row.status = None;
        row.started_at = Some(ts);
        row.cap_s = started.cap_s;
        row.cap_basis.clone_from(&started.cap_basis);
        row.log.clone_from(&started.log);
        self.files.push(row);
        self.current = Some(at.clone());
        self.mark = Some(Mark { token: started.token.clone(), owner: started.owner });
        self.last_output = None;
    }

    fn file_finished(&mut self, finished: &FileFinished) {
        let evidence = self.files.pop().and_then(|row| row.evidence);
        self.last_output.clone_from(&finished.last_output);
        self.files.push(FileRow { evidence, ..FileRow::of(finished) });
        self.current = None;
        self.last_file = Some(finished.at.file.clone());
    }

    fn sampled(&mut self, sample: &HostSample) {
        self.last_host = Some(sample.clone());
        self.sample_skip += 1;
        if self.sample_skip < self.sample_stride {
            return;
        }
        self.sample_skip = 0;
        self.samples.push(sample.clone());
        if self.samples.len() >= SAMPLES_KEPT {
            let mut keep = false;
            self.samples.retain(|_| {
                keep = !keep;
                keep
            });
            self.sample_stride *= 2;
        }
    }

    fn note(&mut self, ts: Wall, kind: &str, text: String) {
        if self.notes.len() < NOTES_KEPT {
            self.notes.push(note(ts, kind, text));
        }
    }

    /// Lets go of what an older file took most room for, so that a repro of thousands of files stays small while it runs. What is stored
    /// has it all; markers hold the newest files anyway.
    pub fn forget_details(&mut self) {
        let Some(at) = self.files.len().checked_sub(DETAILS_KEPT + 1) else { return };
        let row = &mut self.files[at];
        row.evidence = None;
        if row.outcome == Some(Outcome::Pass) {
            row.last_output = None;
        }
    }

    pub fn current(&self) -> Option<&FileRef> {
        self.current.as_ref()
    }

    /// How the processes of the newest file are known again, also after everybody who knew them has died.
    pub fn mark(&self) -> Option<&Mark> {
        self.mark.as_ref()
    }

    pub fn files(&self) -> &[FileRow] {
        &self.files
    }

    pub fn is_over(&self) -> bool {
        self.loop_finished.is_some()
    }

    /// When the newest event was written, by the writer's clock.
    pub fn last_event(&self) -> Wall {
        self.last_event
    }

    /// How many files have a record, and how many of these failed.
    pub fn counts(&self) -> (u32, u32) {
        let reported = self.files.iter().filter(|row| row.reported()).count();
        let failed = self.files.iter().filter(|row| row.failed()).count();
        (count(reported), count(failed))
    }

    /// The row that the leg's own events give. Without its own end it is `running`; `classify` says what that means.
    pub fn row(&self) -> LegRow {
        let missing = self.missing();
        let most = NOT_RUN_LISTED.max(self.started.plan.len());
        let mut files = self.files.clone();
        files.extend(missing.rows(most));
        let unlisted = missing.count().saturating_sub(most as u64);
        let mut row = LegRow { samples: self.samples.clone(), ..self.row_with(files) };
        if unlisted > 0 {
            let text = format!("{unlisted} more planned files did not run; they are counted and not listed");
            row.notes.push(note(self.last_event, "not-listed", text));
        }
        row
    }

    /// As `row`, without the samples along the leg, and with `most` rows of files at most: where there are more, the newest records. Says
    /// how many rows that cost.
    pub fn newest_row(&self, most: usize) -> (LegRow, u32) {
        let missing = self.missing();
        let all = missing.count().saturating_add(self.files.len() as u64);
        let mut files = self.files[self.files.len().saturating_sub(most)..].to_vec();
        if all <= most as u64 {
            files.extend(missing.rows(most));
        }
        let omitted = u32::try_from(all - files.len() as u64).unwrap_or(u32::MAX);
        (self.row_with(files), omitted)
    }

    fn row_with(&self, files: Vec<FileRow>) -> LegRow {
        let (files_reported, files_failed) = self.counts();
        let (terminal, conclusion, why) = self.own_word(files_reported, files_failed);
        let finished = self.loop_finished.as_ref();
        let ended = self.run_finished.as_ref().map(|(ts, _)| *ts).or(finished.map(|(ts, _)| *ts));
        LegRow {
            run_id: self.id.run_id.clone(),
            attempt: self.id.attempt.clone(),
            platform: self.id.platform.clone(),
            target: self.id.target.clone(),
            shard: self.id.shard,
            resolved: self.started.resolved.clone(),
            sha: self.started.sha.clone(),
            event: self.started.event.clone(),
            scope: Some(self.started.scope),
            epoch: Some(self.epoch.clone()),
            terminal,
            stopped_by: finished.and_then(|(_, end)| end.stopped_by),
            conclusion,
            why,
            started_at: Some(self.started_at),
            ended_at: ended,
            duration_s: ended.map(|_| Secs::from_millis(self.last_mono_ms.saturating_sub(self.first_mono_ms))),
            loop_finished: finished.is_some_and(|(_, end)| end.loop_finished),
            files_planned: finished.map_or(self.started.files_planned, |(_, end)| end.files_planned),
            files_reported,
            files_failed,
            last_file: self.last_file.clone(),
            current_file: self.current.as_ref().map(|at| at.file.clone()),
            last_checkpoint_ts: Some(self.last_checkpoint),
            last_heartbeat_ts: self.last_heartbeat,
            progress_seq: Some(self.progress_seq),
            heartbeat_seq: Some(self.heartbeat_seq),
            lease_s: None,
            last_output: self.last_output.clone(),
            job_matched: None,
            job_conclusion: None,
            job_elapsed_s: None,
            stalled_step: None,
            annotation: None,
            resource_verdict: ResourceVerdict::Unknown,
            resource_why: None,
            last_host: self.last_host.clone(),
            sinks: self.run_finished.as_ref().map(|(_, end)| end.sinks.clone()).unwrap_or_default(),
            attempts: Vec::new(),
            beside: Vec::new(),
            files,
            source: None,
            booted_version: None,
            head: Some(self.head.clone()),
            samples: Vec::new(),
            notes: self.notes.clone(),
        }
    }

    fn own_word(&self, reported: u32, failed: u32) -> (Terminal, Option<Conclusion>, String) {
        let Some((_, end)) = &self.loop_finished else {
            let now = self.current.as_ref().map_or("between files".to_owned(), |at| format!("in {}", at.file));
            return (Terminal::Running, None, format!("{now}, {reported} files reported"));
        };
        let plan = end.files_planned.map_or("an open plan".to_owned(), |planned| format!("{planned} planned files"));
        if end.cancelled {
            let signal = self.cancelled.as_deref().unwrap_or("a signal");
            let why = format!("cancelled by {signal} after {reported} of {plan}");
            return (Terminal::Cancelled, Some(Conclusion::Incomplete), why);
        }
        let passed = self.files.iter().all(|row| row.outcome == Some(Outcome::Pass));
        let why = end.why.clone().unwrap_or_else(|| match failed {
            0 if reported == 1 && passed => "its one file passed".to_owned(),
            0 if passed => format!("all {reported} files passed"),
            0 => "a file was stopped before it could pass".to_owned(),
            _ => format!("{failed} of {reported} {} did not pass", if reported == 1 { "file" } else { "files" }),
        });
        let by_failures = |otherwise| if failed > 0 { Conclusion::Fail } else { otherwise };
        match end.stopped_by {
            Some(_) => (Terminal::Stopped, Some(by_failures(Conclusion::Incomplete)), why),
            None if passed => (Terminal::Complete, Some(by_failures(Conclusion::Pass)), why),
            None => (Terminal::Complete, Some(by_failures(Conclusion::Incomplete)), why),
        }
    }

    fn missing(&self) -> Missing<'_> {
        let plan = &self.started.plan;
        let of_the_plan = u32::try_from(plan.len()).unwrap_or(u32::MAX).max(1);
        let rounds = match self.started.files_planned {
            Some(planned) => planned.div_ceil(of_the_plan).max(1),
            None => self.files.iter().map(|row| row.round).max().unwrap_or(1),
        };
        Missing { plan, rounds, seen: self.files.iter().map(|row| (row.round, row.index)).collect() }
    }
}

/// Every planned file of the rounds planned that left no record. There may be billions: they are counted, and gone through only so far
/// as somebody takes them.
struct Missing<'l> {
    plan: &'l [PlannedFile],
    rounds: u32,
    /// Round and index of the records.
    seen: HashSet<(u32, u32)>,
}

impl Missing<'_> {
    fn count(&self) -> u64 {
        let mut of_index: HashMap<u32, u64> = HashMap::new();
        for file in self.plan {
            *of_index.entry(file.index).or_default() += 1;
        }
        let planned = u64::from(self.rounds) * self.plan.len() as u64;
        let begun = self.seen.iter().filter(|(round, _)| (1..=self.rounds).contains(round));
        planned - begun.filter_map(|(_, index)| of_index.get(index)).sum::<u64>()
    }

    fn rows(&self, most: usize) -> impl Iterator<Item = FileRow> {
        // A plan of nothing would be gone through in billions of empty rounds.
        let rounds = if self.plan.is_empty() { 0 } else { self.rounds };
        let planned = (1..=rounds).flat_map(|round| self.plan.iter().map(move |file| (round, file)));
        let missing = planned.filter(|(round, file)| !self.seen.contains(&(*round, file.index)));
        missing.take(most).map(|(round, file)| FileRow::not_run(file.index, round, file.file.clone(), file.file_b64.clone()))
    }
}

/// Folds a whole stream, skipping and counting what cannot follow. `None` when there is no `run-started` in it.
pub fn fold<'a>(events: impl IntoIterator<Item = (&'a Envelope, Head)>) -> (Option<Leg>, Vec<FoldError>) {
    let mut leg: Option<Leg> = None;
    let mut errors = Vec::new();
    for (envelope, head) in events {
        let result = match &mut leg {
            Some(leg) => leg.apply(envelope, head),
            None => Leg::begin(envelope, head).map(|begun| leg = Some(begun)),
        };
        errors.extend(result.err());
    }
    (leg, errors)
}

fn note(ts: Wall, kind: &str, text: String) -> Note {
    Note { ts, kind: kind.to_owned(), text }
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
