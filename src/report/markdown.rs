//! `--format markdown`: for `$GITHUB_STEP_SUMMARY` and pull-request comments. Incomplete legs first, details in folds.
//!
//! The result never exceeds the room it is given: what was left out is counted in its last line.

use crate::core::row::{FileRow, LegRow, Summary};
use crate::report::escape::{self, markdown, markdown_block, markdown_code};
use crate::report::gate::has_failed;
use crate::report::words::{self, Counts, Titles, Verdict};

/// The service refuses a step summary of more than 1 MiB, and several tools may write into one.
pub const SUMMARY_ROOM: usize = 1_000_000;

/// What the line about things left out may need.
const RESERVE: usize = 400;
const FILES_SHOWN: usize = 60;
const OUTPUTS_SHOWN: usize = 6;

pub fn render(summary: &Summary, room: usize) -> String {
    let legs = words::told_in_order(summary);
    let titles = Titles::of(&legs);
    let mut page = Page { text: String::new(), room: room.saturating_sub(RESERVE) };
    page.add(&format!("### {}\n\n", markdown(&Counts::of(summary).sentence())));
    let mut rows_left = 0;
    if !legs.is_empty() {
        page.add("| result | leg | files | time | why |\n|:--|:--|--:|--:|:--|\n");
        // Half of the room: a table of thousands of legs must leave some for what happened in the first ones.
        let half = page.room / 2;
        let shown = legs.iter().take_while(|leg| page.text.len() < half && page.add(&leg_row(leg, &titles))).count();
        rows_left = legs.len() - shown;
        page.add("\n");
    }
    let is_worth_telling = |leg: &LegRow| {
        !words::leg_leftovers(leg).is_empty() || !words::leg_unproved(leg).is_empty() || !words::leg_unsent(leg).is_empty()
    };
    let worth_a_fold = |leg: &&&LegRow| Verdict::of(leg) != Verdict::Pass || has_failed(leg) || is_worth_telling(leg);
    let folds: Vec<&&LegRow> = legs.iter().filter(worth_a_fold).collect();
    let shown = folds.iter().take_while(|leg| page.add(&leg_fold(leg))).count();
    let warnings = summary.warnings.iter().take_while(|warning| page.add(&format!("> {}\n\n", markdown(warning)))).count();
    let left_out =
        [(rows_left, "rows of legs"), (folds.len() - shown, "details of legs"), (summary.warnings.len() - warnings, "warnings")];
    let left_out: Vec<String> = left_out.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
    if !left_out.is_empty() {
        page.text.push_str(&format!("\nLeft out here, for want of room: {}. `ledger report` has them all.\n", left_out.join(", ")));
    }
    page.text
}

/// A run that never began.
pub fn nothing_ran(title: &str, why: &str) -> String {
    format!("### {}\n\n{}\n", markdown(title), markdown_block(why))
}

struct Page {
    text: String,
    room: usize,
}

impl Page {
    /// Adds a piece whole or not at all.
    fn add(&mut self, piece: &str) -> bool {
        let fits = self.text.len() + piece.len() <= self.room;
        if fits {
            self.text.push_str(piece);
        }
        fits
    }
}

fn sign(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Incomplete => "⚠️",
        Verdict::Fail => "❌",
        Verdict::Running => "⏳",
        Verdict::Pass => "✅",
    }
}

fn leg_row(leg: &LegRow, titles: &Titles<'_>) -> String {
    format!(
        "| {} {} | {} | {} | {} | {} |\n",
        sign(Verdict::of(leg)),
        markdown(&words::leg_result(leg)),
        markdown(&titles.title(leg)),
        words::leg_files(leg),
        markdown(&words::leg_time(leg)),
        markdown(&leg.why)
    )
}

fn leg_fold(leg: &LegRow) -> String {
    let verdict = Verdict::of(leg);
    let mut out = format!(
        "<details{}><summary>{} {}: {}</summary>\n\n",
        if verdict == Verdict::Incomplete { " open" } else { "" },
        sign(verdict),
        markdown(&words::leg_title(leg)),
        markdown(&words::leg_result(leg))
    );
    out.push_str(&format!(
        "run {} attempt {}: {}\n\n",
        markdown(leg.run_id.as_str()),
        markdown(leg.attempt.as_str()),
        markdown(&leg.why)
    ));
    let mut facts = Vec::new();
    facts.extend(leg.stopped_by.map(|by| format!("stopped: {}", words::stopped(by))));
    if matches!(verdict, Verdict::Incomplete | Verdict::Running) {
        facts.extend(words::leg_facts(leg));
    }
    facts.extend(words::leg_unsent(leg));
    for (file, process) in words::leg_leftovers(leg).into_iter().take(FILES_SHOWN) {
        facts.push(format!("leftover of {}: {}", escape::name(&file.file), words::leftover(process)));
    }
    facts.extend(words::leg_unproved(leg).into_iter().take(FILES_SHOWN));
    for other in leg.attempts.iter().take(OUTPUTS_SHOWN) {
        facts.push(format!("attempt {} ended {}: {}", other.attempt, other.terminal, other.why));
    }
    for fact in &facts {
        out.push_str(&format!("- {}\n", markdown(fact)));
    }
    if !facts.is_empty() {
        out.push('\n');
    }
    out.push_str(&files(leg));
    for (label, output) in outputs(leg) {
        out.push_str(&format!("{label}\n\n{}\n", markdown_block(output)));
    }
    out.push_str("</details>\n\n");
    out
}

fn files(leg: &LegRow) -> String {
    // What did not pass comes first where not everything can be shown.
    let mut shown: Vec<&FileRow> = leg.files.iter().collect();
    if shown.len() > FILES_SHOWN {
        shown.sort_by_key(|file| (words::passed(file), file.round, file.index));
        shown.truncate(FILES_SHOWN);
    }
    if shown.is_empty() {
        return String::new();
    }
    let mut out = "| outcome | file | time | cap | note |\n|:--|:--|--:|--:|:--|\n".to_owned();
    for file in &shown {
        let span = |secs: Option<crate::core::moment::Secs>| secs.map_or("–".to_owned(), |secs| secs.to_string());
        let round = if file.round > 1 { format!(" (round {})", file.round) } else { String::new() };
        let outcome = markdown(&words::file_result(file));
        let outcome = if words::passed(file) { outcome } else { format!("**{outcome}**") };
        out.push_str(&format!(
            "| {outcome} | {}{round} | {} | {} | {} |\n",
            markdown_code(&file.file),
            span(file.duration_s),
            span(file.cap_s),
            markdown(&words::file_notes(file).join("; "))
        ));
    }
    let more = leg.files.len() - shown.len();
    if more > 0 {
        out.push_str(&format!("\n… and {}\n", words::plural(more, "file", "files")));
    }
    out.push('\n');
    out
}

fn outputs(leg: &LegRow) -> Vec<(String, &str)> {
    let failed = leg.files.iter().filter(|file| file.reported() && !words::passed(file));
    let mut outputs: Vec<(String, &str)> = failed
        .filter_map(|file| Some((format!("last output of {}", markdown_code(&file.file)), file.last_output.as_deref()?)))
        .take(OUTPUTS_SHOWN)
        .collect();
    if matches!(Verdict::of(leg), Verdict::Incomplete | Verdict::Running) {
        outputs.extend(leg.last_output.as_deref().map(|output| ("last output".to_owned(), output)));
    }
    outputs.retain(|(_, output)| !output.trim().is_empty());
    outputs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixtures;

    #[test]
    fn a_night() {
        insta::assert_snapshot!(render(&fixtures::night(), SUMMARY_ROOM));
    }

    #[test]
    fn hostile_text_is_inert() {
        let text = render(&fixtures::hostile(), SUMMARY_ROOM);
        let mut fence: Option<String> = None;
        for line in text.lines() {
            match &fence {
                Some(open) if line == open => fence = None,
                Some(_) => {}
                None if line.starts_with("```") => fence = Some(line.trim_end_matches("text").to_owned()),
                None => {
                    for bad in ["<script", "<img", "](", "::error", "##[", "@everyone", "https://", " #1", "</textarea"] {
                        assert!(!line.contains(bad), "{bad}: {line}");
                    }
                    assert!(!line.starts_with("::") && !line.chars().any(char::is_control), "{line}");
                }
            }
        }
        assert_eq!(fence, None, "a fence was left open");
        assert!(!text.contains(['\u{1b}', '\u{202e}', '\0']));
        assert!(!text.contains("##[") && !text.lines().any(|line| line.trim_start().starts_with("::")));
    }

    #[test]
    fn the_room_is_kept_and_what_is_missing_is_said() {
        let mut summary = fixtures::night();
        for _ in 0..9 {
            summary.legs.extend(summary.legs.clone());
        }
        for room in [2_000, 65_000, SUMMARY_ROOM] {
            let text = render(&summary, room);
            assert!(text.len() <= room, "{} of {room}", text.len());
            assert!(text.contains("3072 planned, 512 pass"));
            assert!(text.trim_end().ends_with("`ledger report` has them all."), "{}", &text[text.len() - 200..]);
            assert_eq!(text.matches("<details").count(), text.matches("</details>").count());
        }
        assert!(render(&fixtures::empty(), 65_000).starts_with("### 0 planned"));
    }
}
