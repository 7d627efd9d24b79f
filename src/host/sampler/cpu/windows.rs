//! Windows: the system's own sums. sysinfo would read performance counters, which cost more and which Wine does not have.

use windows_sys::Win32::Foundation::FILETIME;
use windows_sys::Win32::System::Threading::GetSystemTimes;

#[derive(Debug, Default)]
pub struct CpuMeter {
    before: Option<(u64, u64)>,
}

impl CpuMeter {
    /// In percent; `None` the first time, and where no time has passed.
    pub fn read(&mut self, _: &mut sysinfo::System) -> Option<f64> {
        let now = sums()?;
        let (idle, all) = self.before.replace(now).map(|(idle, all)| (now.0.saturating_sub(idle), now.1.saturating_sub(all)))?;
        (all > 0).then(|| all.saturating_sub(idle) as f64 / all as f64 * 100.0)
    }
}

/// Idle time and all time of all cores, in units of 100 ns.
fn sums() -> Option<(u64, u64)> {
    let mut times = [FILETIME::default(); 3];
    let [idle, kernel, user] = &mut times;
    // SAFETY: the three structures live through the call.
    let answer = unsafe { GetSystemTimes(idle, kernel, user) };
    let units = times.map(|time| u64::from(time.dwHighDateTime) << 32 | u64::from(time.dwLowDateTime));
    // The kernel's time has the idle time in it.
    (answer != 0).then_some((units[0], units[1] + units[2]))
}
