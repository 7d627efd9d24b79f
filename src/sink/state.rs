//! What the run loop and the task of one sink share: the tail that waits, and what the sink has answered.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;

use crate::core::chain::Stored;
use crate::core::event::SinkState;
use crate::core::ids::Seq;
use crate::core::moment::Secs;

use super::flusher::SinkNews;

/// The tail that waits in memory. A boundary is some KiB; what does not fit here is read from the database again, so the bound only
/// decides how soon that happens. A mebibyte keeps the whole process small while a sink is down.
const QUEUE_BYTES: usize = 1024 * 1024;
const QUEUE_EVENTS: usize = 2048;

/// One sink as both sides see it.
pub(super) struct Shared {
    pub url: String,
    /// Whether the loop may wait for this sink: one that is written at every boundary.
    pub awaited: bool,
    inbox: Mutex<Inbox>,
    /// Wakes the task. A wake-up that comes while it works is kept.
    pub wake: Notify,
    pub answers: watch::Sender<Answers>,
}

#[derive(Debug, Default)]
struct Inbox {
    tail: VecDeque<Stored>,
    bytes: usize,
    newest: Seq,
    /// Something has happened since the last marker was drawn.
    touched: bool,
    /// The leg has moved on since then: a sink with an interval may be written ahead of it.
    progress: bool,
    /// The run ends: natural intervals and backoff no longer count.
    urgent: bool,
}

/// What the sink has answered so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Answers {
    /// Newest event that is durable there.
    pub position: Seq,
    /// Number of writes that were answered.
    pub writes: u64,
    /// Whether everything that had been offered was in the last write.
    pub caught_up: bool,
    /// Why it does not answer as it should; the loop does not wait for it then.
    pub trouble: Option<String>,
    /// Since when that is a recorded fact.
    pub degraded_since: Option<Instant>,
    /// Nothing more will be sent.
    pub fenced: bool,
    /// The sink's budget of writes is spent for now: what has happened goes out when it has room again, and nobody waits for it.
    pub held_back: bool,
    /// The service has ordered to be left alone until then.
    pub ordered_until: Option<Instant>,
    /// How often the sink has said no (a missing permission, a bucket that is none), and not merely failed.
    pub refusals: u64,
    /// The end of the run has waited in vain.
    pub given_up: bool,
}

/// One answered write.
pub(super) struct Answer {
    pub position: Seq,
    pub caught_up: bool,
    pub at: Instant,
    /// Whether it came within the time that the loop would wait. A later one does not end a degradation: a sink at the edge would be
    /// lost and found again at every boundary.
    pub quick: bool,
}

/// What there is to do for a task.
pub(super) struct Work {
    pub newest: Seq,
    pub touched: bool,
    pub progress: bool,
    pub urgent: bool,
}

impl Shared {
    pub fn new(url: String, awaited: bool) -> Self {
        Self { url, awaited, inbox: Mutex::default(), wake: Notify::new(), answers: watch::Sender::new(Answers::default()) }
    }

    /// Takes what was stored. With no events it still asks for a fresh marker.
    pub fn offer(&self, stored: &[Stored]) {
        let ended = self.answers.borrow().fenced;
        let mut inbox = self.inbox();
        if ended {
            // Nothing more will be sent, so nothing needs to be kept; how much that is stays known.
            inbox.newest = stored.last().map_or(inbox.newest, |event| event.seq);
            inbox.tail = VecDeque::new();
            inbox.bytes = 0;
            return;
        }
        for event in stored {
            inbox.bytes += event.line.len();
            inbox.newest = event.seq;
            inbox.progress |= event.progress;
            inbox.tail.push_back(event.clone());
        }
        if inbox.bytes > QUEUE_BYTES || inbox.tail.len() > QUEUE_EVENTS {
            inbox.tail = VecDeque::new();
            inbox.bytes = 0;
        }
        inbox.touched = true;
        drop(inbox);
        self.wake.notify_one();
    }

    pub fn hurry(&self) {
        self.inbox().urgent = true;
        self.wake.notify_one();
    }

    pub fn work(&self) -> Work {
        let inbox = self.inbox();
        Work { newest: inbox.newest, touched: inbox.touched, progress: inbox.progress, urgent: inbox.urgent }
    }

    /// A marker is drawn now, and holds everything up to here. Until it is answered, the sink is behind: that is said before the inbox
    /// is seen empty, so that nobody takes a write on its way for one that has arrived.
    pub fn begin_marker(&self) -> Seq {
        self.answers.send_modify(|answers| answers.caught_up = false);
        let mut inbox = self.inbox();
        inbox.touched = false;
        inbox.progress = false;
        inbox.newest
    }

    /// A write failed: its marker has still to be written.
    pub fn marker_is_owed(&self) {
        self.inbox().touched = true;
    }

    /// The events right after `position` that wait in memory, at most so many bytes; what stands before them is forgotten. `None` when
    /// the next one is not in memory and has to be read from the database.
    pub fn take_after(&self, position: Seq, most_bytes: usize) -> Option<Vec<Stored>> {
        let mut inbox = self.inbox();
        while inbox.tail.front().is_some_and(|event| event.seq <= position) {
            let gone = inbox.tail.pop_front();
            inbox.bytes -= gone.map_or(0, |event| event.line.len());
        }
        if inbox.newest <= position {
            return Some(Vec::new());
        }
        inbox.tail.front().filter(|event| event.seq == position.next())?;
        let mut bytes = 0;
        let fits = |event: &&Stored| {
            let first = bytes == 0;
            bytes += event.line.len() + 1;
            first || bytes <= most_bytes
        };
        Some(inbox.tail.iter().take_while(fits).cloned().collect())
    }

    /// Notes an answer, and tells where it ends a degradation; first the news, so that nobody who sees the answer misses them.
    pub fn answered(&self, answer: &Answer, news: &mpsc::Sender<SinkNews>) {
        let degraded_since = self.answers.borrow().degraded_since;
        if let Some(since) = degraded_since.filter(|_| answer.quick) {
            let down = u64::try_from((answer.at - since).as_millis()).unwrap_or(u64::MAX);
            self.tell(news, SinkNews::Recovered { url: self.url.clone(), down: Secs::from_millis(down) });
        }
        self.answers.send_modify(|answers| {
            answers.position = answer.position;
            answers.writes += 1;
            answers.caught_up = answer.caught_up;
            answers.given_up = false;
            answers.held_back = false;
            answers.ordered_until = None;
            if answer.quick {
                answers.trouble = None;
                answers.degraded_since = None;
            }
        });
    }

    /// Notes trouble, and tells where it is the first. A refusal is counted in the same step: whoever hears of the one has heard of the
    /// other, so that nobody takes it for a second one, or for silence.
    pub fn degrade(&self, error: &str, refused: bool, at: Instant, news: &mpsc::Sender<SinkNews>) {
        let mut first = false;
        self.answers.send_modify(|answers| {
            first = answers.degraded_since.is_none();
            answers.caught_up = false;
            answers.trouble = Some(error.to_owned());
            answers.refusals += u64::from(refused);
            answers.degraded_since.get_or_insert(at);
        });
        if first {
            let unsent = self.state().unsent;
            self.tell(news, SinkNews::Degraded { url: self.url.clone(), error: error.to_owned(), unsent });
        }
    }

    /// News that find no room are not worth holding anybody up for: the state at the end says the same.
    fn tell(&self, news: &mpsc::Sender<SinkNews>, item: SinkNews) {
        if let Err(error) = news.try_send(item) {
            tracing::debug!(sink = %self.url, %error, "news of a sink were not taken");
        }
    }

    pub fn state(&self) -> SinkState {
        let answers = self.answers.borrow().clone();
        let unsent = self.work().newest.0.saturating_sub(answers.position.0);
        let silent = answers.given_up && unsent > 0;
        let error = answers.trouble.or_else(|| silent.then(|| "no answer in time".to_owned()));
        SinkState { url: self.url.clone(), sent: answers.position.0, unsent, degraded: error.is_some(), error }
    }

    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::ids::Digest;

    fn events(range: std::ops::RangeInclusive<u64>) -> Vec<Stored> {
        let event = |seq| Stored { seq: Seq(seq), line: "x".repeat(99).into(), digest: Digest::genesis(), progress: true };
        range.map(event).collect()
    }

    fn numbers(taken: Option<Vec<Stored>>) -> Option<Vec<u64>> {
        taken.map(|events| events.iter().map(|event| event.seq.0).collect())
    }

    #[test]
    fn the_tail_is_taken_from_any_position_that_it_reaches() {
        let shared = Shared::new("test:".to_owned(), true);
        assert_eq!(numbers(shared.take_after(Seq(0), 1000)), Some(vec![]));
        shared.offer(&events(1..=5));
        assert_eq!(numbers(shared.take_after(Seq(0), 1000)), Some(vec![1, 2, 3, 4, 5]));
        // A lost answer: the same once more.
        assert_eq!(numbers(shared.take_after(Seq(0), 250)), Some(vec![1, 2]));
        assert_eq!(numbers(shared.take_after(Seq(2), 1)), Some(vec![3]));
        // What is behind the position is forgotten; going back to it needs the database.
        assert_eq!(numbers(shared.take_after(Seq(1), 1000)), None);
        assert_eq!(numbers(shared.take_after(Seq(5), 1000)), Some(vec![]));
        shared.offer(&events(6..=6));
        assert_eq!(numbers(shared.take_after(Seq(5), 1000)), Some(vec![6]));
    }

    #[test]
    fn a_tail_that_grows_too_long_is_given_up_whole() {
        for (events, bound) in
            [(events(1..=QUEUE_EVENTS as u64 + 1), "events"), (events(1..=(QUEUE_BYTES / 99) as u64 + 1), "bytes")]
        {
            let shared = Shared::new("test:".to_owned(), true);
            shared.offer(&events);
            assert_eq!(numbers(shared.take_after(Seq(0), usize::MAX)), None, "{bound}");
            assert_eq!(shared.work().newest.0, events.len() as u64);
            assert_eq!(shared.state().unsent, events.len() as u64);
        }
    }
}
