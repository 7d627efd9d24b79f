//! Real processes that misbehave, and the owner that ends them (CASES.md 1-24, 27).

#[cfg(unix)]
mod deaths;
#[cfg_attr(windows, expect(dead_code, reason = "some of it is for tests of Unix"))]
pub mod driver;
#[cfg(unix)]
mod endings;
#[cfg(unix)]
mod escapes;
#[cfg(unix)]
mod mechanisms;
#[cfg(unix)]
mod owner;
#[cfg(unix)]
mod pausing;
#[cfg(unix)]
mod privileges;
#[cfg(unix)]
mod qemu;
#[cfg(unix)]
mod slots;
#[cfg(unix)]
mod strangers;
#[cfg(unix)]
mod terminal;
