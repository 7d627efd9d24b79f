//! The busy share of all cores between two looks.

#[cfg(unix)]
mod unix;
#[cfg(unix)]
pub use unix::CpuMeter;
#[cfg(windows)]
mod windows;
#[cfg(windows)]
pub use windows::CpuMeter;
