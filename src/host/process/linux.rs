//! Linux: everything out of /proc.

use std::io;
use std::path::PathBuf;

use crate::core::moment::Moment;
use crate::core::process::ProcessId;
use crate::core::stop::Activity;
use crate::host::process::TokenRead;
use crate::host::procfs;

/// More runnable threads than this for each core are a crowd. A fork bomb whose forks fail sleeps in between, so it is not always many more.
const CROWD_PER_CORE: usize = 8;

/// `/proc/PID/stat`, as far as it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    pub id: ProcessId,
    pub ppid: i32,
    pub group: i32,
    pub session: i32,
    /// The kernel's letter: R, S, D, T, t, Z, X, I.
    pub state: char,
    pub comm: String,
    /// User and system time, in clock ticks.
    pub cpu_ticks: u64,
    /// The same of children it has waited for.
    pub children_ticks: u64,
    pub rss_pages: u64,
    pub threads: u64,
    pub is_kernel_thread: bool,
}

impl Stat {
    /// A process whose first thread has ended while others run on shows Z too, and is alive.
    pub fn is_gone(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x') && self.threads <= 1
    }

    pub fn activity(&self) -> Activity {
        match self.state {
            _ if self.is_gone() => Activity::Zombie,
            'T' | 't' => Activity::Stopped,
            'D' => Activity::Uninterruptible,
            _ => Activity::Running,
        }
    }

    pub fn cpu_s(&self) -> f64 {
        seconds(self.cpu_ticks)
    }

    pub fn children_cpu_s(&self) -> f64 {
        seconds(self.children_ticks)
    }

    pub fn rss_mib(&self) -> f64 {
        rss_mib(self.rss_pages)
    }
}

fn seconds(ticks: u64) -> f64 {
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

pub fn rss_mib(pages: u64) -> f64 {
    pages as f64 * rustix::param::page_size() as f64 / 1_048_576.0
}

/// Why nothing could be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unread {
    /// There is no such process.
    Gone,
    /// It exists and may not be looked at: another user's, under `hidepid` or without the right to trace it.
    Denied,
    /// This kernel has no such file.
    Unsupported,
}

/// Set in `flags` of a kernel thread (include/linux/sched.h).
const PF_KTHREAD: u64 = 0x0020_0000;

pub fn stat(pid: i32) -> Result<Stat, Unread> {
    let mut buffer = [0_u8; 1024];
    let text = procfs::read_short(&format!("{pid}/stat"), &mut buffer).map_err(|error| unread(&error, pid))?;
    parse_stat(text).ok_or(Unread::Gone)
}

fn parse_stat(text: &[u8]) -> Option<Stat> {
    // The name is in parentheses and may itself hold parentheses and spaces.
    let open = text.iter().position(|&byte| byte == b'(')?;
    let close = text.iter().rposition(|&byte| byte == b')')?;
    let pid = std::str::from_utf8(&text[..open]).ok()?.trim().parse().ok()?;
    let comm = String::from_utf8_lossy(text.get(open + 1..close)?).into_owned();
    let rest = std::str::from_utf8(text.get(close + 1..)?).ok()?;
    // Field 3 of proc(5), the state, is number 0 here.
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(Stat {
        id: ProcessId { pid, start: number(22)? },
        ppid: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        state: fields.first()?.chars().next()?,
        comm,
        cpu_ticks: number(14)?.saturating_add(number(15)?),
        children_ticks: number(16)?.saturating_add(number(17)?),
        rss_pages: number(24)?,
        threads: number(20)?,
        is_kernel_thread: number(9)? & PF_KTHREAD != 0,
    })
}

/// Under `hidepid` another user's process looks absent; `kill(pid, 0)` tells the two apart.
fn unread(error: &io::Error, pid: i32) -> Unread {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ESRCH) if exists(pid) => Unread::Denied,
        Some(libc::ENOENT | libc::ESRCH) => Unread::Gone,
        _ => Unread::Denied,
    }
}

fn exists(pid: i32) -> bool {
    let Some(pid) = rustix::process::Pid::from_raw(pid) else { return false };
    rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::PERM)
}

/// The program that an owner is: this very executable, also when its file has been replaced meanwhile.
pub fn own_program() -> io::Result<PathBuf> {
    Ok(PathBuf::from("/proc/self/exe"))
}

/// Whether exactly this process still exists and has not ended.
pub fn is_alive(id: ProcessId) -> bool {
    stat(id.pid).is_ok_and(|stat| stat.id == id && !stat.is_gone())
}

/// What exactly this process is doing; `None` when it is gone.
pub fn activity(id: ProcessId) -> Option<Activity> {
    stat(id.pid).ok().filter(|stat| stat.id == id).map(|stat| stat.activity())
}

/// The children of every thread of a process; the kernel lists a child under the thread that made it.
pub fn children(pid: i32) -> Result<Vec<i32>, Unread> {
    let mut found = Vec::new();
    for tid in threads(pid).map_err(|error| unread(&error, pid))? {
        children_of_thread(pid, tid, &mut found)?;
    }
    Ok(found)
}

/// The same for a process that is known to have one thread: its threads need not be listed first.
pub fn children_of_only_thread(pid: i32) -> Result<Vec<i32>, Unread> {
    let mut found = Vec::new();
    children_of_thread(pid, pid, &mut found)?;
    Ok(found)
}

fn children_of_thread(pid: i32, tid: i32, found: &mut Vec<i32>) -> Result<(), Unread> {
    let mut buffer = [0_u8; 4096];
    let numbers = |text: &[u8], found: &mut Vec<i32>| {
        let words = text.split(|byte| byte.is_ascii_whitespace());
        found.extend(words.filter_map(|word| std::str::from_utf8(word).ok()?.parse::<i32>().ok()));
    };
    match procfs::read_short(&format!("{pid}/task/{tid}/children"), &mut buffer) {
        // A list that may be longer than the buffer is read as a whole.
        Ok(text) if text.len() + 16 > 4096 => {
            numbers(&procfs::read(&format!("{pid}/task/{tid}/children"), u64::MAX).unwrap_or_default(), found);
        }
        Ok(text) => numbers(text, found),
        Err(_) if !procfs::exists("thread-self/children") => return Err(Unread::Unsupported),
        // The thread has ended; its children were handed to another one, which the next scan sees.
        Err(_) => {}
    }
    Ok(())
}

/// Whether the numbers that are listed here are those that signals go by.
pub fn can_be_told_apart() -> Result<(), &'static str> {
    procfs::is_ours().then_some(()).ok_or(
        "/proc is not there, or shows the processes of another pid namespace; mount it for this one ('unshare --pid --fork --mount-proc', \
         or 'mount -t proc proc /proc')",
    )
}

/// Every process number there is.
pub fn all() -> io::Result<Vec<i32>> {
    Ok(procfs::numbered(".")?.into_iter().map(|(pid, _)| pid).collect())
}

fn threads(pid: i32) -> io::Result<Vec<i32>> {
    Ok(procfs::numbered(&format!("{pid}/task"))?.into_iter().map(|(tid, _)| tid).collect())
}

/// The path of the executable. A deleted file keeps its name, without the kernel's remark.
pub fn exe_path(pid: i32) -> Result<String, Unread> {
    let text = procfs::link(&format!("{pid}/exe")).map_err(|error| unread(&error, pid))?;
    Ok(text.strip_suffix(" (deleted)").unwrap_or(&text).to_owned())
}

/// At most this much of a command line is kept.
const ARGV_LIMIT: u64 = 1024;

/// The command line, its words joined by spaces.
///
/// Reading it takes the memory lock of the process, and a thread in uninterruptible sleep may hold that lock for ever; so it is not
/// read while any thread is in that state.
pub fn argv(pid: i32) -> Option<Vec<String>> {
    if !wakes_soon(pid) {
        return None;
    }
    let bytes = procfs::read(&format!("{pid}/cmdline"), ARGV_LIMIT).ok()?;
    let trimmed = bytes.strip_suffix(b"\0").unwrap_or(&bytes);
    if trimmed.is_empty() {
        return None;
    }
    Some(trimmed.split(|&byte| byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect())
}

fn any_thread_uninterruptible(pid: i32) -> bool {
    let Ok(threads) = threads(pid) else { return false };
    threads.into_iter().any(|tid| {
        procfs::read(&format!("{pid}/task/{tid}/stat"), u64::MAX)
            .ok()
            .and_then(|text| parse_stat(&text))
            .is_some_and(|s| s.state == 'D')
    })
}

/// Whether the process was started with `LEDGER_TOKEN=token` in its environment.
pub fn carries_token(pid: i32, token: &str) -> Result<bool, Unread> {
    let wanted = format!("LEDGER_TOKEN={token}");
    let bytes = environ(pid)?;
    Ok(bytes.split(|&byte| byte == 0).any(|entry| entry == wanted.as_bytes()))
}

/// The value of `LEDGER_TOKEN` a process was started with.
pub fn token_of(pid: i32) -> TokenRead {
    if !wakes_soon(pid) {
        return TokenRead::NotNow;
    }
    let Ok(bytes) = environ_of_awake(pid) else { return TokenRead::Denied };
    let value = bytes.split(|&byte| byte == 0).find_map(|entry| entry.strip_prefix(b"LEDGER_TOKEN="));
    TokenRead::Carries(value.map(|value| String::from_utf8_lossy(value).into_owned()))
}

/// Resident memory, by the cheapest of the kernel's files.
pub fn rss_mib_of(pid: i32) -> Option<f64> {
    let mut buffer = [0_u8; 256];
    let text = procfs::read_short(&format!("{pid}/statm"), &mut buffer).ok()?;
    std::str::from_utf8(text).ok()?.split_ascii_whitespace().nth(1)?.parse().ok().map(rss_mib)
}

/// The environment the process was started with, at most 256 KiB of it. It is guarded like the command line.
pub fn environ(pid: i32) -> Result<Vec<u8>, Unread> {
    if wakes_soon(pid) { environ_of_awake(pid) } else { Err(Unread::Denied) }
}

/// Whether no thread of it is in uninterruptible sleep, or none is soon: most such sleeps are a page or a block on its way and over
/// within milliseconds.
fn wakes_soon(pid: i32) -> bool {
    for _ in 0..4 {
        if !any_thread_uninterruptible(pid) {
            return true;
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    !any_thread_uninterruptible(pid)
}

fn environ_of_awake(pid: i32) -> Result<Vec<u8>, Unread> {
    procfs::read(&format!("{pid}/environ"), 256 * 1024).map_err(|error| unread(&error, pid))
}

/// Whether the real user of a process is the real user of this one. `status` is readable where the environment is not.
pub fn is_our_users(pid: i32) -> bool {
    let Ok(text) = procfs::text(&format!("{pid}/status")) else { return false };
    let uid = text.lines().find_map(|line| line.strip_prefix("Uid:")?.split_ascii_whitespace().next()?.parse::<u32>().ok());
    uid == Some(rustix::process::getuid().as_raw())
}

/// The kernel function the process sleeps in.
pub fn wait_channel(pid: i32) -> Option<String> {
    let text = procfs::text(&format!("{pid}/wchan")).ok()?;
    let name = text.trim();
    (!name.is_empty() && name != "0").then(|| name.to_owned())
}

/// How many processes of this host the kernel has killed for memory since the boot.
pub fn host_oom_kills() -> Option<u64> {
    let text = procfs::text("vmstat").ok()?;
    text.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
}

/// Whether so many threads of this host want to run at this moment that one more, ours, hardly does.
pub fn is_host_crowded() -> bool {
    let text = procfs::text("loadavg").unwrap_or_default();
    let runnable = text.split_ascii_whitespace().nth(3).and_then(|word| word.split('/').next()?.parse::<usize>().ok());
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    runnable.is_some_and(|runnable| runnable > CROWD_PER_CORE * cores)
}

/// Seconds since a process with this start time was born.
pub fn age_s(start_ticks: u64, now: Moment) -> f64 {
    (now.boot_ms as f64 / 1000.0 - seconds(start_ticks)).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_is_read_whole() {
        let line = b"42 (a) b (c) S 7 42 41 0 -1 2097152 0 0 0 0 5 6 0 0 20 0 1 0 987 1000 33 0\n";
        let stat = parse_stat(line).expect("a valid line");
        assert_eq!(stat.id, ProcessId { pid: 42, start: 987 });
        assert_eq!((stat.ppid, stat.session, stat.state), (7, 41, 'S'));
        assert_eq!((stat.comm.as_str(), stat.cpu_ticks, stat.rss_pages), ("a) b (c", 11, 33));
        assert!(stat.is_kernel_thread);
    }

    #[test]
    fn garbage_is_no_process() {
        for line in [&b""[..], b"42", b"42 (a", b") (", b"42 (a) S 1", b"x (a) S 1 2 3"] {
            assert_eq!(parse_stat(line), None, "{line:?}");
        }
    }

    #[test]
    fn we_see_ourselves() {
        let pid = std::process::id() as i32;
        let own = stat(pid).expect("our own stat");
        assert!(is_alive(own.id));
        assert!(!is_alive(ProcessId { start: own.id.start + 1, ..own.id }));
        // Any of the threads here may be waiting for the disk just now.
        let began = crate::host::clock::now();
        while argv(pid).is_none() {
            assert!(crate::host::clock::now().since(began).millis() < 30_000, "no command line of our own");
            std::thread::yield_now();
        }
        assert!(exe_path(pid).expect("our own exe").starts_with('/'));
        assert!(all().expect("/proc").contains(&pid));
    }
}
