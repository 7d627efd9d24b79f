//! Across legs: files against legs, and the history of each file.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use super::Page;
use super::plot::{Scale, number, path, text};
use crate::core::outcome::Outcome;
use crate::core::row::{FileRow, LegRow};
use crate::report::words;

/// A table wider or longer than this is no overview; what is left out is said.
const LEGS_SHOWN: usize = 40;
const FILES_SHOWN: usize = 300;
const POINTS_SHOWN: usize = 60;

/// Every file of the page with its rows, in the order of the first plan that has it.
fn by_file<'a>(legs: &[&'a LegRow]) -> Vec<(&'a str, HashMap<usize, &'a FileRow>)> {
    let mut order: Vec<(&str, HashMap<usize, &FileRow>)> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for (column, leg) in legs.iter().enumerate() {
        for file in &leg.files {
            let place = *places.entry(file.file.as_str()).or_insert_with(|| {
                order.push((file.file.as_str(), HashMap::new()));
                order.len() - 1
            });
            // Of several rounds the worst is shown: a later pass must not hide it.
            let shown = order[place].1.entry(column).or_insert(file);
            if words::passed(shown) && !words::passed(file) {
                *shown = file;
            }
        }
    }
    order
}

pub fn matrix(page: &Page<'_>) -> String {
    let mut legs: Vec<&LegRow> = page.legs.iter().map(|told| told.leg).take(LEGS_SHOWN).collect();
    legs.sort_by(|a, b| (&a.platform, &a.target, a.shard).cmp(&(&b.platform, &b.target, b.shard)));
    let files = by_file(&legs);
    if files.is_empty() || legs.len() < 2 {
        return String::new();
    }
    let mut out = String::from(
        "<h2 id=\"matrix\">Files by leg</h2>\n<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"files by leg, scrolls sideways\"><table class=\"matrix\"><thead><tr><th scope=\"col\">file</th>",
    );
    for leg in &legs {
        let _ = write!(out, "<th scope=\"col\" class=\"leg\"><span class=\"name\">{}</span></th>", text(&words::leg_title(leg)));
    }
    out.push_str("</tr></thead><tbody>\n");
    for (file, rows) in files.iter().take(FILES_SHOWN) {
        let _ = write!(out, "<tr><th scope=\"row\" class=\"name mono\">{}</th>", text(&crate::report::escape::name(file)));
        for (column, leg) in legs.iter().enumerate() {
            match rows.get(&column) {
                Some(row) => cell(&mut out, page, leg, row),
                None if leg.files.is_empty() => out.push_str(
                    "<td><span class=\"cell-miss\" aria-label=\"nothing known of this leg's files\" role=\"img\">?</span></td>",
                ),
                None => out.push_str("<td><span class=\"cell-none\" aria-label=\"not planned\" role=\"img\">·</span></td>"),
            }
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n<p class=\"dim\">✓ passed, ✗ did not pass, ◷ timed out, ? no record, ∅ never ran, · not planned</p>\n");
    left_out(&mut out, page.legs.len().saturating_sub(LEGS_SHOWN), "legs");
    left_out(&mut out, files.len().saturating_sub(FILES_SHOWN), "files");
    out
}

fn left_out(out: &mut String, more: usize, what: &str) {
    if more > 0 {
        let _ = writeln!(out, "<p class=\"dim\">{more} more {what} are left out of this table.</p>");
    }
}

fn cell(out: &mut String, page: &Page<'_>, leg: &LegRow, row: &FileRow) {
    let (sign, class) = match &row.outcome {
        None => ("?", "cell-miss"),
        Some(Outcome::Pass) => ("✓", "cell-pass"),
        Some(Outcome::NotRun) => ("∅", "cell-miss"),
        Some(Outcome::FileWatchdogTimeout) => ("◷", "cell-fail"),
        Some(_) => ("✗", "cell-fail"),
    };
    let time = row.duration_s.map(|time| format!(", {time}")).unwrap_or_default();
    let said = text(&format!("{}: {}{time}", words::leg_title(leg), words::file_result(row)));
    let _ = match page.file_id(leg, row) {
        Some(id) => write!(out, "<td><a class=\"{class}\" href=\"#{id}\" title=\"{said}\" aria-label=\"{said}\">{sign}</a></td>"),
        None => write!(out, "<td><span class=\"{class}\" title=\"{said}\" role=\"img\" aria-label=\"{said}\">{sign}</span></td>"),
    };
}

/// What one file took on one platform over time, oldest first.
#[derive(Default)]
pub struct Histories<'a> {
    points: HashMap<(&'a str, &'a str), Vec<(i64, &'a FileRow)>>,
}

impl<'a> Histories<'a> {
    pub fn of(legs: impl IntoIterator<Item = &'a LegRow>) -> Self {
        let mut points: HashMap<(&str, &str), Vec<(i64, &FileRow)>> = HashMap::new();
        for leg in legs {
            for file in leg.files.iter().filter(|file| file.duration_s.is_some()) {
                let at = file.started_at.or(leg.started_at).map_or(0, |wall| wall.0);
                points.entry((file.file.as_str(), leg.platform.as_str())).or_default().push((at, file));
            }
        }
        points.values_mut().for_each(|rows| rows.sort_by_key(|(at, _)| *at));
        Self { points }
    }

    /// A line as high as a line of text: what this file took before, and where this row stands among it.
    pub fn spark(&self, leg: &LegRow, file: &FileRow) -> String {
        let Some(all) = self.points.get(&(file.file.as_str(), leg.platform.as_str())).filter(|all| all.len() > 2) else {
            return String::new();
        };
        let from = all.len().saturating_sub(POINTS_SHOWN);
        let seconds: Vec<f64> = all[from..].iter().filter_map(|(_, row)| row.duration_s).map(|time| time.as_f64()).collect();
        let high = seconds.iter().copied().fold(1.0, f64::max);
        let x = Scale { low: 0.0, high: (seconds.len() - 1) as f64, from: 2.0, to: 88.0 };
        let y = Scale { low: 0.0, high, from: 18.0, to: 2.0 };
        let points: Vec<(f64, f64)> = seconds.iter().enumerate().map(|(at, value)| (x.at(at as f64), y.at(*value))).collect();
        let here = all[from..].iter().position(|(_, row)| std::ptr::eq(*row, file)).map(|at| points[at]);
        let here = here
            .map(|(x, y)| format!("<circle class=\"here\" cx=\"{}\" cy=\"{}\" r=\"2.5\"/>", number(x), number(y)))
            .unwrap_or_default();
        let label = format!("history of {} durations, highest {} s", seconds.len(), number(high));
        format!(
            "<svg width=\"90\" height=\"20\" role=\"img\" aria-label=\"{label}\"><path class=\"spark\" d=\"{}\"/>{here}</svg>",
            path(&points)
        )
    }

    /// Per file its durations over time with the cap line, a plot for each platform that has more than two.
    pub fn section(&self, files: &[&str]) -> String {
        let mut out = String::new();
        for file in files.iter().take(FILES_SHOWN) {
            let mine = self.points.iter().filter(|((name, _), rows)| name == file && rows.len() > 2);
            let platforms: BTreeMap<&str, &Vec<(i64, &FileRow)>> = mine.map(|((_, platform), rows)| (*platform, rows)).collect();
            if platforms.is_empty() {
                continue;
            }
            let _ = writeln!(
                out,
                "<details class=\"file\"><summary><span class=\"name mono\">{}</span></summary>",
                text(&crate::report::escape::name(file))
            );
            for (platform, rows) in platforms {
                out.push_str(&history_plot(platform, rows));
            }
            out.push_str("</details>\n");
        }
        if out.is_empty() { out } else { format!("<h2 id=\"history\">History of each file</h2>\n{out}") }
    }
}

fn history_plot(platform: &str, rows: &[(i64, &FileRow)]) -> String {
    let rows = &rows[rows.len().saturating_sub(POINTS_SHOWN)..];
    let seconds = |row: &FileRow| row.duration_s.map_or(0.0, |time| time.as_f64());
    let cap = |row: &FileRow| row.cap_s.map(|cap| cap.as_f64());
    let high = rows.iter().flat_map(|(_, row)| [Some(seconds(row)), cap(row)]).flatten().fold(1.0, f64::max);
    let x = Scale { low: 0.0, high: (rows.len() - 1) as f64, from: 60.0, to: 560.0 };
    let y = Scale { low: 0.0, high, from: 84.0, to: 8.0 };
    let platform = text(&crate::report::escape::name(platform));
    let mut out = format!(
        "<h3 class=\"name\">{platform}</h3>\n<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"history on {platform}\"><svg width=\"580\" height=\"100\" viewBox=\"0 0 580 100\" role=\"img\" aria-label=\"{} durations on {platform}, highest {} s\">",
        rows.len(),
        number(rows.iter().map(|(_, row)| seconds(row)).fold(0.0, f64::max))
    );
    let _ = write!(
        out,
        "<path class=\"axis\" d=\"M60 84H560\"/><text class=\"d\" x=\"54\" y=\"16\" text-anchor=\"end\">{} s</text><text class=\"d\" x=\"54\" y=\"86\" text-anchor=\"end\">0</text>",
        number(high)
    );
    let caps: Vec<(f64, f64)> =
        rows.iter().enumerate().filter_map(|(at, (_, row))| Some((x.at(at as f64), y.at(cap(row)?)))).collect();
    let _ = write!(out, "<path class=\"cap\" d=\"{}\"/>", super::plot::stairs(&caps));
    for (at, (_, row)) in rows.iter().enumerate() {
        let class = if words::passed(row) { "dot" } else { "dotfail" };
        let said = text(&format!("{}, {} s", words::file_result(row), number(seconds(row))));
        let _ = write!(
            out,
            "<circle class=\"{class}\" cx=\"{}\" cy=\"{}\" r=\"3\"><title>{said}</title></circle>",
            number(x.at(at as f64)),
            number(y.at(seconds(row)))
        );
    }
    let _ = writeln!(
        out,
        "<text class=\"d\" x=\"60\" y=\"98\">older</text><text class=\"d\" x=\"560\" y=\"98\" text-anchor=\"end\">newer; dashes: cap</text></svg></div>"
    );
    out
}
