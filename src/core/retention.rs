//! Which ledgers of a folder are kept: a decision over ages and sizes, made without touching a file.

use std::str::FromStr;

use super::moment::{Secs, Wall, parse_duration};

/// One bound. A ledger is kept while it is inside every bound that is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// The newest so many legs.
    Newest(usize),
    /// What began at most this long ago.
    Younger(Secs),
    /// The newest legs that fit into so many bytes, logs included.
    Bytes(u64),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' says not what to keep: write a number of legs (200), an age (90d) or a size (2GiB)")]
pub struct KeepError(pub String);

impl FromStr for Keep {
    type Err = KeepError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || KeepError(text.chars().take(40).collect());
        if let Ok(count) = text.parse() {
            return Ok(Keep::Newest(count));
        }
        for (unit, factor) in [("KiB", 1_u64 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)] {
            if let Some(number) = text.strip_suffix(unit) {
                let number: u64 = number.trim().parse().map_err(|_| wrong())?;
                return number.checked_mul(factor).map(Keep::Bytes).ok_or_else(wrong);
            }
        }
        parse_duration(text).map(Keep::Younger).ok_or_else(wrong)
    }
}

/// What suits a laptop: a season of history for caps, and no more disk than nobody notices.
pub const DEFAULT: [Keep; 3] = [Keep::Newest(500), Keep::Younger(Secs::from_secs(90 * 86_400)), Keep::Bytes(2 << 30)];

/// A ledger as retention sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    pub began: Wall,
    pub bytes: u64,
}

/// For ledgers that come newest first: whether each is kept. The newest is kept whatever the bounds say.
pub fn decide(ledgers: &[Kept], bounds: &[Keep], now: Wall) -> Vec<bool> {
    let mut bytes = 0_u64;
    let mut decided = Vec::with_capacity(ledgers.len());
    for (position, ledger) in ledgers.iter().enumerate() {
        bytes = bytes.saturating_add(ledger.bytes);
        let inside = |bound: &Keep| match bound {
            Keep::Newest(count) => position < *count,
            Keep::Younger(age) => now.since(ledger.began) <= *age,
            Keep::Bytes(room) => bytes <= *room,
        };
        decided.push(position == 0 || bounds.iter().all(inside));
    }
    decided
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_a_number_an_age_or_a_size() {
        let table = [
            ("200", Ok(Keep::Newest(200))),
            ("90d", Ok(Keep::Younger(Secs::from_secs(90 * 86_400)))),
            ("2GiB", Ok(Keep::Bytes(2 << 30))),
            ("0", Ok(Keep::Newest(0))),
            ("2GB", Err(KeepError("2GB".into()))),
            ("", Err(KeepError(String::new()))),
            ("99999999999TiB", Err(KeepError("99999999999TiB".into()))),
        ];
        for (text, expect) in table {
            assert_eq!(text.parse(), expect, "{text}");
        }
    }

    #[test]
    fn a_ledger_is_kept_inside_every_bound_and_the_newest_always() {
        let day = 86_400_000;
        let ledgers: Vec<Kept> = (0..5).map(|age| Kept { began: Wall(-age * day), bytes: 100 }).collect();
        let table: Vec<(Vec<Keep>, usize)> = vec![
            (vec![], 5),
            (vec![Keep::Newest(2)], 2),
            (vec![Keep::Newest(0)], 1),
            (vec![Keep::Younger(Secs::from_secs(86_400))], 2),
            (vec![Keep::Bytes(350)], 3),
            (vec![Keep::Bytes(1)], 1),
            (vec![Keep::Newest(4), Keep::Bytes(200)], 2),
        ];
        for (bounds, kept) in table {
            let decided = decide(&ledgers, &bounds, Wall(0));
            assert_eq!(decided.iter().filter(|keep| **keep).count(), kept, "{bounds:?}");
        }
    }
}
