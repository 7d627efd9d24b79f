//! Unix: `sh`.

use std::ffi::OsString;

use crate::host::owner::SpawnSpec;

/// A command line as a person would type it.
pub fn line(text: OsString) -> SpawnSpec {
    SpawnSpec { program: "sh".into(), args: vec!["-c".into(), text], cwd: None, env: Vec::new() }
}
