//! Caps for people: the table of a backtest, the findings of a check, a file's history as a plot.

use comfy_table::{CellAlignment, Table, presets};

use crate::core::backtest::Verdict;
use crate::core::cap::{Estimate, Policy};
use crate::core::capcheck::Finding;
use crate::core::history::Pass;
use crate::core::moment::Secs;
use crate::report::escape;
use crate::report::style::{Glyphs, Ink, Style};

/// One part of a backtest: which legs were judged, and what each policy did to them.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Part {
    pub name: String,
    pub legs: usize,
    pub verdicts: Vec<Verdict>,
}

/// A table per part. `marked` says why a policy stands out.
pub fn backtest(parts: &[Part], marked: impl Fn(&Policy) -> Option<&'static str>, style: Style) -> String {
    let mut out = String::new();
    for part in parts {
        let records = part.verdicts.first().map_or(0, |verdict| verdict.records);
        let heading = format!("{}: {} legs, {records} healthy records", part.name, part.legs);
        out.push_str(&format!("{}\n", style.paint(Ink::Strong, &heading)));
        let mut table = empty(["POLICY", "FALSE KILLS", "KNOWN", "NEAR", "CAP/DURATION", "HANG COST", "WIDEST", ""]);
        for column in 1..=6 {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        for verdict in &part.verdicts {
            table.add_row([
                style.glyphs(&verdict.policy.to_string()),
                verdict.false_kills.to_string(),
                verdict.false_kills_known.to_string(),
                verdict.near.to_string(),
                format!("{:.2}", verdict.ratio),
                format!("{:.0} s", verdict.hang_cost_s),
                verdict.widest_cap_s.to_string(),
                marked(&verdict.policy).unwrap_or_default().to_owned(),
            ]);
        }
        out.push_str(&format!("{}\n\n", trimmed(&table)));
    }
    out
}

pub fn findings(findings: &[Finding], style: Style) -> String {
    let mut table = empty(["FINDING", "FILE", "WORST", "CAP", "WOULD BE", "PASSES", "ON"]);
    let seconds = |span: Option<Secs>| span.map_or("–".to_owned(), |span| span.to_string());
    for finding in findings {
        let ink = if finding.kind.matters() { Ink::Bad } else { Ink::Dim };
        table.add_row([
            style.paint(ink, finding.kind.as_str()),
            escape::name(&finding.file),
            seconds(finding.worst_s),
            seconds(finding.cap_s),
            seconds(finding.would_be_s),
            finding.n.to_string(),
            finding.platform.as_ref().map(|platform| escape::name(platform.as_str())).unwrap_or_default(),
        ]);
    }
    style.glyphs(&format!("{}\n", trimmed(&table)))
}

fn empty<const N: usize>(heading: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(heading);
    table
}

fn trimmed(table: &Table) -> String {
    table.to_string().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// Rows of a plot: enough to see a step, few enough for a page.
const PLOT_ROWS: usize = 8;
/// Columns for the labels beside it.
const LABEL: usize = 9;

/// Passes from the oldest to the newest, the worst of each column, under the line of the cap.
pub fn plot(passes: &[Pass], estimate: &Estimate, style: Style) -> String {
    let (dot, line, none) = match style.glyphs {
        Glyphs::Unicode => ('•', '─', ' '),
        Glyphs::Ascii => ('*', '-', ' '),
    };
    let columns = usize::from(style.width).saturating_sub(LABEL + 2).clamp(8, 100).min(passes.len().max(8));
    let per_column = passes.len().div_ceil(columns).max(1);
    let worst: Vec<Secs> = passes.chunks(per_column).filter_map(|chunk| chunk.iter().map(|pass| pass.duration).max()).collect();
    let top = worst.iter().copied().max().unwrap_or_default().max(estimate.cap).as_f64().max(1.0);
    let row_of = |span: Secs| ((span.as_f64() / top * (PLOT_ROWS - 1) as f64).round() as usize).min(PLOT_ROWS - 1);
    let cap_row = row_of(estimate.cap);
    let mut out = String::new();
    for row in (0..PLOT_ROWS).rev() {
        let label = match row {
            _ if row == cap_row => format!("cap {}", whole(estimate.cap)),
            0 => "0 s".to_owned(),
            _ => String::new(),
        };
        let cells: String = (0..columns)
            .map(|column| match worst.get(column) {
                Some(span) if row_of(*span) == row => dot,
                _ if row == cap_row => line,
                _ => none,
            })
            .collect();
        out.push_str(format!("{label:>LABEL$} {}\n", cells).trim_end());
        out.push('\n');
    }
    let each = if per_column > 1 { format!(", the worst of {per_column} in each column") } else { String::new() };
    out.push_str(&format!("{:>LABEL$} oldest to newest of {} passes{each}\n", "", passes.len()));
    out
}

fn whole(span: Secs) -> String {
    format!("{} s", (span.as_f64()).round())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::moment::Wall;

    #[test]
    fn a_plot_shows_the_passes_under_the_cap() {
        let pass =
            |seconds| Pass { platform: "p".into(), run_id: "1".into(), known_since: Wall(0), duration: Secs::from_secs(seconds) };
        let passes: Vec<Pass> = [100, 100, 120, 300, 90, 100, 110, 100].map(pass).to_vec();
        let estimate = Policy::default().estimate(&passes, None);
        let text = plot(&passes, &estimate, Style::PLAIN);
        let expect = [
            "cap 480 s --------",
            "",
            "",
            "             *",
            "",
            "            *   *",
            "          **  ** *",
            "      0 s",
            "          oldest to newest of 8 passes",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), expect, "{text}");
        assert!(plot(&[], &Policy::default().estimate(&[], None), Style::PLAIN).contains("cap 600 s"), "no pass at all");
    }
}
