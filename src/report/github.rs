//! What a run says to the CI service on its own output: groups, annotations, step outputs. Pure text; the loop writes it.

use crate::core::outcome::{Conclusion, Outcome};
use crate::core::process::Fate;
use crate::core::row::{FileRow, LegRow};
use crate::report::escape::{self, command_data, command_property};
use crate::report::words;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    Error,
    Warning,
    Notice,
}

impl Level {
    fn as_str(self) -> &'static str {
        match self {
            Level::Error => "error",
            Level::Warning => "warning",
            Level::Notice => "notice",
        }
    }
}

/// Begins a fold in the log.
pub fn group(title: &str) -> String {
    format!("::group::{}\n", command_data(&escape::sentence(title)))
}

/// Ends it, as a line of its own.
pub const END_GROUP: &str = "::endgroup::";

/// One annotation. `file` is a path of the repository, where there is one.
pub fn annotation(level: Level, file: Option<&str>, title: &str, message: &str) -> String {
    let file = file.map(|file| format!("file={},", command_property(&escape::name(file)))).unwrap_or_default();
    let title = command_property(&escape::name(title));
    format!("::{} {file}title={title}::{}\n", level.as_str(), command_data(&escape::block(message)))
}

/// Of the last output of a file: an annotation is a note, not a log.
const LINES_SHOWN: usize = 30;

/// The findings of one finished file: how it failed, and what it left behind.
///
/// `path` is where the file is in the repository: what it is called in the plan is told from the working folder.
pub fn file_annotations(file: &FileRow, path: &str) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(outcome) = file.outcome.as_ref().filter(|outcome| **outcome != Outcome::Pass) {
        let time = file.duration_s.map(|time| format!(" after {time}")).unwrap_or_default();
        let notes = words::file_notes(file);
        let notes = if notes.is_empty() { String::new() } else { format!("\n{}", notes.join("; ")) };
        let output = file
            .last_output
            .as_deref()
            .map(|output| format!("\n{}", escape::last_lines(&escape::block(output), LINES_SHOWN)))
            .unwrap_or_default();
        let message = format!("{}: {}{time}{notes}{output}", escape::name(&file.file), words::file_result(file));
        let level = if *outcome == Outcome::NotRun { Level::Warning } else { Level::Error };
        found.push(annotation(level, Some(path), &words::file_result(file), &message));
    }
    let (survived, gone): (Vec<_>, Vec<_>) =
        file.leftovers.iter().partition(|process| matches!(process.fate, Fate::Survived | Fate::Unkillable));
    for (level, processes, title) in [(Level::Error, survived, "leftovers survived"), (Level::Warning, gone, "leftovers")] {
        if !processes.is_empty() {
            let names: Vec<String> = processes.iter().take(10).map(|process| words::leftover(process)).collect();
            found.push(annotation(level, Some(path), title, &format!("{} left {}", escape::name(&file.file), names.join(", "))));
        }
    }
    found
}

/// What is appended to `$GITHUB_OUTPUT` at the end of a run (DESIGN §2).
pub fn outputs(leg: &LegRow) -> String {
    let number = |n: Option<u32>| n.map(|n| n.to_string()).unwrap_or_default();
    let values = [
        ("loop-finished", leg.loop_finished.to_string()),
        ("conclusion", leg.conclusion.map_or("incomplete", Conclusion::as_str).to_owned()),
        ("failed", leg.files_failed.to_string()),
        ("files-reported", leg.files_reported.to_string()),
        ("files-planned", number(leg.files_planned)),
        ("last-file", leg.last_file.clone().unwrap_or_default()),
    ];
    values.iter().map(|(name, value)| output(name, value)).collect()
}

/// The same for a run that never began.
pub fn outputs_of_nothing() -> String {
    let values =
        [("loop-finished", "false"), ("conclusion", Conclusion::Incomplete.as_str()), ("failed", "0"), ("files-reported", "0")];
    values.iter().map(|(name, value)| output(name, value)).collect()
}

/// One step output. A value that could be read as more than one line is given between delimiters that it does not contain.
pub fn output(name: &str, value: &str) -> String {
    // The runner reads `name<<end` before `name=value`, so a value is only written plainly where neither can be mistaken.
    let plain = !value.contains(['\n', '\r', '\0']) && !value.contains("<<");
    if plain {
        return format!("{name}={value}\n");
    }
    let taken = |end: &str| value.split(['\n', '\r']).any(|line| line == end);
    let mut end = "ledger-end".to_owned();
    while taken(&end) {
        end.push('-');
    }
    format!("{name}<<{end}\n{}\n{end}\n", value.replace('\0', "\u{FFFD}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::report::fixtures::{self, HOSTILE};

    /// Reads step outputs as the runner does.
    fn read(text: &str) -> Vec<(String, String)> {
        let mut found = Vec::new();
        let mut lines = text.split('\n');
        while let Some(line) = lines.next() {
            let heredoc = line.find("<<");
            let equals = line.find('=');
            match (heredoc, equals) {
                (Some(at), equals) if equals.is_none_or(|equals| at < equals) => {
                    let end = &line[at + 2..];
                    let value: Vec<&str> = lines.by_ref().take_while(|line| *line != end).collect();
                    found.push((line[..at].to_owned(), value.join("\n")));
                }
                (_, Some(at)) => found.push((line[..at].to_owned(), line[at + 1..].to_owned())),
                _ => assert!(line.is_empty(), "{line}"),
            }
        }
        found
    }

    #[test]
    fn step_outputs_read_back() {
        for value in ["plain", "", "a=b", "a<<b", "two\nlines", "ledger-end\nledger-end-\nx=y", "x\nledger-end", HOSTILE] {
            let expect = vec![("last-file".to_owned(), value.replace('\0', "\u{FFFD}"))];
            assert_eq!(read(&output("last-file", value)), expect, "{value:?}");
        }
        let night = fixtures::night();
        insta::assert_snapshot!(outputs(&night.legs[2]), @r"
        loop-finished=false
        conclusion=incomplete
        failed=0
        files-reported=1
        files-planned=3
        last-file=test/one.test.ts
        ");
        assert_eq!(read(&outputs(&fixtures::hostile().legs[0])).len(), 6);
    }

    #[test]
    fn annotations() {
        let file = fixtures::file(
            2,
            "test/a,b:c.ts",
            json!({"outcome": "test-failure", "exit_code": 1, "last_output": "50%\r\nbad", "leftovers": [fixtures::leftover()]}),
        );
        insta::assert_snapshot!(file_annotations(&file, &file.file).concat(), @r"
        ::error file=test/a%2Cb%3Ac.ts,title=test-failure::test/a,b:c.ts: test-failure after 33.4 s%0Aexit 1; left 1 process behind%0A50%25%0Abad
        ::warning file=test/a%2Cb%3Ac.ts,title=leftovers::test/a,b:c.ts left qemu-system-x86_64 (pid 4711, 3.1 s old, 41 MiB, killed)
        ");
        assert!(file_annotations(&fixtures::file(1, "a", json!({})), "a").is_empty());
    }

    #[test]
    fn hostile_names_make_no_command() {
        let file = &fixtures::hostile().legs[0].files[0];
        let mut texts = file_annotations(file, &file.file);
        texts.push(group(HOSTILE));
        texts.push(annotation(Level::Notice, None, HOSTILE, HOSTILE));
        for text in texts {
            assert_eq!(text.matches('\n').count(), 1, "{text:?}");
            assert!(!text.trim_end().chars().any(char::is_control), "{text:?}");
            let properties = text.trim_start_matches("::").split("::").next().expect("there is one");
            assert!(properties.matches(',').count() <= 1, "{properties}");
        }
    }
}
