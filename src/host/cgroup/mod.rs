//! A leaf of the control group tree for one file. It must work without rights: no leaf is an answer, not an error.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub use linux::{Leaf, folder_of, leaf_name, members, own_memory, remove_dead_leaves};
#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(not(target_os = "linux"))]
pub use elsewhere::{Leaf, remove_dead_leaves};
