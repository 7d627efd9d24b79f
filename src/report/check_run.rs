//! What people read in a leg's check run: how far it is, what it means if this never completes, and its files, newest last.

use crate::core::marker::{Described, Marker};
use crate::core::outcome::Terminal;
use crate::core::row::{FileRow, LegRow};
use crate::report::escape::{self, markdown, markdown_code};
use crate::report::words;

/// While the leg runs, and at its end, from its own marker.
pub fn describe(marker: &Marker) -> Described {
    let row = &marker.row;
    let title = if marker.closed { row.why.clone() } else { progress(row) };
    let lease = row.lease_s.map_or("its lease".to_owned(), |lease| lease.to_string());
    let meaning = if marker.closed {
        format!("**{}**: {}\n", markdown(&words::leg_result(row)), markdown(&row.why))
    } else {
        format!(
            "**{}**\n\n> If this never changes again, the runner stopped reporting: after {lease} of silence the verdict is \
             **runner-lost**, and the file below is where it was.\n",
            markdown(&progress(row))
        )
    };
    Described { title: escape::sentence(&title), summary: page(row, &meaning, marker.files_omitted) }
}

/// The verdict on a leg that left no end of its own. It says nothing that changes with time, so that saying it twice changes nothing.
pub fn verdict(row: &LegRow, terminal: Terminal) -> Described {
    let at = row.current_file.as_deref().or(row.last_file.as_deref()).map_or(String::new(), |file| format!(" in {file}"));
    let title = format!("{}{at}, {} files", terminal.as_str(), words::leg_files(row));
    let stalled = row.stalled_step.as_deref().map(|step| format!("\n\nThe job's step {} never ended.", markdown_code(step)));
    let quoted = row.annotation.as_deref().map(|text| format!("\n\nThe service says: {}", markdown(&escape::sentence(text))));
    let meaning = format!(
        "**{}**: the leg left no end of its own. Its host looked {}{}.{}{}\n",
        terminal.as_str(),
        row.resource_verdict.as_str(),
        row.resource_why.as_deref().map(|why| format!(" ({})", markdown(why))).unwrap_or_default(),
        stalled.unwrap_or_default(),
        quoted.unwrap_or_default(),
    );
    Described { title: escape::sentence(&title), summary: page(row, &meaning, 0) }
}

fn progress(row: &LegRow) -> String {
    let failed = if row.files_failed > 0 { format!(", {} failed", row.files_failed) } else { String::new() };
    let now = row.current_file.as_deref().map_or(String::new(), |file| format!(", now {file}"));
    format!("{} files{failed}{now}", words::leg_files(row))
}

fn page(row: &LegRow, meaning: &str, omitted: u32) -> String {
    let mut text = format!("{meaning}\n");
    if let Some(host) = &row.last_host {
        let memory = host.mem_available_mib.map_or("?".to_owned(), |mib| mib.to_string());
        let qemu = host.qemu_count.map_or("?".to_owned(), |count| count.to_string());
        text.push_str(&format!("Host at {}: {memory} MiB of memory free, {qemu} QEMU.\n\n", host.ts));
    }
    text.push_str("| # | file | outcome | time | cap |\n|--:|:--|:--|--:|--:|\n");
    if omitted > 0 {
        text.push_str(&format!("| | {omitted} older files are left out here | | | |\n"));
    }
    row.files.iter().for_each(|file| text.push_str(&file_row(file)));
    if let Some(output) = row.last_output.as_deref().filter(|output| !output.trim().is_empty()) {
        text.push_str(&format!("\nLast lines of output:\n\n{}", escape::markdown_block(&escape::block(output))));
    }
    text
}

fn file_row(file: &FileRow) -> String {
    let time = file.duration_s.map_or(String::new(), |time| time.to_string());
    let cap = file.cap_s.map_or(String::new(), |cap| cap.to_string());
    let name = markdown_code(&words::file_title(file));
    format!("| {} | {name} | {} | {time} | {cap} |\n", file.index, markdown(&words::file_result(file)))
}
