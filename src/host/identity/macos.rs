//! macOS: the kernel draws a random id at every boot (`sysctl kern.bootsessionuuid`).

use crate::host::darwin;

pub fn boot_id() -> Option<String> {
    darwin::text(c"kern.bootsessionuuid").ok().filter(|id| !id.is_empty())
}

pub fn parent_pid() -> i32 {
    rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get())
}
