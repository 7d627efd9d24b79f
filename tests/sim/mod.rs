//! Decisions driven by scripts instead of by a machine.

mod rollup;
