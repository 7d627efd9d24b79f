//! How long silence is normal.

use super::moment::Secs;

/// No lease is shorter: a scheduler hiccup is no loss.
const SHORTEST: Secs = Secs::from_secs(10);

/// The lease of a marker that is written every `interval`.
pub fn lease_for(interval: Secs) -> Secs {
    let thrice = Secs::from_millis(interval.millis().saturating_mul(3));
    if thrice > SHORTEST { thrice } else { SHORTEST }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Lease {
    Good { left: Secs },
    Lapsed { silent: Secs },
}

/// `age` is the marker's age by the clock of the sink that holds it.
pub fn judge(lease: Secs, age: Secs) -> Lease {
    if age <= lease { Lease::Good { left: lease.saturating_sub(age) } } else { Lease::Lapsed { silent: age } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_three_intervals_and_at_least_ten_seconds() {
        for (interval_ms, lease_ms) in [(0, 10_000), (1_000, 10_000), (3_333, 10_000), (3_334, 10_002), (30_000, 90_000)] {
            assert_eq!(lease_for(Secs::from_millis(interval_ms)).millis(), lease_ms, "interval {interval_ms} ms");
        }
    }

    #[test]
    fn the_last_millisecond_of_a_lease_is_still_good() {
        let lease = Secs::from_secs(90);
        assert_eq!(judge(lease, Secs::from_millis(90_000)), Lease::Good { left: Secs::ZERO });
        assert_eq!(judge(lease, Secs::from_millis(90_001)), Lease::Lapsed { silent: Secs::from_millis(90_001) });
    }
}
