//! Windows: one call lists all processes with the names of their executables, so nothing has to be kept from one look to the next.

use super::{Carriers, Counts, Depth, Match, qemu_patterns};
use crate::core::pattern::{Patterns, ProgramName};
use crate::host::process::{self, Stat};

#[derive(Debug)]
pub struct ProcessTable {
    listed: Vec<Stat>,
    qemu: Patterns,
    reap_match: Patterns,
}

impl ProcessTable {
    pub fn new(reap_match: Patterns) -> Self {
        Self { listed: Vec::new(), qemu: qemu_patterns(), reap_match }
    }

    /// Brings the table up to now, always whole.
    pub fn refresh(&mut self, _: Depth) -> std::io::Result<()> {
        self.listed = process::list()?;
        Ok(())
    }

    pub fn counts(&self) -> Counts {
        let mut counts = Counts { processes: u32::try_from(self.listed.len()).unwrap_or(u32::MAX), ..Counts::default() };
        for stat in self.listed.iter().filter(|stat| names(&self.qemu, stat)) {
            counts.qemu += 1;
            counts.qemu_rss_mib += stat.rss_mib();
        }
        counts
    }

    /// What `--reap-match` names, ours and foreign.
    pub fn matches(&self) -> Vec<Match> {
        let named = self.listed.iter().filter(|stat| names(&self.reap_match, stat));
        let mut found: Vec<Match> = named.map(|stat| Match { id: stat.id, exe: Some(stat.comm.clone()) }).collect();
        found.sort_unstable_by_key(|found| found.id);
        found
    }

    /// Nobody: a job holds what it holds, and a token would name nothing more. Environments of others are not read here.
    pub fn carriers(&mut self, _token: &str, _since: u64) -> Carriers {
        Carriers::default()
    }
}

/// Names of executables end with `.exe` here, and nobody writes that into a pattern.
fn names(patterns: &Patterns, stat: &Stat) -> bool {
    let name = stat.comm.to_ascii_lowercase();
    let bare = name.strip_suffix(".exe").unwrap_or(&name);
    [bare, &name].into_iter().any(|name| patterns.match_program(ProgramName { exe: Some(name), argv: None }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::process::ProcessId;

    #[test]
    fn a_table_sees_us() {
        let mut table = ProcessTable::default();
        table.refresh(Depth::Usual).expect("a list");
        assert!(table.listed.iter().any(|stat| stat.id.pid == std::process::id() as i32));
        assert!(table.counts().processes > 0);
    }

    #[test]
    fn names_of_programs_match_without_their_ending_and_in_any_case() {
        let patterns = qemu_patterns();
        let named = |comm: &str| {
            let id = ProcessId { pid: 1, start: 1 };
            names(&patterns, &Stat { id, ppid: 0, comm: comm.to_owned(), cpu_100ns: 0, rss_bytes: 0, threads: 1 })
        };
        assert!(named("qemu-system-x86_64.exe") && named("QEMU-SYSTEM-ARM.EXE") && named("qemu-kvm.exe"));
        assert!(!named("code.exe") && !named("my-qemu-system-x86_64.exe"));
    }
}
