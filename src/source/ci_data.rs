//! ci-data: a folder of files, or one file, each of one or more legs.
//!
//! A file is named after its leg, but the record is trusted, not the name: the name gives only the target of a leg that has no suite
//! record. Lines of a leg belong together by run and platform; a suite record closes the leg before it. Lines that ledger wrote for a leg
//! which the public shape cannot tell whole name their target and attempt, and belong together by these too.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use super::lines::{Read, for_each_line};
use super::{Evidence, Found, against_files, count};
use crate::core::cidata::{Boot, Line, MAX_LINE_BYTES, Missing, Origin, Suite, TestFile, parse_line};
use crate::core::classify::{Trace, Writer};
use crate::core::ids::{Attempt, LegId, Shard};
use crate::core::legline::LegLine;
use crate::core::moment::{Secs, Wall};
use crate::core::outcome::{Conclusion, Outcome, Scope, Status, Terminal};
use crate::core::row::{FileRow, LegRow};
use crate::core::version::{Booted, is_version};

/// What a leg is called whose target nobody recorded.
const UNKNOWN_TARGET: &str = "unknown";

/// Large enough that a usual file is one read.
const BUFFER_BYTES: usize = 64 << 10;

/// Reads one file and adds its legs.
pub fn read_file(path: &Path, found: &mut Found) -> io::Result<()> {
    let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    read(BufReader::with_capacity(BUFFER_BYTES, File::open(path)?), &name, &path.display().to_string(), found)
}

/// Reads a stream. `name` is the stem of the file's name, `shown` what people call the source.
pub fn read(stream: impl BufRead, name: &str, shown: &str, found: &mut Found) -> io::Result<()> {
    let mut reading = Reading::default();
    for_each_line(stream, MAX_LINE_BYTES, |read| reading.line(&read))?;
    if let Some((number, why)) = &reading.first_bad {
        let more = if reading.bad > 1 { format!(" (and {} more)", reading.bad - 1) } else { String::new() };
        found.warn(format!("{shown}: line {number} was not read{more}: {why}"));
    }
    for leg in reading.finish() {
        let (evidence, wrong) = leg.into_evidence(name, shown);
        found.evidence.push(evidence);
        if let Some(wrong) = wrong {
            found.warn(format!("{shown}: {wrong}"));
        }
    }
    Ok(())
}

#[derive(Default)]
struct Reading {
    legs: Vec<Building>,
    number: u64,
    bad: u64,
    first_bad: Option<(u64, String)>,
}

impl Reading {
    fn line(&mut self, read: &Read<'_>) {
        self.number += 1;
        let parsed = match read {
            Read::Line(line) => parse_line(line).map_err(|error| error.to_string()),
            Read::TooLong => Err(format!("it has more than {MAX_LINE_BYTES} bytes")),
        };
        match parsed {
            Ok(Some(Line::Boot(boot))) => self.open_leg(&boot.origin).boot(&boot),
            Ok(Some(Line::TestFile(file))) => self.open_leg(&file.origin).file(&file),
            Ok(Some(Line::Suite(suite))) => self.open_leg(&suite.origin).suite(&suite),
            Ok(Some(Line::Missing(missing))) => self.open_leg(&missing.origin).missing(&missing),
            Ok(Some(Line::Leg(told))) => self.legs.push(Building::told(*told)),
            Ok(Some(Line::Other(_)) | None) => {}
            Err(why) => {
                self.bad += 1;
                self.first_bad.get_or_insert((self.number, why));
            }
        }
    }

    /// The leg of this run and platform that no suite record has closed yet.
    fn open_leg(&mut self, origin: &Origin<'_>) -> &mut Building {
        let newest = self.legs.iter().rposition(|leg| leg.is_of(origin));
        let at = match newest.filter(|at| self.legs[*at].suite.is_none()) {
            Some(at) => at,
            None => {
                self.legs.push(Building::of(origin));
                self.legs.len() - 1
            }
        };
        self.legs[at].seen(origin);
        &mut self.legs[at]
    }

    /// Lines that come after the last suite record of their run and platform belong to that leg, where it has room for them: the record
    /// stood first.
    fn finish(self) -> Vec<Building> {
        let mut legs: Vec<Building> = Vec::with_capacity(self.legs.len());
        for leg in self.legs {
            let is_before =
                |earlier: &&mut Building| earlier.tag.is_none() && earlier.run_id == leg.run_id && earlier.platform == leg.platform;
            let earlier = legs.iter_mut().rev().find(is_before);
            match earlier.filter(|earlier| leg.tag.is_none() && leg.suite.is_none() && earlier.has_room_for(leg.files.len())) {
                Some(earlier) => earlier.absorb(leg),
                None => legs.push(leg),
            }
        }
        legs
    }
}

/// A leg while its lines come in.
struct Building {
    run_id: String,
    platform: String,
    /// Target and attempt, where the lines say them.
    tag: Option<(String, String)>,
    told: Option<LegLine>,
    sha: Option<String>,
    files: Vec<FileRow>,
    booted: Booted,
    suite: Option<Closed>,
    first: Wall,
    last: Wall,
}

struct Closed {
    ts: Wall,
    scope: Option<Scope>,
    conclusion: Conclusion,
    target: Option<String>,
    resolved: Option<String>,
    files: Option<u32>,
    failed: Option<u32>,
}

impl Building {
    fn of(origin: &Origin<'_>) -> Self {
        Self {
            run_id: origin.run_id.clone().into_owned(),
            platform: origin.platform.clone().into_owned(),
            tag: tag_of(origin).map(|(target, attempt)| (target.to_owned(), attempt.to_owned())),
            told: None,
            sha: None,
            files: Vec::new(),
            booted: Booted::default(),
            suite: None,
            first: origin.ts,
            last: origin.ts,
        }
    }

    fn told(line: LegLine) -> Self {
        Self {
            run_id: line.run_id.0.clone(),
            platform: line.platform.0.clone(),
            tag: Some((line.target.clone(), line.attempt.0.clone())),
            sha: line.sha.clone(),
            files: Vec::new(),
            booted: Booted::default(),
            suite: None,
            first: line.ts,
            last: line.ts,
            told: Some(line),
        }
    }

    fn is_of(&self, origin: &Origin<'_>) -> bool {
        let tag = self.tag.as_ref().map(|(target, attempt)| (target.as_str(), attempt.as_str()));
        self.run_id == origin.run_id && self.platform == origin.platform && tag == tag_of(origin)
    }

    fn has_room_for(&self, files: usize) -> bool {
        let Some(suite) = &self.suite else { return true };
        self.files.is_empty() || suite.files.is_none_or(|all| self.files.len() + files <= all as usize)
    }

    fn seen(&mut self, origin: &Origin<'_>) {
        self.first = self.first.min(origin.ts);
        self.last = self.last.max(origin.ts);
        if self.sha.is_none() {
            self.sha = origin.sha.as_deref().map(str::to_owned);
        }
    }

    fn boot(&mut self, boot: &Boot<'_>) {
        let took = boot.boot_ms.and_then(|ms| Secs::from_f64(ms / 1000.0)).unwrap_or(Secs::ZERO);
        self.first = self.first.min(before(boot.origin.ts, took));
        if let Some(version) = &boot.version {
            self.booted.count(version);
        }
    }

    fn file(&mut self, file: &TestFile<'_>) {
        let outcome = file.outcome();
        let mut row = self.row(&file.file, file.file_b64.as_deref(), file.round);
        row.status = Some(file.status());
        // A file that never ran has no duration, whoever wrote one.
        row.duration_s = file.duration.filter(|_| outcome != Outcome::NotRun);
        row.outcome = Some(outcome);
        self.files.push(row);
    }

    fn missing(&mut self, missing: &Missing<'_>) {
        let mut row = self.row(&missing.file, missing.file_b64.as_deref(), missing.round);
        if missing.began {
            (row.outcome, row.status) = (None, None);
        }
        self.files.push(row);
    }

    fn row(&self, file: &str, b64: Option<&str>, round: Option<u32>) -> FileRow {
        let index = count(self.files.len()).saturating_add(1);
        FileRow::not_run(index, round.unwrap_or(1), file.to_owned(), b64.map(str::to_owned))
    }

    fn suite(&mut self, suite: &Suite<'_>) {
        self.suite = Some(Closed {
            ts: suite.origin.ts,
            scope: match suite.scope.as_ref() {
                "full" => Some(Scope::Full),
                "filtered" => Some(Scope::Filtered),
                _ => None,
            },
            // A word that is not known is a fail, never dropped.
            conclusion: match suite.conclusion.as_ref() {
                "pass" => Conclusion::Pass,
                "incomplete" => Conclusion::Incomplete,
                _ => Conclusion::Fail,
            },
            target: suite.origin.target.as_deref().map(str::to_owned),
            resolved: suite.resolved.as_deref().map(str::to_owned),
            files: suite.files,
            failed: suite.failed,
        });
    }

    fn absorb(&mut self, late: Building) {
        self.first = self.first.min(late.first);
        self.last = self.last.max(late.last);
        self.sha = self.sha.take().or(late.sha);
        self.booted.absorb(late.booted);
        for mut file in late.files {
            file.index = u32::try_from(self.files.len()).unwrap_or(u32::MAX).saturating_add(1);
            self.files.push(file);
        }
    }

    /// The leg, and what is wrong with its records.
    fn into_evidence(self, name: &str, shown: &str) -> (Evidence, Option<String>) {
        let said = self.tag.as_ref().map(|(target, _)| target.clone());
        let (target, shard, in_name) = match said.or_else(|| self.suite.as_ref()?.target.clone()) {
            Some(target) => {
                let (target, shard) = shard_in_target(&target);
                (target, shard, None)
            }
            None => target_in_name(name, &self.run_id, &self.platform),
        };
        let attempt = self.tag.map(|(_, attempt)| attempt).or(in_name).map_or_else(|| "1".into(), Attempt::new);
        let ran: Secs = self.files.iter().filter_map(|file| file.duration_s).fold(Secs::ZERO, Secs::saturating_add);
        let started = self.first.min(before(self.suite.as_ref().map_or(self.last, |suite| suite.ts), ran));
        let booted = self.booted.most().map(str::to_owned);
        let mut row = LegRow::named(LegId {
            run_id: self.run_id.as_str().into(),
            attempt,
            platform: self.platform.as_str().into(),
            target: target.as_str().into(),
            shard,
        });
        let resolved = self.suite.as_ref().and_then(|suite| suite.resolved.clone()).or_else(|| booted.clone());
        row.resolved = if is_version(&target) { Some(target) } else { resolved };
        row.booted_version = booted;
        row.sha = self.sha;
        row.started_at = Some(started);
        row.last_checkpoint_ts = Some(self.last);
        row.last_file = self.files.iter().rev().find(|file| file.reported()).map(|file| file.file.clone());
        row.files_reported = count(self.files.iter().filter(|file| file.reported()).count());
        row.files_failed = count(self.files.iter().filter(|file| failed(file)).count());
        row.source = Some(shown.to_owned());
        row.files = self.files;
        if let Some(suite) = &self.suite {
            close(&mut row, suite, started);
        }
        if let Some(told) = self.told {
            tell(&mut row, told);
        }
        let wrong = against_files::hold(&mut row).or_else(|| add_unlisted(&mut row));
        (Evidence { row, trace: Trace::Ledger, writer: Writer::Unknown, resumes: None, unnamed: None }, wrong)
    }
}

/// Target and attempt of a line that says both.
fn tag_of<'o>(origin: &'o Origin<'_>) -> Option<(&'o str, &'o str)> {
    origin.target.as_deref().zip(origin.attempt.as_deref())
}

/// The suite's own word.
fn close(row: &mut LegRow, suite: &Closed, started: Wall) {
    let whole = suite.conclusion != Conclusion::Incomplete;
    row.terminal = if whole { Terminal::Complete } else { Terminal::AttemptedIncomplete };
    row.conclusion = Some(suite.conclusion);
    row.loop_finished = whole;
    row.scope = suite.scope;
    row.ended_at = Some(suite.ts);
    row.duration_s = Some(suite.ts.since(started));
    row.files_planned = suite.files.or(Some(row.files_reported));
    row.files_reported = if row.files.is_empty() { suite.files.unwrap_or(0) } else { row.files_reported };
    row.files_failed = suite.failed.unwrap_or(row.files_failed);
    row.why = match suite.conclusion {
        Conclusion::Pass => format!("its suite passed: {} files", row.files_reported),
        Conclusion::Fail => format!("its suite failed: {} of {} files", row.files_failed, row.files_reported),
        Conclusion::Incomplete => "its suite was recorded as incomplete".to_owned(),
    };
}

/// What ledger wrote beside the public lines. It says how the leg ended; what its files came to, they say themselves.
fn tell(row: &mut LegRow, told: LegLine) {
    let dated = |time: Wall| Some(time).filter(|time| time.0 != 0);
    row.epoch = told.epoch;
    row.scope = told.scope.or(row.scope);
    (row.event, row.sha) = (told.event, told.sha.or(row.sha.take()));
    row.resolved = told.resolved.or(row.resolved.take());
    (row.terminal, row.stopped_by) = (told.terminal, told.stopped_by);
    // The worse of two words stands.
    let worse =
        |word: &Conclusion| [Conclusion::Pass, Conclusion::Incomplete, Conclusion::Fail].iter().position(|known| known == word);
    row.conclusion = told.conclusion.into_iter().chain(row.conclusion).max_by_key(worse);
    row.why = told.why;
    row.loop_finished = told.terminal == Terminal::Complete;
    (row.started_at, row.ended_at, row.duration_s) = (told.started_at, told.ended_at, told.duration_s);
    row.files_planned = told.files_planned;
    row.files_failed = row.files_failed.max(told.files_failed);
    if row.files.is_empty() {
        row.files_reported = told.files_reported;
    }
    row.last_file = told.last_file.or(row.last_file.take());
    row.current_file = told.current_file;
    row.last_checkpoint_ts = told.last_checkpoint_ts.or_else(|| dated(told.ts));
}

/// More rows than this of files that nobody named help no reader.
const MAX_UNLISTED: u32 = 256;

/// A leg that ended by its own word and lists some of its files, not all: the word holds, and what is missing is seen.
fn add_unlisted(row: &mut LegRow) -> Option<String> {
    let listed = count(row.files.len());
    let unlisted = row.files_planned?.checked_sub(listed).filter(|missing| *missing > 0 && listed > 0)?;
    if row.terminal != Terminal::Complete {
        return None;
    }
    for number in 1..=unlisted.min(MAX_UNLISTED) {
        let index = listed.saturating_add(number);
        row.files.push(FileRow::not_run(index, 1, format!("(no record {index})"), None));
    }
    row.why = format!("{}, and {unlisted} more left no record", row.why);
    Some(format!("{}: {unlisted} of {} files left no record; its suite's own word stands", row.leg(), listed + unlisted))
}

fn failed(file: &FileRow) -> bool {
    file.status == Some(Status::Fail) && file.outcome != Some(Outcome::NotRun)
}

fn before(ts: Wall, span: Secs) -> Wall {
    Wall(ts.0.saturating_sub_unsigned(span.millis()))
}

/// `<target>|i/n` is a shard's suite, as ledger writes it.
fn shard_in_target(target: &str) -> (String, Option<Shard>) {
    match target.rsplit_once('|').map(|(target, shard)| (target, shard.parse())) {
        Some((target, Ok(shard))) if !target.is_empty() => (target.to_owned(), Some(shard)),
        _ => (target.to_owned(), None),
    }
}

/// Target, shard and attempt of `<run_id>-<platform>-<target>[-<i>of<n>][~a<attempt>][~<number>]`; old names lack the target. The number
/// only tells equal names apart.
fn target_in_name(name: &str, run_id: &str, platform: &str) -> (String, Option<Shard>, Option<String>) {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let name = name.rsplit_once('~').filter(|(_, number)| is_number(number)).map_or(name, |(name, _)| name);
    let later = name.rsplit_once("~a").filter(|(_, attempt)| is_number(attempt));
    let (name, attempt) = later.map_or((name, None), |(name, attempt)| (name, Some(attempt.to_owned())));
    let rest = name.strip_prefix(run_id).and_then(|rest| rest.strip_prefix('-'));
    let rest = rest.and_then(|rest| rest.strip_prefix(platform)).and_then(|rest| rest.strip_prefix('-'));
    let target = rest.filter(|target| !target.is_empty()).unwrap_or(UNKNOWN_TARGET);
    let split = target.rsplit_once('-').and_then(|(target, shard)| Some((target, shard.replacen("of", "/", 1).parse().ok()?)));
    match split {
        Some((target, shard)) if !target.is_empty() => (target.to_owned(), Some(shard), attempt),
        _ => (target.to_owned(), None, attempt),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::row::OtherEpoch;
    use crate::report::fixtures;
    use proptest::prelude::*;

    fn legs(text: &str, name: &str) -> (Vec<LegRow>, Vec<String>) {
        let mut found = Found::default();
        read(text.as_bytes(), name, "here", &mut found).expect("memory can be read");
        (found.evidence.into_iter().map(|evidence| evidence.row).collect(), found.warnings)
    }

    fn line(kind: &str, rest: &str) -> String {
        format!(r#"{{"kind":"{kind}","ts":"2026-07-05T00:10:00.000Z","run_id":"7","sha":"abc","platform":"p-x",{rest}}}"#) + "\n"
    }

    fn file(name: &str, status: &str) -> String {
        line("test-file", &format!(r#""file":"{name}","duration_s":100,"status":"{status}""#))
    }

    fn suite(target: &str, conclusion: &str) -> String {
        line("suite", &format!(r#""scope":"full","conclusion":"{conclusion}","target":"{target}","files":2,"failed":0"#))
    }

    #[test]
    fn a_leg_is_what_its_records_say() {
        let boot = line("boot", r#""version":"7.1","boot_ms":400000"#);
        let text = boot + &file("a", "pass") + &file("b", "fail") + &suite("stable", "pass");
        let (legs, warnings) = legs(&text, "999-other-name");
        assert!(
            warnings.len() == 1 && warnings[0].ends_with("its own record says pass, and 1 of its files did not pass"),
            "{warnings:?}"
        );
        assert_eq!(legs.len(), 1);
        let leg = &legs[0];
        assert_eq!((leg.leg().key().as_str(), leg.resolved.as_deref()), ("p-x|stable", Some("7.1")));
        assert_eq!((leg.terminal, leg.conclusion, leg.scope), (Terminal::Complete, Some(Conclusion::Fail), Some(Scope::Full)));
        assert_eq!((leg.files_planned, leg.files_reported, leg.files_failed), (Some(2), 2, 1));
        assert_eq!(leg.started_at.map(|t| t.to_string()).as_deref(), Some("2026-07-05T00:03:20.000Z"), "by its boot");
    }

    #[test]
    fn legs_of_one_stream_are_kept_apart() {
        let (both, _) = legs(&(file("a", "pass") + &suite("stable", "pass") + &file("a", "pass") + &suite("7.2", "fail")), "");
        let key = |leg: &LegRow| format!("{} {} {:?}", leg.target, leg.files_reported, leg.resolved);
        assert_eq!(both.iter().map(key).collect::<Vec<_>>(), ["stable 1 None", "7.2 1 Some(\"7.2\")"]);
        let (first, _) = legs(&(suite("stable", "pass") + &file("a", "pass") + &file("b", "pass")), "");
        assert_eq!(first.iter().map(key).collect::<Vec<_>>(), ["stable 2 None"], "the record may stand first");
        let (open, _) = legs(&file("a", "pass"), "7-p-x-long-term");
        assert_eq!((open[0].target.as_str(), open[0].terminal), ("long-term", Terminal::Running));
        assert_eq!(legs(&file("a", "pass"), "7-p-x").0[0].target.as_str(), UNKNOWN_TARGET);
    }

    #[test]
    fn shards_of_one_leg_are_kept_apart() {
        let text = file("a", "pass") + &suite("stable|1/2", "pass") + &file("b", "fail") + &suite("stable|2/2", "fail");
        let keys = |text: &str, name: &str| legs(text, name).0.iter().map(|leg| leg.leg().key()).collect::<Vec<_>>();
        assert_eq!(keys(&text, ""), ["p-x|stable|1/2", "p-x|stable|2/2"]);
        for (target, key) in [("7.2|1/2", "p-x|7.2|1/2"), ("a|b", "p-x|a|b"), ("a|3/2", "p-x|a|3/2"), ("|1/2", "p-x||1/2")] {
            assert_eq!(keys(&suite(target, "pass"), ""), [key]);
        }
        for (name, key) in [
            ("7-p-x-stable-1of2", "p-x|stable|1/2"),
            ("7-p-x-stable-2of2~3", "p-x|stable|2/2"),
            ("7-p-x-stable~2", "p-x|stable"),
            ("7-p-x-stable-3of2", "p-x|stable-3of2"),
            ("7-p-x-1of2", "p-x|1of2"),
            ("7-p-x-stable-1of2~a3", "p-x|stable|1/2"),
            ("7-p-x-stable~a3~2", "p-x|stable"),
        ] {
            assert_eq!(keys(&file("a", "pass"), name), [key]);
        }
    }

    #[test]
    fn files_are_held_against_the_suites_word() {
        let of = |text: String| {
            let (legs, warnings) = legs(&text, "");
            (legs[0].conclusion.map_or("none", Conclusion::as_str), legs[0].files_failed, legs[0].files.len(), warnings.len())
        };
        let two = |first: &str, second: &str, word: &str| of(file("a", first) + &file(second, "pass") + &suite("stable", word));
        assert_eq!(two("pass", "b", "pass"), ("pass", 0, 2, 0));
        assert_eq!(two("fail", "b", "pass"), ("fail", 1, 2, 1));
        assert_eq!(two("fail", "b", "incomplete").0, "incomplete");
        assert_eq!(two("fail", "a", "pass").0, "pass", "a file that was tried again is what it was at last");
        let weird = file("b", "pass").replace("\"pass\"", "\"pass\",\"outcome\":\"weird\"");
        assert_eq!(of(weird.clone() + &weird.replace("\"b\"", "\"c\"") + &suite("stable", "pass")), ("fail", 2, 2, 1));
        let never = weird.replace("weird", "not-run");
        assert_eq!(of(file("a", "pass") + &never + &suite("stable", "pass")).0, "incomplete");
        let claims = suite("stable", "pass").replace("\"failed\":0", "\"failed\":1");
        assert_eq!(of(file("a", "pass") + &file("b", "pass") + &claims), ("fail", 1, 2, 1));
        // The suite's own word stands where records are missing, and each of these is a row.
        let twelve = suite("stable", "pass").replace("\"files\":2", "\"files\":12");
        let (legs, warnings) = legs(&(file("a", "pass") + &twelve), "");
        assert_eq!((legs[0].conclusion, legs[0].files_planned, legs[0].files_reported), (Some(Conclusion::Pass), Some(12), 1));
        assert_eq!(legs[0].files.iter().filter(|file| file.outcome == Some(Outcome::NotRun)).count(), 11);
        assert!(warnings[0].contains("11 of 12 files left no record"), "{warnings:?}");
        assert_eq!(of(twelve), ("pass", 0, 0, 0), "a suite alone lists nothing");
    }

    #[test]
    fn what_ledger_writes_it_reads_again() {
        let mut night = fixtures::night();
        let mut later = night.legs[2].clone();
        later.attempt = "2".into();
        later.attempts = vec![OtherEpoch::from(&night.legs[1])];
        later.attempts[0].attempt = "1".into();
        night.legs.push(later);
        let told = |row: &LegRow| {
            let files: Vec<_> = row.files.iter().map(|file| (file.file.clone(), file.outcome.clone(), file.duration_s)).collect();
            (
                row.leg(),
                row.terminal,
                row.stopped_by,
                row.conclusion,
                row.files_planned,
                row.files_reported,
                row.files_failed,
                row.resolved.clone(),
                files,
            )
        };
        let all = crate::report::ci_data::ci_data(&night);
        let (back, warnings) = legs(&all, "x");
        assert!(warnings.is_empty(), "{warnings:?}");
        // The other attempt of the last one is a record of its own.
        assert_eq!(back.len(), night.legs.len() + 1);
        let other = &back[night.legs.len() - 1];
        assert_eq!((other.attempt.as_str(), other.files_failed, other.files.len()), ("1", 1, 0));
        for out in &night.legs {
            let is_same = |row: &&LegRow| row.leg() == out.leg();
            assert_eq!(back.iter().find(is_same).map(told), Some(told(out)), "in one stream");
            let alone = crate::report::ci_data::leg_lines(out);
            assert_eq!(legs(&alone, "x").0.iter().find(is_same).map(told), Some(told(out)), "in a file of its own");
        }
        let plain = crate::report::ci_data::leg_lines(&LegRow { resolved: None, ..night.legs[0].clone() });
        assert!(
            !plain.contains("attempt") && !plain.contains("\"leg\""),
            "a leg that the public shape can tell has that shape: {plain}"
        );
    }

    #[test]
    fn a_leg_without_a_suite_is_not_absorbed_by_one_that_is_whole() {
        let text = file("a", "pass") + &file("b", "pass") + &suite("stable", "pass") + &file("c", "pass");
        let (both, _) = legs(&text, "");
        assert_eq!(
            both.iter().map(|leg| (leg.files.len(), leg.terminal)).collect::<Vec<_>>(),
            [(2, Terminal::Complete), (1, Terminal::Running)]
        );
    }

    #[test]
    fn a_mark_before_the_first_record_costs_nothing() {
        let (legs, warnings) = legs(&format!("\u{feff}{}{}", file("a", "pass"), suite("stable", "pass").replace(":2", ":1")), "");
        assert_eq!((legs[0].files.len(), warnings), (1, Vec::new()));
    }

    #[test]
    fn a_bad_line_costs_that_line() {
        let text = file("a", "pass") + "{\"kind\":\n\u{0}\n" + &file("b", "new-word") + &suite("stable", "odd");
        let (legs, warnings) = legs(&text, "");
        assert_eq!((legs[0].files.len(), legs[0].conclusion), (2, Some(Conclusion::Fail)));
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].starts_with("here: line 2 was not read (and 1 more): "), "{warnings:?}");
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..500), cut in 0usize..500) {
            let mut found = Found::default();
            let _ = read(bytes.as_slice(), "x", "x", &mut found);
            let text = file("a", "pass") + &suite("stable", "pass");
            let _ = read(&text.as_bytes()[..cut.min(text.len())], "x", "x", &mut found);
        }
    }
}
