//! macOS: two readings of the CPU time of every process that may be read, and `sample` of the leader meanwhile.
//!
//! Processes of other users do not show their CPU time. Compiled only; no Mac has run it.

use std::collections::{BTreeSet, HashMap};
use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::{Draft, INTERVAL, Subject, TOP_ROWS, TREE_ROWS};
use crate::core::process::{ProcessId, ProcessRow, thousandths};
use crate::core::redact::shown_command;
use crate::host::process::{self, Stat};
use crate::host::{clock, darwin};

/// The call graph comes first in what `sample` prints; the list of loaded libraries behind it tells nobody more.
const STACK_BYTES: u64 = 16 * 1024;
/// It looks for one second and then reads symbols; the rest of the bound is for that.
const SAMPLE_MS: u64 = 1800;

struct Used {
    cpu_s: f64,
    rss_mib: f64,
}

pub fn look(subject: &Subject, draft: &Draft) {
    let began = clock::now();
    let stack = subject.leader.and_then(|leader| Stack::take(leader.pid).map_err(|why| draft.edit(|e| e.missing.push(why))).ok());
    let first: HashMap<u64, f64> = everybody().into_iter().map(|(stat, used)| (stat.unique, used.cpu_s)).collect();
    std::thread::sleep(INTERVAL);
    let second = everybody();
    let interval_s = clock::now().since(began).as_f64().max(0.001);
    let members = members(subject, &second);
    let share = |stat: &Stat, used: &Used| {
        let since = (used.cpu_s - first.get(&stat.unique).copied().unwrap_or(0.0)).max(0.0);
        (since / interval_s * 1000.0).round() / 10.0
    };
    let mut rows: Vec<(bool, ProcessId, ProcessRow)> =
        second.iter().map(|(stat, used)| (members.contains(&stat.unique), stat.id, row(share(stat, used), stat, used))).collect();
    rows.sort_by(|a, b| b.2.cpu_pct.unwrap_or(0.0).total_cmp(&a.2.cpu_pct.unwrap_or(0.0)).then_with(|| a.1.cmp(&b.1)));
    let top: Vec<ProcessRow> = rows.iter().take(TOP_ROWS).map(|(_, _, row)| row.clone()).collect();
    let mut tree: Vec<(bool, ProcessId, ProcessRow)> = rows.into_iter().filter(|(ours, _, _)| *ours).collect();
    let whole = tree.len();
    tree.truncate(TREE_ROWS);
    tree.sort_by_key(|(_, id, _)| (Some(*id) != subject.leader, *id));
    draft.edit(|evidence| {
        evidence.missing.push("processes of other users are not among the top: their CPU time cannot be read".to_owned());
    });
    draft.show(tree.into_iter().map(|(_, _, row)| row).collect(), whole, top);
    if let Some(stack) = stack {
        match stack.finish(began.mono_ms + SAMPLE_MS) {
            Ok(text) => draft.edit(|evidence| evidence.stack = Some(text)),
            Err(why) => draft.edit(|evidence| evidence.missing.push(why)),
        }
    }
}

fn everybody() -> Vec<(Stat, Used)> {
    let pids = process::all().unwrap_or_default();
    let read = |pid: i32| {
        let stat = process::stat(pid).ok().filter(|stat| !stat.is_gone())?;
        let usage = darwin::rusage(pid).ok()?;
        let cpu_s = darwin::seconds(usage.ri_user_time + usage.ri_system_time);
        Some((stat, Used { cpu_s, rss_mib: process::mib(usage.ri_resident_size) }))
    };
    pids.into_iter().filter_map(read).collect()
}

/// Unique ids of everything below the owner, and of the leader's session.
fn members(subject: &Subject, all: &[(Stat, Used)]) -> BTreeSet<u64> {
    let mut stats: Vec<&Stat> = all.iter().map(|(stat, _)| stat).collect();
    stats.sort_unstable_by_key(|stat| stat.unique);
    let session = subject.leader.map(|leader| leader.pid);
    let mut below: BTreeSet<u64> = stats.iter().filter(|stat| stat.id == subject.owner).map(|stat| stat.unique).collect();
    let mut found = BTreeSet::new();
    for stat in stats {
        let ours = below.contains(&stat.parent_unique) || (session.is_some() && process::session(stat.id.pid) == session);
        if ours {
            below.insert(stat.unique);
            found.insert(stat.unique);
        }
    }
    found
}

fn row(share: f64, stat: &Stat, used: &Used) -> ProcessRow {
    ProcessRow {
        pid: stat.id.pid,
        ppid: stat.ppid,
        state: stat.state.to_string(),
        comm: stat.comm.clone(),
        argv: process::argv(stat.id.pid).map(|argv| shown_command(&argv)),
        cpu_s: Some(thousandths(used.cpu_s)),
        cpu_pct: Some(thousandths(share)),
        rss_mib: Some((used.rss_mib * 10.0).round() / 10.0),
        wait_channel: None,
    }
}

/// `sample` at work on one process.
struct Stack {
    program: std::process::Child,
    reader: std::thread::JoinHandle<Vec<u8>>,
}

impl Stack {
    fn take(pid: i32) -> Result<Self, String> {
        let mut command = Command::new("/usr/bin/sample");
        command.args([&pid.to_string(), "1", "-mayDie", "-file", "/dev/stdout"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut program = command.spawn().map_err(|error| format!("sample cannot be started: {error}"))?;
        let output = program.stdout.take().ok_or("sample has no output")?;
        let reader = std::thread::spawn(move || {
            let mut head = Vec::new();
            let mut output = output;
            // What is behind the head is read too, or `sample` would wait for ever.
            let _ = output.by_ref().take(STACK_BYTES).read_to_end(&mut head);
            let _ = std::io::copy(&mut output, &mut std::io::sink());
            head
        });
        Ok(Self { program, reader })
    }

    /// Its text, if it ends in time; it is ended otherwise.
    fn finish(mut self, at_ms: u64) -> Result<String, String> {
        let ended = loop {
            match self.program.try_wait() {
                Ok(Some(_)) => break true,
                Ok(None) if clock::now().mono_ms < at_ms => std::thread::sleep(Duration::from_millis(20)),
                _ => break false,
            }
        };
        if !ended {
            let _ = self.program.kill();
            let _ = self.program.wait();
        }
        let head = self.reader.join().unwrap_or_default();
        match head.is_empty() {
            false if ended => Ok(String::from_utf8_lossy(&head).into_owned()),
            _ if ended => Err("sample had nothing to say of the leader".to_owned()),
            _ => Err("sample did not end in time".to_owned()),
        }
    }
}
