//! ledger from outside: the built program, its exit status, what it prints, and what its evidence says afterwards. What
//! daemonises with setsid(1) or looks into /proc is Linux's.

#[cfg(target_os = "linux")]
mod actions;
mod bounds;
#[cfg(target_os = "linux")]
mod deaths;
mod endings;
#[cfg(target_os = "linux")]
mod evidence;
mod history;
#[cfg(target_os = "linux")]
mod leftovers;
mod names;
#[cfg(target_os = "linux")]
mod output;
mod people;
mod refusals;
#[cfg(target_os = "linux")]
mod resume;
#[cfg(target_os = "linux")]
mod secrets;
mod shared_formats;
#[cfg(target_os = "linux")]
mod signals;
mod sinks;
mod words;
