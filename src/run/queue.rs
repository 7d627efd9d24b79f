//! Waiting for a slot, as both `ledger run` and `ledger pool run` do it: when to look, what to say, when to say it.

use std::time::Duration;

use super::RunError;
use crate::core::moment::{Moment, Secs};
use crate::core::slot::{Due, Pacing, Party, PoolView, mended, waiting};
use crate::host::identity;
use crate::host::slots::{Attempt, Claim, Held, Pools, Waiting};
use crate::settings::PoolSettings;

/// How soon the first waiter notices a slot that fell free. A look costs well under a millisecond.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// A look of somebody else's is over by then.
const GATE_AGAIN: Duration = Duration::from_millis(3);
/// A gate that is busy for longer is held by a process that stands still in the middle of a look.
const GATE_STUCK: Secs = Secs::from_secs(5);
/// A folder that cannot be used now may be usable later.
const FAILED_AGAIN: Duration = Duration::from_secs(1);

pub struct Queue {
    waiting: Waiting,
    pacing: Pacing,
    began: Moment,
    busy_since: Option<Moment>,
    states_capacity: bool,
}

/// What came of a look.
pub enum Look {
    Taken(Held),
    /// Look again after this.
    Rest(Duration),
    /// As `Rest`, and people are to be told. The pool is there where it could be read.
    Say(String, Option<PoolView>, Duration),
}

impl Queue {
    /// Fails where the pool's folder cannot be used: nothing has run then.
    pub fn open(settings: &PoolSettings, party: Party, now: Moment) -> Result<Self, RunError> {
        let pool = Pools::at(settings.folder.clone()).open(&settings.name, settings.slots)?;
        let waiting = Waiting::new(pool, Claim { party, capacity: settings.slots });
        let states_capacity = settings.slots.is_some();
        Ok(Self { waiting, pacing: Pacing::default(), began: now, busy_since: None, states_capacity })
    }

    pub fn pool_name(&self) -> &str {
        self.waiting.pool().name()
    }

    pub fn waited(&self, now: Moment) -> Secs {
        now.since(self.began)
    }

    /// What happened to the pool's record on the way, once.
    pub fn news(&mut self) -> Option<String> {
        let capacity = self.waiting.take_mended()?;
        Some(mended(self.pool_name(), capacity, self.states_capacity))
    }

    pub fn look(&mut self, now: Moment) -> Look {
        match self.waiting.attempt(now) {
            Ok(Attempt::Taken(held)) => Look::Taken(held),
            Ok(Attempt::Wait(view)) => {
                self.busy_since = None;
                match self.pacing.due(now) {
                    Due::Now => {
                        Look::Say(waiting(&view, self.waiting.ticket(), self.waited(now), now.wall), Some(view), LOOK_EVERY)
                    }
                    Due::Later => Look::Rest(LOOK_EVERY),
                }
            }
            Ok(Attempt::GateBusy) => {
                let busy = now.since(*self.busy_since.get_or_insert(now));
                if busy < GATE_STUCK {
                    return Look::Rest(GATE_AGAIN);
                }
                let text =
                    format!("the gate of pool '{}' has been held for {busy} by a process that stands still", self.pool_name());
                self.say_if_due(now, text, LOOK_EVERY)
            }
            Err(error) => self.say_if_due(now, error.to_string(), FAILED_AGAIN),
        }
    }

    fn say_if_due(&mut self, now: Moment, text: String, rest: Duration) -> Look {
        match self.pacing.due(now) {
            Due::Now => Look::Say(text, None, rest),
            Due::Later => Look::Rest(rest),
        }
    }
}

/// This process, as others are shown it.
pub fn party(run_id: Option<String>, leg: Option<String>, now: Moment) -> Party {
    Party { id: identity::own_id(), run_id, leg, since: now.wall }
}
