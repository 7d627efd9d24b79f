//! `--format html`: one page that needs nothing else, neither network nor server.
//!
//! Its own script and styles are named by their hashes in a content security policy, so that text which slipped through the escapes
//! still could not act. Without the script the page reads the same; the script opens what a link points at.

mod legs;
mod matrix;
mod plot;
mod timeline;

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::Digest as _;

use crate::core::ids::Digest;
use crate::core::row::{FileRow, LegRow, Summary};
use crate::core::trend::{Question, Trend, analyse};
use crate::report::escape;
use crate::report::words::{self, Counts, Verdict};
use matrix::Histories;
use plot::text;

const CSS: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// Legs with all their detail; a night has 15. More of them would make the page too large to open on a phone.
const LEGS_SHOWN: usize = 60;
const ROWS_SHOWN: usize = 1000;
/// Details end where the page would get slow to open; a usual night needs a tenth of it.
const DETAILS_BYTES: usize = 6_000_000;
/// What happened, in sentences: more of them are a list and no answer.
const SENTENCES: usize = 20;
/// A leg with fewer files has no trend worth a section.
const TREND_FILES: usize = 6;

/// The legs in the order of telling, each with the name of its place on the page.
pub struct Page<'a> {
    legs: Vec<Told<'a>>,
    ids: HashMap<*const LegRow, String>,
}

struct Told<'a> {
    leg: &'a LegRow,
    id: String,
}

impl<'a> Page<'a> {
    fn of(summary: &'a Summary) -> Self {
        let mut taken = HashSet::new();
        let mut legs = Vec::new();
        for leg in words::told_in_order(summary) {
            let mut id = leg_id(leg);
            // Two writers of one leg are two rows.
            while !taken.insert(id.clone()) {
                id.push_str("-b");
            }
            legs.push(Told { leg, id });
        }
        let mut page = Self { legs, ids: HashMap::new() };
        page.keep(LEGS_SHOWN);
        page
    }

    /// Only so many legs have a place after all: nothing may link to the others.
    fn keep(&mut self, shown: usize) {
        self.ids = self.legs.iter().take(shown).map(|told| (std::ptr::from_ref(told.leg), told.id.clone())).collect();
    }

    /// The place of a leg that is shown whole.
    fn leg_id(&self, leg: &LegRow) -> Option<&str> {
        self.ids.get(&std::ptr::from_ref(leg)).map(String::as_str)
    }

    fn file_id(&self, leg: &LegRow, file: &FileRow) -> Option<String> {
        Some(format!("{}-f{}-r{}", self.leg_id(leg)?, file.index, file.round))
    }
}

/// The same leg has the same place on every page: links can be shared.
fn leg_id(leg: &LegRow) -> String {
    let slug: String =
        leg.leg().key().chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).take(40).collect();
    format!("leg-{slug}-{}", &Digest::of(leg.leg().to_string().as_bytes()).0[..8])
}

pub fn render(summary: &Summary) -> String {
    let mut page = Page::of(summary);
    let histories = Histories::of(&summary.legs);
    let (details, shown) = details(&page, &histories);
    page.keep(shown);
    let mut out = head();
    out.push_str(&top(summary, &page));
    out.push_str("<main id=\"main\">\n");
    out.push_str(&what_happened(&page));
    out.push_str(&overview(&page));
    out.push_str(&matrix::matrix(&page));
    out.push_str(&details);
    let mut seen = HashSet::new();
    let files = summary.legs.iter().flat_map(|leg| &leg.files).map(|file| file.file.as_str()).filter(|file| seen.insert(*file));
    out.push_str(&histories.section(&files.collect::<Vec<_>>()));
    out.push_str(&trends(summary));
    out.push_str(&warnings(summary));
    let _ = writeln!(
        out,
        "</main>\n<footer>ledger {} · times are UTC · a leg is incomplete when it left no record of its end; what it had not run may have failed</footer>\n<script>{SCRIPT}</script>\n</body></html>",
        env!("CARGO_PKG_VERSION")
    );
    out
}

fn head() -> String {
    let hash = |part: &str| STANDARD.encode(sha2::Sha256::digest(part.as_bytes()));
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; base-uri 'none'; form-action 'none'\">\n<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n<title>ledger report</title>\n<style>{CSS}</style></head>\n<body>\n<a class=\"skip\" href=\"#main\">skip to the report</a>\n",
        hash(CSS),
        hash(SCRIPT)
    )
}

fn top(summary: &Summary, page: &Page<'_>) -> String {
    let counts = Counts::of(summary);
    let mut runs: Vec<&str> = summary.legs.iter().map(|leg| leg.run_id.as_str()).collect();
    runs.sort_unstable();
    runs.dedup();
    let runs = match runs.as_slice() {
        [one] => format!("run {}", escape::name(one)),
        many => words::plural(many.len(), "run", "runs"),
    };
    let mut out = format!("<header><h1>ledger report · {} · {}</h1>\n<ul class=\"counts\">", text(&runs), summary.generated_at);
    let _ = write!(out, "<li><b>{}</b>planned</li>", counts.planned);
    let _ = write!(out, "<li class=\"pass\"><b>{}</b>pass</li>", counts.pass);
    // A zero beside missing results would read as success.
    let unknown = counts.fail == 0 && counts.incomplete + counts.running > 0;
    let fail =
        if unknown { "<b>?</b>fail: none seen, results are missing".to_owned() } else { format!("<b>{}</b>fail", counts.fail) };
    let _ = write!(out, "<li class=\"{}\">{fail}</li>", if unknown { "dim" } else { "fail" });
    let _ = write!(out, "<li class=\"incomplete\"><b>{}</b>incomplete</li>", counts.incomplete);
    if counts.running > 0 {
        let _ = write!(out, "<li class=\"running\"><b>{}</b>running</li>", counts.running);
    }
    out.push_str("</ul>\n");
    if page.legs.len() > 1 {
        out.push_str("<p><button type=\"button\" data-fold=\"open\" hidden>open all</button> <button type=\"button\" data-fold=\"close\" hidden>close all</button></p>\n");
    }
    out.push_str("</header>\n");
    out
}

/// The answer of the first ten seconds: each leg that did not pass, its last word in a sentence.
fn what_happened(page: &Page<'_>) -> String {
    let worth: Vec<&Told<'_>> = page.legs.iter().filter(|told| Verdict::of(told.leg) != Verdict::Pass).collect();
    if worth.is_empty() {
        return if page.legs.is_empty() {
            "<p>There is no leg in this evidence.</p>\n".to_owned()
        } else {
            "<p>Every planned leg passed.</p>\n".to_owned()
        };
    }
    let mut out = String::from("<h2>What happened</h2>\n<ul class=\"happened\">\n");
    for told in worth.iter().take(SENTENCES) {
        let leg = told.leg;
        let verdict = Verdict::of(leg);
        let title = text(&words::leg_title(leg));
        let title = match page.leg_id(leg) {
            Some(id) => format!("<a href=\"#{id}\">{title}</a>"),
            None => format!("<b>{title}</b>"),
        };
        let _ = writeln!(
            out,
            "<li class=\"{0}\"><span class=\"tag {0}\">{1}</span> <span class=\"name\">{title}</span>: <span class=\"name\">{2}</span>{3}</li>",
            verdict.as_str(),
            text(&words::leg_result(leg)),
            text(&escape::sentence(&leg.why)),
            last_word(leg)
        );
    }
    out.push_str("</ul>\n");
    if worth.len() > SENTENCES {
        let _ = writeln!(out, "<p>And {} more, in the table.</p>", worth.len() - SENTENCES);
    }
    out
}

fn last_word(leg: &LegRow) -> String {
    let mut said = Vec::new();
    if Verdict::of(leg) == Verdict::Fail {
        let failed: Vec<String> =
            leg.files.iter().filter(|file| file.reported() && !words::passed(file)).take(4).map(words::file_title).collect();
        if !failed.is_empty() {
            said.push(failed.join(", "));
        }
    } else {
        said.extend(leg.files_planned.map(|_| format!("{} files", words::leg_files(leg))));
        said.extend(leg.annotation.as_deref().map(|annotation| format!("the service says: {}", escape::sentence(annotation))));
    }
    if said.is_empty() { String::new() } else { format!(" <span class=\"dim name\">({})</span>", text(&said.join("; "))) }
}

fn overview(page: &Page<'_>) -> String {
    if page.legs.is_empty() {
        return String::new();
    }
    let mut out = String::from(
        "<h2 id=\"legs\">Legs</h2>\n<table class=\"stack\"><thead><tr><th scope=\"col\">result</th><th scope=\"col\">leg</th><th scope=\"col\" class=\"n\">files</th><th scope=\"col\" class=\"n\">time</th><th scope=\"col\">why</th></tr></thead><tbody>\n",
    );
    let legs: Vec<&LegRow> = page.legs.iter().map(|told| told.leg).collect();
    let titles = words::Titles::of(&legs);
    for told in page.legs.iter().take(ROWS_SHOWN) {
        let leg = told.leg;
        let title = text(&titles.title(leg));
        let title = page.leg_id(leg).map_or(title.clone(), |id| format!("<a href=\"#{id}\">{title}</a>"));
        let _ = writeln!(
            out,
            "<tr><td><span class=\"tag {}\">{}</span></td><td class=\"name\">{title}</td><td class=\"n\" data-k=\"files\">{}</td><td class=\"n\" data-k=\"time\">{}</td><td class=\"wide name\">{}</td></tr>",
            Verdict::of(leg).as_str(),
            text(&words::leg_result(leg)),
            words::leg_files(leg),
            words::leg_time(leg),
            text(&escape::sentence(&leg.why))
        );
    }
    out.push_str("</tbody></table>\n");
    if page.legs.len() > ROWS_SHOWN {
        let _ = writeln!(out, "<p class=\"dim\">{} more legs are left out of this table.</p>", page.legs.len() - ROWS_SHOWN);
    }
    out
}

/// The details of the first legs, and of how many.
fn details(page: &Page<'_>, histories: &Histories<'_>) -> (String, usize) {
    let mut out = String::new();
    let mut shown = 0;
    for told in page.legs.iter().take(LEGS_SHOWN) {
        let section = legs::section(page, histories, told.leg, &told.id);
        if shown > 0 && out.len() + section.len() > DETAILS_BYTES {
            break;
        }
        out.push_str(&section);
        shown += 1;
    }
    if shown == 0 {
        return (out, shown);
    }
    let more = page.legs.len() - shown;
    if more > 0 {
        let _ = writeln!(
            out,
            "<p class=\"dim\">{} without details here: narrow the report by --run-id, --platform or --target.</p>",
            words::plural(more, "more leg", "more legs")
        );
    }
    (format!("<h2 id=\"details\">Each leg</h2>\n{out}"), shown)
}

fn trends(summary: &Summary) -> String {
    let long = summary.legs.iter().filter(|leg| leg.files.iter().filter(|file| file.duration_s.is_some()).count() >= TREND_FILES);
    let mut out = String::new();
    for leg in long.take(LEGS_SHOWN) {
        let reference: Vec<&LegRow> = summary.legs.iter().filter(|other| other.platform != leg.platform).take(LEGS_SHOWN).collect();
        let trend = analyse(Question { leg, reference: &reference });
        let _ = writeln!(
            out,
            "<details class=\"file\"><summary><span class=\"name\">{}</span></summary>\n{}</details>",
            text(&words::leg_title(leg)),
            one_trend(&trend)
        );
    }
    if out.is_empty() {
        out
    } else {
        format!(
            "<h2 id=\"trend\">Does cost or resource use climb with position?</h2>\n<p class=\"dim\">Each leg against the median of the same file on the other platforms of this page.</p>\n{out}"
        )
    }
}

fn one_trend(trend: &Trend) -> String {
    let mut out = String::from("<ul>");
    for said in &trend.verdict {
        let _ = write!(out, "<li class=\"name\">{}</li>", text(&escape::sentence(said)));
    }
    out.push_str("</ul><p class=\"dim\">not seen:</p><ul class=\"dim\">");
    for said in &trend.not_seen {
        let _ = write!(out, "<li class=\"name\">{}</li>", text(&escape::sentence(said)));
    }
    out.push_str("</ul>\n");
    out
}

fn warnings(summary: &Summary) -> String {
    if summary.warnings.is_empty() {
        return String::new();
    }
    let mut out = String::from("<h2 id=\"warnings\">Warnings</h2>\n<ul>");
    for warning in summary.warnings.iter().take(SENTENCES) {
        let _ = write!(out, "<li class=\"name\">{}</li>", text(&escape::sentence(warning)));
    }
    if summary.warnings.len() > SENTENCES {
        let _ = write!(out, "<li>and {} more</li>", summary.warnings.len() - SENTENCES);
    }
    out.push_str("</ul>\n");
    out
}

#[cfg(test)]
mod tests;
