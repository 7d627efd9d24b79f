//! ci-data lines out of legs, in the shape that public projects keep.

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
                target: row.target.as_str(),
                files: row.files_reported,
                failed: row.files_failed,
            },
        );
    }
    text
}

/// `<run_id>-<platform>-<target>.ndjson`, with everything that could leave the folder replaced.
pub fn leg_file_name(row: &LegRow) -> String {
    let shard = row.shard.map(|shard| format!("-{}of{}", shard.index, shard.count)).unwrap_or_default();
    let name = format!("{}-{}-{}{shard}", row.run_id, row.platform, row.target);
    let safe = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '+') { c } else { '_' };
    let name: String = name.chars().map(safe).take(200).collect();
    format!("{}.ndjson", name.trim_start_matches('.'))
}

fn push(text: &mut String, line: &WrittenLine<'_>) {
    text.push_str(&serde_json::to_string(line).expect("a line has string keys only"));
    text.push('\n');
}
