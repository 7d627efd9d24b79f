//! Linux: there is no way that works on every system, and a flag that does nothing in silence is worse than none.

pub fn keep() -> Result<(), String> {
    Err("--keep-awake does nothing on Linux; start ledger with `systemd-inhibit --what=sleep ledger run …`".to_owned())
}
