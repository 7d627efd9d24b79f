//! Rows to text: one file per format, each a function of the summary.
//!
//! Nothing in here reads evidence, a clock, the environment or a terminal, and nothing imports another layer than `core`. Every string of
//! a row may be hostile: it goes through `escape` on its way out.

pub mod attempted_legs;
pub mod caps;
mod cases;
pub mod check_run;
pub mod ci_data;
pub mod ctrf;
pub mod escape;
#[cfg(test)]
pub(crate) mod fixtures;
pub mod gate;
pub mod github;
pub mod html;
pub mod json;
pub mod junit;
pub mod live;
pub mod markdown;
pub mod merged;
pub mod ndjson;
pub mod progress;
pub mod rerun;
pub mod shared_json;
pub mod style;
pub mod table;
pub mod tested_versions;
pub mod timing;
pub mod trace;
pub mod trend;
pub mod watch;
pub mod words;
