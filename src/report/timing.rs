//! A timing file: lines `<file> <n>s <outcome>`, one per file that ran.

use std::fmt::Write as _;

use crate::core::row::Summary;

/// A file that did not run has no line: 0 s would be a wedge that never happened.
pub fn timing(summary: &Summary) -> String {
    let mut text = String::new();
    for file in summary.legs.iter().flat_map(|leg| &leg.files) {
        if let (Some(outcome), Some(duration)) = (&file.outcome, file.duration_s) {
            let name: String = file.file.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
            let word: String = outcome.as_str().chars().map(|c| if c.is_whitespace() { '-' } else { c }).collect();
            writeln!(text, "{name} {}s {word}", duration.as_f64()).expect("a String takes every write");
        }
    }
    text
}
