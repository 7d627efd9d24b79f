//! How much memory ledger holds on to while a run lasts: a watchdog that grows is one more thing to watch.

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod glibc;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub use glibc::keep_small;
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
mod elsewhere;
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub use elsewhere::keep_small;
