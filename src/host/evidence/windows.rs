//! Windows: two listings of all processes with their CPU time, then the command lines of those that matter.

use std::collections::HashMap;

use super::{Draft, INTERVAL, Subject, TOP_ROWS, TREE_ROWS};
use crate::core::process::{ProcessId, ProcessRow, thousandths};
use crate::core::redact::shown_command;
use crate::host::process::{self, Stat};
use crate::host::{clock, job};

pub fn look(subject: &Subject, draft: &Draft) {
    let before = clock::now();
    let first: HashMap<ProcessId, u64> = everybody(draft).into_iter().map(|stat| (stat.id, stat.cpu_100ns)).collect();
    std::thread::sleep(INTERVAL);
    let second = everybody(draft);
    let interval_s = clock::now().since(before).as_f64().max(0.001);
    let members = job::held_below(subject.owner, &second);
    let mut rows: Vec<(f64, Stat)> = second.into_iter().map(|stat| (share(&stat, &first, interval_s), stat)).collect();
    rows.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.id.cmp(&b.1.id)));
    let top: Vec<ProcessRow> = rows.iter().take(TOP_ROWS).map(|(share, stat)| row(*share, stat)).collect();
    let mut tree: Vec<(f64, Stat)> = rows.into_iter().filter(|(_, stat)| members.contains(&stat.id.pid)).collect();
    let whole = tree.len();
    tree.truncate(TREE_ROWS);
    tree.sort_by_key(|(_, stat)| (Some(stat.id) != subject.leader, stat.id));
    draft.show(tree.iter().map(|(share, stat)| row(*share, stat)).collect(), whole, top);
    add_command_lines(draft);
}

fn everybody(draft: &Draft) -> Vec<Stat> {
    process::list().unwrap_or_else(|error| {
        draft.edit(|evidence| evidence.missing.push(error.to_string()));
        Vec::new()
    })
}

fn share(stat: &Stat, before: &HashMap<ProcessId, u64>, interval_s: f64) -> f64 {
    // One that was not there before has used all its time since.
    let used = stat.cpu_100ns.saturating_sub(before.get(&stat.id).copied().unwrap_or(0));
    (used as f64 / 1e7 / interval_s * 1000.0).round() / 10.0
}

fn row(share: f64, stat: &Stat) -> ProcessRow {
    ProcessRow {
        pid: stat.id.pid,
        ppid: stat.ppid,
        // Windows keeps states of threads, not of processes.
        state: "?".to_owned(),
        comm: stat.comm.clone(),
        argv: None,
        cpu_s: Some(thousandths(stat.cpu_s())),
        cpu_pct: Some(thousandths(share)),
        rss_mib: Some((stat.rss_mib() * 10.0).round() / 10.0),
        wait_channel: None,
    }
}

fn add_command_lines(draft: &Draft) {
    let mut pids = Vec::new();
    draft.edit(|evidence| pids.extend(evidence.tree.iter().chain(&evidence.top).map(|row| row.pid)));
    for pid in pids {
        let Some(argv) = process::argv(pid).map(|argv| shown_command(&argv)) else { continue };
        draft.edit(|evidence| {
            for row in evidence.tree.iter_mut().chain(&mut evidence.top).filter(|row| row.pid == pid) {
                row.argv = Some(argv.clone());
            }
        });
    }
}
