//! `ledger`: a CI evidence ledger and per-file watchdog runner.

pub mod core;
pub mod host;
pub mod report;
pub mod settings;
pub mod sink;
pub mod source;
pub mod store;
