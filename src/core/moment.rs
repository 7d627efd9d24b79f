//! Time as a value. Three clocks are read together by `host::clock`; everything else receives them.

use std::fmt;

use chrono::{DateTime, NaiveDate, SecondsFormat, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One reading of the host's clocks.
///
/// `wall_ms` may step at any time and is for people only. `mono_ms` counts time in which the machine was awake; durations and caps
/// use it. `boot_ms` counts on through sleep; the difference of the two is how long the machine was suspended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    pub wall: Wall,
    pub mono_ms: u64,
    pub boot_ms: u64,
}

impl Moment {
    /// Awake time since `earlier`.
    pub fn since(self, earlier: Moment) -> Secs {
        Secs::from_millis(self.mono_ms.saturating_sub(earlier.mono_ms))
    }

    /// Time asleep since `earlier`, as the two steady clocks tell it. Below 50 ms it is reading noise and counts as none.
    pub fn slept_since(self, earlier: Moment) -> Secs {
        let through = self.boot_ms.saturating_sub(earlier.boot_ms);
        let awake = self.mono_ms.saturating_sub(earlier.mono_ms);
        let gap = through.saturating_sub(awake);
        Secs::from_millis(if gap < 50 { 0 } else { gap })
    }

    /// How far the wall clock stepped since `earlier`, in milliseconds, beyond the time that passed.
    pub fn wall_step_since(self, earlier: Moment) -> i64 {
        let wall = self.wall.0.saturating_sub(earlier.wall.0);
        let through = i64::try_from(self.boot_ms.saturating_sub(earlier.boot_ms)).unwrap_or(i64::MAX);
        wall.saturating_sub(through)
    }
}

/// A wall-clock time in milliseconds since 1970, written as RFC 3339 UTC with milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Wall(pub i64);

impl Wall {
    /// The same time, where RFC 3339 can say it: from the year 0 to the end of 9999.
    pub fn in_writing(self) -> Option<Self> {
        (-62_167_219_200_000..=253_402_300_799_999).contains(&self.0).then_some(self)
    }

    /// Reads RFC 3339 in any of its forms.
    pub fn parse(text: &str) -> Option<Self> {
        Self::parse_usual(text.as_bytes()).or_else(|| Self::parse_any(text))
    }

    /// The form that is written here and by most: `2026-07-04T23:56:03.148Z`. A report reads ten thousand of these in a few milliseconds.
    fn parse_usual(text: &[u8]) -> Option<Self> {
        let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':'), (19, b'.'), (23, b'Z')];
        if text.len() != 24 || marks.iter().any(|(at, mark)| text[*at] != *mark) {
            return None;
        }
        let number = |from: usize, to: usize| {
            let digits = &text[from..to];
            let all = digits.iter().all(u8::is_ascii_digit);
            all.then(|| digits.iter().fold(0u32, |number, digit| number * 10 + u32::from(digit - b'0')))
        };
        let date = NaiveDate::from_ymd_opt(i32::try_from(number(0, 4)?).ok()?, number(5, 7)?, number(8, 10)?)?;
        let time = date.and_hms_milli_opt(number(11, 13)?, number(14, 16)?, number(17, 19)?, number(20, 23)?)?;
        Some(Self(time.and_utc().timestamp_millis()))
    }

    fn parse_any(text: &str) -> Option<Self> {
        let parsed = DateTime::parse_from_rfc3339(text).ok()?;
        Some(Self(parsed.timestamp_millis()))
    }

    pub fn plus(self, seconds: Secs) -> Self {
        Self(self.0.saturating_add(i64::try_from(seconds.millis()).unwrap_or(i64::MAX)))
    }

    /// Seconds from `earlier` to here; none when the clock went backwards.
    pub fn since(self, earlier: Wall) -> Secs {
        Secs::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl fmt::Display for Wall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match DateTime::<Utc>::from_timestamp_millis(self.0) {
            Some(time) => f.write_str(&time.to_rfc3339_opts(SecondsFormat::Millis, true)),
            None => write!(f, "{} ms", self.0),
        }
    }
}

impl Serialize for Wall {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Wall {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| {
            let shown: String = text.chars().take(40).collect();
            serde::de::Error::custom(format!("'{shown}' is not an RFC 3339 time"))
        })
    }
}

impl JsonSchema for Wall {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Time".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "format": "date-time" })
    }
}

/// A span of time, exact to the millisecond, written as a JSON number of seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Secs(u64);

impl Secs {
    pub const ZERO: Secs = Secs(0);

    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1000))
    }

    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// `None` for NaN, infinities, negative values and more than a hundred years.
    pub fn from_f64(seconds: f64) -> Option<Self> {
        let in_range = seconds.is_finite() && (0.0..=3.2e9).contains(&seconds);
        in_range.then(|| Self((seconds * 1000.0).round() as u64))
    }

    pub const fn millis(self) -> u64 {
        self.0
    }

    pub fn as_f64(self) -> f64 {
        self.0 as f64 / 1000.0
    }

    pub const fn saturating_sub(self, other: Secs) -> Secs {
        Secs(self.0.saturating_sub(other.0))
    }

    pub const fn saturating_add(self, other: Secs) -> Secs {
        Secs(self.0.saturating_add(other.0))
    }

    pub fn duration(self) -> std::time::Duration {
        std::time::Duration::from_millis(self.0)
    }
}

impl fmt::Display for Secs {
    /// For people: `850 ms`, `33.4 s`, `5m20s`, `1h30m`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0 / 1000;
        match self.0 {
            0..1000 => write!(f, "{} ms", self.0),
            1000..60_000 if self.0.is_multiple_of(1000) => write!(f, "{seconds} s"),
            1000..60_000 => write!(f, "{:.1} s", self.as_f64()),
            60_000..3_600_000 => write!(f, "{}m{:02}s", seconds / 60, seconds % 60),
            _ => write!(f, "{}h{:02}m", seconds / 3600, seconds % 3600 / 60),
        }
    }
}

impl Serialize for Secs {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.is_multiple_of(1000) { serializer.serialize_u64(self.0 / 1000) } else { serializer.serialize_f64(self.as_f64()) }
    }
}

impl<'de> Deserialize<'de> for Secs {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let seconds = f64::deserialize(deserializer)?;
        Self::from_f64(seconds).ok_or_else(|| serde::de::Error::custom(format!("{seconds} is not a span in seconds")))
    }
}

impl JsonSchema for Secs {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Seconds".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "number", "minimum": 0 })
    }
}

/// Reads a duration as a person writes it: a bare number is seconds, else `90s`, `5m`, `1h30m`.
pub fn parse_duration(text: &str) -> Option<Secs> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return Secs::from_f64(seconds);
    }
    let parsed = humantime::parse_duration(text).ok()?;
    Secs::from_f64(parsed.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_can_be_written_ends_with_the_year_9999() {
        for (ms, text) in [(-62_167_219_200_000, "0000-01-01T00:00:00.000Z"), (253_402_300_799_999, "9999-12-31T23:59:59.999Z")] {
            assert_eq!(Wall(ms).in_writing().expect("it is there").to_string(), text);
        }
        for ms in [i64::MIN, -62_167_219_200_001, 253_402_300_800_000, i64::MAX] {
            assert_eq!(Wall(ms).in_writing(), None, "{ms}");
        }
    }

    proptest! {
        #[test]
        fn the_short_way_reads_what_the_long_way_reads(ms in -62_135_596_800_000i64..253_402_300_800_000, at in 0usize..24, with in "[0-9:TZ. -]") {
            let text = Wall(ms).to_string();
            prop_assert_eq!(Wall::parse(&text), Some(Wall(ms)));
            let mut damaged = text.clone().into_bytes();
            if damaged.len() == 24 {
                damaged[at] = with.as_bytes()[0];
            }
            let damaged = String::from_utf8_lossy(&damaged).into_owned();
            if let Some(short) = Wall::parse_usual(damaged.as_bytes()) {
                prop_assert_eq!(Wall::parse_any(&damaged), Some(short));
            }
        }
    }
}
