//! The one integration test binary.

#![expect(clippy::disallowed_methods, reason = "tests set deadlines by the clock and pass on their environment")]
#![expect(clippy::unwrap_used, reason = "a test stops at the first thing that is not as it should be")]

#[cfg(unix)]
mod actions;
mod browser;
#[cfg(unix)]
mod cli;
mod fault;
mod proc;
mod schemas;
mod sim;
#[cfg_attr(windows, expect(dead_code, reason = "some of it is for tests of Unix"))]
mod support;
mod tidy;
#[cfg(windows)]
mod windows;
