//! Linux: two readings of every process's CPU time, then the details of those that matter.

use std::collections::{BTreeSet, HashMap};

use super::{Draft, INTERVAL, Subject, TOP_ROWS, TREE_ROWS};
use crate::core::process::{ProcessId, ProcessRow, thousandths};
use crate::core::redact::shown_command;
use crate::host::process::{self, Stat};
use crate::host::{cgroup, clock};

pub fn look(subject: &Subject, draft: &Draft) {
    let before = clock::now();
    let first: HashMap<ProcessId, u64> = everybody().into_iter().map(|stat| (stat.id, stat.cpu_ticks)).collect();
    std::thread::sleep(INTERVAL);
    let second = everybody();
    let interval_s = clock::now().since(before).as_f64().max(0.001);
    let members = members(subject);
    let mut rows: Vec<(f64, Stat)> = second.into_iter().map(|stat| (share(&stat, &first, interval_s), stat)).collect();
    rows.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.id.cmp(&b.1.id)));
    let (tree, others): (Vec<_>, Vec<_>) = rows.into_iter().partition(|(_, stat)| members.contains(&stat.id.pid));
    let whole = tree.len();
    let mut top: Vec<&(f64, Stat)> = tree.iter().take(TOP_ROWS).chain(others.iter().take(TOP_ROWS)).collect();
    top.sort_by(|a, b| b.0.total_cmp(&a.0));
    let top: Vec<ProcessRow> = top.into_iter().take(TOP_ROWS).map(|(share, stat)| row(*share, stat)).collect();
    let mut shown = tree;
    shown.truncate(TREE_ROWS);
    shown.sort_by_key(|(_, stat)| (Some(stat.id) != subject.leader, stat.id));
    // What cannot block comes first, so that a command line that does costs only itself.
    draft.show(shown.iter().map(|(share, stat)| row(*share, stat)).collect(), whole, top);
    add_command_lines(draft);
}

fn everybody() -> Vec<Stat> {
    process::all().unwrap_or_default().into_iter().filter_map(|pid| process::stat(pid).ok()).collect()
}

/// The leaf's processes and everything below the owner.
fn members(subject: &Subject) -> BTreeSet<i32> {
    let mut found = BTreeSet::new();
    if let Some(leaf) = &subject.leaf {
        found.extend(cgroup::members(leaf).unwrap_or_default());
    }
    let mut open = vec![subject.owner.pid];
    let mut opened = BTreeSet::new();
    while let Some(pid) = open.pop() {
        for child in process::children(pid).unwrap_or_default() {
            // What the leaf has named already may have children that left the leaf, so every one is opened, once.
            found.insert(child);
            if opened.insert(child) {
                open.push(child);
            }
        }
    }
    found
}

fn share(stat: &Stat, before: &HashMap<ProcessId, u64>, interval_s: f64) -> f64 {
    // One that was not there before has used all its time since.
    let used = stat.cpu_ticks.saturating_sub(before.get(&stat.id).copied().unwrap_or(0));
    let seconds = used as f64 / rustix::param::clock_ticks_per_second() as f64;
    (seconds / interval_s * 1000.0).round() / 10.0
}

fn row(share: f64, stat: &Stat) -> ProcessRow {
    ProcessRow {
        pid: stat.id.pid,
        ppid: stat.ppid,
        state: stat.state.to_string(),
        comm: stat.comm.clone(),
        argv: None,
        cpu_s: Some(thousandths(stat.cpu_s())),
        cpu_pct: Some(thousandths(share)),
        rss_mib: Some((stat.rss_mib() * 10.0).round() / 10.0),
        wait_channel: process::wait_channel(stat.id.pid),
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
