//! Windows: unbiased interrupt time stops while the machine sleeps, and the tick count runs on. Both move in ticks of up to 16 ms.

use windows_sys::Win32::Foundation::FILETIME;
use windows_sys::Win32::System::SystemInformation::{GetSystemTimePreciseAsFileTime, GetTickCount64};
use windows_sys::Win32::System::WindowsProgramming::QueryUnbiasedInterruptTime;

use crate::core::moment::{Moment, Wall};

/// From 1601 to 1970.
const EPOCH_MS: i64 = 11_644_473_600_000;

pub fn now() -> Moment {
    let mut wall = FILETIME::default();
    let mut awake = 0;
    // SAFETY: both calls fill in what they are handed, and the third takes nothing.
    let boot_ms = unsafe {
        GetSystemTimePreciseAsFileTime(&raw mut wall);
        QueryUnbiasedInterruptTime(&raw mut awake);
        GetTickCount64()
    };
    let units = u64::from(wall.dwHighDateTime) << 32 | u64::from(wall.dwLowDateTime);
    let wall_ms = i64::try_from(units / 10_000).unwrap_or(i64::MAX) - EPOCH_MS;
    Moment { wall: Wall(wall_ms), mono_ms: awake / 10_000, boot_ms }
}
