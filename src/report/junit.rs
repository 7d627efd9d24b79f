//! `--format junit`: one suite per leg, one case per planned file.

use chrono::{DateTime, FixedOffset};
use quick_junit::{NonSuccessKind, Property, Report, TestCase, TestCaseStatus, TestSuite};

use crate::core::moment::Wall;
use crate::core::row::{LegRow, Summary};
use crate::report::cases::{self, Case, Kind};
use crate::report::escape::xml;
use crate::report::words;

pub fn render(summary: &Summary) -> String {
    let mut report = Report::new("ledger");
    report.timestamp = time(summary.generated_at);
    report.add_test_suites(summary.rows().map(suite));
    report.to_string().expect("a report is written to memory, and its text has only characters that XML has")
}

fn suite(leg: &LegRow) -> TestSuite {
    let title = xml(&words::leg_title(leg));
    let mut suite = TestSuite::new(&title);
    suite.timestamp = leg.started_at.and_then(time);
    suite.time = leg.duration_s.map(|duration| duration.duration());
    suite.add_properties(cases::leg_facts(leg).into_iter().map(|(name, value)| Property::new(name, xml(&value))));
    for case in cases::of(leg) {
        let mut written = TestCase::new(xml(&case.name), status(&case));
        written.set_classname(&title);
        written.timestamp = case.started_at.and_then(time);
        written.time = case.duration.map(|duration| duration.duration());
        written.add_properties(case.facts.iter().map(|(name, value)| Property::new(*name, xml(value))));
        if case.kind == Kind::Passed && !case.output.is_empty() {
            written.set_system_out(xml(&case.output));
        }
        suite.add_test_case(written);
    }
    suite
}

fn status(case: &Case) -> TestCaseStatus {
    let mut status = match case.kind {
        Kind::Passed => return TestCaseStatus::success(),
        Kind::Failed => TestCaseStatus::non_success(NonSuccessKind::Failure),
        Kind::Error => TestCaseStatus::non_success(NonSuccessKind::Error),
        Kind::Pending => TestCaseStatus::skipped(),
    };
    status.set_type(xml(&case.word)).set_message(xml(&case.message));
    if !case.output.is_empty() {
        status.set_description(xml(&case.output));
    }
    status
}

fn time(wall: Wall) -> Option<DateTime<FixedOffset>> {
    DateTime::from_timestamp_millis(wall.0).map(|time| time.fixed_offset())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use quick_xml::Reader;
    use quick_xml::events::{BytesStart, Event};

    use super::*;
    use crate::report::fixtures;

    /// What the usual viewers accept of JUnit: which elements stand where, which attributes they need, and whether the counts agree.
    fn validate(text: &str) -> Result<Vec<String>, String> {
        let inside: BTreeMap<&str, &[&str]> = BTreeMap::from([
            ("", &["testsuites"][..]),
            ("testsuites", &["testsuite"]),
            ("testsuite", &["properties", "testcase", "system-out", "system-err"]),
            ("properties", &["property"]),
            ("testcase", &["properties", "skipped", "error", "failure", "system-out", "system-err"]),
        ]);
        let needed: BTreeMap<&str, &[&str]> = BTreeMap::from([
            ("testsuite", &["name", "tests", "failures", "errors"][..]),
            ("testcase", &["name", "classname"]),
            ("property", &["name", "value"]),
            ("error", &["type", "message"]),
            ("failure", &["type", "message"]),
        ]);
        let mut reader = Reader::from_str(text);
        let (mut open, mut seen, mut suites) = (vec![String::new()], Vec::new(), Vec::<BTreeMap<String, usize>>::new());
        let check =
            |open: &[String], start: &BytesStart<'_>, suites: &mut Vec<BTreeMap<String, usize>>| -> Result<String, String> {
                let name = String::from_utf8(start.name().as_ref().to_vec()).map_err(|error| error.to_string())?;
                let parent = open.last().cloned().unwrap_or_default();
                if !inside.get(parent.as_str()).is_some_and(|children| children.contains(&name.as_str())) {
                    return Err(format!("<{name}> inside <{parent}>"));
                }
                let attributes: BTreeMap<String, String> = start
                    .attributes()
                    .map(|attribute| {
                        let attribute = attribute.map_err(|error| error.to_string())?;
                        let key = String::from_utf8_lossy(attribute.key.as_ref()).into_owned();
                        Ok((key, String::from_utf8_lossy(&attribute.value).into_owned()))
                    })
                    .collect::<Result<_, String>>()?;
                if let Some(missing) =
                    needed.get(name.as_str()).into_iter().flat_map(|n| n.iter()).find(|n| !attributes.contains_key(**n))
                {
                    return Err(format!("<{name}> without {missing}"));
                }
                if name == "testsuite" {
                    let counts =
                        ["tests", "failures", "errors"].map(|key| (key.to_owned(), attributes[key].parse().unwrap_or(usize::MAX)));
                    suites.push(BTreeMap::from(counts));
                }
                let counted = match name.as_str() {
                    "testcase" => "tests",
                    "failure" => "failures",
                    "error" => "errors",
                    _ => return Ok(name),
                };
                let suite = suites.last_mut().ok_or("a case outside a suite")?;
                let left = suite.get_mut(counted).ok_or("a count")?;
                *left = left.checked_sub(1).ok_or_else(|| format!("more {counted} than the suite says"))?;
                Ok(name)
            };
        loop {
            match reader.read_event().map_err(|error| error.to_string())? {
                Event::Start(start) => {
                    let name = check(&open, &start, &mut suites)?;
                    seen.push(name.clone());
                    open.push(name);
                }
                Event::Empty(start) => seen.push(check(&open, &start, &mut suites)?),
                Event::End(_) => drop(open.pop()),
                Event::Eof => break,
                _ => {}
            }
        }
        match suites.iter().flatten().find(|(_, left)| **left != 0) {
            Some((what, left)) => Err(format!("{left} {what} fewer than a suite says")),
            None => Ok(seen),
        }
    }

    #[test]
    fn a_night() {
        let text = render(&fixtures::night());
        let seen = validate(&text).expect("it is well formed");
        assert_eq!(seen.iter().filter(|name| *name == "testsuite").count(), 6);
        insta::assert_snapshot!(text);
    }

    #[test]
    fn hostile_text_is_inert_and_whole() {
        let text = render(&fixtures::hostile());
        validate(&text).expect("it is well formed");
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
        assert!(!text.contains("<script") && !text.contains("<img") && !text.contains('\u{202e}'));
        assert!(text.contains("&lt;script&gt;"));
        validate(&render(&fixtures::empty())).expect("it is well formed");
    }

    #[test]
    fn what_is_missing_is_an_error() {
        let night = fixtures::night();
        for leg in &night.legs {
            let cases = cases::of(leg);
            let good = cases.iter().all(|case| case.kind == Kind::Passed);
            assert_eq!(good, leg.conclusion == Some(crate::core::outcome::Conclusion::Pass), "{}", leg.why);
        }
        let lost = &cases::of(&night.legs[2])[1];
        assert_eq!((lost.kind, lost.word.as_str()), (Kind::Error, "no record"));
        assert!(lost.message.contains("it stopped talking") && lost.output.contains("waiting for login"), "{lost:?}");
        assert_eq!(cases::of(&night.legs[4])[0].word, "not-started");
    }
}
