//! Decisions driven by scripts instead of by a machine.

mod long_run;
mod rollup;
