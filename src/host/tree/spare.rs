//! Who is left alone by its name: `--allow-leftover`.

use std::collections::BTreeSet;

use crate::core::pattern::{Patterns, ProgramName};
use crate::core::process::ProcessId;
use crate::host::process;

/// The patterns, and whom they have matched: who waits for its disk shows no command line, and is not killed for that.
#[derive(Debug, Default)]
pub struct Spare {
    patterns: Patterns,
    matched: BTreeSet<ProcessId>,
}

impl From<Patterns> for Spare {
    fn from(patterns: Patterns) -> Self {
        Self { patterns, matched: BTreeSet::new() }
    }
}

impl Spare {
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Asks the process itself, as far as it can be asked.
    pub fn has(&mut self, id: ProcessId) -> bool {
        if self.is_empty() {
            return false;
        }
        let exe = process::exe_path(id.pid).ok();
        let argv = process::argv(id.pid);
        let matches = self.patterns.match_leftover(ProgramName { exe: exe.as_deref(), argv: argv.as_deref() });
        if matches {
            self.matched.insert(id);
        }
        matches || (argv.is_none() && self.matched.contains(&id))
    }
}
