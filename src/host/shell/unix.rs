//! Unix: `sh`.

use std::ffi::OsString;

use crate::host::owner::SpawnSpec;

/// A command line as a person would type it.
pub fn line(text: OsString) -> SpawnSpec {
    SpawnSpec { program: "sh".into(), args: vec!["-c".into(), text], cwd: None, env: Vec::new() }
}

/// A program that ends at once and leaves a daemon behind, as a virtual machine does.
pub fn leaver() -> SpawnSpec {
    line("(setsid sh -c 'exec sleep 300' </dev/null >/dev/null 2>&1 &)".into())
}
