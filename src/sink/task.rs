//! The task of one sink: what to send next, when, and what to make of the answer.
//!
//! The position is derived from the sink at the start and after every failure; nothing is remembered about what "must have arrived".

use std::sync::Arc;
use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

use crate::core::chain::Stored;
use crate::core::ids::Seq;
use crate::core::lease::lease_for;
use crate::core::moment::Secs;

use super::error::{SinkError, Trouble};
use super::flusher::{Backlog, RenderMarker, SinkNews};
use super::pace::{Moves, Pace};
use super::state::{Answer, Shared};
use super::{Backend, Batch, Takes};

/// A write that is not answered by then counts as failed. Ten times what a slow store needs for a mebibyte, a third of the usual
/// heartbeat, so that one lost answer does not cost a lease of three heartbeats.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Events of one write. A long backlog goes out in pieces whose answers count.
const BATCH_BYTES: usize = 1024 * 1024;
const BATCH_EVENTS: usize = 2000;
/// Waits between tries: from the length of a hiccup to something that a service under load does not feel.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
/// A refusal (a missing permission) is asked again at this pace: somebody may mend it during a long run.
const REFUSED_PAUSE: Duration = Duration::from_secs(60);
/// At the end of a run tries come at this pace, for there is only a second.
const URGENT_PAUSE: Duration = Duration::from_millis(100);
/// An answer later than the loop waits for does not end a degradation; a sink at the edge would flap at every boundary.
const QUICK: Duration = Duration::from_secs(1);

/// What connects a task with the run.
pub(super) struct Wiring {
    pub shared: Arc<Shared>,
    pub backlog: Arc<dyn Backlog>,
    pub render: RenderMarker,
    pub news: mpsc::Sender<SinkNews>,
    /// How often something is offered at least; a lease follows from it and from the sink's own interval.
    pub heartbeat: Secs,
}

pub(super) struct SinkTask {
    backend: Box<dyn Backend>,
    wiring: Wiring,
    position: Option<Seq>,
    plan_is_there: bool,
    pace: Pace,
    pauses: ExponentialBackoff,
}

impl SinkTask {
    pub fn new(backend: Box<dyn Backend>, wiring: Wiring) -> Self {
        Self { backend, wiring, position: None, plan_is_there: false, pace: Pace::default(), pauses: pauses() }
    }

    pub async fn run(mut self) {
        loop {
            self.wait_for_work().await;
            let begun = Instant::now();
            self.pace.spend(&self.backend.capabilities(), begun);
            match self.write().await {
                Ok(()) => self.answered(begun),
                Err(error) if error.trouble == Trouble::Fenced => {
                    self.failed(&error);
                    self.wiring.shared.answers.send_modify(|answers| answers.fenced = true);
                    return;
                }
                Err(error) => {
                    self.failed(&error);
                    self.pause(error.trouble).await;
                }
            }
        }
    }

    async fn wait_for_work(&mut self) {
        loop {
            let work = self.wiring.shared.work();
            let behind = self.position.is_some_and(|position| position < work.newest);
            let now = Instant::now();
            let capabilities = self.backend.capabilities();
            let at = self.pace.next_write(&capabilities, Moves::of(work.progress), now);
            let early = Some(at).filter(|at| !work.urgent && *at > now);
            match early {
                _ if !work.touched && !behind => self.wiring.shared.wake.notified().await,
                // A sink with an interval of its own gathers what comes until then.
                Some(due) => {
                    if work.progress {
                        self.wiring.shared.answers.send_modify(|answers| answers.held_back = true);
                    }
                    tokio::select! {
                        () = sleep_until(due) => {}
                        () = self.wiring.shared.wake.notified() => {}
                    }
                }
                None => return,
            }
        }
    }

    /// One write: events right after the sink's own position, and the newest marker.
    async fn write(&mut self) -> Result<(), SinkError> {
        let position = match self.position {
            Some(position) => position,
            None => self.ask_position().await?,
        };
        if self.wiring.shared.work().newest == Seq(0) {
            // Nothing has happened yet; that the sink answered is all there is to know.
            self.wiring.shared.begin_marker();
            return Ok(());
        }
        if !self.plan_is_there {
            self.put_plan().await?;
        }
        let capabilities = self.backend.capabilities();
        let newest = self.wiring.shared.begin_marker();
        let events = match capabilities.takes {
            Takes::EventsAndMarker => self.next_events(position).await?,
            Takes::MarkerOnly => Vec::new(),
        };
        let reached = match capabilities.takes {
            Takes::EventsAndMarker => events.last().map_or(position, |event| event.seq),
            Takes::MarkerOnly => newest,
        };
        let lease = lease_for(capabilities.interval.max(self.wiring.heartbeat));
        let marker = (self.wiring.render)(lease, capabilities.marker_bytes);
        let url = self.wiring.shared.url.clone();
        within(&url, self.backend.send(&Batch { events, marker })).await?;
        self.position = Some(reached);
        Ok(())
    }

    async fn ask_position(&mut self) -> Result<Seq, SinkError> {
        let url = self.wiring.shared.url.clone();
        let position = within(&url, self.backend.position()).await?;
        let newest = self.wiring.shared.work().newest;
        if position > newest && self.backend.capabilities().takes == Takes::EventsAndMarker {
            let detail =
                format!("it holds event {position} of this epoch, the ledger has {newest}: another writer uses this epoch");
            return Err(SinkError::new(url, Trouble::Fenced, detail));
        }
        self.position = Some(position);
        Ok(position)
    }

    /// The plan object is the first event of the epoch.
    async fn put_plan(&mut self) -> Result<(), SinkError> {
        let first = match self.wiring.shared.take_after(Seq(0), 0) {
            Some(events) if !events.is_empty() => events,
            _ => self.read_backlog(Seq(0), 1).await?,
        };
        let Some(plan) = first.into_iter().next() else { return Ok(()) };
        let url = self.wiring.shared.url.clone();
        within(&url, self.backend.put_plan(plan.line.as_bytes())).await?;
        self.plan_is_there = true;
        Ok(())
    }

    async fn next_events(&mut self, position: Seq) -> Result<Vec<Stored>, SinkError> {
        match self.wiring.shared.take_after(position, BATCH_BYTES) {
            Some(events) => Ok(events),
            None => self.read_backlog(position, BATCH_EVENTS).await,
        }
    }

    async fn read_backlog(&mut self, after: Seq, most: usize) -> Result<Vec<Stored>, SinkError> {
        let backlog = Arc::clone(&self.wiring.backlog);
        let read = tokio::task::spawn_blocking(move || backlog.read_after(after, most, BATCH_BYTES)).await;
        let failed = |why: String| SinkError::retryable(&self.wiring.shared.url, format!("the ledger cannot be read again: {why}"));
        read.map_err(|error| failed(error.to_string()))?.map_err(failed)
    }

    fn answered(&mut self, begun: Instant) {
        let now = Instant::now();
        self.pace.answered(now);
        self.pauses = pauses();
        let position = self.position.unwrap_or_default();
        let work = self.wiring.shared.work();
        let caught_up = !work.touched && position >= work.newest;
        let answer = Answer { position, caught_up, at: now, quick: now - begun <= QUICK };
        self.wiring.shared.answered(&answer, &self.wiring.news);
    }

    fn failed(&mut self, error: &SinkError) {
        self.position = None;
        self.wiring.shared.marker_is_owed();
        let refused = matches!(error.trouble, Trouble::Refused | Trouble::Usage);
        self.wiring.shared.degrade(&error.detail, refused, Instant::now(), &self.wiring.news);
    }

    async fn pause(&mut self, trouble: Trouble) {
        let (pause, ordered) = match trouble {
            Trouble::Retryable { after: Some(after) } => (after, true),
            Trouble::Refused => (REFUSED_PAUSE, false),
            _ => (self.pauses.next().unwrap_or(LONGEST_PAUSE), false),
        };
        let begun = Instant::now();
        if ordered {
            self.wiring.shared.answers.send_modify(|answers| answers.ordered_until = Some(begun + pause));
        }
        loop {
            // What a service orders is obeyed to the end of the run; a pause of our own gives way to the end.
            let urgent = self.wiring.shared.work().urgent && !ordered;
            let until = begun + if urgent { pause.min(URGENT_PAUSE) } else { pause };
            if Instant::now() >= until {
                return;
            }
            tokio::select! {
                () = sleep_until(until) => {}
                () = self.wiring.shared.wake.notified() => {}
            }
        }
    }
}

fn pauses() -> ExponentialBackoff {
    ExponentialBuilder::new().with_jitter().with_min_delay(FIRST_PAUSE).with_max_delay(LONGEST_PAUSE).without_max_times().build()
}

async fn within<T>(url: &str, answer: impl Future<Output = Result<T, SinkError>>) -> Result<T, SinkError> {
    let late = |_| SinkError::retryable(url, format!("no answer within {} s", ANSWER_WITHIN.as_secs()));
    timeout(ANSWER_WITHIN, answer).await.map_err(late)?
}
