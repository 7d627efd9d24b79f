//! A budget of writes: so many at once, and one more with each interval.

use std::time::Duration;

use tokio::time::Instant;

use super::Capabilities;

/// How far writes are ahead of the interval. The moment at which a budget would be whole again says it all.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pace {
    whole_at: Option<Instant>,
}

impl Pace {
    /// When there is room for one write more.
    pub fn room(&self, capabilities: &Capabilities, now: Instant) -> Instant {
        let ahead = capabilities.interval.duration() * capabilities.burst;
        match self.whole_at {
            Some(whole_at) => whole_at.checked_sub(ahead).map_or(now, |room| room.max(now)),
            None => now,
        }
    }

    pub fn spend(&mut self, capabilities: &Capabilities, now: Instant) {
        let interval = capabilities.interval.duration();
        if interval > Duration::ZERO {
            self.whole_at = Some(self.whole_at.map_or(now, |whole_at| whole_at.max(now)) + interval);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::moment::Secs;
    use crate::sink::Takes;

    #[test]
    fn an_hour_holds_the_burst_and_one_write_for_each_interval() {
        for (legs, burst) in [(1u64, 40u32), (15, 13), (60, 3)] {
            let capabilities =
                Capabilities { takes: Takes::MarkerOnly, marker_bytes: 1, interval: Secs::from_secs(12 * legs), burst };
            let begin = Instant::now();
            let (mut pace, mut now, mut writes) = (Pace::default(), begin, 0u64);
            while now < begin + Duration::from_secs(3600) {
                now = pace.room(&capabilities, now);
                pace.spend(&capabilities, now);
                writes += 1;
            }
            let most = u64::from(burst) + 300 / legs + 2;
            assert!(writes <= most && legs * most <= 600, "{writes} writes of {most} at {legs} legs");
        }
    }
}
