//! A leaf of the control group tree for one file. It must work without rights: no leaf is an answer, not an error.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub use linux::{Leaf, members, own_memory};
