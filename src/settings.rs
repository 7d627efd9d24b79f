//! Flags, environment and `ledger.toml` into one validated `Settings`. Nothing else reads the environment.

mod environment;
mod flags;
mod plan_files;
mod resolve;

pub use environment::Environment;
pub use flags::{CapsSource, DurationArg, RunFlags};
pub use plan_files::PlanError;
pub use resolve::{ClassifyRule, Identity, RunSettings, SettingsError, resolve_run};
