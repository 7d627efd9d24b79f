//! `--format table`: for people in a terminal. Incomplete legs first, then failed, running, passed.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::core::row::{FileRow, LegRow, Summary};
use crate::report::escape;
use crate::report::gate::has_failed;
use crate::report::style::{Ink, Style};
use crate::report::words::{self, Counts, Titles, Verdict};

/// Below this width columns would be a few characters each, so rows become paragraphs.
const TABLE_WIDTH: u16 = 60;
/// A leg with more files than this shows those that did not pass, and counts the others.
const FILES_SHOWN: usize = 40;
/// Names that tell a reader which files never ran; after these a number is enough.
const NAMES_SHOWN: usize = 8;
const LEFTOVERS_SHOWN: usize = 20;
/// Of the last output of a file: a screen's worth.
const LINES_SHOWN: usize = 30;

pub fn render(summary: &Summary, style: Style) -> String {
    let mut out = format!("{}\n", style.paint(Ink::Strong, &wrapped(&Counts::of(summary).sentence(), style, "", "")));
    let legs = words::told_in_order(summary);
    let titles = Titles::of(&legs);
    if !legs.is_empty() {
        out.push('\n');
        out.push_str(&legs_table(&legs, &titles, style));
    }
    for leg in legs.iter().filter(|leg| Verdict::of(leg) != Verdict::Pass || has_failed(leg)) {
        out.push('\n');
        out.push_str(&leg_section(leg, &titles, style));
    }
    out.push_str(&leftovers_section(&legs, style));
    out.push_str(&unproved_section(&legs, style));
    out.push_str(&unsent_section(&legs, style));
    if !summary.warnings.is_empty() {
        out.push_str("\nwarnings:\n");
        for warning in &summary.warnings {
            out.push_str(&bullet(&escape::sentence(warning), style));
        }
    }
    // A cell or a sentence may break anywhere, and then a name begins a line.
    escape::without_commands(&out)
}

fn legs_table(legs: &[&LegRow], titles: &Titles<'_>, style: Style) -> String {
    let cells = |leg: &LegRow| {
        [words::leg_result(leg), titles.title(leg), words::leg_files(leg), words::leg_time(leg), escape::sentence(&leg.why)]
    };
    let inks: Vec<Ink> = legs.iter().map(|leg| Verdict::of(leg).into()).collect();
    let rows: Vec<[String; 5]> = legs.iter().map(|leg| cells(leg)).collect();
    grid(["RESULT", "LEG", "FILES", "TIME", "WHY"], &rows, &inks, style)
}

fn leg_section(leg: &LegRow, titles: &Titles<'_>, style: Style) -> String {
    let heading = format!("{}: {}", titles.title(leg), words::leg_result(leg));
    let run = format!("run {} attempt {}", escape::name(leg.run_id.as_str()), escape::name(leg.attempt.as_str()));
    let mut out = format!("{}\n", style.paint(Verdict::of(leg).into(), &wrapped(&heading, style, "", "")));
    out.push_str(&format!("{}\n", wrapped(&format!("{run}: {}", escape::sentence(&leg.why)), style, "  ", "  ")));
    if let Some(by) = leg.stopped_by {
        out.push_str(&format!("{}\n", wrapped(&format!("stopped: {}", words::stopped(by)), style, "  ", "  ")));
    }
    if matches!(Verdict::of(leg), Verdict::Incomplete | Verdict::Running) {
        for fact in words::leg_facts(leg) {
            out.push_str(&bullet(&fact, style));
        }
    }
    for unsent in words::leg_unsent(leg) {
        out.push_str(&bullet(&unsent, style));
    }
    out.push_str(&files_table(leg, style));
    // The same text is shown below, under the name of its file.
    let is_a_files = |output: &&str| quotes(leg).any(|file| file.last_output.as_deref() == Some(*output));
    if let Some(output) = leg.last_output.as_deref().filter(|_| Verdict::of(leg) != Verdict::Fail).filter(|it| !is_a_files(it)) {
        out.push_str(&quoted("last output", output, style));
    }
    for file in quotes(leg) {
        if let Some(output) = file.last_output.as_deref() {
            out.push_str(&quoted(&format!("last output of {}", escape::name(&file.file)), output, style));
        }
    }
    for other in leg.attempts.iter().take(NAMES_SHOWN) {
        let text =
            format!("attempt {} ended {}: {}", escape::name(other.attempt.as_str()), other.terminal, escape::sentence(&other.why));
        out.push_str(&bullet(&text, style));
    }
    out
}

/// The files whose last output is shown.
fn quotes(leg: &LegRow) -> impl Iterator<Item = &FileRow> {
    leg.files.iter().filter(|file| file.reported() && !words::passed(file)).take(NAMES_SHOWN)
}

fn files_table(leg: &LegRow, style: Style) -> String {
    let all = leg.files.len() <= FILES_SHOWN;
    let never = |file: &&FileRow| (file.outcome.is_some() || file.started_at.is_none()) && !file.reported();
    let (unrun, begun): (Vec<&FileRow>, Vec<&FileRow>) = leg.files.iter().partition(never);
    let shown: Vec<&&FileRow> = begun.iter().filter(|file| all || !words::passed(file)).take(FILES_SHOWN).collect();
    let cells = |file: &FileRow| {
        let time = file.duration_s.map_or("–".to_owned(), |time| time.to_string());
        let cap = file.cap_s.map_or("–".to_owned(), |cap| cap.to_string());
        [words::file_result(file), words::file_title(file), time, cap, words::file_notes(file).join("; ")]
    };
    let rows: Vec<[String; 5]> = shown.iter().map(|file| cells(file)).collect();
    let inks: Vec<Ink> = shown
        .iter()
        .map(|file| match (&file.outcome, words::passed(file)) {
            (None, _) => Ink::Missing,
            (_, true) => Ink::Good,
            _ => Ink::Bad,
        })
        .collect();
    let mut out =
        if rows.is_empty() { String::new() } else { grid(["OUTCOME", "FILE", "TIME", "CAP", "NOTE"], &rows, &inks, style) };
    if !all {
        let (passed, others): (Vec<&FileRow>, Vec<&FileRow>) = begun.iter().partition(|file| words::passed(file));
        let more = others.len().saturating_sub(FILES_SHOWN);
        let more = if more > 0 { format!("{more} more that did not pass; ") } else { String::new() };
        out.push_str(&bullet(&format!("{more}{} passed", words::plural(passed.len(), "file", "files")), style));
    }
    if !unrun.is_empty() {
        let names: Vec<String> = unrun.iter().take(NAMES_SHOWN).map(|file| words::file_title(file)).collect();
        let rest = unrun.len().saturating_sub(NAMES_SHOWN);
        let rest = if rest > 0 { format!(" and {rest} more") } else { String::new() };
        let what = if Verdict::of(leg) == Verdict::Running { "not begun" } else { "not run" };
        out.push_str(&bullet(&format!("{what}: {}{rest}", names.join(", ")), style));
    }
    out
}

/// Of legs that passed, and so have no section of their own: a green row whose evidence is here alone is told.
fn unsent_section(legs: &[&LegRow], style: Style) -> String {
    let mut out = String::new();
    for leg in legs.iter().filter(|leg| Verdict::of(leg) == Verdict::Pass && !has_failed(leg)) {
        for unsent in words::leg_unsent(leg) {
            out.push_str(&bullet(&format!("{}: {unsent}", words::leg_title(leg)), style));
        }
    }
    if out.is_empty() { out } else { format!("\nnot sent:\n{out}") }
}

fn leftovers_section(legs: &[&LegRow], style: Style) -> String {
    let found: Vec<_> = legs
        .iter()
        .flat_map(|leg| words::leg_leftovers(leg).into_iter().map(move |(file, process)| (leg, file, process)))
        .collect();
    if found.is_empty() {
        return String::new();
    }
    let mut out = "\nleftovers:\n".to_owned();
    for (leg, file, process) in found.iter().take(LEFTOVERS_SHOWN) {
        let text = format!("{}, {}: {}", words::leg_title(leg), escape::name(&file.file), words::leftover(process));
        out.push_str(&bullet(&text, style));
    }
    let all: usize = legs.iter().flat_map(|leg| &leg.files).map(words::leftovers_of).sum();
    if all > LEFTOVERS_SHOWN.min(found.len()) {
        out.push_str(&bullet(&format!("and {} more", all - LEFTOVERS_SHOWN.min(found.len())), style));
    }
    out
}

/// Also of legs that passed: something of theirs may be alive.
fn unproved_section(legs: &[&LegRow], style: Style) -> String {
    let of_leg = |leg: &&LegRow| {
        let title = words::leg_title(leg);
        words::leg_unproved(leg).into_iter().map(|file| format!("{title}, {file}")).collect::<Vec<_>>()
    };
    let found: Vec<String> = legs.iter().flat_map(of_leg).collect();
    if found.is_empty() {
        return String::new();
    }
    let mut out = "\nnot proved to be gone:\n".to_owned();
    for text in found.iter().take(LEFTOVERS_SHOWN) {
        out.push_str(&bullet(text, style));
    }
    if found.len() > LEFTOVERS_SHOWN {
        out.push_str(&bullet(&format!("and {} more", found.len() - LEFTOVERS_SHOWN), style));
    }
    out
}

/// Columns where there is room, paragraphs where there is none. The first column carries the ink.
fn grid(header: [&str; 5], rows: &[[String; 5]], inks: &[Ink], style: Style) -> String {
    if style.width < TABLE_WIDTH {
        return paragraphs(rows, inks, style);
    }
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(style.width)
        .set_header(header);
    for row in rows {
        table.add_row(row.iter().map(|cell| style.glyphs(cell)));
    }
    if let Some(column) = table.column_mut(0) {
        column.set_padding((0, 1));
    }
    for right in [2, 3] {
        if let Some(column) = table.column_mut(right) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut inks = inks.iter();
    let mut out = String::new();
    for (at, line) in table.lines().enumerate() {
        let line = line.trim_end();
        // A row begins where its first column does; the lines that follow continue it.
        let first = line.find("  ").unwrap_or(line.len());
        let ink = match at {
            0 => Some(Ink::Dim),
            _ if line.starts_with(' ') || line.is_empty() => None,
            _ => inks.next().copied(),
        };
        match ink {
            Some(Ink::Dim) => out.push_str(&style.paint(Ink::Dim, line)),
            Some(ink) => {
                out.push_str(&style.paint(ink, &line[..first]));
                out.push_str(&line[first..]);
            }
            None => out.push_str(line),
        }
        out.push('\n');
    }
    out
}

fn paragraphs(rows: &[[String; 5]], inks: &[Ink], style: Style) -> String {
    let mut out = String::new();
    for ([result, name, first, second, note], ink) in rows.iter().zip(inks) {
        out.push_str(&style.paint(*ink, &wrapped(&format!("{result} {name}"), style, "", "  ")));
        out.push('\n');
        out.push_str(&wrapped(&format!("{first}, {second}"), style, "  ", "  "));
        out.push('\n');
        if !note.is_empty() {
            out.push_str(&wrapped(note, style, "  ", "  "));
            out.push('\n');
        }
    }
    out
}

fn bullet(text: &str, style: Style) -> String {
    format!("{}\n", wrapped(text, style, &format!("  {} ", style.bullet()), "    "))
}

fn quoted(label: &str, output: &str, style: Style) -> String {
    let block = escape::last_lines(&escape::block(output), LINES_SHOWN);
    if block.is_empty() {
        return String::new();
    }
    let mut out = format!("{}\n", wrapped(&format!("{label}:"), style, "  ", "  "));
    let gutter = format!("    {}", style.gutter());
    for line in block.lines() {
        out.push_str(&wrapped(line, style, &gutter, &gutter));
        out.push('\n');
    }
    out
}

/// Text in lines of the style's width: broken at spaces where there are some, inside a word where there are none.
fn wrapped(text: &str, style: Style, first: &str, others: &str) -> String {
    let text = style.glyphs(text);
    let width = usize::from(style.width).max(20);
    let mut out = first.to_owned();
    let mut used = first.width();
    let mut at_start = true;
    for word in text.split(' ') {
        let gap = usize::from(!at_start);
        if !at_start && used + gap + word.width() > width {
            out.push('\n');
            out.push_str(others);
            used = others.width();
        } else if gap == 1 {
            out.push(' ');
            used += 1;
        }
        for c in word.chars() {
            let wide = c.width().unwrap_or(0);
            if used + wide > width {
                out.push('\n');
                out.push_str(others);
                used = others.width();
            }
            out.push(c);
            used += wide;
        }
        at_start = false;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::moment::Wall;
    use crate::report::fixtures;
    use crate::report::style::{Colour, Glyphs};

    fn style(width: u16) -> Style {
        Style { width, colour: Colour::Off, glyphs: Glyphs::Unicode }
    }

    #[test]
    fn a_night_at_usual_widths() {
        insta::assert_snapshot!("table-100", render(&fixtures::night(), style(100)));
        insta::assert_snapshot!("table-80-ascii", render(&fixtures::night(), Style { glyphs: Glyphs::Ascii, ..style(80) }));
        insta::assert_snapshot!("table-40", render(&fixtures::night(), style(40)));
    }

    #[test]
    fn lines_keep_inside_the_width() {
        for width in [40, 60, 80, 120, 200] {
            for summary in [fixtures::night(), fixtures::hostile()] {
                for line in render(&summary, style(width)).lines() {
                    assert!(line.width() <= usize::from(width), "{width}: {line}");
                }
            }
        }
    }

    #[test]
    fn colour_paints_the_result_only() {
        let text = render(&fixtures::night(), Style { colour: Colour::On, ..style(100) });
        let plain = render(&fixtures::night(), style(100));
        assert!(text.contains("\u{1b}[32mpass\u{1b}[0m"), "{text}");
        let mut stripped = text;
        for code in ["32", "31;1", "33;1", "36", "2", "1", "0"] {
            stripped = stripped.replace(&format!("\u{1b}[{code}m"), "");
        }
        assert_eq!(stripped, plain);
    }

    #[test]
    fn hostile_text_is_inert() {
        let text = render(&fixtures::hostile(), style(80));
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
        assert!(!text.contains('\u{202e}'));
        assert!(!text.lines().any(|line| line.trim_start().starts_with("::")) && !text.contains("##["));
    }

    #[test]
    fn no_name_begins_a_command_of_the_service() {
        let mut summary = fixtures::night();
        for leg in &mut summary.legs {
            leg.platform = "::error file=x::owned by a rather long name that needs some lines ::warning::y ::notice::z".into();
        }
        for width in [40, 60, 80, 120] {
            let text = render(&summary, style(width));
            assert!(!text.lines().any(|line| line.trim_start().starts_with("::")), "{text}");
        }
    }

    #[test]
    fn runs_and_epochs_are_told_apart_and_leftovers_counted() {
        let mut summary = fixtures::night();
        let mut other = summary.legs[0].clone();
        other.run_id = "9".into();
        let mut second = other.clone();
        second.started_at = second.started_at.map(|began| Wall(began.0 + 1000));
        other.beside = vec![second];
        summary.legs.push(other);
        let text = render(&summary, style(200));
        assert!(text.contains("(run 36531)") && text.matches("(run 9) (began ").count() >= 2, "{text}");
        assert!(text.starts_with("7 planned"), "an epoch beside another is no leg of its own: {text}");
        let mut crowd = fixtures::night();
        let leftover =
            crowd.legs.iter().flat_map(|leg| &leg.files).find_map(|file| file.leftovers.first().cloned()).expect("there is one");
        crowd.legs.iter_mut().flat_map(|leg| &mut leg.files).for_each(|file| file.leftovers.clear());
        let file = &mut crowd.legs[0].files[0];
        file.leftovers = vec![leftover; 100];
        file.notes = vec!["800 leftovers, of which 100 are listed".to_owned()];
        assert!(render(&crowd, style(100)).contains("and 780 more"));
    }

    #[test]
    fn missing_results_are_never_called_zero_failures() {
        let mut summary = fixtures::night();
        summary.legs.retain(|leg| Verdict::of(leg) != Verdict::Fail);
        assert!(!render(&summary, style(100)).contains("0 fail"));
        assert!(render(&fixtures::empty(), style(100)).starts_with("0 planned, 0 pass, 0 fail, 0 incomplete"));
    }
}
