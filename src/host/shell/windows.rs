//! Windows: `cmd`.

use std::ffi::OsString;

use crate::host::owner::SpawnSpec;

/// A command line as a person would type it. It travels in the environment, because `cmd` reads quotes otherwise than every program does
/// that is started with words. (Wine's `cmd` parses before it puts variables in, so this was not seen there.)
pub fn line(text: OsString) -> SpawnSpec {
    const LINE: &str = "LEDGER_COMMAND_LINE";
    let args = ["/d", "/c", &format!("%{LINE}%")].map(OsString::from).to_vec();
    SpawnSpec { program: "cmd".into(), args, cwd: None, env: vec![(LINE.into(), text)] }
}

/// A program that ends at once and leaves a process behind that holds none of its streams.
pub fn leaver() -> SpawnSpec {
    let args = ["/d", "/c", "start", "/b", "ping", "-n", "300", "127.0.0.1", ">nul", "2>nul"].map(OsString::from).to_vec();
    SpawnSpec { program: "cmd".into(), args, cwd: None, env: Vec::new() }
}
