//! What one leg's run holds while it lasts, and the small things that every step of it does: record, sample, beat, show.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinHandle;

use super::announce;
use super::book::{Book, BookError};
use super::console::{self, Console};
use super::output::Output;
use super::owners::Ready;
use super::plan::Plan;
use crate::core::ending::{EndSignal, LoopState};
use crate::core::event::{Body, Cancelled, FileRef, Heartbeat, SinkDegraded, SinkRecovered, Suspended, SuspendedWhy};
use crate::core::moment::{Moment, Secs};
use crate::core::redact::Redactor;
use crate::core::sample::HostSample;
use crate::core::watch::Watch;
use crate::host::clock;
use crate::host::keyboard::EnterKey;
use crate::host::owner::Owner;
use crate::host::sampler::Sampler;
use crate::host::signals::{Signal, Signals, stop_self};
use crate::host::table::SharedTable;
use crate::host::tree::Mechanism;
use crate::report::live;
use crate::report::style::Style;
use crate::settings::RunSettings;
use crate::sink::SinkNews;

/// A wall clock that is off by less than this since the last look was adjusted, not set.
const CLOCK_STEP_MS: i64 = 2_000;
/// How often a bar is drawn anew.
const REDRAW: Duration = Duration::from_millis(500);

pub struct Session {
    pub settings: Arc<RunSettings>,
    pub plan: Plan,
    pub console: Console,
    pub redactor: Arc<Mutex<Redactor>>,
    pub book: Book,
    pub signals: Signals,
    /// Pressed by whoever wants to see what the running file printed last.
    pub enter: EnterKey,
    pub sampler: Sampler,
    pub style: Style,
    /// One table of processes serves samples and sweeps.
    pub table: SharedTable,
    /// Where an owner writes down what it swept if ledger dies. Made empty, removed at an orderly end.
    pub obituary: PathBuf,
    /// Mechanisms of owning a tree that are switched off.
    pub disabled: Vec<Mechanism>,
    /// Started ahead of the file that it will own.
    pub next_owner: Option<Ready>,
    /// The owner of the file before, on its way out.
    pub(super) parting: Option<JoinHandle<()>>,
    pub state: LoopState,
    pub last_sample: HostSample,
    /// Where the deadline stands on the steady clock: resolved once, so that a clock step moves nothing.
    pub deadline_mono_ms: Option<u64>,
    pub(super) last_beat: Moment,
    pub(super) last_seen: Moment,
    /// Somebody wants ledger to end soon.
    pub in_a_hurry: bool,
    /// Why the ledger could not be written, the first time.
    pub ledger_error: Option<String>,
}

impl Session {
    /// Lets an owner end beside the loop: it has nothing left to do, and the next file need not wait for it.
    pub async fn part_with(&mut self, owner: Owner) {
        let earlier = self.parting.replace(tokio::spawn(owner.close()));
        finished(earlier).await;
    }

    /// Waits until no owner is left.
    pub async fn all_parted(&mut self) {
        finished(self.parting.take()).await;
        if let Some(ready) = self.next_owner.take() {
            ready.close().await;
        }
    }

    /// Failures among the records that a resumed run carries on.
    pub fn carried_failures(&self) -> u32 {
        let carried = self.plan.resumed.iter().flat_map(|resumed| &resumed.carried);
        u32::try_from(carried.filter(|row| row.failed()).count()).unwrap_or(u32::MAX)
    }

    /// Records facts. A ledger that cannot be written ends the loop after the current file, with exit 5.
    pub async fn record(&mut self, bodies: Vec<Body>) {
        if let Err(error) = self.book.record(clock::now(), bodies).await {
            self.ledger_failed(&error);
        }
    }

    fn ledger_failed(&mut self, error: &BookError) {
        self.state.ledger_failed = true;
        if self.ledger_error.is_none() {
            let text = error.to_string();
            self.console.say(format!("ledger: error: {text}; the current file is finished, then the run stops with exit 5"));
            self.ledger_error = Some(text);
        }
    }

    /// What the clocks say since the last look: sleeps and steps are facts of their own.
    pub async fn observe(&mut self, now: Moment) {
        let last = std::mem::replace(&mut self.last_seen, now);
        let gap_s = now.slept_since(last);
        let wall_step_ms = now.wall_step_since(last);
        let why = match () {
            () if gap_s >= Secs::from_secs(1) => SuspendedWhy::Sleep,
            () if wall_step_ms.abs() >= CLOCK_STEP_MS => SuspendedWhy::ClockStep,
            () => return,
        };
        self.record(vec![Body::Suspended(Suspended { why, gap_s, wall_step_ms })]).await;
    }

    pub fn sample(&mut self) -> HostSample {
        let sample = self.sampler.sample(clock::now());
        self.last_sample = sample.clone();
        sample
    }

    pub fn until_beat(&self, now: Moment) -> Secs {
        self.settings.heartbeat.saturating_sub(now.since(self.last_beat))
    }

    pub fn beaten(&mut self, now: Moment) {
        self.last_beat = now;
    }

    /// A sign of life where no file runs: during shutdown.
    pub async fn beat(&mut self) {
        self.beaten(clock::now());
        let sample = self.sample();
        let beat = Heartbeat { file: None, elapsed_s: None, cap_s: None, sample, last_output: None, evidence: None };
        self.record(vec![Body::Heartbeat(Box::new(beat))]).await;
    }

    /// A signal that came while nothing was waited for ends the run before another file starts.
    pub async fn look_for_signals(&mut self) {
        while let Ok(signal) = tokio::time::timeout(Duration::ZERO, self.signals.next()).await {
            match signal {
                Signal::End(signal) if self.state.signal.is_none() => self.cancelled(signal, None).await,
                Signal::End(_) | Signal::Continue => {}
                Signal::Stop => self.stop_until_continued().await,
            }
        }
    }

    /// How much time the deadline leaves.
    pub fn remaining(&self, now: Moment) -> Option<Secs> {
        self.deadline_mono_ms.map(|deadline| Secs::from_millis(deadline.saturating_sub(now.mono_ms)))
    }

    pub async fn cancelled(&mut self, signal: EndSignal, file: Option<FileRef>) {
        self.state.signal = Some(signal);
        self.console.give_up_after(console::IN_A_HURRY);
        self.console.say(format!("ledger: {} received; ending the run", signal.name()));
        self.record(vec![Body::Cancelled(Cancelled { signal: signal.name().to_owned(), file })]).await;
    }

    /// Stops ledger itself as its terminal asked, and comes back when it is continued.
    pub async fn stop_until_continued(&mut self) {
        let before = clock::now();
        stop_self();
        let now = clock::now();
        let gap_s = now.since(before);
        self.last_seen = now;
        self.record(vec![Body::Suspended(Suspended { why: SuspendedWhy::Stopped, gap_s, wall_step_ms: 0 })]).await;
    }

    /// A sink went down or came back: one fact, and one warning.
    pub async fn sink_news(&mut self, news: SinkNews) {
        let body = match news {
            SinkNews::Degraded { url, error, unsent } => {
                let redactor = self.redactor();
                let degraded = SinkDegraded { url: redactor.text(&url), error: redactor.text(&error), unsent };
                self.console.say(announce::sink_degraded(&degraded, self.settings.actions.is_some()));
                Body::SinkDegraded(degraded)
            }
            SinkNews::Recovered { url, down } => {
                let url = self.redactor().text(&url);
                self.console.say(format!("ledger: the sink {url} is back after {down}"));
                Body::SinkRecovered(SinkRecovered { url, down_s: down })
            }
        };
        self.record(vec![body]).await;
    }

    pub fn redactor(&self) -> Redactor {
        self.redactor.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What leaves the machine carries no masked value: command lines, tails, errors and notes.
    pub fn redacted(&self, body: Body) -> Body {
        crate::core::redact::body(body, &self.redactor())
    }

    pub fn redraw_every(&self) -> Duration {
        if self.console.has_bar() { REDRAW } else { Duration::from_secs(3600) }
    }

    /// The answer to Enter.
    pub fn show_last_lines(&self, watch: &Watch, output: Option<&Output>) {
        self.console.entered();
        let output = output.and_then(Output::last_lines);
        let bar = announce::bar(self, watch, clock::now(), None);
        self.console.say(live::last_lines(&bar, output.as_deref()));
    }

    pub fn show(&self, watch: &Watch, now: Moment, output: Option<&Output>) {
        if self.console.has_bar() && !watch.is_over() {
            let last_line = output.and_then(Output::last_lines);
            self.console.draw(announce::bar(self, watch, now, last_line.as_deref()));
        }
    }
}

/// A task that broke off has nothing to say either.
async fn finished(task: Option<JoinHandle<()>>) {
    if let Some(task) = task {
        let _ = task.await;
    }
}
