//! A waiter says so at once, then at most every 30 s.

use crate::core::moment::{Moment, Secs};

/// Often enough that nobody takes a wait for a hang, seldom enough for a log of a day (DESIGN §9).
const EVERY: Secs = Secs::from_secs(30);

/// When the last word was said.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pacing {
    last: Option<Moment>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Due {
    Now,
    Later,
}

impl Pacing {
    /// Whether it is time for a word; if so it counts as said.
    pub fn due(&mut self, now: Moment) -> Due {
        if self.last.is_some_and(|last| now.since(last) < EVERY) {
            return Due::Later;
        }
        self.last = Some(now);
        Due::Now
    }
}
