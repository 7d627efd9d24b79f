//! Disks that fail, files that are damaged, writers that are killed.

mod events;
mod full_disk;
#[cfg(unix)]
mod limits;
mod readers;
mod remote;
mod sinks;
mod store_damage;
mod store_kills;
mod store_refusals;
mod store_writes;
mod syscalls;
