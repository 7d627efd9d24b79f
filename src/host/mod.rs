//! The operating system: clocks, the owner of a file's tree, sweeps, samples, signals.
//!
//! Nothing in here decides what a fact means, and nothing in here writes a ledger or a sink. It imports `core` only. What differs
//! between systems differs by file, never by a `cfg` inside a function; the files of one kind show one surface.

mod adopted;
pub mod awake;
pub mod bounded;
pub mod cgroup;
pub mod clock;
#[cfg(target_os = "macos")]
mod darwin;
pub mod deliver;
pub mod evidence;
pub mod heap;
pub mod identity;
#[cfg(windows)]
pub mod job;
pub mod keyboard;
pub mod outflow;
pub mod owner;
pub mod process;
#[cfg(target_os = "linux")]
mod procfs;
pub mod reap;
pub mod sampler;
pub mod shell;
pub mod signals;
pub mod slots;
pub mod spawn;
pub mod sweep;
pub mod table;
pub mod terminal;
pub mod tree;
#[cfg(target_os = "macos")]
mod volume;
