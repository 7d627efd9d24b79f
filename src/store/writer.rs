//! The one writer of a leg: a thread with a bounded queue in front of it.
//!
//! An append is answered when its events are durable and not before. Requests that wait together share one transaction and one sync.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use tokio::sync::{mpsc, oneshot};

use crate::core::chain::Stored;
use crate::core::event::Body;
use crate::core::ids::{Epoch, LegId};
use crate::core::moment::{Moment, Wall};

use super::book::Book;
use super::error::StoreError;
use super::folder::LedgerFolder;
use super::reader::Identity;

/// Requests that may wait. The loop waits for its answers, so more than a few never stand here; the bound keeps a fault from hiding.
const QUEUE_REQUESTS: usize = 64;

/// The answer to one append.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Appended {
    /// In the order of the request; without the expendable events that a full disk cost.
    pub stored: Vec<Stored>,
    pub dropped: u64,
    pub room: Room,
}

/// How much room the ledger has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Room {
    Plenty,
    /// The disk is full and the ballast is spent: finish the current file, record why, and stop with exit 5.
    Reserve,
}

/// Where a write can be made to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteStep {
    Begin,
    Insert,
    Commit,
    /// The commit succeeded, its answer gets lost.
    Acknowledge,
    Reopen,
    Checkpoint,
}

/// How it fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteFault {
    Full,
    Io,
}

/// Asked before every step of a write, so that a test can fail the n-th one. `NoFaults` is what a run uses.
pub trait WriteFaults: Send {
    fn before(&mut self, step: WriteStep) -> Result<(), WriteFault>;
}

#[derive(Debug, Clone, Copy, Default)]
pub struct NoFaults;

impl WriteFaults for NoFaults {
    fn before(&mut self, _: WriteStep) -> Result<(), WriteFault> {
        Ok(())
    }
}

pub struct WriterOptions {
    pub faults: Box<dyn WriteFaults>,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self { faults: Box::new(NoFaults) }
    }
}

/// The handle of the writer thread. Clones write the same ledger.
#[derive(Debug, Clone)]
pub struct Writer {
    requests: mpsc::Sender<Request>,
    path: PathBuf,
    thread: Arc<Mutex<Option<JoinHandle<()>>>>,
}

enum Request {
    Append { batch: Batch, reply: oneshot::Sender<Result<Appended, StoreError>> },
    Close { reply: oneshot::Sender<Result<(), StoreError>> },
}

/// Events of one moment that are stored together or not at all.
pub(super) struct Batch {
    pub moment: Moment,
    pub bodies: Vec<Body>,
}

impl Writer {
    /// A new ledger for this leg and epoch. One that exists is refused, never overwritten. Blocks for some milliseconds.
    pub fn create(folder: &LedgerFolder, leg: LegId, epoch: Epoch, at: Wall, options: WriterOptions) -> Result<Self, StoreError> {
        let path = folder.database_path(&leg, &epoch);
        super::ballast::sweep(folder.path());
        let book = Book::create(&path, Identity { leg, epoch, created: at }, options.faults)?;
        Self::start(path, book)
    }

    /// Continues the ledger of a writer that has died; its chain goes on. A living writer is refused.
    pub fn reopen(path: &Path, options: WriterOptions) -> Result<Self, StoreError> {
        let book = Book::open(path, options.faults)?;
        Self::start(path.to_owned(), book)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Stores the events as one transaction and answers when they are durable. Dropping the future does not take the events back.
    pub async fn append(&self, moment: Moment, bodies: Vec<Body>) -> Result<Appended, StoreError> {
        let (reply, answer) = oneshot::channel();
        let request = Request::Append { batch: Batch { moment, bodies }, reply };
        self.requests.send(request).await.map_err(|_| self.closed())?;
        answer.await.map_err(|_| self.closed())?
    }

    /// As `append`, for callers outside the async runtime.
    pub fn append_blocking(&self, moment: Moment, bodies: Vec<Body>) -> Result<Appended, StoreError> {
        let (reply, answer) = oneshot::channel();
        let request = Request::Append { batch: Batch { moment, bodies }, reply };
        self.requests.blocking_send(request).map_err(|_| self.closed())?;
        answer.blocking_recv().map_err(|_| self.closed())?
    }

    /// Ends the writer: moves the log into the database, gives the ballast back, lets go of the lock.
    pub async fn close(self) -> Result<(), StoreError> {
        let (reply, answer) = oneshot::channel();
        self.requests.send(Request::Close { reply }).await.map_err(|_| self.closed())?;
        let closed = answer.await.map_err(|_| self.closed())?;
        self.join();
        closed
    }

    /// As `close`, for callers outside the async runtime.
    pub fn close_blocking(self) -> Result<(), StoreError> {
        let (reply, answer) = oneshot::channel();
        self.requests.blocking_send(Request::Close { reply }).map_err(|_| self.closed())?;
        let closed = answer.blocking_recv().map_err(|_| self.closed())?;
        self.join();
        closed
    }

    fn start(path: PathBuf, book: Book) -> Result<Self, StoreError> {
        let (requests, queue) = mpsc::channel(QUEUE_REQUESTS);
        let thread = std::thread::Builder::new()
            .name("ledger-store".to_owned())
            .spawn(move || serve(book, queue))
            .map_err(|error| StoreError::io(&path, &error))?;
        Ok(Self { requests, path, thread: Arc::new(Mutex::new(Some(thread))) })
    }

    fn closed(&self) -> StoreError {
        StoreError::Closed { path: self.path.clone() }
    }

    /// The thread has answered its last request and ends at once.
    fn join(&self) {
        let thread = self.thread.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

type Reply = oneshot::Sender<Result<Appended, StoreError>>;

fn serve(mut book: Book, mut queue: mpsc::Receiver<Request>) {
    let mut close = None;
    while close.is_none() {
        let Some(first) = queue.blocking_recv() else { break };
        let mut batches = Vec::new();
        let mut replies = Vec::new();
        let mut next = Some(first);
        while let Some(request) = next {
            match request {
                Request::Append { batch, reply } => {
                    batches.push(batch);
                    replies.push(reply);
                }
                Request::Close { reply } => {
                    close = Some(reply);
                    break;
                }
            }
            next = queue.try_recv().ok();
        }
        if !batches.is_empty() {
            answer(book.append(&batches), replies);
            book.checkpoint_if_due();
        }
    }
    let closed = book.close();
    if let Some(reply) = close {
        // A caller that has gone away does not need the answer.
        let _ = reply.send(closed);
    }
}

fn answer(result: Result<Vec<Appended>, StoreError>, replies: Vec<Reply>) {
    match result {
        Ok(appended) => {
            for (reply, appended) in replies.into_iter().zip(appended) {
                let _ = reply.send(Ok(appended));
            }
        }
        Err(error) => {
            for reply in replies {
                let _ = reply.send(Err(error.clone()));
            }
        }
    }
}
