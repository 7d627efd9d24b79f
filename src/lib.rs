//! `ledger`: a CI evidence ledger and per-file watchdog runner.
//!
//! ```text
//! history ─▶ plan ─▶ admission ─▶ spawn ─▶ watch ─▶ sweep ─▶ sample ─▶ append ─▶ flush ─▶ report
//!
//! core      decisions and shapes; pure                       settings  flags, environment, ledger.toml
//! host      clocks, owners, sweeps, samples, signals         run       the loop: performs what core decides
//! store     one SQLite database per leg and epoch            source    whatever a SOURCE names, as legs
//! sink      stores outside the machine                       cli       one file per subcommand
//! report    legs to text
//! ```
//!
//! `host`, `store`, `sink` and `report` know `core` and never one another; `run`, `source` and `cli` put them together. `settings` knows
//! `core` and hands on what configures the sinks.

// They panic where nobody reads: `cli::print` and `say!` do not.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod cli;
pub mod core;
pub mod host;
pub mod report;
pub mod run;
pub mod settings;
pub mod sink;
pub mod source;
pub mod store;
