//! What `--resume` was written with.

use super::flags::RunFlags;
use crate::core::outcome::Scope;

/// What `--resume` goes on with.
#[derive(Debug, Clone, PartialEq)]
pub enum Resume {
    No,
    /// The newest unfinished leg of the files that are named.
    OfThese,
    /// The newest unfinished leg, with what is on record of it. Files, command and rounds are not yet known.
    AsRecorded(Written),
}

/// What a command line has beside a `--resume` without files.
#[derive(Debug, Clone, PartialEq)]
pub struct Written {
    pub scope: Option<Scope>,
    pub command: bool,
    pub repeat: Option<u32>,
}

impl Resume {
    pub fn of(flags: &RunFlags) -> Self {
        match (flags.resume, flags.files.is_empty()) {
            (false, _) => Resume::No,
            (true, false) => Resume::OfThese,
            (true, true) => Resume::AsRecorded(Written {
                scope: flags.scope.map(Scope::from),
                command: !flags.command.is_empty(),
                repeat: flags.repeat,
            }),
        }
    }
}
