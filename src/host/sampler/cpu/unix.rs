//! Unix: through sysinfo, which answers with the same figure again when it is asked sooner than it can measure.

#[derive(Debug, Default)]
pub struct CpuMeter {
    was_read: bool,
}

impl CpuMeter {
    /// In percent; `None` the first time.
    pub fn read(&mut self, machine: &mut sysinfo::System) -> Option<f64> {
        machine.refresh_cpu_usage();
        std::mem::replace(&mut self.was_read, true).then(|| f64::from(machine.global_cpu_usage()))
    }
}
