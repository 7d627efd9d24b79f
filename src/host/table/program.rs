//! What a table keeps of one process on Unix, and what it says of all of them.

use super::{Carriers, Counts, Match};
use crate::core::pattern::{Patterns, ProgramName};
use crate::core::process::ProcessId;
use crate::host::process::{self, TokenRead};

#[derive(Debug)]
pub struct Program {
    pub id: ProcessId,
    pub exe: Option<String>,
    pub is_qemu: bool,
    pub is_match: bool,
    /// The value of LEDGER_TOKEN it was started with, once somebody has asked.
    pub token: Option<Option<String>>,
}

impl Program {
    pub fn of(id: ProcessId) -> Self {
        Self { id, exe: None, is_qemu: false, is_match: false, token: None }
    }

    /// Judges it anew by what it is called.
    pub fn judge(&mut self, name: ProgramName<'_>, qemu: &Patterns, reap_match: &Patterns) {
        self.is_qemu = qemu.match_program(name);
        self.is_match = reap_match.match_program(name);
    }

    /// Nothing is known of it any more.
    pub fn forget(&mut self) {
        self.exe = None;
        self.is_qemu = false;
        self.is_match = false;
    }

    /// The LEDGER_TOKEN it was started with. Its environment is read once; that it could not be read is no answer, and not kept.
    fn ask(&mut self) -> TokenRead {
        if let Some(token) = &self.token {
            return TokenRead::Carries(token.clone());
        }
        let read = process::token_of(self.id.pid);
        if let TokenRead::Carries(token) = &read {
            self.token = Some(token.clone());
        }
        read
    }
}

pub fn counts<'p>(all: usize, programs: impl Iterator<Item = &'p Program>) -> Counts {
    let mut counts = Counts { processes: u32::try_from(all).unwrap_or(u32::MAX), ..Counts::default() };
    for program in programs.filter(|program| program.is_qemu) {
        counts.qemu += 1;
        counts.qemu_rss_mib += process::rss_mib_of(program.id.pid).unwrap_or(0.0);
    }
    counts
}

/// What `--reap-match` names, ours and foreign.
pub fn matches<'p>(programs: impl Iterator<Item = &'p Program>) -> Vec<Match> {
    let named = programs.filter(|program| program.is_match);
    let mut found: Vec<Match> = named.map(|program| Match { id: program.id, exe: program.exe.clone() }).collect();
    found.sort_unstable_by_key(|found| found.id);
    found
}

pub fn carriers<'p>(programs: impl Iterator<Item = &'p mut Program>, token: &str) -> Carriers {
    let mut carriers = Carriers::default();
    for program in programs {
        match program.ask() {
            TokenRead::Carries(carried) if carried.as_deref() == Some(token) => carriers.found.push(program.id),
            TokenRead::NotNow => carriers.asleep.push(program.id),
            TokenRead::Carries(_) | TokenRead::Denied => {}
        }
    }
    carriers.found.sort_unstable();
    carriers
}
