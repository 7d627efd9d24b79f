//! The lines that public projects keep as `ci-data`, and the timing files beside them: parsed and written, one line at a time.
//!
//! Everything here comes from outside and is untrusted: a line is bounded in length and depth, a word that is not known is kept,
//! a key that is not known is skipped, a key that stands twice counts with its last value. A line that cannot be read costs that
//! line; the caller counts it. Nothing in here opens a file.

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::legline::LegLine;
use super::moment::{Secs, Wall};
use super::outcome::{Outcome, Status};

/// The longest line that is read. Real ones are below 1 KiB; the bound keeps a hostile one from taking memory.
pub const MAX_LINE_BYTES: usize = 1 << 20;

/// The longest text that is kept of one field: a file name has at most 4 KiB on the systems we know.
const MAX_TEXT_BYTES: usize = 4096;

/// One line of ci-data.
#[derive(Debug, Clone, PartialEq)]
pub enum Line<'a> {
    Boot(Boot<'a>),
    TestFile(TestFile<'a>),
    Suite(Suite<'a>),
    /// Ledger's own word on a leg.
    Leg(Box<LegLine>),
    /// A planned file that left no record: ledger's own, too.
    Missing(Missing<'a>),
    /// A kind that is not known here; it is data of somebody else and no error.
    Other(Cow<'a, str>),
}

/// What every line says about its leg.
#[derive(Debug, Clone, PartialEq)]
pub struct Origin<'a> {
    pub ts: Wall,
    pub run_id: Cow<'a, str>,
    pub platform: Cow<'a, str>,
    pub sha: Option<Cow<'a, str>>,
    pub host: Option<Cow<'a, str>>,
    /// Of every line of a leg that ledger tells whole, and of `suite` records.
    pub target: Option<Cow<'a, str>>,
    /// Of lines that ledger wrote for a leg which the public shape cannot tell whole.
    pub attempt: Option<Cow<'a, str>>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Missing<'a> {
    pub origin: Origin<'a>,
    pub file: Cow<'a, str>,
    pub file_b64: Option<Cow<'a, str>>,
    pub round: Option<u32>,
    /// It had begun.
    pub began: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Boot<'a> {
    pub origin: Origin<'a>,
    pub name: Option<Cow<'a, str>>,
    pub version: Option<Cow<'a, str>>,
    pub arch: Option<Cow<'a, str>>,
    pub accel: Option<Cow<'a, str>>,
    pub boot_ms: Option<f64>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct TestFile<'a> {
    pub origin: Origin<'a>,
    pub file: Cow<'a, str>,
    /// `None` where the line has none or no sensible one: the row stands, the time does not count.
    pub duration: Option<Secs>,
    /// The word as written; [`TestFile::status`] reads it.
    pub status_word: Cow<'a, str>,
    pub outcome_word: Option<Cow<'a, str>>,
    /// The raw name, where it is no UTF-8.
    pub file_b64: Option<Cow<'a, str>>,
    pub round: Option<u32>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Suite<'a> {
    pub origin: Origin<'a>,
    pub scope: Cow<'a, str>,
    pub conclusion: Cow<'a, str>,
    /// The version that the target came to.
    pub resolved: Option<Cow<'a, str>>,
    pub files: Option<u32>,
    pub failed: Option<u32>,
}

/// Why a line was not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadLine {
    #[error("the line has more than {MAX_LINE_BYTES} bytes")]
    TooLong,
    #[error("not a JSON object of a known shape: {0}")]
    Json(String),
    #[error("a '{kind}' line without a usable '{field}'")]
    Missing { kind: String, field: &'static str },
}

impl TestFile<'_> {
    /// A word that is not known is a fail, never dropped.
    pub fn status(&self) -> Status {
        if self.status_word == "pass" { self.outcome().status() } else { Status::Fail }
    }

    /// The outcome as written; where only the two-value status is kept, what that status can vouch for. An outcome `pass` beside
    /// a status that is no pass is no pass.
    pub fn outcome(&self) -> Outcome {
        match (self.outcome_word.as_deref(), self.status_word.as_ref()) {
            (Some("pass") | None, "pass") => Outcome::Pass,
            (Some("pass") | None, "fail") => Outcome::TestFailure,
            (Some("pass") | None, word) => Outcome::parse(word),
            (Some(word), _) => Outcome::parse(word),
        }
    }
}

/// Reads one line, without its line feed. `None` for a line that holds nothing but space.
pub fn parse_line(line: &[u8]) -> Result<Option<Line<'_>>, BadLine> {
    if line.len() > MAX_LINE_BYTES {
        return Err(BadLine::TooLong);
    }
    // Looked at once as a whole, so that the reader need not look at every text in it again.
    let line = str::from_utf8(line).map_err(|error| BadLine::Json(error.to_string()))?.trim_ascii();
    if line.is_empty() {
        return Ok(None);
    }
    let fields: Fields<'_> = serde_json::from_str(line).map_err(|error| BadLine::Json(clip(&error.to_string(), 200)))?;
    if fields.kind.as_deref() == Some(LEG) {
        let told: LegLine = serde_json::from_str(line).map_err(|error| BadLine::Json(clip(&error.to_string(), 200)))?;
        return Ok(Some(Line::Leg(Box::new(told.bounded()))));
    }
    fields.into_line().map(Some)
}

/// The kinds of ledger's own lines.
const LEG: &str = "leg";
const MISSING: &str = "missing-file";

/// The fields of all kinds in one flat set.
#[derive(Debug, Default)]
struct Fields<'a> {
    kind: Option<Cow<'a, str>>,
    ts: Option<Cow<'a, str>>,
    run_id: Option<Cow<'a, str>>,
    sha: Option<Cow<'a, str>>,
    platform: Option<Cow<'a, str>>,
    host: Option<Cow<'a, str>>,
    name: Option<Cow<'a, str>>,
    version: Option<Cow<'a, str>>,
    arch: Option<Cow<'a, str>>,
    accel: Option<Cow<'a, str>>,
    boot_ms: Option<f64>,
    file: Option<Cow<'a, str>>,
    duration_s: Option<f64>,
    status: Option<Cow<'a, str>>,
    outcome: Option<Cow<'a, str>>,
    scope: Option<Cow<'a, str>>,
    conclusion: Option<Cow<'a, str>>,
    target: Option<Cow<'a, str>>,
    files: Option<f64>,
    failed: Option<f64>,
    attempt: Option<Cow<'a, str>>,
    resolved: Option<Cow<'a, str>>,
    file_b64: Option<Cow<'a, str>>,
    round: Option<f64>,
}

impl<'a> Fields<'a> {
    fn set(&mut self, key: &str, value: Scalar<'a>) {
        match key {
            "kind" => self.kind = value.text(),
            "ts" => self.ts = value.text(),
            "run_id" => self.run_id = value.text(),
            "sha" => self.sha = value.text(),
            "platform" => self.platform = value.text(),
            "host" => self.host = value.text(),
            "name" => self.name = value.text(),
            "version" => self.version = value.text(),
            "arch" => self.arch = value.text(),
            "accel" => self.accel = value.text(),
            "boot_ms" => self.boot_ms = value.number(),
            "file" => self.file = value.text(),
            "duration_s" => self.duration_s = value.number(),
            "status" => self.status = value.text(),
            "outcome" => self.outcome = value.text(),
            "scope" => self.scope = value.text(),
            "conclusion" => self.conclusion = value.text(),
            "target" => self.target = value.text(),
            "files" => self.files = value.number(),
            "failed" => self.failed = value.number(),
            "attempt" => self.attempt = value.text(),
            "resolved" => self.resolved = value.text(),
            "file_b64" => self.file_b64 = value.text(),
            "round" => self.round = value.number(),
            _ => {}
        }
    }

    fn into_line(self) -> Result<Line<'a>, BadLine> {
        let kind = self.kind.ok_or(BadLine::Missing { kind: String::new(), field: "kind" })?;
        if !matches!(kind.as_ref(), "boot" | "test-file" | "suite" | MISSING) {
            return Ok(Line::Other(kind));
        }
        let missing = |field| BadLine::Missing { kind: kind.clone().into_owned(), field };
        let origin = Origin {
            ts: self.ts.as_deref().and_then(Wall::parse).ok_or_else(|| missing("ts"))?,
            run_id: self.run_id.ok_or_else(|| missing("run_id"))?,
            platform: self.platform.ok_or_else(|| missing("platform"))?,
            sha: self.sha,
            host: self.host,
            target: self.target.filter(|target| !target.is_empty()),
            attempt: self.attempt.filter(|attempt| !attempt.is_empty()),
        };
        let round = self.round.and_then(count);
        Ok(match kind.as_ref() {
            "boot" => Line::Boot(Boot {
                origin,
                name: self.name,
                version: self.version,
                arch: self.arch,
                accel: self.accel,
                boot_ms: self.boot_ms,
            }),
            "test-file" => Line::TestFile(TestFile {
                origin,
                file: self.file.filter(|file| !file.is_empty()).ok_or_else(|| missing("file"))?,
                duration: self.duration_s.and_then(Secs::from_f64),
                status_word: self.status.ok_or_else(|| missing("status"))?,
                outcome_word: self.outcome,
                file_b64: self.file_b64,
                round,
            }),
            MISSING => Line::Missing(Missing {
                origin,
                file: self.file.filter(|file| !file.is_empty()).ok_or_else(|| missing("file"))?,
                file_b64: self.file_b64,
                round,
                began: self.outcome.is_none(),
            }),
            _ => Line::Suite(Suite {
                origin,
                scope: self.scope.ok_or_else(|| missing("scope"))?,
                conclusion: self.conclusion.ok_or_else(|| missing("conclusion"))?,
                resolved: self.resolved.filter(|resolved| !resolved.is_empty()),
                files: self.files.and_then(count),
                failed: self.failed.and_then(count),
            }),
        })
    }
}

fn count(number: f64) -> Option<u32> {
    (number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number)).then_some(number as u32)
}

fn clip(text: &str, bytes: usize) -> String {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Fields::default();
                while let Some(Scalar::Text(key)) = map.next_key::<Scalar<'de>>()? {
                    fields.set(&key, map.next_value()?);
                }
                Ok(fields)
            }
        }
        deserializer.deserialize_map(Object)
    }
}

/// The value of one field. Lists and objects are walked, because that is what bounds their depth, and then dropped.
enum Scalar<'a> {
    Text(Cow<'a, str>),
    Number(f64),
    /// A whole number, kept exact: a run id written without quotes is still a name.
    Whole(u64),
    Nothing,
}

impl<'a> Scalar<'a> {
    fn text(self) -> Option<Cow<'a, str>> {
        match self {
            Scalar::Text(text) => Some(text),
            Scalar::Whole(number) => Some(Cow::Owned(number.to_string())),
            Scalar::Number(_) | Scalar::Nothing => None,
        }
    }

    fn number(self) -> Option<f64> {
        match self {
            Scalar::Number(number) => Some(number),
            Scalar::Whole(number) => Some(number as f64),
            Scalar::Text(_) | Scalar::Nothing => None,
        }
    }
}

impl<'de> Deserialize<'de> for Scalar<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Scalar<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                if text.len() > MAX_TEXT_BYTES {
                    return Ok(Scalar::Text(Cow::Owned(clip(text, MAX_TEXT_BYTES))));
                }
                Ok(Scalar::Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Scalar::Text(Cow::Owned(clip(text, MAX_TEXT_BYTES))))
            }

            fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
                Ok(Scalar::Number(number))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
                Ok(Scalar::Whole(number))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
                Ok(Scalar::Number(number as f64))
            }

            fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
                Ok(Scalar::Nothing)
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Scalar::Nothing)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                while list.next_element::<Scalar<'de>>()?.is_some() {}
                Ok(Scalar::Nothing)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                while map.next_key::<IgnoredAny>()?.is_some() {
                    map.next_value::<Scalar<'de>>()?;
                }
                Ok(Scalar::Nothing)
            }
        }
        deserializer.deserialize_any(Any)
    }
}

/// A line as it is written: the same keys in the same order as public projects write them.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum WrittenLine<'a> {
    TestFile {
        #[serde(flatten)]
        file: FileOfLeg<'a>,
        duration_s: Option<Secs>,
        status: Status,
        outcome: &'a str,
        #[serde(flatten)]
        apart: Apart<'a>,
    },
    /// `outcome` is `not-run`, or `null` for a file that had begun.
    MissingFile {
        #[serde(flatten)]
        file: FileOfLeg<'a>,
        outcome: Option<&'a str>,
        #[serde(flatten)]
        apart: Apart<'a>,
    },
    Leg(&'a LegLine),
    Suite {
        ts: Wall,
        run_id: &'a str,
        sha: &'a str,
        platform: &'a str,
        host: &'a str,
        scope: &'a str,
        conclusion: &'a str,
        target: &'a str,
        files: u32,
        failed: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        resolved: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        attempt: Option<&'a str>,
    },
}

/// What each line of a file begins with.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct FileOfLeg<'a> {
    pub ts: Wall,
    pub run_id: &'a str,
    pub sha: &'a str,
    pub platform: &'a str,
    pub host: &'a str,
    pub file: &'a str,
}

/// What tells it from others, where the public shape does not; each line of a file ends with it.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Apart<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_b64: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round: Option<u32>,
    #[serde(flatten)]
    pub tag: Option<Tag<'a>>,
}

/// Which leg a line belongs to, where run and platform do not say it.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Tag<'a> {
    pub target: &'a str,
    pub attempt: &'a str,
}

/// One record of a timing file.
#[derive(Debug, Clone, PartialEq)]
pub struct Timing {
    pub file: String,
    pub duration: Secs,
    pub outcome: Outcome,
}

/// Reads `<file> <n>s <outcome>`. The file may hold spaces, so the two last words are taken from the end. `Ok(None)` for an empty
/// line and for a comment that starts with `#`.
pub fn parse_timing(line: &str) -> Result<Option<Timing>, BadLine> {
    if line.len() > MAX_LINE_BYTES {
        return Err(BadLine::TooLong);
    }
    let line = line.trim();
    if line.is_empty() || line.starts_with("# ") || line == "#" {
        return Ok(None);
    }
    let missing = |field| BadLine::Missing { kind: "timing".to_owned(), field };
    let (rest, outcome) = line.rsplit_once(char::is_whitespace).ok_or_else(|| missing("outcome"))?;
    let (file, seconds) = rest.trim_end().rsplit_once(char::is_whitespace).ok_or_else(|| missing("duration"))?;
    let seconds = seconds.strip_suffix('s').ok_or_else(|| missing("duration"))?;
    let seconds = seconds.parse().ok().and_then(Secs::from_f64).ok_or_else(|| missing("duration"))?;
    let outcome = if outcome == "fail" { Outcome::TestFailure } else { Outcome::parse(outcome) };
    Ok(Some(Timing { file: clip(file.trim_end(), MAX_TEXT_BYTES), duration: seconds, outcome }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FILE: &str = r#"{"kind":"test-file","ts":"2026-07-04T23:56:03.148Z","run_id":"1","sha":"s","platform":"linux-x86","host":"linux","file":"a.test.ts","duration_s":49,"status":"pass"}"#;

    fn file(line: &str) -> TestFile<'_> {
        match parse_line(line.as_bytes()) {
            Ok(Some(Line::TestFile(file))) => file,
            other => panic!("no test-file line: {other:?}"),
        }
    }

    #[test]
    fn a_line_of_each_kind_is_read() {
        let read = file(FILE);
        assert_eq!((read.file.as_ref(), read.duration, read.status()), ("a.test.ts", Some(Secs::from_secs(49)), Status::Pass));
        assert_eq!(read.origin.ts.to_string(), "2026-07-04T23:56:03.148Z");
        let suite = br#"{"kind":"suite","ts":"2026-07-04T23:56:03.148Z","run_id":7,"platform":"p","scope":"full","conclusion":"pass","target":"stable","files":12,"failed":0}"#;
        let Ok(Some(Line::Suite(suite))) = parse_line(suite) else { panic!("no suite") };
        assert_eq!((suite.origin.run_id.as_ref(), suite.files, suite.origin.target.as_deref()), ("7", Some(12), Some("stable")));
        assert_eq!(parse_line(br#"{"kind":"weather"}"#), Ok(Some(Line::Other("weather".into()))));
        assert_eq!(parse_line(b"  \r"), Ok(None));
    }

    #[test]
    fn words_and_keys_from_outside_are_data() {
        let line = FILE.replace(r#""status":"pass""#, r#""status":"fail","__proto__":{"a":[1]},"constructor":1,"status":"pass""#);
        assert_eq!(file(&line).status(), Status::Pass, "the last of two equal keys counts");
        for (status, outcome, expect) in [
            ("pass", None, Outcome::Pass),
            ("fail", None, Outcome::TestFailure),
            ("flaky", None, Outcome::Other("flaky".into())),
            ("fail", Some("file-watchdog-timeout"), Outcome::FileWatchdogTimeout),
            ("fail", Some("pass"), Outcome::TestFailure),
            ("pass", Some("weird"), Outcome::Other("weird".into())),
        ] {
            let outcome = outcome.map_or(String::new(), |word| format!(r#","outcome":"{word}""#));
            let line = FILE.replace(r#""status":"pass""#, &format!(r#""status":"{status}"{outcome}"#));
            assert_eq!(file(&line).outcome(), expect, "{line}");
            assert_eq!(file(&line).status(), expect.status(), "{line}");
        }
        assert_eq!(file(&FILE.replace("49", "-1")).duration, None);
        assert_eq!(file(&FILE.replace("49", "\"soon\"")).duration, None);
    }

    #[test]
    fn hostile_lines_cost_themselves() {
        let deep = format!(r#"{{"kind":"suite","x":{}}}"#, "[".repeat(10_000));
        let deep_closed = format!(r#"{{"kind":"suite","x":{}{}}}"#, "[".repeat(10_000), "]".repeat(10_000));
        for line in [deep.as_str(), &deep_closed, "{", "[]", "3", "{\"kind\":3.5}", &FILE[..90], "{\"kind\":\"boot\"}", "\u{0}"] {
            assert!(parse_line(line.as_bytes()).is_err(), "{}", &line[..line.len().min(60)]);
        }
        assert_eq!(parse_line(&vec![b'x'; MAX_LINE_BYTES + 1]), Err(BadLine::TooLong));
        let name = "n".repeat(100_000);
        assert_eq!(file(&FILE.replace("a.test.ts", &name)).file.len(), MAX_TEXT_BYTES);
    }

    #[test]
    fn timing_lines() {
        let read = |line| parse_timing(line).ok().flatten().map(|t| (t.file, t.duration.millis(), t.outcome.to_string()));
        assert_eq!(read("a.test.ts 33s pass"), Some(("a.test.ts".into(), 33_000, "pass".into())));
        assert_eq!(read("a b.test.ts  33.5s  fail"), Some(("a b.test.ts".into(), 33_500, "test-failure".into())));
        assert_eq!(read("a.test.ts 33s file-watchdog-timeout").map(|t| t.2), Some("file-watchdog-timeout".into()));
        assert_eq!(parse_timing(""), Ok(None));
        for line in
            ["a.test.ts", "a.test.ts pass", "a.test.ts 33 pass", "a.test.ts NaNs pass", "a.test.ts -3s pass", "a.test.ts infs pass"]
        {
            assert!(parse_timing(line).is_err(), "{line}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = parse_line(&bytes);
            let _ = parse_timing(&String::from_utf8_lossy(&bytes));
        }

        #[test]
        fn a_damaged_line_never_panics(at in 0usize..160, with in any::<u8>(), cut in 0usize..170) {
            let mut line = FILE.as_bytes().to_vec();
            line[at] = with;
            let _ = parse_line(&line);
            line.truncate(cut);
            let _ = parse_line(&line);
        }
    }
}
