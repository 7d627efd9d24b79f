//! The leg's own record while it runs: stored first, then folded, then handed to the sinks. Data goes one way.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;

use crate::core::chain::Stored;
use crate::core::event::{Body, Envelope, SinkState};
use crate::core::fold::{FoldError, Leg};
use crate::core::ids::Seq;
use crate::core::marker::Marker;
use crate::core::moment::{Moment, Secs};
use crate::core::row::Head;
use crate::host::clock;
use crate::sink::{Backend, Flusher, FlusherOptions, Patience, SinkNews};
use crate::source::push::Kept;
use crate::store::{Room, StoreError, Writer};

/// While a sink is healthy the loop waits this long for its answer (DESIGN §8).
const BARRIER: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
pub enum BookError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the ledger's own event does not follow from those before it: {0}")]
    Fold(#[from] FoldError),
    #[error("the ledger's own event cannot be read back: {0}")]
    Shape(#[from] serde_json::Error),
    #[error("the disk is full and the reserve of the ledger '{0}' is spent")]
    Full(String),
}

pub struct Book {
    writer: Writer,
    flusher: Arc<Flusher>,
    news: mpsc::Receiver<SinkNews>,
    /// What the sinks draw their markers from.
    newest: Arc<Mutex<Option<Arc<Marker>>>>,
    leg: Option<Leg>,
    head: Seq,
    dropped: u64,
}

impl Book {
    /// Starts the sinks beside a writer that is open.
    pub fn new(writer: Writer, backends: Vec<Box<dyn Backend>>, heartbeat: Secs) -> std::io::Result<Self> {
        let newest: Arc<Mutex<Option<Arc<Marker>>>> = Arc::default();
        let drawn_from = Arc::clone(&newest);
        let render = move |lease: Secs, budget: usize| match newest_of(&drawn_from) {
            Some(marker) => marker.dated(lease, clock::now().wall).render(budget),
            None => Vec::new(),
        };
        let backlog = Arc::new(Kept { database: writer.path().to_owned() });
        let (flusher, news) = Flusher::start(backends, FlusherOptions { backlog, render: Arc::new(render), heartbeat })?;
        Ok(Self { writer, flusher: Arc::new(flusher), news, newest, leg: None, head: Seq(0), dropped: 0 })
    }

    /// Records what has happened. When this returns, the events are durable and on their way to the sinks.
    ///
    /// On a full disk the events are stored out of the reserve, and the error says that this was the last of it.
    pub async fn record(&mut self, now: Moment, bodies: Vec<Body>) -> Result<(), BookError> {
        let appended = self.writer.append(now, bodies).await?;
        self.dropped += appended.dropped;
        for stored in &appended.stored {
            self.fold(stored)?;
        }
        if let Some(leg) = &mut self.leg {
            leg.forget_details();
            if self.flusher.has_sinks() {
                // Each sink dates it when it is written.
                let marker = Marker::of(leg, Secs::ZERO, now.wall);
                *self.newest.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(marker));
            }
            self.head = leg.head.seq;
        }
        self.flusher.offer(&appended.stored);
        match appended.room {
            Room::Plenty => Ok(()),
            Room::Reserve => Err(BookError::Full(self.writer.path().display().to_string())),
        }
    }

    fn fold(&mut self, stored: &Stored) -> Result<(), BookError> {
        let envelope: Envelope = serde_json::from_str(&stored.line)?;
        let head = Head { seq: stored.seq, digest: stored.digest.clone() };
        match &mut self.leg {
            Some(leg) => leg.apply(&envelope, head)?,
            None => self.leg = Some(Leg::begin(&envelope, head)?),
        }
        Ok(())
    }

    pub fn leg(&self) -> Option<&Leg> {
        self.leg.as_ref()
    }

    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Waits for the sinks' answer to what was recorded last: at most a second, and not at all for a sink that missed once.
    pub async fn barrier(&self) {
        self.flusher.barrier(self.head, BARRIER).await;
    }

    /// Whether every sink can be reached, for `--require-sink`.
    pub async fn reachable(&self, bound: Duration) -> Result<(), Vec<SinkState>> {
        self.flusher.reachable(bound).await
    }

    /// The next news of a sink. Waits for ever where there is no sink.
    pub async fn news(&mut self) -> SinkNews {
        match self.news.recv().await {
            Some(news) => news,
            None => std::future::pending().await,
        }
    }

    /// News that are here already.
    pub fn news_so_far(&mut self) -> Vec<SinkNews> {
        std::iter::from_fn(|| self.news.try_recv().ok()).collect()
    }

    /// Sends what is left, bounded, and says what each sink has. The ledger may be written meanwhile.
    pub fn settle(&self, patience: Patience) -> impl Future<Output = Vec<SinkState>> + use<> {
        let flusher = Arc::clone(&self.flusher);
        async move { flusher.settle(patience).await }
    }

    pub async fn close(self) -> Result<(), StoreError> {
        let path = self.writer.path().to_owned();
        drop(self.flusher);
        self.writer.close().await?;
        if self.head == Seq(0) {
            // A run that never began is no leg: its database would be one that ended without its record.
            let files = [path.clone(), path.with_extension("head")];
            let gone = files.iter().try_for_each(std::fs::remove_file);
            tracing::debug!(path = %path.display(), ?gone, "the database of a run that never began is removed");
        }
        Ok(())
    }
}

fn newest_of(newest: &Mutex<Option<Arc<Marker>>>) -> Option<Arc<Marker>> {
    newest.lock().unwrap_or_else(PoisonError::into_inner).clone()
}
