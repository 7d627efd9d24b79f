//! Real processes that misbehave, and the owner that ends them (CASES.md 1-24, 27). What needs /proc, setsid(1), a cgroup, a subreaper or
//! QEMU is Linux's; the other systems have tests of their own.

#[cfg(target_os = "linux")]
mod catalogue;
#[cfg(target_os = "linux")]
mod deaths;
#[cfg_attr(windows, expect(dead_code, reason = "some of it is for tests of Unix"))]
pub mod driver;
#[cfg(target_os = "linux")]
mod endings;
#[cfg(target_os = "linux")]
mod escapes;
#[cfg(target_os = "macos")]
mod macos;
#[cfg(target_os = "linux")]
mod mechanisms;
#[cfg(target_os = "linux")]
mod owner;
#[cfg(target_os = "linux")]
mod pausing;
#[cfg(target_os = "linux")]
mod privileges;
#[cfg(target_os = "linux")]
mod qemu;
#[cfg(target_os = "linux")]
mod slots;
#[cfg(target_os = "linux")]
mod strangers;
#[cfg(unix)]
mod terminal;
