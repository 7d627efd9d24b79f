//! The one integration test binary.

#![expect(clippy::unwrap_used, reason = "a test stops at the first thing that is not as it should be")]

mod fault;
mod proc;
mod schemas;
mod sim;
mod tidy;
