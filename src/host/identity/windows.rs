//! Windows: no boot has a name. The service control manager is started once per boot and its end is the system's, so its birth names it.

use crate::host::process;

pub fn boot_id() -> Option<String> {
    let all = process::list().ok()?;
    let services = all.iter().find(|stat| stat.comm.eq_ignore_ascii_case("services.exe"))?;
    Some(format!("services-{}", services.id.start)).filter(|_| services.id.start > 0)
}

pub fn parent_pid() -> i32 {
    process::stat(std::process::id() as i32).map_or(0, |stat| stat.ppid)
}
