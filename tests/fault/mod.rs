//! Disks that fail, files that are damaged, writers that are killed.

mod events;
mod sinks;
mod store_damage;
mod store_refusals;
mod store_writes;
