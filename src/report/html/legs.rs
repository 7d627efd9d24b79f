//! One leg: what it came to, its plot, its files.

use std::fmt::Write as _;

use super::Page;
use super::matrix::Histories;
use super::plot::text;
use super::timeline;
use crate::core::process::{Evidence, ProcessRow};
use crate::core::row::{FileRow, LegRow};
use crate::report::escape;
use crate::report::words::{self, Verdict};

const FILES_SHOWN: usize = 200;
const LIST_SHOWN: usize = 30;

pub fn section(page: &Page<'_>, histories: &Histories<'_>, leg: &LegRow, id: &str) -> String {
    let verdict = Verdict::of(leg);
    let class = verdict.as_str();
    let open = if verdict == Verdict::Incomplete { " open" } else { "" };
    let mut out = format!(
        "<details class=\"leg\" id=\"{id}\"{open}><summary><span class=\"tag {class}\">{}</span> <b class=\"name\">{}</b> <span class=\"why name\">{}</span></summary>\n<div>\n",
        text(&words::leg_result(leg)),
        text(&words::leg_title(leg)),
        text(&escape::sentence(&leg.why))
    );
    let title = text(&words::leg_title(leg));
    let _ =
        writeln!(out, "<p class=\"permalink\"><a href=\"#{id}\" aria-label=\"link to this leg: {title}\">link to this leg</a></p>");
    out.push_str(&facts(leg));
    out.push_str(&timeline::render(leg).unwrap_or_default());
    if let Some(output) = leg.last_output.as_deref().filter(|output| !output.trim().is_empty() && verdict != Verdict::Pass) {
        let _ = writeln!(out, "<h3>Last output</h3>\n{}", pre(output));
    }
    out.push_str(&files(page, histories, leg));
    out.push_str(&lists(leg));
    out.push_str("</div></details>\n");
    out
}

fn facts(leg: &LegRow) -> String {
    let mut rows: Vec<(&str, String)> = vec![
        ("run", format!("{} attempt {}", escape::name(leg.run_id.as_str()), escape::name(leg.attempt.as_str()))),
        ("files", words::leg_files(leg)),
        ("time", words::leg_time(leg)),
    ];
    let mut row = |name, value: Option<String>| rows.extend(value.map(|value| (name, value)));
    row("began", leg.started_at.map(|ts| ts.to_string()));
    row("resolved", leg.resolved.as_deref().map(escape::name));
    row("commit", leg.sha.as_deref().map(escape::name));
    row("stopped", leg.stopped_by.map(|by| words::stopped(by).to_owned()));
    if Verdict::of(leg) != Verdict::Pass {
        for fact in words::leg_facts(leg) {
            let (name, value) = fact.split_once(": ").unwrap_or(("note", &fact));
            // The names are ledger's own; only the values come from outside.
            let known = [
                "in file",
                "last finished",
                "last moved on",
                "last heartbeat",
                "step",
                "job",
                "job lived at most",
                "the service says",
                "host",
            ];
            let name = known.iter().find(|known| **known == name).copied().unwrap_or("note");
            rows.push((name, value.to_owned()));
        }
    }
    rows.extend(words::leg_unsent(leg).into_iter().map(|unsent| ("sink", unsent)));
    let mut out = String::from("<dl class=\"facts\">");
    for (name, value) in rows {
        let _ = write!(out, "<dt>{name}</dt><dd class=\"name\">{}</dd>", text(&value));
    }
    out.push_str("</dl>\n");
    out
}

fn files(page: &Page<'_>, histories: &Histories<'_>, leg: &LegRow) -> String {
    if leg.files.is_empty() {
        return String::new();
    }
    let mut shown: Vec<&FileRow> = leg.files.iter().collect();
    if shown.len() > FILES_SHOWN {
        shown.sort_by_key(|file| (words::passed(file), file.round, file.index));
        shown.truncate(FILES_SHOWN);
    }
    let mut out = String::from(
        "<h3>Files</h3>\n<table class=\"stack\"><thead><tr><th scope=\"col\">file</th><th scope=\"col\">outcome</th><th scope=\"col\" class=\"n\">time</th><th scope=\"col\" class=\"n\">cap</th><th scope=\"col\">cap from</th><th scope=\"col\">history</th></tr></thead><tbody>\n",
    );
    for file in &shown {
        let class = match (&file.outcome, words::passed(file)) {
            (_, true) => "pass",
            (None, _) => "incomplete",
            (Some(crate::core::outcome::Outcome::NotRun), _) => "incomplete",
            _ => "fail",
        };
        let id = page.file_id(leg, file).unwrap_or_default();
        let span = |time: Option<crate::core::moment::Secs>| time.map_or("–".to_owned(), |time| time.to_string());
        let _ = writeln!(
            out,
            "<tr id=\"{id}\" tabindex=\"-1\"><td class=\"wide\">{}</td><td><span class=\"tag word {class}\">{}</span></td><td class=\"n\" data-k=\"took\">{}</td><td class=\"n\" data-k=\"cap\">{}</td><td class=\"dim name\">{}</td><td>{}</td></tr>",
            file_cell(file),
            text(&words::file_result(file)),
            span(file.duration_s),
            span(file.cap_s),
            text(&file.cap_basis.as_deref().map(escape::sentence).unwrap_or_default()),
            histories.spark(leg, file)
        );
    }
    out.push_str("</tbody></table>\n");
    let more = leg.files.len() - shown.len();
    if more > 0 {
        let _ = writeln!(
            out,
            "<p class=\"dim\">{} that passed or never ran are left out here.</p>",
            words::plural(more, "file", "files")
        );
    }
    out
}

/// The name alone, or a fold with what there is to tell.
fn file_cell(file: &FileRow) -> String {
    let name = format!("<span class=\"name mono\">{}</span>", text(&words::file_title(file)));
    let mut told = String::new();
    let notes = words::file_notes(file);
    if !notes.is_empty() {
        let _ = writeln!(told, "<p class=\"name\">{}</p>", text(&notes.join("; ")));
    }
    list(
        &mut told,
        "left behind",
        file.leftovers.iter().map(|process| {
            let argv = process.argv.as_deref().map(|argv| format!(": {}", escape::sentence(argv))).unwrap_or_default();
            format!("{}{argv}", words::leftover(process))
        }),
    );
    list(
        &mut told,
        "not ours, left alone",
        file.foreign.iter().map(|process| {
            let argv = process.argv.as_deref().or(process.exe.as_deref()).unwrap_or("?");
            format!("pid {}: {}", process.pid, escape::sentence(argv))
        }),
    );
    list(&mut told, "parts", file.components.iter().map(|part| format!("{}: {:.1} s", escape::name(&part.name), part.seconds)));
    if let Some(evidence) = &file.evidence {
        told.push_str(&seen_at_the_cap(evidence));
    }
    if let Some(output) = file.last_output.as_deref().filter(|output| !output.trim().is_empty()) {
        told.push_str(&pre(output));
    }
    if told.is_empty() {
        return name;
    }
    let open = if words::passed(file) { "" } else { " open" };
    format!("<details class=\"file\"{open}><summary>{name}</summary>{told}</details>")
}

fn list(out: &mut String, label: &str, items: impl ExactSizeIterator<Item = String>) {
    let count = items.len();
    if count == 0 {
        return;
    }
    let _ = write!(out, "<p class=\"dim\">{label}:</p><ul>");
    for item in items.take(LIST_SHOWN) {
        let _ = write!(out, "<li class=\"name\">{}</li>", text(&item));
    }
    if count > LIST_SHOWN {
        let _ = write!(out, "<li>and {} more</li>", count - LIST_SHOWN);
    }
    out.push_str("</ul>\n");
}

fn seen_at_the_cap(evidence: &Evidence) -> String {
    let line = |row: &ProcessRow| {
        let figure = |value: Option<f64>, unit: &str| value.map_or("?".to_owned(), |value| format!("{value:.1}{unit}"));
        let wait = row.wait_channel.as_deref().map(|on| format!(" in {on}")).unwrap_or_default();
        let argv = row.argv.as_deref().unwrap_or(&row.comm);
        format!("{} {} {} CPU, {}{wait}: {argv}", row.pid, row.state, figure(row.cpu_s, " s"), figure(row.rss_mib, " MiB"))
    };
    let mut lines: Vec<String> = evidence.tree.iter().take(LIST_SHOWN).map(line).collect();
    if evidence.tree.len() > LIST_SHOWN {
        lines.push(format!("and {} more of its processes", evidence.tree.len() - LIST_SHOWN));
    }
    if !evidence.top.is_empty() {
        lines.push("busiest on the host:".to_owned());
        lines.extend(evidence.top.iter().take(5).map(line));
    }
    lines.extend(evidence.missing.iter().take(5).map(|missing| format!("not seen: {missing}")));
    if let Some(stack) = &evidence.stack {
        lines.push(stack.clone());
    }
    if lines.is_empty() { String::new() } else { format!("<p class=\"dim\">when the cap ran out:</p>{}", pre(&lines.join("\n"))) }
}

fn lists(leg: &LegRow) -> String {
    let mut out = String::new();
    list(
        &mut out,
        "notes",
        leg.notes.iter().map(|note| format!("{} {}: {}", note.ts, escape::name(&note.kind), escape::sentence(&note.text))),
    );
    list(
        &mut out,
        "earlier attempts and other writers",
        leg.attempts.iter().map(|other| {
            format!(
                "attempt {}: {}, {} files reported: {}",
                escape::name(other.attempt.as_str()),
                other.terminal,
                other.files_reported,
                escape::sentence(&other.why)
            )
        }),
    );
    out
}

/// Output, to be scrolled with the keyboard where it is long.
fn pre(output: &str) -> String {
    format!("<pre tabindex=\"0\">{}</pre>\n", text(&escape::block(output)))
}
