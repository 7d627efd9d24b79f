//! A timing file: lines `<file> <n>s <outcome>`, one per file that ran.

use std::fmt::Write as _;

use crate::core::outcome::Outcome;
use crate::core::row::Summary;
use crate::report::escape;

/// A file that did not run has no line: 0 s would be a wedge that never happened.
pub fn timing(summary: &Summary) -> String {
    let mut text = String::new();
    for file in summary.rows().flat_map(|leg| &leg.files) {
        if let (Some(outcome), Some(duration)) =
            (file.outcome.as_ref().filter(|outcome| **outcome != Outcome::NotRun), file.duration_s)
        {
            let name = escape::plain(&file.file.chars().map(in_a_line).collect::<String>());
            let word: String = escape::plain(outcome.as_str()).chars().map(|c| if c.is_whitespace() { '-' } else { c }).collect();
            writeln!(text, "{name} {}s {word}", duration.as_f64()).expect("a String takes every write");
        }
    }
    escape::without_commands(&text)
}

/// A control character as the picture that Unicode has of it, so that two names which differ in nothing else stay two.
fn in_a_line(c: char) -> char {
    match c {
        '\u{0}'..='\u{1f}' => char::from_u32(0x2400 + u32::from(c)).unwrap_or(char::REPLACEMENT_CHARACTER),
        '\u{7f}' => '\u{2421}',
        // Of the later controls Unicode has no pictures; the private characters stand for them.
        '\u{80}'..='\u{9f}' => char::from_u32(0xe000 + u32::from(c)).unwrap_or(char::REPLACEMENT_CHARACTER),
        c => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::cidata::parse_timing;
    use crate::core::ids::LegId;
    use crate::core::moment::{Secs, Wall};
    use crate::core::row::{FileRow, LegRow};

    #[test]
    fn every_name_has_a_line_of_its_own_and_what_never_ran_has_none() {
        let leg = LegId { run_id: "r".into(), attempt: "1".into(), platform: "p".into(), target: "t".into(), shard: None };
        let mut row = LegRow::named(leg);
        for name in ["a\nb", "a\tb", "a\rb", "a\u{85}b", "a\u{86}b", "a\u{7f}b", "a b"] {
            let mut file = FileRow::not_run(1, 1, name.to_owned(), None);
            file.duration_s = Some(Secs::from_secs(3));
            row.files.push(file.clone());
            file.outcome = Some(Outcome::Pass);
            row.files.push(file);
        }
        let text = timing(&Summary::of(Wall(0), vec![row]));
        let names: std::collections::BTreeSet<String> =
            text.lines().filter_map(|line| Some(parse_timing(line).ok()??.file)).collect();
        assert_eq!((text.lines().count(), names.len()), (7, 7), "{text}");
    }
}
