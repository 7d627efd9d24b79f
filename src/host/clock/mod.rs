//! The only reader of clocks. It must not interpret what it reads: `core::moment` does that.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
use linux as system;
#[cfg(windows)]
mod windows;
#[cfg(windows)]
use windows as system;
#[cfg(target_os = "macos")]
mod macos;
#[cfg(target_os = "macos")]
use macos as system;

use crate::core::moment::Moment;

/// The three clocks, read one after the other.
pub fn now() -> Moment {
    system::now()
}

#[cfg(test)]
mod tests {
    use super::now;

    #[test]
    fn the_steady_clocks_never_go_back() {
        let first = now();
        let second = now();
        assert!(second.mono_ms >= first.mono_ms);
        assert!(second.boot_ms >= first.boot_ms);
        assert!(first.wall.0 > 1_600_000_000_000);
    }
}
