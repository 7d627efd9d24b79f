//! macOS: keyed by number and by the kernel's unique id, with a version that changes at every exec; so a warm refresh asks each process
//! for these two and reads a program again only where it has become another one.

use std::collections::HashMap;

use super::program::{self, Program};
use super::{Carriers, Counts, Depth, Match, qemu_patterns};
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
    /// Its start is 0 for another user's.
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
                program: Program::of(process::stat(pid).map_or(ProcessId { pid, start: 0 }, |stat| stat.id)),
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
            entry.program.token = None;
        }
    }

    pub fn counts(&self) -> Counts {
        program::counts(self.entries.len(), self.programs())
    }

    /// What `--reap-match` names, ours and foreign.
    pub fn matches(&self) -> Vec<Match> {
        program::matches(self.programs())
    }

    /// Who was started with this LEDGER_TOKEN. Each environment is read once per program. Start times are the wall clock's, which may
    /// have been set back since, so nobody is left out for being too old: the token alone is proof.
    pub fn carriers(&mut self, token: &str, _: u64) -> Carriers {
        let readable = self.entries.values_mut().map(|entry| &mut entry.program).filter(|program| program.id.start > 0);
        program::carriers(readable, token)
    }

    fn programs(&self) -> impl Iterator<Item = &Program> {
        self.entries.values().map(|entry| &entry.program)
    }
}

impl Entry {
    fn read_program(&mut self, qemu: &Patterns, reap_match: &Patterns) {
        match process::exe_path(self.program.id.pid) {
            Ok(path) => {
                let exe = base_name(&path);
                self.program.judge(ProgramName { exe: Some(exe), argv: None }, qemu, reap_match);
                self.program.exe = Some(exe.to_owned());
            }
            Err(_) => self.program.forget(),
        }
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
        let first = table.entries.get(&own).expect("ourselves").program.id;
        table.refresh(Depth::Thorough).expect("the processes");
        assert_eq!(table.entries.get(&own).expect("ourselves").program.id, first);
        assert!(table.counts().processes > 0);
        assert!(table.carriers("no such token", 0).found.is_empty());
    }
}
