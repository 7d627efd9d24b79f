//! JUnit XML, whoever wrote it, also cut short: read as a stream, with memory that does not depend on it.
//!
//! A test file is the outermost suite that names one, or what its cases name; cases add up to files. A suite of ledger's own report is a
//! leg whose cases are files. External entities are never resolved.

mod cases;
mod encoding;
mod own;

use std::io::{self, BufRead, Read};

use quick_xml::events::{BytesStart, Event};
use quick_xml::reader::Reader;

use super::{Evidence, Found, Named, timing};
use crate::core::classify::{Trace, Writer};
use crate::core::moment::{Secs, Wall};
use cases::Building;

/// One element, text or comment of more than this ends the reading there. A suite's whole output may stand in one text.
const MAX_EVENT_BYTES: usize = 16 << 20;
/// Files of one report.
const MAX_FILES: usize = 100_000;
const MAX_NAME_BYTES: usize = 4096;

pub fn read(stream: impl BufRead, named: &Named, shown: &str, found: &mut Found) -> io::Result<()> {
    let stream = match encoding::as_utf8(stream)? {
        Ok(stream) => stream,
        Err(name) => {
            let why = format!("it is written in '{name}', which is not read; write it in UTF-8");
            found.warn(format!("{shown}: {why}"));
            let mut evidence = timing::evidence(named, Vec::new(), shown, false);
            evidence.row.why = why;
            found.evidence.push(evidence);
            return Ok(());
        }
    };
    let mut reader = Reader::from_reader(Bounded { inner: stream, used: 0 });
    let config = reader.config_mut();
    config.check_end_names = false;
    config.allow_unmatched_ends = true;
    let mut building = Building::default();
    let mut buffer = Vec::new();
    let whole = loop {
        buffer.clear();
        reader.get_mut().used = 0;
        match reader.read_event_into(&mut buffer) {
            Ok(Event::Start(element)) => building.start(&element),
            Ok(Event::Empty(element)) => {
                building.start(&element);
                building.end(element.local_name().as_ref());
            }
            Ok(Event::End(element)) => building.end(element.local_name().as_ref()),
            Ok(Event::Eof) => break building.saw_end,
            Ok(_) => {}
            Err(quick_xml::Error::Io(error)) if error.kind() != io::ErrorKind::InvalidData => {
                return Err(io::Error::new(error.kind(), error.to_string()));
            }
            Err(error) => {
                found.warn(format!("{shown}: read up to byte {}: {error}", reader.buffer_position()));
                break false;
            }
        }
        if building.is_larger_than(MAX_FILES) {
            found.warn(format!("{shown}: more than {MAX_FILES} files; the rest was not read"));
            break false;
        }
    };
    tell(building, whole, named, shown, found);
    Ok(())
}

fn tell(building: Building, whole: bool, named: &Named, shown: &str, found: &mut Found) {
    if !building.saw_suite {
        found.warn(format!("{shown}: no <testsuite> is in it"));
    } else if !whole {
        found.warn(format!("{shown}: it is cut short; what stands before counts"));
    }
    if building.unlisted > 0 {
        found.warn(format!("{shown}: {} tests are counted in it and not listed; what the counts say holds", building.unlisted));
    }
    let (first, last) = (building.first, building.last);
    let (legs, files) = building.finish();
    if legs.is_empty() || !files.is_empty() {
        let mut evidence = timing::evidence(named, files, shown, whole);
        // Its own word on when it was is better than that of the disk it came by.
        if let Some((first, last)) = first.zip(last) {
            let row = &mut evidence.row;
            (row.started_at, row.ended_at, row.last_checkpoint_ts) = (Some(first), Some(last), Some(last));
            row.duration_s = Some(last.since(first));
        }
        found.evidence.push(evidence);
    }
    for mut row in legs {
        row.source = Some(shown.to_owned());
        found.evidence.push(Evidence { row, trace: Trace::Ledger, writer: Writer::Unknown, resumes: None, unnamed: None });
    }
}

/// The `timestamp` of a suite or case. Many writers leave the zone out, and most of these mean UTC.
fn time(element: &BytesStart<'_>) -> Option<Wall> {
    let text = attribute(element, b"timestamp")?;
    let text = text.trim().replacen(' ', "T", 1);
    Wall::parse(&text).or_else(|| Wall::parse(&format!("{text}Z")))
}

fn attribute(element: &BytesStart<'_>, name: &[u8]) -> Option<String> {
    let attribute =
        element.attributes().with_checks(false).flatten().find(|attribute| attribute.key.local_name().as_ref() == name)?;
    let value = match attribute.normalized_value(quick_xml::XmlVersion::Implicit1_0) {
        Ok(value) => value.into_owned(),
        // Bytes that are no text, or an entity that nobody declared, must not cost the name.
        Err(_) => String::from_utf8_lossy(&attribute.value).into_owned(),
    };
    let mut end = value.len().min(MAX_NAME_BYTES);
    while !value.is_char_boundary(end) {
        end -= 1;
    }
    Some(value[..end].to_owned()).filter(|value| !value.is_empty())
}

/// `1.234`, and `1,234.5` as some writers have it.
fn seconds(text: &str) -> Option<Secs> {
    text.replace(',', "").trim().parse().ok().and_then(Secs::from_f64)
}

/// A stream that lets one event take so many bytes and no more.
struct Bounded<R> {
    inner: R,
    used: usize,
}

impl<R: BufRead> Read for Bounded<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = self.fill_buf()?.read(into)?;
        self.consume(n);
        Ok(n)
    }
}

impl<R: BufRead> BufRead for Bounded<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.used > MAX_EVENT_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("one element has more than {MAX_EVENT_BYTES} bytes")));
        }
        self.inner.fill_buf()
    }

    fn consume(&mut self, n: usize) {
        self.used += n;
        self.inner.consume(n);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::ids::LegId;
    use crate::core::outcome::{Conclusion, Outcome, Terminal};
    use crate::core::row::{FileRow, LegRow};
    use crate::report::fixtures;
    use proptest::prelude::*;

    fn read_text(text: &[u8]) -> (LegRow, Vec<String>) {
        let leg = LegId { run_id: "r".into(), attempt: "1".into(), platform: "p".into(), target: "t".into(), shard: None };
        let mut found = Found::default();
        read(text, &Named { leg, written: None }, "x.xml", &mut found).expect("memory can be read");
        (found.evidence.remove(0).row, found.warnings)
    }

    fn rows(text: &str) -> Vec<(String, String, Option<u64>)> {
        let word = |row: &FileRow| row.outcome.as_ref().map_or("open".to_owned(), ToString::to_string);
        let (leg, _) = read_text(text.as_bytes());
        leg.files.iter().map(|row| (row.file.clone(), word(row), row.duration_s.map(Secs::millis))).collect()
    }

    const BUN: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="bun test" tests="4" failures="1" time="0.5">
  <testsuite name="test/a.test.ts" file="test/a.test.ts" tests="3" failures="1" time="1.25" hostname="h">
    <testsuite name="outer" file="test/a.test.ts" line="3" tests="2" time="0.5">
      <testcase name="works" classname="outer" time="0.5" file="test/a.test.ts" line="4" />
      <testcase name="fails" classname="outer" time="0.25" file="test/a.test.ts"><failure type="AssertionError" /></testcase>
    </testsuite>
    <testcase name="skipped" classname="" time="0" file="test/a.test.ts"><skipped /></testcase>
  </testsuite>
  <testsuite name="test/b &amp; c.test.ts" file="test/b &amp; c.test.ts" tests="1" time="2"><testcase name="x" time="2"/></testsuite>
</testsuites>"#;

    #[test]
    fn suites_cases_and_classes_give_files() {
        let row = |file: &str, word: &str, ms| (file.to_owned(), word.to_owned(), Some(ms));
        assert_eq!(rows(BUN), [row("test/a.test.ts", "test-failure", 1250), row("test/b & c.test.ts", "pass", 2000)]);
        let by_case = r#"<testsuite name="pytest" time="9"><testcase classname="t.x" name="a" file="t/x.py" time="1.5"/>
            <testcase classname="t.y" name="b" file="t/y.py" time="1"><error message="boom"/></testcase></testsuite>"#;
        assert_eq!(rows(by_case), [row("t/x.py", "pass", 1500), row("t/y.py", "test-failure", 1000)]);
        let unloadable = r#"<testsuites><testsuite name="a.js" time="0"><error/></testsuite></testsuites>"#;
        assert_eq!(rows(unloadable), [row("a.js", "test-failure", 0)]);
    }

    /// What the leg came to, its files, and how many warnings there were.
    fn judged(text: &str) -> (&'static str, Vec<String>, usize) {
        let (leg, warnings) = read_text(text.as_bytes());
        let files = leg.files.iter().map(|row| format!("{} {}", row.file, row.outcome.as_ref().map_or("open", Outcome::as_str)));
        (leg.conclusion.map_or("running", Conclusion::as_str), files.collect(), warnings.len())
    }

    #[test]
    fn what_is_counted_and_not_listed_is_not_ignored() {
        let bad = |text: &str, file: &str| assert_eq!(judged(text), ("fail", vec![format!("{file} test-failure")], 1), "{text}");
        bad(
            r#"<testsuites tests="4" failures="2"><testsuite name="a.test.ts" tests="4" failures="2" time="9"/></testsuites>"#,
            "a.test.ts",
        );
        bad(r#"<testsuite errors="1" tests="0"><system-err>crash</system-err></testsuite>"#, "(a suite without a name)");
        bad(r#"<testsuites errors="1"/>"#, "(a suite without a name)");
        bad(r#"<testsuites name="all" failures="1"><testsuite name="a" tests="0"/></testsuites>"#, "all");
        bad(r#"<testsuite name="a" tests="3" failures="2"><testcase name="x"/></testsuite>"#, "a");
        bad(r#"<testsuite name="a" file="f.js"><testsuite name="inner" errors="1"/></testsuite>"#, "f.js");
        // A failure that is listed is counted once, on every level.
        let listed = r#"<testsuites tests="1" failures="1"><testsuite name="a" tests="1" failures="1"><testsuite name="i" tests="1" failures="1">
            <testcase name="x"><failure/></testcase></testsuite></testsuite></testsuites>"#;
        assert_eq!(judged(listed), ("fail", vec!["a test-failure".to_owned()], 0));
        let counts_only = r#"<testsuites><testsuite name="a" tests="4" failures="0" time="3"/></testsuites>"#;
        assert_eq!(
            judged(counts_only),
            ("pass", vec!["a pass".to_owned()], 1),
            "its own word holds, and a warning says what it is"
        );
        for nothing in ["<testsuites/>", "<testsuite/>", "<testsuites><testsuite name='a' tests='0'/></testsuites>"] {
            assert_eq!(judged(nothing).0, "incomplete", "nothing proved is no pass: {nothing}");
        }
    }

    #[test]
    fn suites_of_one_file_add_up() {
        let row = |file: &str, word: &str, ms| (file.to_owned(), word.to_owned(), Some(ms));
        let text = r#"<testsuites><testsuite name="one" file="a.js" time="400"><testcase name="x" time="399"/></testsuite>
            <testsuite name="two" file="a.js" time="10"><testcase name="y" time="1"/></testsuite>
            <testsuite name="three" file="a.js"><testcase name="z" time="2.5"/></testsuite></testsuites>"#;
        assert_eq!(rows(text), [row("a.js", "pass", 412_500)]);
    }

    #[test]
    fn files_are_found_where_each_writer_names_them() {
        let row = |file: &str, word: &str, ms| (file.to_owned(), word.to_owned(), Some(ms));
        let pytest = r#"<testsuites><testsuite name="pytest" errors="1" failures="0" tests="3" time="9" timestamp="2026-01-02T03:04:05.5+01:00">
            <testcase classname="tests.test_a.TestX" name="one" time="1"/><testcase classname="tests.test_a" name="two" time="2"/>
            <testcase classname="" name="tests.test_b" time="0"><error message="collection failure"/></testcase></testsuite></testsuites>"#;
        assert_eq!(rows(pytest), [row("tests/test_a.py", "pass", 3000), row("tests/test_b.py", "test-failure", 0)]);
        let nested = r#"<testsuites><testsuite name="root" time="5"><testsuite name="d" file="a.js" time="2"><testcase name="x" time="2"/></testsuite>
            <testsuite name="e" file="b.js" time="3"><testcase name="y"><failure/></testcase></testsuite></testsuite></testsuites>"#;
        assert_eq!(rows(nested), [row("a.js", "pass", 2000), row("b.js", "test-failure", 3000)]);
        let jest = r#"<testsuites><testsuite name="a suite" time="5"><testcase classname="a suite works" name="works"/></testsuite></testsuites>"#;
        assert_eq!(rows(jest), [row("a suite", "pass", 5000)]);
    }

    #[test]
    fn a_report_says_itself_when_it_was() {
        let text = r#"<testsuites><testsuite name="a" time="60" timestamp="2026-01-02T03:04:05"><testcase name="x"/></testsuite>
            <testsuite name="b" time="10" timestamp="2026-01-02T05:04:15+02:00"><testcase name="x"/></testsuite></testsuites>"#;
        let (leg, _) = read_text(text.as_bytes());
        let time = |time: Option<Wall>| time.map(|time| time.to_string()).unwrap_or_default();
        assert_eq!(
            (time(leg.started_at).as_str(), time(leg.ended_at).as_str()),
            ("2026-01-02T03:04:05.000Z", "2026-01-02T03:05:05.000Z")
        );
        assert_eq!(time(leg.files[1].started_at), "2026-01-02T03:04:15.000Z");
    }

    #[test]
    fn other_encodings_are_honoured_or_refused_by_name() {
        let wide: Vec<u8> = "<?xml version='1.0' encoding='UTF-16'?><testsuite name='é'><testcase name='x'/></testsuite>"
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect();
        let latin = b"<?xml version='1.0' encoding='ISO-8859-1'?><testsuite name='\xe9'><testcase name='x'/></testsuite>";
        for bytes in [[&[0xff, 0xfe][..], &wide].concat(), wide.clone(), latin.to_vec()] {
            let (leg, warnings) = read_text(&bytes);
            assert_eq!(
                (leg.files[0].file.as_str(), leg.conclusion, warnings.len()),
                ("é", Some(Conclusion::Pass), 0),
                "{warnings:?}"
            );
        }
        let (leg, warnings) =
            read_text(b"<?xml version='1.0' encoding='EUC-JP'?><testsuite name='a'><testcase name='x'/></testsuite>");
        assert_eq!((leg.conclusion, leg.files.len()), (Some(Conclusion::Incomplete), 0));
        assert!(warnings[0].contains("'EUC-JP'") && leg.why.contains("UTF-8"), "{warnings:?}");
        // Bytes that are no UTF-8 although nothing else is declared cost no name.
        assert_eq!(read_text(b"<testsuite name='caf\xe9'><testcase name='x'/></testsuite>").0.files[0].file, "caf\u{fffd}");
    }

    #[test]
    fn ledgers_own_report_comes_back_as_it_went_out() {
        let mut night = fixtures::night();
        let mut odd = FileRow::not_run(9, 2, "a\nb".to_owned(), None);
        odd.outcome = Some(Outcome::Pass);
        odd.status = odd.outcome.as_ref().map(Outcome::status);
        let raw = FileRow { index: 10, file: "x\u{fffd}".to_owned(), file_b64: Some("eP8=".to_owned()), ..odd.clone() };
        let long = FileRow { index: 11, file: "y".repeat(400), ..odd.clone() };
        night.legs[0].files.extend([odd, raw, long]);
        night.legs[0].files_reported += 3;
        let text = crate::report::junit::render(&night);
        let leg = LegId { run_id: "r".into(), attempt: "1".into(), platform: "p".into(), target: "t".into(), shard: None };
        let mut found = Found::default();
        read(text.as_bytes(), &Named { leg, written: None }, "x.xml", &mut found).expect("memory can be read");
        let told = |row: &LegRow| {
            let file = |file: &FileRow| {
                (file.index, file.round, file.file.clone(), file.file_b64.clone(), file.outcome.clone(), file.duration_s)
            };
            let files: Vec<_> = row.files.iter().map(file).collect();
            (row.leg(), row.terminal, row.conclusion, row.files_reported, row.files_failed, row.resolved.clone(), files)
        };
        assert!(found.warnings.is_empty(), "{:?}", found.warnings);
        assert_eq!(found.evidence.len(), night.legs.len());
        for (back, out) in found.evidence.iter().zip(&night.legs) {
            assert_eq!(told(&back.row), told(out));
        }
        let cut = &text[..text.rfind("<testcase").unwrap_or(0)];
        let mut found = Found::default();
        let leg = LegId { run_id: "r".into(), attempt: "1".into(), platform: "p".into(), target: "t".into(), shard: None };
        read(cut.as_bytes(), &Named { leg, written: None }, "x.xml", &mut found).expect("memory can be read");
        let last = &found.evidence.last().expect("a leg").row;
        assert_eq!((last.terminal, last.conclusion), (Terminal::AttemptedIncomplete, Some(Conclusion::Incomplete)));
    }

    #[test]
    fn a_report_that_is_cut_short_says_so_and_keeps_what_it_had() {
        let whole = BUN.len();
        for cut in [whole - 20, BUN.find("b &amp;").unwrap_or(0), BUN.find("<failure").unwrap_or(0), 300] {
            let (leg, warnings) = read_text(&BUN.as_bytes()[..cut]);
            assert_eq!(leg.terminal, Terminal::AttemptedIncomplete, "cut at {cut}: {warnings:?}");
            assert!(!warnings.is_empty() && !leg.loop_finished, "cut at {cut}");
            assert!(leg.files[0].file == "test/a.test.ts", "cut at {cut}");
        }
        let at_failure = &BUN[..BUN.find("<skipped").unwrap_or(0)];
        assert_eq!(rows(at_failure), [("test/a.test.ts".to_owned(), "test-failure".to_owned(), None)], "a failure stays one");
        assert_eq!(read_text(BUN.as_bytes()).0.terminal, Terminal::Complete);
    }

    #[test]
    fn hostile_documents_are_bounded() {
        let laughs = r#"<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]><testsuite name="&b;"><testcase name="&b;"/></testsuite>"#;
        assert!(rows(laughs).iter().all(|(file, ..)| !file.contains("aaaa")));
        let outside =
            r#"<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><testsuite name="a">&e;<testcase name="b"/></testsuite>"#;
        assert!(rows(outside).iter().all(|(file, ..)| !file.contains("root")));
        let deep = "<testsuite name='a'>".repeat(50_000);
        assert_eq!(read_text(deep.as_bytes()).0.files.len(), 1);
        let long = format!("<testsuite name='a'><testcase name='x'><system-out>{}", "x".repeat(MAX_EVENT_BYTES + 2));
        let (leg, warnings) = read_text(long.as_bytes());
        assert_eq!((leg.files.len(), leg.terminal), (1, Terminal::AttemptedIncomplete));
        assert!(warnings.iter().any(|text| text.contains("one element has more than")), "{warnings:?}");
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            read_text(&bytes);
        }

        #[test]
        fn a_damaged_report_never_panics(at in 0usize..900, with in any::<u8>(), cut in 0usize..1000) {
            let mut text = BUN.as_bytes().to_vec();
            let at = at % text.len();
            text[at] = with;
            text.truncate(cut);
            read_text(&text);
        }
    }
}
