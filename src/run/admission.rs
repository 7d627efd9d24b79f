//! The slot of a run: waited for between its start on record and its first file, given back the moment no file runs any more.

use std::time::Duration;

use super::RunError;
use super::queue::{Look, Queue, party};
use super::session::Session;
use crate::core::event::{Body, Heartbeat, SlotHeld, SlotWaiting};
use crate::core::moment::{Moment, Secs};
use crate::core::slot::{PoolView, holders};
use crate::host::clock;
use crate::host::signals::Signal;
use crate::host::slots::Held;
use crate::settings::RunSettings;

/// The slot that a run has.
pub struct Slot {
    held: Held,
    pool: String,
    waited: Secs,
}

/// The queue of the pool that the settings name. To be asked before anything is on record: a pool that cannot be used ends the run with 2.
pub fn queue(settings: &RunSettings) -> Result<Option<Queue>, RunError> {
    let Some(pool) = &settings.pool else { return Ok(None) };
    let now = clock::now();
    let leg = &settings.identity.leg;
    let who = party(Some(leg.run_id.as_str().to_owned()), Some(leg.key()), now);
    Queue::open(pool, who, now).map(Some)
}

/// Waits for the slot. `None` where none is asked for, or where the run was cancelled or ran out of time first: then nothing was taken.
pub async fn enter(session: &mut Session, queue: Option<Queue>) -> Option<Slot> {
    let mut queue = queue?;
    let held = wait(session, &mut queue).await?;
    let waited = queue.waited(clock::now());
    let slot = Slot { held, pool: queue.pool_name().to_owned(), waited };
    session.console.say(format!("ledger: slot {} of pool '{}' is held after {waited}", slot.held.number(), slot.pool));
    let acquired = slot.event();
    session.record(vec![Body::SlotAcquired(acquired)]).await;
    Some(slot)
}

/// Gives the slot back first and puts it on record then: no flush and no sink comes between.
pub async fn leave(session: &mut Session, slot: Option<Slot>) {
    let Some(slot) = slot else { return };
    let released = slot.event();
    slot.held.release();
    session.record(vec![Body::SlotReleased(released)]).await;
}

impl Slot {
    fn event(&self) -> SlotHeld {
        SlotHeld { pool: self.pool.clone(), slot: self.held.number(), waited_s: self.waited }
    }
}

async fn wait(session: &mut Session, queue: &mut Queue) -> Option<Held> {
    let mut pause = Duration::ZERO;
    loop {
        rest(session, pause).await;
        let now = clock::now();
        session.observe(now).await;
        if session.state.must_stop() || budget_is_spent(session, now) {
            return None;
        }
        let look = queue.look(now);
        if let Some(news) = queue.news() {
            session.console.say(format!("ledger: warning: {news}"));
        }
        pause = match look {
            Look::Taken(held) => return Some(held),
            Look::Rest(pause) => pause,
            Look::Say(text, view, pause) => {
                session.console.say(format!("ledger: {text}"));
                if let Some(view) = view {
                    let waiting = session.redacted(Body::SlotWaiting(event(&view, queue.waited(now), now)));
                    session.record(vec![waiting]).await;
                }
                pause
            }
        };
    }
}

fn event(view: &PoolView, waited_s: Secs, now: Moment) -> SlotWaiting {
    SlotWaiting {
        pool: view.name.clone(),
        capacity: view.capacity,
        held: view.held(),
        quarantined: view.quarantined(),
        holders: holders(view, now.wall),
        waited_s,
    }
}

/// A slot that comes too late for any file is left to others.
fn budget_is_spent(session: &mut Session, now: Moment) -> bool {
    let needed = session.settings.reserve.saturating_add(session.settings.min_viable);
    let spent = session.remaining(now).is_some_and(|left| left < needed);
    if spent {
        session.state.budget_spent = true;
        session.console.say("ledger: the budget was spent while waiting for a slot; no file is run".to_owned());
    }
    spent
}

/// Lets this much time pass, or less if something happens. Signals of life go on to the sinks.
async fn rest(session: &mut Session, pause: Duration) {
    let until_beat = session.until_beat(clock::now()).duration();
    tokio::select! {
        biased;
        signal = session.signals.next() => match signal {
            Signal::End(signal) => session.cancelled(signal, None).await,
            Signal::Stop => session.stop_until_continued().await,
            Signal::Continue => {}
        },
        news = session.book.news() => session.sink_news(news).await,
        () = tokio::time::sleep(pause.min(until_beat)) => {}
    }
    let now = clock::now();
    if session.until_beat(now) == Secs::ZERO {
        session.beaten(now);
        let sample = session.sample();
        let beat = Heartbeat { file: None, elapsed_s: None, cap_s: None, sample, last_output: None, evidence: None };
        session.record(vec![Body::Heartbeat(Box::new(beat))]).await;
    }
}
