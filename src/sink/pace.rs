//! A budget of writes: so many at once, and one more with each interval.

use std::time::Duration;

use tokio::time::Instant;

use super::Capabilities;

/// How far writes are ahead of the interval. The moment at which a budget would be whole again says it all.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pace {
    whole_at: Option<Instant>,
    last_answer: Option<Instant>,
}

/// What there is to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moves {
    /// A boundary: the leg has moved on.
    On,
    /// A sign of life.
    Not,
}

impl Moves {
    pub fn of(progress: bool) -> Self {
        if progress { Moves::On } else { Moves::Not }
    }
}

impl Pace {
    /// When the next write may go. A boundary goes ahead of the interval while there is room for it; everything else keeps to it.
    pub fn next_write(&self, capabilities: &Capabilities, moves: Moves, now: Instant) -> Instant {
        let interval = capabilities.interval.duration();
        let ahead = interval * capabilities.burst;
        let room = self.whole_at.and_then(|whole_at| whole_at.checked_sub(ahead)).map_or(now, |room| room.max(now));
        match moves {
            Moves::On => room,
            Moves::Not => self.last_answer.map_or(now, |last| last + interval).max(room),
        }
    }

    pub fn spend(&mut self, capabilities: &Capabilities, now: Instant) {
        let interval = capabilities.interval.duration();
        if interval > Duration::ZERO {
            self.whole_at = Some(self.whole_at.map_or(now, |whole_at| whole_at.max(now)) + interval);
        }
    }

    pub fn answered(&mut self, now: Instant) {
        self.last_answer = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::moment::Secs;
    use crate::sink::Takes;

    fn github(legs: u32) -> Capabilities {
        let interval = Secs::from_secs(12 * u64::from(legs));
        Capabilities { takes: Takes::MarkerOnly, marker_bytes: 1, interval, burst: (200 / legs).clamp(1, 40) }
    }

    #[test]
    fn an_hour_holds_the_burst_and_one_write_for_each_interval() {
        for legs in [1, 2, 15, 60, 250] {
            let capabilities = github(legs);
            let begin = Instant::now();
            let (mut pace, mut now, mut writes) = (Pace::default(), begin, 0);
            while now < begin + Duration::from_secs(3600) {
                now = pace.next_write(&capabilities, Moves::On, now);
                pace.spend(&capabilities, now);
                writes += 1;
            }
            let most = capabilities.burst + 300 / legs + 2;
            assert!(writes <= most, "{writes} writes of {most} at {legs} legs");
        }
    }

    /// A leg of 12 files in 30 minutes with a heartbeat every 30 s, second by second: what the whole run writes in its hour.
    #[test]
    fn a_run_of_short_legs_stays_inside_the_hour_of_a_repository() {
        for (legs, most_waits) in [(1, 0), (15, 0), (60, 720)] {
            let capabilities = github(legs);
            let begin = Instant::now();
            let (mut pace, mut writes, mut waiting, mut longest) = (Pace::default(), 0, None::<(u64, Moves)>, 0);
            for second in 0..=1800u64 {
                let now = begin + Duration::from_secs(second);
                let event = match second {
                    _ if second % 150 == 0 => Some(Moves::On),
                    _ if second % 30 == 0 => Some(Moves::Not),
                    _ => None,
                };
                waiting = match (waiting, event) {
                    (Some((since, Moves::On)), _) => Some((since, Moves::On)),
                    (_, Some(moves)) => Some((second, moves)),
                    (waiting, None) => waiting,
                };
                if let Some((since, moves)) = waiting
                    && pace.next_write(&capabilities, moves, now) <= now
                {
                    pace.spend(&capabilities, now);
                    pace.answered(now);
                    writes += 1;
                    waiting = None;
                    longest = longest.max(if moves == Moves::On { second - since } else { 0 });
                }
            }
            // Finding the check run, and the two last words at the end, which nothing holds back.
            let requests = writes + 3;
            eprintln!("{legs} legs: {requests} requests per leg, {} in all, a boundary waits at most {longest} s", requests * legs);
            assert!(requests * legs <= 1000, "{requests} requests per leg at {legs} legs");
            assert!(longest <= most_waits, "a boundary waits {longest} s at {legs} legs");
        }
    }
}
