//! macOS: `caffeinate` holds an assertion until the process that it watches has ended. Compiled only; no Mac has run it.

use std::process::{Command, Stdio};

/// Holds the machine awake until ledger ends, however it ends.
pub fn keep() -> Result<(), String> {
    let mut command = Command::new("caffeinate");
    command.args(["-i", "-m", "-w", &std::process::id().to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().map(drop).map_err(|error| format!("caffeinate cannot be started: {error}"))
}
