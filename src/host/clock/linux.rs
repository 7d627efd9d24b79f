//! Linux: CLOCK_MONOTONIC stops while the machine sleeps and CLOCK_BOOTTIME runs on.

use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::core::moment::{Moment, Wall};

pub fn now() -> Moment {
    let wall = clock_gettime(ClockId::Realtime);
    let mono = clock_gettime(ClockId::Monotonic);
    let boot = clock_gettime(ClockId::Boottime);
    Moment { wall: Wall(millis(wall)), mono_ms: steady(mono), boot_ms: steady(boot) }
}

fn millis(time: Timespec) -> i64 {
    time.tv_sec.saturating_mul(1000).saturating_add(time.tv_nsec / 1_000_000)
}

/// Both steady clocks count up from the boot, so they are never negative.
fn steady(time: Timespec) -> u64 {
    u64::try_from(millis(time)).unwrap_or(0)
}
