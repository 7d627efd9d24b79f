//! macOS: keyed by number and by the kernel's unique id, with a version that changes at every exec; so a warm refresh asks each process
//! for these two and reads a program again only where it has become another one.

use std::collections::HashMap;

use super::{Counts, Depth, Match};
use crate::core::ids::base_name;
use crate::core::pattern::{Patterns, ProgramName};
use crate::core::process::ProcessId;
use crate::host::{darwin, process};

#[derive(Debug)]
pub struct ProcessTable {
    entries: HashMap<i32, Entry>,
    qemu: Patterns,
    reap_match: Patterns,
    round: u64,
}

#[derive(Debug)]
struct Entry {
    unique: u64,
    version: i32,
    /// Start 0 for another user's.
    id: ProcessId,
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
        for pid in process::all()? {
            if let Ok(unique) = darwin::unique(pid) {
                self.refresh_one(pid, unique, depth);
            }
        }
        let round = self.round;
        self.entries.retain(|_, entry| entry.seen_round == round);
        Ok(())
    }

    fn refresh_one(&mut self, pid: i32, unique: darwin::Unique, depth: Depth) {
        let known = self.entries.get_mut(&pid).filter(|entry| entry.unique == unique.id);
        let Some(entry) = known else {
            let mut entry = Entry {
                unique: unique.id,
                version: unique.version,
                id: process::stat(pid).map_or(ProcessId { pid, start: 0 }, |stat| stat.id),
                exe: None,
                is_qemu: false,
                is_match: false,
                token: None,
                seen_round: self.round,
            };
            entry.read_program(&self.qemu, &self.reap_match);
            self.entries.insert(pid, entry);
            return;
        };
        entry.seen_round = self.round;
        if depth == Depth::Thorough || entry.version != unique.version {
            entry.read_program(&self.qemu, &self.reap_match);
        }
        if entry.version != unique.version {
            entry.version = unique.version;
            entry.token = None;
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

    /// Who was started with this LEDGER_TOKEN. Each environment is read once per program. Start times are the wall clock's, which may
    /// have been set back since, so nobody is left out for being too old: the token alone is proof.
    pub fn carriers(&mut self, token: &str, _: u64) -> Vec<ProcessId> {
        let mut found = Vec::new();
        for entry in self.entries.values_mut().filter(|entry| entry.id.start > 0) {
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
        let exe = process::exe_path(self.id.pid).ok().map(|path| base_name(&path).to_owned());
        let name = ProgramName { exe: exe.as_deref(), argv: None };
        self.is_qemu = exe.is_some() && qemu.match_program(name);
        self.is_match = exe.is_some() && reap_match.match_program(name);
        self.exe = exe;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warm_table_sees_the_same_processes() {
        let mut table = ProcessTable::default();
        table.refresh(Depth::Usual).expect("the processes");
        let own = std::process::id() as i32;
        let first = table.entries.get(&own).expect("ourselves").id;
        table.refresh(Depth::Thorough).expect("the processes");
        assert_eq!(table.entries.get(&own).expect("ourselves").id, first);
        assert!(table.counts().processes > 0);
        assert!(table.carriers("no such token", 0).is_empty());
    }
}
