//! ci-data lines out of legs, in the shape that public projects keep.

use std::collections::BTreeSet;

use crate::core::cidata::WrittenLine;
use crate::core::moment::Wall;
use crate::core::outcome::{Conclusion, Outcome, Scope};
use crate::core::row::{LegRow, Summary};

/// All legs, one after the other.
pub fn ci_data(summary: &Summary) -> String {
    summary.legs.iter().map(leg_lines).collect()
}

/// The lines of one leg. A leg that did not reach its end has no suite line: its end is not the suite's word to give.
pub fn leg_lines(row: &LegRow) -> String {
    let ts = super::merged::date_of(row).unwrap_or(Wall(0));
    let sha = row.sha.as_deref().unwrap_or_default();
    let (run_id, platform) = (row.run_id.as_str(), row.platform.as_str());
    // Platforms are named `<system>-<machine>`; the line's host is the system.
    let host = platform.split('-').next().unwrap_or(platform);
    // The format has no field for a shard. Its name goes with the target, in the form of a leg's key, so that no two shards are one leg.
    let target = row.shard.map_or_else(|| row.target.to_string(), |shard| format!("{}|{shard}", row.target));
    let mut text = String::new();
    let ran = row.files.iter().filter_map(|file| Some((file, file.outcome.as_ref()?)));
    for (file, outcome) in ran.filter(|(_, outcome)| **outcome != Outcome::NotRun) {
        push(
            &mut text,
            &WrittenLine::TestFile {
                ts,
                run_id,
                sha,
                platform,
                host,
                file: &file.file,
                duration_s: file.duration_s,
                status: outcome.status(),
                outcome: outcome.as_str(),
            },
        );
    }
    if let Some(conclusion @ (Conclusion::Pass | Conclusion::Fail)) = row.conclusion {
        push(
            &mut text,
            &WrittenLine::Suite {
                ts,
                run_id,
                sha,
                platform,
                host,
                scope: row.scope.unwrap_or(Scope::Filtered).as_str(),
                conclusion: conclusion.as_str(),
                target: &target,
                files: row.files_reported,
                failed: row.files_failed,
            },
        );
    }
    text
}

/// Whether a leg's lines say less than those that are kept of it. Its own end always counts; without it, a leg whose evidence cannot be
/// read for a moment looks like one that left less.
pub fn is_poorer(lines: &[u8], older: &[u8]) -> bool {
    let has_its_end = |lines: &[u8]| lines.split(|byte| *byte == b'\n').any(is_suite);
    let count = |lines: &[u8]| lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count();
    !has_its_end(lines) && (has_its_end(older) || count(lines) < count(older))
}

fn is_suite(line: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Kind {
        kind: String,
    }
    serde_json::from_slice::<Kind>(line).is_ok_and(|line| line.kind == "suite")
}

/// `<run_id>-<platform>-<target>.ndjson`, with everything that could leave the folder replaced.
fn leg_file_name(row: &LegRow) -> String {
    let shard = row.shard.map(|shard| format!("-{}of{}", shard.index, shard.count)).unwrap_or_default();
    let name = format!("{}-{}-{}{shard}", row.run_id, row.platform, row.target);
    let safe = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '+') { c } else { '_' };
    let name: String = name.chars().map(safe).take(200).collect();
    format!("{}.ndjson", name.trim_start_matches('.'))
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
        let shard = shard.map(|shard| shard.parse().unwrap());
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
