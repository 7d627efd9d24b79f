//! Flags, environment and `ledger.toml` into one validated `Settings`. Nothing else reads the environment.

mod environment;
mod flags;
mod globs;
mod path_bytes;
mod plan_files;
mod pools;
mod resolve;
mod resume;

pub use environment::Environment;
pub use flags::{CapsSource, DurationArg, ReapScopeArg, RunFlags};
pub use path_bytes::path_of;
pub use plan_files::{PlanError, check};
pub use pools::{PoolRunFlags, PoolRunSettings, pools_folder, resolve_pool_run};
pub use resolve::{ActionsFiles, Identity, PoolSettings, Rounds, RunSettings, SettingsError, resolve_run};
pub use resume::{Resume, Written};
