//! The command line: one file per subcommand, its doc comment is its help. Here alone errors become words, hints and exit codes.

/// A line on stderr. One that cannot be written changes nothing of what the command does: `eprintln!` would end it.
macro_rules! say {
    ($($words:tt)*) => { $crate::cli::put_line(format_args!($($words)*)) };
}

mod asked;
mod caps;
mod completions;
mod doctor;
mod import;
mod out;
mod pool;
mod prune;
mod reap;
mod report;
mod run;

mod schema;
mod sink;
mod terminal;
mod trend;
mod turn;
mod verify;
mod waiting;
mod watch;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::report::escape;
use crate::report::style::Colour;
use crate::settings::Environment;

pub use terminal::{ColorArg, Terminal};

/// A CI evidence ledger and per-file watchdog runner.
///
/// Runs test files one by one under caps derived from history, proves after every file that nothing of it is left, and puts every fact
/// outside the machine before the next one can go wrong: a lost runner still leaves a terminal class and its last progress.
#[derive(Debug, Parser)]
#[command(name = "ledger", version, max_term_width = 100, propagate_version = true)]
pub struct Cli {
    /// When to colour
    #[arg(long, value_enum, global = true, default_value_t = ColorArg::Auto, value_name = "WHEN")]
    color: ColorArg,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::RunArgs),
    Report(report::ReportArgs),
    Caps(caps::CapsArgs),
    Import(import::ImportArgs),
    Trend(trend::TrendArgs),
    Watch(watch::WatchArgs),
    Sink(sink::SinkArgs),
    Reap(reap::ReapArgs),
    Prune(prune::PruneArgs),
    Doctor(doctor::DoctorArgs),
    Pool(pool::PoolArgs),
    Verify(verify::VerifyArgs),
    Schema(schema::SchemaArgs),
    Completions(completions::CompletionsArgs),
    Man(completions::ManArgs),
}

/// Usage and configuration errors, also a source that cannot be read.
const EXIT_USAGE: i32 = 2;

/// A failure with the words for it.
#[derive(Debug)]
pub struct Failure {
    pub code: i32,
    pub message: String,
    pub hint: Option<String>,
}

impl Failure {
    pub fn usage(error: impl std::fmt::Display) -> Self {
        Self { code: EXIT_USAGE, message: error.to_string(), hint: None }
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// What a subcommand needs to know of the world.
pub struct World {
    pub environment: Environment,
    pub terminal: Terminal,
}

/// Parses the command line, runs it, says what went wrong.
pub fn main() -> ExitCode {
    let environment = Environment::of_process();
    // Help and usage errors end the parsing, and are coloured like everything else.
    let terminal = Terminal::of_process(terminal::asked_for(std::env::args_os()), &environment);
    start_tracing(&environment, terminal);
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let code = told(&error, terminal);
            if code == EXIT_USAGE && std::env::args_os().nth(1).is_some_and(|command| command == "run") {
                run::nothing_ran(&error.to_string(), &environment);
            }
            return exit(code);
        }
    };
    let terminal = Terminal::of_process(cli.color, &environment);
    let world = World { environment, terminal };
    let result = match cli.command {
        Command::Run(args) => run::run(args, &world),
        Command::Reap(args) => reap::run(&args),
        Command::Prune(args) => prune::run(&args),
        Command::Doctor(args) => doctor::run(&args, &world),
        Command::Report(args) => report::run(&args, &world),
        Command::Verify(args) => verify::run(&args, &world),
        Command::Trend(args) => trend::run(&args, &world),
        Command::Watch(args) => watch::run(&args, &world),
        Command::Pool(args) => pool::run(args, &world),
        Command::Sink(args) => sink::run(&args, &world),
        Command::Caps(args) => caps::run(&args, &world),
        Command::Import(args) => import::run(&args, &world),
        Command::Schema(args) => schema::run(&args),
        Command::Completions(args) => completions::completions(&args),
        Command::Man(args) => completions::man(&args),
    };
    match result {
        Ok(code) => exit(code),
        Err(failure) => {
            say!("ledger: error: {}", escape::message(&failure.message));
            if let Some(hint) = failure.hint {
                say!("ledger: hint: {}", escape::message(&hint));
            }
            exit(failure.code)
        }
    }
}

/// Prints help, the version or what is wrong with the command line, and gives the exit status.
fn told(error: &clap::Error, terminal: Terminal) -> i32 {
    let style = if error.use_stderr() { terminal.stderr } else { terminal.stdout };
    let rendered = error.render();
    let text = if style.colour == Colour::On { rendered.ansi().to_string() } else { rendered.to_string() };
    if error.use_stderr() {
        say!("{}", text.trim_end());
        return error.exit_code();
    }
    match print(&text) {
        Ok(()) => error.exit_code(),
        Err(failure) => {
            say!("ledger: error: {}", escape::message(&failure.message));
            failure.code
        }
    }
}

fn exit(code: i32) -> ExitCode {
    match u8::try_from(code) {
        Ok(code) => ExitCode::from(code),
        // Only a command of Windows has such a status (`pool run` hands it on), and by now nothing is left to be put away.
        Err(_) => std::process::exit(code),
    }
}

fn start_tracing(environment: &Environment, terminal: Terminal) {
    let Some(filter) = environment.get("LEDGER_LOG") else { return };
    let filter = tracing_subscriber::EnvFilter::new(filter);
    // A second subscriber can only be set by a test that calls this twice.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(terminal.stderr.colour == Colour::On)
        // It would tell stderr that stderr cannot be written, and panic over it.
        .log_internal_errors(false)
        .try_init();
}

/// In one write, so that no other's line comes between.
fn put_line(words: std::fmt::Arguments<'_>) {
    use std::io::Write as _;
    // Nobody is left to be told that nobody reads.
    let _ = std::io::stderr().lock().write_all(format!("{words}\n").as_bytes());
}

/// Writes data to stdout. A reader that has gone away has what it wanted.
pub fn print(text: &str) -> Result<(), Failure> {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure { code: 1, message: format!("stdout cannot be written: {error}"), hint: None })
        }
        _ => Ok(()),
    }
}
