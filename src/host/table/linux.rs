//! Linux: keyed by number and by the inode of /proc/PID.
//!
//! The kernel drops that inode when the process ends, so an entry of a listing whose inode is the one we know is the process we know,
//! and a warm refresh costs a listing and no more: reading `stat` of 3,000 processes costs five times as much (`cargo bench --bench owner`).

use std::collections::HashMap;
use std::os::unix::fs::DirEntryExt as _;

use super::{Counts, Depth, Match};
use crate::core::ids::base_name;
use crate::core::moment::Moment;
use crate::core::pattern::{Patterns, ProgramName};
use crate::core::process::ProcessId;
use crate::host::clock;
use crate::host::process::{self, Unread};

/// A program is read again until its process is this old: fork, a shell's work, then exec.
const YOUNG_MS: u64 = 3_000;
/// At the usual depth every old process is read again once in so many refreshes, for the shell that becomes a QEMU late.
const ROUNDS: u64 = 16;

#[derive(Debug)]
pub struct ProcessTable {
    entries: HashMap<i32, Entry>,
    qemu: Patterns,
    reap_match: Patterns,
    round: u64,
}

#[derive(Debug)]
struct Entry {
    inode: u64,
    id: ProcessId,
    is_kernel_thread: bool,
    exe: Option<String>,
    is_qemu: bool,
    is_match: bool,
    /// The value of LEDGER_TOKEN it was started with, once somebody has asked.
    token: Option<Option<String>>,
    seen_round: u64,
}

impl Default for ProcessTable {
    fn default() -> Self {
        Self::new(Patterns::new(["qemu-system-*"]).expect("a valid pattern"))
    }
}

impl ProcessTable {
    pub fn new(reap_match: Patterns) -> Self {
        let qemu = Patterns::new(["qemu-system-*", "qemu-kvm"]).expect("valid patterns");
        Self { entries: HashMap::new(), qemu, reap_match, round: 0 }
    }

    /// Brings the table up to now.
    pub fn refresh(&mut self, depth: Depth) -> std::io::Result<()> {
        self.round += 1;
        let now = clock::now();
        for listed in std::fs::read_dir("/proc")? {
            let listed = listed?;
            let Some(pid) = listed.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
            self.refresh_one(pid, listed.ino(), depth, now);
        }
        let round = self.round;
        self.entries.retain(|_, entry| entry.seen_round == round);
        Ok(())
    }

    fn refresh_one(&mut self, pid: i32, inode: u64, depth: Depth, now: Moment) {
        let known = self.entries.get_mut(&pid).filter(|entry| entry.inode == inode);
        let Some(entry) = known else {
            if let Ok(stat) = process::stat(pid) {
                let mut entry = Entry {
                    inode,
                    id: stat.id,
                    is_kernel_thread: stat.is_kernel_thread,
                    exe: None,
                    is_qemu: false,
                    is_match: false,
                    token: None,
                    seen_round: self.round,
                };
                entry.read_program(&self.qemu, &self.reap_match);
                self.entries.insert(pid, entry);
            }
            return;
        };
        entry.seen_round = self.round;
        if entry.is_kernel_thread {
            return;
        }
        let is_young = process::age_s(entry.id.start, now) * 1000.0 < YOUNG_MS as f64;
        let is_due = (pid as u64).wrapping_add(self.round).is_multiple_of(ROUNDS);
        let is_asked_for = match depth {
            Depth::Usual => false,
            Depth::Since(since) => entry.id.start >= since,
            Depth::Thorough => true,
        };
        if is_asked_for || is_young || is_due {
            entry.read_program(&self.qemu, &self.reap_match);
            if is_young {
                entry.token = None;
            }
        }
    }

    pub fn counts(&self) -> Counts {
        let mut counts = Counts { processes: u32::try_from(self.entries.len()).unwrap_or(u32::MAX), ..Counts::default() };
        for entry in self.entries.values().filter(|entry| entry.is_qemu) {
            counts.qemu += 1;
            counts.qemu_rss_mib += process::rss_mib_of(entry.id.pid).unwrap_or(0.0);
        }
        counts
    }

    /// What `--reap-match` names, ours and foreign.
    pub fn matches(&self) -> Vec<Match> {
        let mut found: Vec<Match> = self
            .entries
            .values()
            .filter(|entry| entry.is_match)
            .map(|entry| Match { id: entry.id, exe: entry.exe.clone() })
            .collect();
        found.sort_unstable_by_key(|found| found.id);
        found
    }

    /// Who was started at `since` or later with this LEDGER_TOKEN. Each environment is read once.
    pub fn carriers(&mut self, token: &str, since: u64) -> Vec<ProcessId> {
        let mut found = Vec::new();
        for entry in self.entries.values_mut().filter(|entry| !entry.is_kernel_thread && entry.id.start >= since) {
            let carried = entry.token.get_or_insert_with(|| process::token_of(entry.id.pid));
            if carried.as_deref() == Some(token) {
                found.push(entry.id);
            }
        }
        found.sort_unstable();
        found
    }
}

impl Entry {
    fn read_program(&mut self, qemu: &Patterns, reap_match: &Patterns) {
        if self.is_kernel_thread {
            return;
        }
        match process::exe_path(self.id.pid) {
            Ok(path) => {
                let exe = base_name(&path);
                if self.exe.as_deref() == Some(exe) {
                    return;
                }
                self.exe = Some(exe.to_owned());
                let name = ProgramName { exe: Some(exe), argv: None };
                self.is_qemu = qemu.match_program(name);
                self.is_match = reap_match.match_program(name);
            }
            // It has ended, and nobody has waited for it yet.
            Err(Unread::Gone) => {
                self.exe = None;
                self.is_qemu = false;
                self.is_match = false;
            }
            // Another user's: its command line may be readable where its executable is not.
            Err(_) => {
                let argv = process::argv(self.id.pid);
                let name = ProgramName { exe: None, argv: argv.as_deref() };
                self.exe = None;
                self.is_qemu = qemu.match_program(name);
                self.is_match = reap_match.match_program(name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warm_table_sees_the_same_processes() {
        let mut table = ProcessTable::default();
        table.refresh(Depth::Usual).expect("/proc");
        let own = std::process::id() as i32;
        let first = table.entries.get(&own).expect("ourselves").id;
        table.refresh(Depth::Thorough).expect("/proc");
        assert_eq!(table.entries.get(&own).expect("ourselves").id, first);
        assert!(table.counts().processes > 0);
        assert!(table.carriers("no such token", 0).is_empty());
    }
}
