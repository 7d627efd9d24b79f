//! Disks that fail, files that are damaged, writers that are killed.

mod events;
#[cfg(unix)]
mod full_disk;
#[cfg(target_os = "linux")]
mod limits;
#[cfg(unix)]
mod readers;
#[cfg(unix)]
mod remote;
mod sinks;
mod store_damage;
mod store_kills;
mod store_refusals;
mod store_writes;
#[cfg(target_os = "linux")]
mod syscalls;
#[cfg(unix)]
mod unreadable;
