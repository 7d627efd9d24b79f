//! Linux: keyed by number and by the inode of /proc/PID.
//!
//! The kernel drops that inode when the process ends, so an entry of a listing whose inode is the one we know is the process we know,
//! and a warm refresh costs a listing and no more: reading `stat` of 3,000 processes costs five times as much (`cargo bench --bench owner`).

use std::collections::HashMap;

use super::program::{self, Program};
use super::{Carriers, Counts, Depth, Match, qemu_patterns};
use crate::core::ids::base_name;
use crate::core::moment::Moment;
use crate::core::pattern::{Patterns, ProgramName};
use crate::host::process::{self, Unread};
use crate::host::{clock, procfs};

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
    is_kernel_thread: bool,
    program: Program,
    seen_round: u64,
}

impl ProcessTable {
    pub fn new(reap_match: Patterns) -> Self {
        Self { entries: HashMap::new(), qemu: qemu_patterns(), reap_match, round: 0 }
    }

    /// Brings the table up to now.
    pub fn refresh(&mut self, depth: Depth) -> std::io::Result<()> {
        self.round += 1;
        let now = clock::now();
        for (pid, inode) in procfs::numbered(".")? {
            self.refresh_one(pid, inode, depth, now);
        }
        let round = self.round;
        self.entries.retain(|_, entry| entry.seen_round == round);
        // A fork bomb was here, and its room is not kept for the next one.
        if self.entries.capacity() > 4 * self.entries.len() {
            self.entries.shrink_to(2 * self.entries.len());
        }
        Ok(())
    }

    fn refresh_one(&mut self, pid: i32, inode: u64, depth: Depth, now: Moment) {
        let known = self.entries.get_mut(&pid).filter(|entry| entry.inode == inode);
        let Some(entry) = known else {
            if let Ok(stat) = process::stat(pid) {
                let is_kernel_thread = stat.is_kernel_thread;
                let mut entry = Entry { inode, is_kernel_thread, program: Program::of(stat.id), seen_round: self.round };
                entry.read_program(&self.qemu, &self.reap_match);
                self.entries.insert(pid, entry);
            }
            return;
        };
        entry.seen_round = self.round;
        if entry.is_kernel_thread {
            return;
        }
        let is_young = process::age_s(entry.program.id.start, now) * 1000.0 < YOUNG_MS as f64;
        let is_due = (pid as u64).wrapping_add(self.round).is_multiple_of(ROUNDS);
        let is_asked_for = match depth {
            Depth::Usual => false,
            Depth::Since(since) => entry.program.id.start >= since,
            Depth::Thorough => true,
        };
        if is_asked_for || is_young || is_due {
            entry.read_program(&self.qemu, &self.reap_match);
            if is_young {
                entry.program.token = None;
            }
        }
    }

    pub fn counts(&self) -> Counts {
        program::counts(self.entries.len(), self.programs())
    }

    /// What `--reap-match` names, ours and foreign.
    pub fn matches(&self) -> Vec<Match> {
        program::matches(self.programs())
    }

    /// Who was started at `since` or later with this LEDGER_TOKEN.
    pub fn carriers(&mut self, token: &str, since: u64) -> Carriers {
        let users = self.entries.values_mut().filter(|entry| !entry.is_kernel_thread).map(|entry| &mut entry.program);
        let mut carriers = program::carriers(users.filter(|program| program.id.start >= since), token);
        carriers.asleep.retain(|id| process::is_our_users(id.pid));
        carriers
    }

    fn programs(&self) -> impl Iterator<Item = &Program> {
        self.entries.values().map(|entry| &entry.program)
    }
}

impl Entry {
    fn read_program(&mut self, qemu: &Patterns, reap_match: &Patterns) {
        if self.is_kernel_thread {
            return;
        }
        let program = &mut self.program;
        match process::exe_path(program.id.pid) {
            Ok(path) => {
                let exe = base_name(&path);
                if program.exe.as_deref() == Some(exe) {
                    return;
                }
                program.judge(ProgramName { exe: Some(exe), argv: None }, qemu, reap_match);
                program.exe = Some(exe.to_owned());
            }
            // It has ended, and nobody has waited for it yet.
            Err(Unread::Gone) => program.forget(),
            // Another user's: its command line may be readable where its executable is not.
            Err(_) => {
                let argv = process::argv(program.id.pid);
                program.judge(ProgramName { exe: None, argv: argv.as_deref() }, qemu, reap_match);
                program.exe = None;
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
        let first = table.entries.get(&own).expect("ourselves").program.id;
        table.refresh(Depth::Thorough).expect("/proc");
        assert_eq!(table.entries.get(&own).expect("ourselves").program.id, first);
        assert!(table.counts().processes > 0);
        assert!(table.carriers("no such token", 0).found.is_empty());
    }
}
