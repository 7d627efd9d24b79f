//! macOS: CLOCK_UPTIME_RAW stops while the machine sleeps and CLOCK_MONOTONIC_RAW runs on.
//!
//! Both are read from one counter (mach_absolute_time and mach_continuous_time; Libc, gen/clock_gettime.c), so their difference is sleep and
//! nothing else. CLOCK_MONOTONIC would run on too, but is slewed with the wall clock, and hours of slewing would look like a short sleep.
//! By reading, not by trying: no Mac has run this.

use rustix::time::{ClockId, clock_gettime};

use crate::core::moment::{Moment, Wall};

pub fn now() -> Moment {
    let wall = clock_gettime(ClockId::Realtime);
    Moment {
        wall: Wall(millis(wall.tv_sec, wall.tv_nsec)),
        mono_ms: steady(libc::CLOCK_UPTIME_RAW),
        boot_ms: steady(libc::CLOCK_MONOTONIC_RAW),
    }
}

fn millis(seconds: i64, nanos: i64) -> i64 {
    seconds.saturating_mul(1000).saturating_add(nanos / 1_000_000)
}

/// rustix knows neither of the two by name.
fn steady(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is valid for the call; both clocks exist since macOS 10.12, so it cannot fail.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    u64::try_from(millis(time.tv_sec, time.tv_nsec)).unwrap_or(0)
}
