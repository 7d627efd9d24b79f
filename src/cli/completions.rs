//! `ledger completions` and `ledger man`: both come from the same definitions as `--help`.

use std::path::PathBuf;

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::{Cli, Failure, print};

/// Print completions for a shell
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ledger completions bash > ~/.local/share/bash-completion/completions/ledger
  ledger completions zsh > ~/.zfunc/_ledger
  ledger completions fish > ~/.config/fish/completions/ledger.fish")]
pub struct CompletionsArgs {
    /// Which shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Print the manual page, or write one per command into a folder
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Write ledger.1, ledger-run.1 and so on there
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

pub fn completions(args: &CompletionsArgs) -> Result<i32, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "ledger", &mut text);
    print(&String::from_utf8_lossy(&text))?;
    Ok(0)
}

pub fn man(args: &ManArgs) -> Result<i32, Failure> {
    match &args.out {
        Some(folder) => clap_mangen::generate_to(Cli::command(), folder)
            .map_err(|error| Failure::usage(format!("{}: {error}", folder.display())).hint("name a folder that exists"))?,
        None => {
            let mut text = Vec::new();
            clap_mangen::Man::new(Cli::command())
                .render(&mut text)
                .map_err(|error| Failure::usage(format!("the manual page cannot be made: {error}")))?;
            print(&String::from_utf8_lossy(&text))?;
        }
    }
    Ok(0)
}
