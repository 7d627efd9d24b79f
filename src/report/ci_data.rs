//! ci-data lines out of legs, in the shape that public projects keep.
//!
//! That shape knows legs which came to their end, one attempt of each. What it cannot say stands in lines and fields of ledger's own,
//! which other readers skip; a leg of which it says all has none of them.

use std::collections::BTreeSet;

use crate::core::cidata::{Apart, FileOfLeg, Tag, WrittenLine};
use crate::core::legline::LegLine;
use crate::core::moment::Wall;
use crate::core::outcome::{Conclusion, Outcome, Scope, Terminal};
use crate::core::row::{FileRow, LegRow, OtherEpoch, Summary};
use crate::core::version::is_version;

/// The attempt of a leg whose lines name none.
const FIRST_ATTEMPT: &str = "1";

/// All legs, one after the other.
pub fn ci_data(summary: &Summary) -> String {
    summary.legs.iter().map(leg_lines).collect()
}

/// The lines of one leg. A leg that did not reach its end has no suite line: its end is not the suite's word to give.
pub fn leg_lines(row: &LegRow) -> String {
    let lines = Lines::of(row);
    let mut text = String::new();
    if lines.tag.is_some() {
        for other in row.attempts.iter().rev() {
            push(&mut text, &WrittenLine::Leg(&lines.other(other)));
        }
        push(&mut text, &WrittenLine::Leg(&lines.leg()));
    }
    for file in &row.files {
        if let Some(line) = lines.file(file) {
            push(&mut text, &line);
        }
    }
    if let Some(conclusion @ (Conclusion::Pass | Conclusion::Fail)) = row.conclusion {
        push(&mut text, &lines.suite(conclusion));
    }
    text
}

/// Whether a leg's lines say less than those that are kept of it. Its own end always counts; without it, a leg whose evidence cannot be
/// read for a moment looks like one that left less.
pub fn is_poorer(lines: &[u8], older: &[u8]) -> bool {
    let has_its_end = |lines: &[u8]| lines.split(|byte| *byte == b'\n').any(|line| is_a(line, "suite"));
    // Planned files without a record have lines too, and are no records.
    let count = |lines: &[u8]| lines.split(|byte| *byte == b'\n').filter(|line| is_a(line, "test-file")).count();
    !has_its_end(lines) && (has_its_end(older) || count(lines) < count(older))
}

fn is_a(line: &[u8], kind: &str) -> bool {
    #[derive(serde::Deserialize)]
    struct Kind {
        kind: String,
    }
    serde_json::from_slice::<Kind>(line).is_ok_and(|line| line.kind == kind)
}

/// What the lines of one leg share.
struct Lines<'a> {
    row: &'a LegRow,
    ts: Wall,
    sha: &'a str,
    host: &'a str,
    /// The format has no field for a shard. Its name goes with the target, in the form of a leg's key, so that no two shards are one leg.
    target: String,
    /// The attempt, where the lines have to say their leg.
    tag: Option<&'a str>,
}

impl<'a> Lines<'a> {
    fn of(row: &'a LegRow) -> Self {
        let platform = row.platform.as_str();
        Self {
            row,
            ts: super::merged::date_of(row).unwrap_or(Wall(0)),
            sha: row.sha.as_deref().unwrap_or_default(),
            // Platforms are named `<system>-<machine>`; the line's host is the system.
            host: platform.split('-').next().unwrap_or(platform),
            target: row.shard.map_or_else(|| row.target.to_string(), |shard| format!("{}|{shard}", row.target)),
            tag: (!is_plain(row)).then(|| row.attempt.as_str()),
        }
    }

    fn tag(&self) -> Option<Tag<'_>> {
        self.tag.map(|attempt| Tag { target: &self.target, attempt })
    }

    fn file<'l>(&'l self, record: &'l FileRow) -> Option<WrittenLine<'l>> {
        let file = FileOfLeg {
            ts: self.ts,
            run_id: self.row.run_id.as_str(),
            sha: self.sha,
            platform: self.row.platform.as_str(),
            host: self.host,
            file: record.file.as_str(),
        };
        let round = Some(record.round).filter(|round| *round > 1);
        let apart = Apart { file_b64: record.file_b64.as_deref(), round, tag: self.tag() };
        match &record.outcome {
            Some(outcome) if *outcome != Outcome::NotRun => Some(WrittenLine::TestFile {
                file,
                duration_s: record.duration_s,
                status: outcome.status(),
                outcome: outcome.as_str(),
                apart,
            }),
            // A leg that passed by its own word has no names for what it did not list.
            missing if apart.tag.is_some() && self.row.conclusion != Some(Conclusion::Pass) => {
                Some(WrittenLine::MissingFile { file, outcome: missing.as_ref().map(Outcome::as_str), apart })
            }
            _ => None,
        }
    }

    fn suite(&self, conclusion: Conclusion) -> WrittenLine<'_> {
        WrittenLine::Suite {
            ts: self.ts,
            run_id: self.row.run_id.as_str(),
            sha: self.sha,
            platform: self.row.platform.as_str(),
            host: self.host,
            scope: self.row.scope.unwrap_or(Scope::Filtered).as_str(),
            conclusion: conclusion.as_str(),
            target: &self.target,
            files: self.row.files_reported,
            failed: self.row.files_failed,
            // A target that is a version says it itself.
            resolved: self.row.resolved.as_deref().filter(|_| !is_version(self.row.target.as_str())),
            attempt: self.tag,
        }
    }

    fn leg(&self) -> LegLine {
        let row = self.row;
        LegLine {
            ts: self.ts,
            run_id: row.run_id.clone(),
            sha: row.sha.clone(),
            platform: row.platform.clone(),
            host: self.host.to_owned(),
            target: self.target.clone(),
            attempt: row.attempt.clone(),
            epoch: row.epoch.clone(),
            scope: row.scope,
            event: row.event.clone(),
            resolved: row.resolved.clone(),
            terminal: row.terminal,
            stopped_by: row.stopped_by,
            conclusion: row.conclusion,
            why: row.why.clone(),
            started_at: row.started_at,
            ended_at: row.ended_at,
            duration_s: row.duration_s,
            files_planned: row.files_planned,
            files_reported: row.files_reported,
            files_failed: row.files_failed,
            last_file: row.last_file.clone(),
            current_file: row.current_file.clone(),
            last_checkpoint_ts: row.last_checkpoint_ts,
        }
    }

    /// What another attempt or epoch left; its files are told where it is told itself.
    fn other(&self, other: &OtherEpoch) -> LegLine {
        // The only record of its attempt needs no epoch to be told apart, and is then known again in a file of its own.
        let alone = other.attempt != self.row.attempt
            && self.row.attempts.iter().filter(|another| another.attempt == other.attempt).count() == 1;
        LegLine {
            ts: other.ended_at.or(other.started_at).unwrap_or(Wall(0)),
            attempt: other.attempt.clone(),
            epoch: other.epoch.clone().filter(|_| !alone),
            terminal: other.terminal,
            stopped_by: None,
            conclusion: other.conclusion,
            why: other.why.clone(),
            started_at: other.started_at,
            ended_at: other.ended_at,
            duration_s: None,
            files_planned: other.files_planned,
            files_reported: other.files_reported,
            files_failed: other.files_failed,
            last_file: other.last_file.clone(),
            current_file: other.current_file.clone(),
            last_checkpoint_ts: None,
            ..self.leg()
        }
    }
}

/// Whether the public shape says all of this leg.
fn is_plain(row: &LegRow) -> bool {
    row.terminal == Terminal::Complete
        && matches!(row.conclusion, Some(Conclusion::Pass | Conclusion::Fail))
        && row.attempt.as_str() == FIRST_ATTEMPT
        && row.attempts.is_empty()
        && row.files_planned.is_none_or(|planned| planned == row.files_reported)
}

/// `<run_id>-<platform>-<target>.ndjson`, with everything that could leave the folder replaced. A later attempt has its number behind
/// it, so that it takes no other's place.
fn leg_file_name(row: &LegRow) -> String {
    let shard = row.shard.map(|shard| format!("-{}of{}", shard.index, shard.count)).unwrap_or_default();
    let name = format!("{}-{}-{}{shard}", row.run_id, row.platform, row.target);
    let safe = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '+') { c } else { '_' };
    let name: String = name.chars().map(safe).take(200).collect();
    let attempt: String = match row.attempt.as_str() {
        FIRST_ATTEMPT => String::new(),
        attempt => format!("~a{}", attempt.chars().map(safe).take(20).collect::<String>()),
    };
    format!("{}{attempt}.ndjson", name.trim_start_matches('.'))
}

/// One name for each leg, in their order. Two legs whose names come out the same are told apart by a number behind a `~`, which no name
/// holds otherwise; case alone tells none apart, because some disks do not see it.
pub fn leg_file_names(rows: &[LegRow]) -> Vec<String> {
    let mut taken = BTreeSet::new();
    let free = |row: &LegRow| {
        let name = leg_file_name(row);
        let stem = name.trim_end_matches(".ndjson").to_owned();
        let numbered = (2..).map(|number: u32| format!("{stem}~{number}.ndjson"));
        let mut names = std::iter::once(name).chain(numbered);
        names.find(|name| taken.insert(name.to_ascii_lowercase())).expect("the numbers do not end before the legs do")
    };
    rows.iter().map(free).collect()
}

fn push(text: &mut String, line: &WrittenLine<'_>) {
    text.push_str(&serde_json::to_string(line).expect("a line has string keys only"));
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::ids::LegId;

    fn leg(platform: &str, target: &str, shard: Option<&str>) -> LegRow {
        let shard = shard.map(|shard| shard.parse().expect("it is well formed"));
        let mut row = LegRow::named(LegId {
            run_id: "10".into(),
            attempt: "1".into(),
            platform: platform.into(),
            target: target.into(),
            shard,
        });
        row.conclusion = Some(Conclusion::Pass);
        row
    }

    #[test]
    fn no_two_legs_share_a_file() {
        let rows = [
            leg("a-b", "c", None),
            leg("a", "b-c", None),
            leg("A", "b-C", None),
            leg("a", "b:c", None),
            leg("a", "b_c", None),
            leg("a", "c", Some("1/2")),
            leg("a", &"x".repeat(300), None),
            leg("a", &"x".repeat(301), None),
        ];
        let mut names = leg_file_names(&rows);
        assert_eq!(
            names[..6],
            [
                "10-a-b-c.ndjson",
                "10-a-b-c~2.ndjson",
                "10-A-b-C~3.ndjson",
                "10-a-b_c.ndjson",
                "10-a-b_c~2.ndjson",
                "10-a-c-1of2.ndjson"
            ]
        );
        names.dedup();
        assert_eq!(names.len(), rows.len());
    }

    #[test]
    fn a_poorer_record_is_told_from_a_newer_one() {
        let (file, suite) = ("{\"kind\":\"test-file\"}\n", "{\"kind\":\"suite\"}\n");
        let lines = |files: usize, ended: bool| file.repeat(files) + if ended { suite } else { "" };
        for (new, older, poorer) in [
            (lines(0, false), lines(3, true), true),
            (lines(5, false), lines(3, true), true),
            (lines(1, false), lines(2, false), true),
            (lines(2, false), lines(2, false), false),
            (lines(3, false), lines(2, false), false),
            (lines(1, true), lines(3, true), false),
            (lines(1, true), lines(3, false), false),
            (lines(0, false), String::new(), false),
        ] {
            assert_eq!(is_poorer(new.as_bytes(), older.as_bytes()), poorer, "{new:?} over {older:?}");
        }
    }

    #[test]
    fn a_shard_goes_with_the_target() {
        assert!(leg_lines(&leg("a", "c", Some("1/2"))).contains(r#""target":"c|1/2""#));
        assert!(leg_lines(&leg("a", "c", None)).contains(r#""target":"c""#));
    }
}
