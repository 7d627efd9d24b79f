//! Feeds the sinks out of the store's acknowledgements, on a thread of its own.
//!
//! No call of the run loop waits for a sink, but for `barrier`, whose bound is the point of it, and for the end.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, timeout, timeout_at};

use crate::core::chain::Stored;
use crate::core::event::SinkState;
use crate::core::ids::Seq;
use crate::core::moment::Secs;

use super::state::{Answers, Shared};
use super::task::{SinkTask, Wiring};
use super::{Backend, runtime};

/// News of sinks that may wait for the loop. Each sink makes at most one per pause of its backoff.
const NEWS: usize = 64;

/// Draws the marker of this moment: with this lease, in at most so many bytes.
pub type RenderMarker = Arc<dyn Fn(Secs, usize) -> Vec<u8> + Send + Sync>;

/// The ledger as the sinks read it again, when they were away for longer than memory reaches.
pub trait Backlog: Send + Sync {
    /// Events right after `after`, in order: at most `most_events`, and no more after `most_bytes` are reached. An empty answer means
    /// there are none.
    fn read_after(&self, after: Seq, most_events: usize, most_bytes: usize) -> Result<Vec<Stored>, String>;
}

/// What the run loop records about a sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SinkNews {
    Degraded { url: String, error: String, unsent: u64 },
    Recovered { url: String, down: Secs },
}

pub struct FlusherOptions {
    pub backlog: Arc<dyn Backlog>,
    pub render: RenderMarker,
    /// How often something is offered at least; the lease follows from it.
    pub heartbeat: Secs,
}

/// How long the end of a run waits for its sinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Without any answer of a sink.
    pub silence: Duration,
    /// In all, for a sink that answers and has much to take.
    pub total: Duration,
}

impl Default for Patience {
    /// A second for a sink that is silent. A healthy one takes some mebibytes in the rest.
    fn default() -> Self {
        Self { silence: Duration::from_secs(1), total: Duration::from_secs(20) }
    }
}

pub struct Flusher {
    sinks: Vec<Arc<Shared>>,
    news: mpsc::Sender<SinkNews>,
    _stop: oneshot::Sender<()>,
}

impl Flusher {
    /// Starts the thread. Sinks are reached in the background; the receiver brings what the loop records about them.
    pub fn start(backends: Vec<Box<dyn Backend>>, options: FlusherOptions) -> io::Result<(Self, mpsc::Receiver<SinkNews>)> {
        let (news, received) = mpsc::channel(NEWS);
        let (stop, stopped) = oneshot::channel();
        let mut sinks = Vec::new();
        let mut tasks = Vec::new();
        for backend in backends {
            let capabilities = backend.capabilities();
            let awaited = capabilities.interval == Secs::ZERO || capabilities.burst > 0;
            let shared = Arc::new(Shared::new(backend.url().to_owned(), awaited));
            let wiring = Wiring {
                shared: Arc::clone(&shared),
                backlog: Arc::clone(&options.backlog),
                render: Arc::clone(&options.render),
                news: news.clone(),
                heartbeat: options.heartbeat,
            };
            tasks.push(SinkTask::new(backend, wiring));
            sinks.push(shared);
        }
        // A file sink blocks one while it writes, a lookup of a name another.
        let blocking = sinks.len() + usize::from(!sinks.is_empty());
        // The runtime is made where it runs: a thread that cannot be started must not drop one inside of another.
        let (started, start) = std::sync::mpsc::sync_channel(1);
        std::thread::Builder::new().name("ledger-sinks".to_owned()).spawn(move || {
            let runtime = match runtime::with_threads(blocking) {
                Ok(runtime) => runtime,
                Err(error) => {
                    let _ = started.send(Err(error));
                    return;
                }
            };
            let _ = started.send(Ok(()));
            runtime.block_on(async {
                for task in tasks {
                    tokio::spawn(task.run());
                }
                // Ends when the flusher is dropped, which is the only message there is.
                let _ = stopped.await;
            });
            // A call that hangs in a share is left behind; waiting for it is what this thread exists to avoid.
            runtime.shutdown_background();
        })?;
        start.recv().unwrap_or_else(|_| Err(io::Error::other("the thread of the sinks ended at once")))?;
        Ok((Self { sinks, news, _stop: stop }, received))
    }

    /// Hands on what was stored, and asks for a fresh marker also when that is nothing. Never waits.
    pub fn offer(&self, stored: &[Stored]) {
        self.sinks.iter().for_each(|sink| sink.offer(stored));
    }

    /// Waits until every healthy sink holds the event, at most `bound`. One that misses is not waited for again until it answers.
    pub async fn barrier(&self, seq: Seq, bound: Duration) {
        let deadline = Instant::now() + bound;
        join_all(self.sinks.iter().filter(|sink| sink.awaited).map(|sink| self.wait_for(sink, seq, deadline))).await;
    }

    async fn wait_for(&self, sink: &Shared, seq: Seq, deadline: Instant) {
        let silent = |answers: &Answers| answers.fenced || answers.held_back || answers.trouble.is_some();
        let mut answers = sink.answers.subscribe();
        let arrived = answers.wait_for(|answers| answers.position >= seq || silent(answers));
        if timeout_at(deadline, arrived).await.is_ok() {
            return;
        }
        sink.degrade("no answer within the second that the loop waits", false, Instant::now(), &self.news);
    }

    pub fn has_sinks(&self) -> bool {
        !self.sinks.is_empty()
    }

    /// What every sink has received so far.
    pub fn states(&self) -> Vec<SinkState> {
        self.sinks.iter().map(|sink| sink.state()).collect()
    }

    /// Whether every sink could be reached within the bound: for `--require-sink`, before anything runs.
    pub async fn reachable(&self, bound: Duration) -> Result<(), Vec<SinkState>> {
        self.offer(&[]);
        let answered = |sink: &Arc<Shared>| {
            let mut answers = sink.answers.subscribe();
            async move {
                let heard = answers.wait_for(|answers| answers.writes > 0 || answers.trouble.is_some());
                matches!(timeout(bound, heard).await, Ok(Ok(answers)) if answers.writes > 0)
            }
        };
        let reached = join_all(self.sinks.iter().map(answered)).await;
        let silent: Vec<SinkState> =
            self.sinks.iter().zip(reached).filter(|(_, reached)| !reached).map(|(sink, _)| sink.state()).collect();
        if silent.is_empty() { Ok(()) } else { Err(silent) }
    }

    /// Waits until the sinks hold everything that was offered, without regard to their intervals, and says how far they got.
    pub async fn settle(&self, patience: Patience) -> Vec<SinkState> {
        let deadline = Instant::now() + patience.total;
        join_all(self.sinks.iter().map(|sink| settle_one(sink, patience.silence, deadline))).await;
        self.states()
    }

    /// As `settle`, and ends.
    pub async fn finish(self, patience: Patience) -> Vec<SinkState> {
        self.settle(patience).await
    }
}

async fn settle_one(sink: &Shared, silence: Duration, deadline: Instant) {
    sink.hurry();
    let mut answers = sink.answers.subscribe();
    let mut heard = Instant::now();
    loop {
        // In this order: a write that took what was waiting has said so before (`begin_marker`).
        let waiting = sink.work().touched;
        let seen = answers.borrow_and_update().clone();
        let behind = waiting || !seen.caught_up;
        // One that was waited for in vain has had its second.
        if !behind || seen.fenced || seen.given_up {
            return;
        }
        let until = deadline.min(heard + silence);
        let told_to_wait = seen.ordered_until.is_some_and(|ordered| ordered > until);
        match if told_to_wait { End::InVain } else { next_word(&mut answers, &seen, until).await } {
            End::Heard => heard = Instant::now(),
            End::LookAgain => {}
            End::InVain => {
                sink.answers.send_modify(|answers| answers.given_up = true);
                return;
            }
        }
    }
}

/// What the end makes of the next thing that a sink says.
enum End {
    /// It took a write: it has its silence anew.
    Heard,
    /// It failed, or wants to be left alone for a while; that is no answer which would earn it more time.
    LookAgain,
    /// It is silent, or has said no. It would say that again: nothing is gained by asking for a whole second.
    InVain,
}

async fn next_word(answers: &mut watch::Receiver<Answers>, seen: &Answers, until: Instant) -> End {
    let has_spoken = |now: &Answers| {
        now.writes > seen.writes || now.refusals > seen.refusals || now.ordered_until > seen.ordered_until || now.fenced
    };
    match timeout_at(until, answers.wait_for(has_spoken)).await {
        Ok(Ok(now)) if now.writes > seen.writes => End::Heard,
        Ok(Ok(now)) if now.refusals == seen.refusals => End::LookAgain,
        _ => End::InVain,
    }
}
