//! `ledger run`

use clap::Args;

use super::{Failure, World, print};
use crate::core::redact::Redactor;
use crate::host::clock;
use crate::report::github::{self, Level};
use crate::report::markdown;
use crate::run;
use crate::settings::{Environment, RunFlags, SettingsError, resolve_run};

/// Run test files one by one, watched, recorded, flushed
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ledger run 'test/integration/*.test.ts' -- bun test ./{file}
  ledger run --deadline +55m --sink github: --sink s3://evidence/ledger tests/*.sh -- bash
  ledger run --repeat 20 --until-fail test/provisioning.test.ts -- bun test ./{file}
  ledger run --resume

Exit status: 0 every file passed, 1 some did not, 2 nothing ran, 3 leftovers survived, 4 the budget was spent,
5 the ledger could not be written any more, 129/130/143 cancelled by HUP/INT/TERM.")]
pub struct RunArgs {
    #[command(flatten)]
    flags: RunFlags,
}

pub fn run(args: RunArgs, world: &World) -> Result<i32, Failure> {
    begin(args, world).inspect_err(|failure| {
        let hint = failure.hint.as_deref().map(|hint| format!("\n{hint}")).unwrap_or_default();
        nothing_ran(&format!("{}{hint}", failure.message), &world.environment);
    })
}

/// Tells the CI service that nothing ran and why, where this is a step of one: an annotation, the outputs that a later step reads, and the
/// summary.
pub fn nothing_ran(why: &str, environment: &Environment) {
    if !environment.is_true("GITHUB_ACTIONS") {
        return;
    }
    let why = Redactor::new(environment.secrets()).text(why);
    // Whoever reads none of it has the error on the other stream.
    let _ = print(&github::annotation(Level::Error, None, NOTHING_RAN, &why));
    let files =
        [("GITHUB_OUTPUT", github::outputs_of_nothing()), ("GITHUB_STEP_SUMMARY", markdown::nothing_ran(NOTHING_RAN, &why))];
    for (name, text) in files {
        let Some(path) = environment.path(name) else { continue };
        if let Err(error) = run::append(&path, &text) {
            say!("ledger: warning: '{}' cannot be written: {error}", path.display());
        }
    }
}

const NOTHING_RAN: &str = "ledger run: nothing ran";

fn begin(args: RunArgs, world: &World) -> Result<i32, Failure> {
    let folder = std::env::current_dir().map_err(|error| Failure::usage(format!("the working folder cannot be told: {error}")))?;
    let settings = resolve_run(args.flags, &world.environment, &folder, clock::now()).map_err(explain)?;
    if settings.dry_run {
        let json = settings.json;
        let rehearsal = run::rehearse(settings).map_err(Failure::usage)?;
        super::asked::warn(&rehearsal.warnings);
        print(if json { &rehearsal.document } else { &rehearsal.text })?;
        return Ok(0);
    }
    run::execute(settings, world.terminal.stderr).map_err(Failure::usage)
}

fn explain(error: SettingsError) -> Failure {
    let failure = Failure::usage(&error);
    match error {
        SettingsError::Plan(_) => failure.hint("nothing ran; `ledger run --dry-run …` shows the plan without running it"),
        SettingsError::NoToml { .. } => failure.hint("texts stand in quotes, lists in brackets: files = [\"test/*.sh\"]"),
        SettingsError::BadFile { .. } => failure.hint(
            "[run] takes files, command and sinks, each a list of texts, and the long flags of `ledger run --help` without their dashes; \
             [[classify]] takes pattern and outcome",
        ),
        SettingsError::BadRule { .. } => {
            failure.hint("write pattern = \"DOWNLOAD_STALLED\" and outcome = \"infra-download\", or any other word that is no pass")
        }
        _ => failure,
    }
}
