//! Parse, call, print the failure, exit.

use std::process::ExitCode;

fn main() -> ExitCode {
    ci_ledger::host::signals::at_start();
    // Before anything else: an owner must be at work within a millisecond or two.
    if let Some(code) = ci_ledger::host::owner::run_if_asked() {
        return code;
    }
    ci_ledger::cli::main()
}
