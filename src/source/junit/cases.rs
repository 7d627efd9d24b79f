//! Suites and cases of any writer added up to files, held against the counts that their suites claim.
//!
//! A claim is never ignored: a failure that is counted and not listed is a failure of its suite's file.

use std::collections::BTreeMap;

use quick_xml::events::BytesStart;

use super::own::{self, OwnCase, OwnLeg};
use super::{attribute, seconds, time};
use crate::core::moment::{Secs, Wall};
use crate::core::outcome::Outcome;
use crate::core::row::{FileRow, LegRow};

/// Suites inside suites; honest reports have three.
const MAX_DEPTH: usize = 128;
/// What a suite is called that has no name.
const NAMELESS: &str = "(a suite without a name)";

/// What a suite's attributes claim, or what was seen of it.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    tests: u64,
    bad: u64,
}

impl Counts {
    fn claimed_by(element: &BytesStart<'_>) -> Self {
        let count = |name| attribute(element, name).and_then(|text| text.trim().parse::<u64>().ok()).unwrap_or(0);
        Self { tests: count(b"tests"), bad: count(b"failures").saturating_add(count(b"errors")) }
    }
}

/// Cases of one file.
#[derive(Debug, Default)]
struct Sum {
    order: usize,
    cases: u64,
    bad: u64,
    time: Secs,
    started: Option<Wall>,
    /// A suite that was never closed.
    open: bool,
}

/// An element around the current place: a suite, or the root of all.
#[derive(Debug, Default)]
struct Frame {
    is_root: bool,
    name: Option<String>,
    /// What the suite itself says its file is.
    file: Option<String>,
    claimed: Counts,
    seen: Counts,
    time: Option<Secs>,
    /// Time of cases that count for this suite's own file.
    cases_time: Secs,
    /// Suites in it name files of their own, so that its time is theirs.
    holds_files: bool,
    started: Option<Wall>,
    properties: own::Properties,
    own: Option<OwnLeg>,
}

#[derive(Debug, Default)]
pub(super) struct Building {
    files: BTreeMap<String, Sum>,
    frames: Vec<Frame>,
    /// Suites that stand too deep to be looked at.
    deeper: usize,
    /// The file of the case around the current place.
    case: Option<String>,
    own_case: Option<OwnCase>,
    own_legs: Vec<LegRow>,
    /// Tests that are counted and not listed.
    pub unlisted: u64,
    pub saw_suite: bool,
    /// The outermost element was closed.
    pub saw_end: bool,
    pub first: Option<Wall>,
    pub last: Option<Wall>,
}

impl Building {
    pub fn start(&mut self, element: &BytesStart<'_>) {
        match element.local_name().as_ref() {
            b"testsuites" | b"testsuite" if self.frames.len() >= MAX_DEPTH => self.deeper += 1,
            b"testsuites" => self.frame(element, true),
            b"testsuite" => self.frame(element, false),
            b"testcase" => self.case(element),
            b"property" => self.property(element),
            word @ (b"failure" | b"error" | b"skipped") => match (&mut self.own_case, word) {
                (Some(case), _) => case.not_passed(attribute(element, b"type")),
                (None, b"skipped") => {}
                (None, _) => self.bad(),
            },
            _ => {}
        }
    }

    pub fn end(&mut self, name: &[u8]) {
        match name {
            b"testcase" => {
                self.case = None;
                if let (Some(case), Some(leg)) = (self.own_case.take(), self.frames.last_mut().and_then(|frame| frame.own.as_mut()))
                {
                    leg.add(case);
                }
            }
            b"testsuite" | b"testsuites" if self.deeper > 0 => self.deeper -= 1,
            b"testsuite" if self.frames.last().is_some_and(|frame| !frame.is_root) => self.close(),
            b"testsuites" => {
                while !self.frames.is_empty() {
                    self.close();
                }
            }
            _ => {}
        }
    }

    pub fn is_larger_than(&self, files: usize) -> bool {
        self.files.len() + self.own_legs.iter().map(|leg| leg.files.len()).sum::<usize>() > files
    }

    fn frame(&mut self, element: &BytesStart<'_>, is_root: bool) {
        self.saw_suite = true;
        let file = attribute(element, b"file").or_else(|| attribute(element, b"filepath")).filter(|_| !is_root);
        let started = time(element);
        let took = attribute(element, b"time").and_then(|text| seconds(&text));
        self.first = self.first.into_iter().chain(started).min();
        self.last = self.last.max(started.map(|started| started.plus(took.unwrap_or(Secs::ZERO))));
        if file.is_some() {
            self.frames.iter_mut().for_each(|around| around.holds_files |= around.file.is_none());
        }
        let claimed = Counts::claimed_by(element);
        let name = attribute(element, b"name");
        self.frames.push(Frame { is_root, name, file, claimed, time: took, started, ..Frame::default() });
        if let Some((at, file)) = self.suite_file() {
            let is_innermost = at + 1 == self.frames.len();
            let sum = self.sum(&file);
            sum.started = sum.started.or(started);
            sum.open |= is_innermost;
        }
    }

    /// The suite that stands for a file: the outermost that says its file, else the outermost with a name. An inner one, which is a
    /// `describe`, belongs to the file around it.
    fn suite_file(&self) -> Option<(usize, String)> {
        let said = self.frames.iter().enumerate().find_map(|(at, frame)| Some((at, frame.file.clone()?)));
        let named = || {
            let mut suites = self.frames.iter().enumerate().filter(|(_, frame)| !frame.is_root);
            suites.find_map(|(at, frame)| Some((at, frame.name.clone()?)))
        };
        said.or_else(named)
    }

    fn case(&mut self, element: &BytesStart<'_>) {
        let name = attribute(element, b"name");
        let took = attribute(element, b"time").and_then(|text| seconds(&text));
        if let Some(frame) = self.frames.last_mut().filter(|frame| frame.own.is_some() || own::is_leg(&frame.properties)) {
            frame.own.get_or_insert_with(|| OwnLeg::new(&frame.properties, frame.started, frame.time));
            self.own_case = Some(OwnCase::new(name, took, time(element)));
            return;
        }
        if let Some(frame) = self.frames.last_mut() {
            frame.seen.tests += 1;
        }
        let said = attribute(element, b"file").or_else(|| attribute(element, b"filepath"));
        let class = attribute(element, b"classname");
        let suite = self.suite_file();
        let by_suite = suite.as_ref().map(|(at, file)| (self.frames[*at].file.is_none(), file.clone()));
        let file = said.or_else(|| match &by_suite {
            Some((true, suite)) => {
                Some(python_module(suite, class.as_deref().or(name.as_deref())).unwrap_or_else(|| suite.clone()))
            }
            Some((false, suite)) => Some(suite.clone()),
            None => class.or(name),
        });
        let file = file.unwrap_or_else(|| NAMELESS.to_owned());
        let took = took.unwrap_or(Secs::ZERO);
        let of_the_suite = suite.filter(|(_, suite)| *suite == file).map(|(at, _)| at);
        match of_the_suite {
            Some(at) => self.frames[at].cases_time = self.frames[at].cases_time.saturating_add(took),
            None => {
                let sum = self.sum(&file);
                sum.time = sum.time.saturating_add(took);
            }
        }
        let started = time(element);
        let sum = self.sum(&file);
        sum.cases += 1;
        sum.started = sum.started.or(started);
        self.case = Some(file);
    }

    fn property(&mut self, element: &BytesStart<'_>) {
        let (Some(name), Some(value)) = (attribute(element, b"name"), attribute(element, b"value")) else { return };
        match (&mut self.own_case, self.frames.last_mut()) {
            (Some(case), _) => case.properties.put(name, value),
            (None, Some(frame)) if self.case.is_none() => frame.properties.put(name, value),
            _ => {}
        }
    }

    fn bad(&mut self) {
        if let Some(frame) = self.frames.last_mut() {
            frame.seen.bad += 1;
        }
        // A failure outside a case is the suite's own, such as a file that could not be loaded.
        let file = self.case.clone().or_else(|| Some(self.suite_file()?.1)).unwrap_or_else(|| NAMELESS.to_owned());
        self.sum(&file).bad += 1;
    }

    fn close(&mut self) {
        let suite = self.suite_file();
        let Some(frame) = self.frames.pop() else { return };
        self.saw_end |= self.frames.is_empty();
        if let Some(leg) =
            frame.own.or_else(|| own::is_leg(&frame.properties).then(|| OwnLeg::new(&frame.properties, frame.started, frame.time)))
        {
            self.own_legs.push(leg.into_row(true));
            // What it holds has been counted, and is no file of the report around it.
            self.frames.iter_mut().for_each(|around| around.claimed = Counts::default());
            if let Some((_, file)) = suite {
                self.files.remove(&file);
            }
            return;
        }
        let hidden = Counts {
            tests: frame.claimed.tests.saturating_sub(frame.seen.tests),
            bad: frame.claimed.bad.saturating_sub(frame.seen.bad),
        };
        self.unlisted = self.unlisted.saturating_add(hidden.tests.max(hidden.bad));
        let of_the_suite = suite.as_ref().filter(|(at, _)| *at == self.frames.len());
        if hidden.tests + hidden.bad > 0 || of_the_suite.is_some() {
            let file = suite.clone().map(|(_, file)| file).or(frame.name).unwrap_or_else(|| NAMELESS.to_owned());
            let own_time = frame.time.filter(|_| !frame.holds_files).unwrap_or(Secs::ZERO).max(frame.cases_time);
            let is_of_the_suite = of_the_suite.is_some();
            let sum = self.sum(&file);
            sum.cases = sum.cases.saturating_add(hidden.tests);
            sum.bad = sum.bad.saturating_add(hidden.bad);
            if is_of_the_suite {
                sum.open = false;
                sum.time = sum.time.saturating_add(own_time);
            }
        }
        if let Some(around) = self.frames.last_mut() {
            around.seen.tests = around.seen.tests.saturating_add(frame.claimed.tests.max(frame.seen.tests));
            around.seen.bad = around.seen.bad.saturating_add(frame.claimed.bad.max(frame.seen.bad));
        }
    }

    fn sum(&mut self, file: &str) -> &mut Sum {
        let order = self.files.len();
        self.files.entry(file.to_owned()).or_insert_with(|| Sum { order, ..Sum::default() })
    }

    /// The legs of a report that ledger wrote, and the files of everything else.
    pub fn finish(mut self) -> (Vec<LegRow>, Vec<FileRow>) {
        if let Some((case, leg)) = self.own_case.take().zip(self.frames.last_mut().and_then(|frame| frame.own.as_mut())) {
            leg.add(case.cut_short());
        }
        let cut = self.frames.drain(..).filter_map(|frame| {
            let is_leg = own::is_leg(&frame.properties);
            frame.own.or_else(|| is_leg.then(|| OwnLeg::new(&frame.properties, frame.started, frame.time)))
        });
        let cut: Vec<LegRow> = cut.map(|leg| leg.into_row(false)).collect();
        let has_cut = !cut.is_empty();
        self.own_legs.extend(cut);
        // A suite whose cases name their own files is no file itself.
        let is_file = |sum: &Sum| sum.cases + sum.bad > 0 || (sum.open && !has_cut);
        let mut sums: Vec<(String, Sum)> = self.files.into_iter().filter(|(_, sum)| is_file(sum)).collect();
        sums.sort_by_key(|(_, sum)| sum.order);
        let rows = sums.into_iter().enumerate().map(|(at, (file, sum))| sum.into_row(crate::source::count(at) + 1, file)).collect();
        (self.own_legs, rows)
    }
}

impl Sum {
    fn into_row(self, index: u32, file: String) -> FileRow {
        let mut row = FileRow::not_run(index, 1, file, None);
        let outcome = match (self.bad, self.open) {
            (1.., _) => Some(Outcome::TestFailure),
            (0, true) => None,
            (0, false) => Some(Outcome::Pass),
        };
        row.status = outcome.as_ref().map(Outcome::status);
        row.outcome = outcome;
        row.started_at = self.started;
        row.duration_s = if self.open { None } else { Some(self.time) };
        row
    }
}

/// The file of a pytest case: its usual report is one suite for all files, whose cases name their module and class by dots.
fn python_module(suite: &str, class: Option<&str>) -> Option<String> {
    let parts: Vec<&str> = class?.split('.').collect();
    let is_name = |part: &&str| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'));
    if suite.contains(['/', '\\', '.']) || !parts.iter().all(is_name) {
        return None;
    }
    let is_module = |part: &&str| part.starts_with("test_") || part.ends_with("_test");
    let is_class = |part: &&&str| part.starts_with(char::is_uppercase);
    let end = match parts.iter().rposition(is_module) {
        Some(at) => at + 1,
        None if suite == "pytest" => parts.len() - parts.iter().rev().take_while(is_class).count(),
        None => return None,
    };
    (end > 0).then(|| format!("{}.py", parts[..end].join("/")))
}

#[cfg(test)]
mod tests {
    use super::python_module;

    #[test]
    fn a_module_is_a_file_only_where_pytest_wrote_it() {
        for (suite, class, file) in [
            ("pytest", "tests.unit.test_a.TestX", Some("tests/unit/test_a.py")),
            ("pytest", "test_a", Some("test_a.py")),
            ("pytest", "checks.network.Suite.Inner", Some("checks/network.py")),
            ("nightly", "tests.test_a", Some("tests/test_a.py")),
            ("nightly", "checks.network", None),
            ("a.test.ts", "tests.test_a", None),
            ("pytest", "works when it is called", None),
            ("pytest", "..test_a", None),
            ("pytest", "Only", None),
        ] {
            assert_eq!(python_module(suite, Some(class)).as_deref(), file, "{suite} {class}");
        }
        assert_eq!(python_module("pytest", None), None);
    }
}
