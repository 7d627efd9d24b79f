//! JUnit XML, whoever wrote it, also cut short: read as a stream, with memory that does not depend on it.
//!
//! A test file is the outermost suite that names one, or what its cases name; cases add up to files. A suite of ledger's own report is a
//! leg whose cases are files. External entities are never resolved.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Read};

use quick_xml::events::{BytesStart, Event};
use quick_xml::reader::Reader;

use super::{Found, Named, timing};
use crate::core::moment::Secs;
use crate::core::outcome::Outcome;
use crate::core::row::FileRow;

/// One element, text or comment of more than this ends the reading there. A suite's whole output may stand in one text.
const MAX_EVENT_BYTES: usize = 16 << 20;
/// Suites inside suites; honest reports have three.
const MAX_DEPTH: usize = 128;
/// Files of one report.
const MAX_FILES: usize = 100_000;
const MAX_NAME_BYTES: usize = 4096;

pub fn read(stream: impl BufRead, named: &Named, shown: &str, found: &mut Found) -> io::Result<()> {
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
                building.end(element.name().as_ref());
            }
            Ok(Event::End(element)) => building.end(element.name().as_ref()),
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
        if building.files.len() > MAX_FILES {
            found.warn(format!("{shown}: more than {MAX_FILES} files; the rest was not read"));
            break false;
        }
    };
    if !building.saw_suite {
        found.warn(format!("{shown}: no <testsuite> is in it"));
    } else if !whole {
        found.warn(format!("{shown}: it is cut short; what stands before counts"));
    }
    found.evidence.push(timing::evidence(named, building.into_rows(), shown, whole));
    Ok(())
}

/// Cases of one file.
#[derive(Debug, Default)]
struct Sum {
    order: usize,
    cases: u64,
    failed: u64,
    errors: u64,
    time: Secs,
    /// The suite's own time, where a suite is the file.
    suite_time: Option<Secs>,
    /// A suite that was never closed.
    open: bool,
}

#[derive(Debug, Default)]
struct Building {
    files: BTreeMap<String, Sum>,
    /// Names that suites around the current place give to the file, `None` for a suite that names none.
    suites: Vec<Option<String>>,
    case: Option<String>,
    saw_suite: bool,
    saw_end: bool,
}

impl Building {
    fn start(&mut self, element: &BytesStart<'_>) {
        match element.local_name().as_ref() {
            b"testsuite" if self.suites.len() < MAX_DEPTH => self.suite(element),
            b"testcase" => self.case(element),
            b"failure" => self.with_case(|sum| sum.failed += 1),
            b"error" => self.with_case(|sum| sum.errors += 1),
            _ => {}
        }
    }

    fn suite(&mut self, element: &BytesStart<'_>) {
        self.saw_suite = true;
        let file = attribute(element, b"file").or_else(|| attribute(element, b"filepath"));
        // An inner suite of a file, which is a `describe`, belongs to the file around it.
        let outer = self.suites.iter().flatten().next().cloned();
        let name = outer.is_none().then(|| file.or_else(|| attribute(element, b"name"))).flatten();
        if let Some(name) = &name {
            let sum = self.sum(name);
            sum.open = true;
            sum.suite_time = attribute(element, b"time").and_then(|text| seconds(&text)).or(sum.suite_time);
        }
        self.suites.push(name);
    }

    fn case(&mut self, element: &BytesStart<'_>) {
        let own = attribute(element, b"file").or_else(|| attribute(element, b"filepath"));
        let suite = self.suites.iter().flatten().next().cloned();
        let class = || attribute(element, b"classname").or_else(|| attribute(element, b"name"));
        let Some(file) = own.or(suite).or_else(class) else { return };
        let time = attribute(element, b"time").and_then(|text| seconds(&text)).unwrap_or(Secs::ZERO);
        let sum = self.sum(&file);
        sum.cases += 1;
        sum.time = sum.time.saturating_add(time);
        self.case = Some(file);
    }

    fn with_case(&mut self, change: impl FnOnce(&mut Sum)) {
        // A failure outside a case is the suite's own, such as a file that could not be loaded.
        let file = self.case.clone().or_else(|| self.suites.iter().flatten().next().cloned());
        if let Some(file) = file {
            change(self.sum(&file));
        }
    }

    fn end(&mut self, name: &[u8]) {
        match name {
            b"testcase" => self.case = None,
            b"testsuite" => {
                if let Some(Some(file)) = self.suites.pop() {
                    self.sum(&file).open = false;
                }
                self.saw_end |= self.suites.is_empty();
            }
            b"testsuites" => self.saw_end = true,
            _ => {}
        }
    }

    fn sum(&mut self, file: &str) -> &mut Sum {
        let order = self.files.len();
        self.files.entry(file.to_owned()).or_insert_with(|| Sum { order, ..Sum::default() })
    }

    fn into_rows(self) -> Vec<FileRow> {
        // A suite whose cases name their own files is no file itself.
        let mut sums: Vec<(String, Sum)> =
            self.files.into_iter().filter(|(_, sum)| sum.cases + sum.errors + sum.failed > 0 || sum.open).collect();
        sums.sort_by_key(|(_, sum)| sum.order);
        sums.into_iter().enumerate().map(|(at, (file, sum))| sum.into_row(super::count(at) + 1, file)).collect()
    }
}

impl Sum {
    fn into_row(self, index: u32, file: String) -> FileRow {
        let mut row = FileRow::not_run(index, 1, file, None);
        let outcome = match (self.failed + self.errors, self.open) {
            (1.., _) => Some(Outcome::TestFailure),
            (0, true) => None,
            (0, false) => Some(Outcome::Pass),
        };
        row.status = outcome.as_ref().map(Outcome::status);
        row.outcome = outcome;
        row.duration_s = if self.open { None } else { Some(self.suite_time.unwrap_or(self.time).max(self.time)) };
        row
    }
}

fn attribute(element: &BytesStart<'_>, name: &[u8]) -> Option<String> {
    let attribute =
        element.attributes().with_checks(false).flatten().find(|attribute| attribute.key.local_name().as_ref() == name)?;
    let value = attribute.normalized_value(quick_xml::XmlVersion::Implicit1_0).ok()?;
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
    use crate::core::outcome::Terminal;
    use crate::core::row::LegRow;
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
