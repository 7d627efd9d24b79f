//! macOS: everything out of libproc and `KERN_PROCARGS2`; see `host::darwin` for who may see what. Compiled only; no Mac has run it.

use std::ffi::c_char;
use std::io;
use std::path::PathBuf;

use crate::core::moment::Moment;
use crate::core::process::ProcessId;
use crate::core::stop::Activity;
use crate::host::darwin;
use crate::host::process::TokenRead;

/// One process, as far as it is used. The start is in microseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    pub id: ProcessId,
    pub ppid: i32,
    pub group: i32,
    /// R, T (stopped), Z (ended), I (being made), or ? where only the short form could be read.
    pub state: char,
    pub comm: String,
    pub uid: u32,
    /// Never used twice in one boot.
    pub unique: u64,
    /// Whoever started it, also when that one has ended.
    pub parent_unique: u64,
}

impl Stat {
    pub fn is_gone(&self) -> bool {
        self.state == 'Z'
    }

    pub fn activity(&self) -> Activity {
        match self.state {
            'Z' => Activity::Zombie,
            'T' => Activity::Stopped,
            _ => Activity::Running,
        }
    }

    /// Asked for when it is wanted; 0 for one that has ended.
    pub fn rss_mib(&self) -> f64 {
        rss_mib_of(self.id.pid).unwrap_or(0.0)
    }
}

/// Why nothing could be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unread {
    /// There is no such process.
    Gone,
    /// It exists and may not be looked at: another user's, or one that hides its environment.
    Denied,
}

pub fn stat(pid: i32) -> Result<Stat, Unread> {
    let whole = darwin::whole(pid).map_err(|error| unread(&error))?;
    let bsd = &whole.bsd;
    let start = bsd.pbi_start_tvsec.saturating_mul(1_000_000).saturating_add(bsd.pbi_start_tvusec);
    let name = text(&bsd.pbi_name);
    Ok(Stat {
        id: ProcessId { pid, start },
        ppid: bsd.pbi_ppid as i32,
        group: bsd.pbi_pgid as i32,
        state: letter(bsd.pbi_status),
        comm: if name.is_empty() { text(&bsd.pbi_comm) } else { name },
        uid: bsd.pbi_uid,
        unique: whole.unique.id,
        parent_unique: whole.unique.parent,
    })
}

/// What can be seen of another user's process: all but its start time, which is 0 here.
pub fn glimpse(pid: i32) -> Result<Stat, Unread> {
    let short = darwin::short(pid).map_err(|error| unread(&error))?;
    let unique = darwin::unique(pid).map_err(|error| unread(&error))?;
    Ok(Stat {
        id: ProcessId { pid, start: 0 },
        ppid: short.pbsi_ppid as i32,
        group: short.pbsi_pgid as i32,
        state: letter(short.pbsi_status),
        comm: text(&short.pbsi_comm),
        uid: short.pbsi_uid,
        unique: unique.id,
        parent_unique: unique.parent,
    })
}

/// The kernel keeps a process that sleeps as SRUN: what its threads do is not told here.
fn letter(status: u32) -> char {
    match status {
        libc::SIDL => 'I',
        libc::SSTOP => 'T',
        libc::SZOMB => 'Z',
        _ => 'R',
    }
}

fn text(chars: &[c_char]) -> String {
    let bytes: Vec<u8> = chars.iter().take_while(|&&c| c != 0).map(|&c| c.cast_unsigned()).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn unread(error: &io::Error) -> Unread {
    if error.raw_os_error() == Some(libc::ESRCH) { Unread::Gone } else { Unread::Denied }
}

/// The program that an owner is. One that was replaced while ledger ran is another program, and does not know our words: the version of
/// both is compared nowhere, so a release is not to be installed over a running ledger.
pub fn own_program() -> io::Result<PathBuf> {
    std::env::current_exe()
}

/// Whether exactly this process still exists and has not ended.
pub fn is_alive(id: ProcessId) -> bool {
    stat(id.pid).is_ok_and(|stat| stat.id == id && !stat.is_gone())
}

/// What exactly this process is doing; `None` when it is gone.
pub fn activity(id: ProcessId) -> Option<Activity> {
    stat(id.pid).ok().filter(|stat| stat.id == id).map(|stat| stat.activity())
}

/// The session of a process; it outlives the session's leader, and every change of parent.
pub fn session(pid: i32) -> Option<i32> {
    let pid = rustix::process::Pid::from_raw(pid)?;
    rustix::process::getsid(Some(pid)).ok().map(|session| session.as_raw_nonzero().get())
}

/// Whether the numbers that are listed here are those that signals go by. There are no namespaces of them here.
pub fn can_be_told_apart() -> Result<(), &'static str> {
    Ok(())
}

/// Every process number there is.
pub fn all() -> io::Result<Vec<i32>> {
    darwin::all_pids()
}

/// The path of the executable.
pub fn exe_path(pid: i32) -> Result<String, Unread> {
    let path = darwin::path(pid).map_err(|error| unread(&error))?;
    Ok(String::from_utf8_lossy(&path).into_owned())
}

/// Resident memory.
pub fn rss_mib_of(pid: i32) -> Option<f64> {
    darwin::rusage(pid).ok().map(|usage| mib(usage.ri_resident_size))
}

pub fn mib(bytes: u64) -> f64 {
    bytes as f64 / 1_048_576.0
}

/// At most this much of a command line is kept.
const ARGV_LIMIT: usize = 1024;

/// The command line, its words joined by spaces.
pub fn argv(pid: i32) -> Option<Vec<String>> {
    let bytes = darwin::arguments(pid).ok()?;
    let words = Arguments::parse(&bytes)?.argv;
    let mut room = ARGV_LIMIT;
    let mut kept = Vec::new();
    for word in words {
        let part = &word[..word.len().min(room)];
        kept.push(String::from_utf8_lossy(part).into_owned());
        room -= part.len();
        if room == 0 {
            break;
        }
        room -= 1;
    }
    (!kept.is_empty()).then_some(kept)
}

/// Whether the process was started with `LEDGER_TOKEN=token` in its environment.
pub fn carries_token(pid: i32, token: &str) -> Result<bool, Unread> {
    let bytes = darwin::arguments(pid).map_err(|_| denied_or_gone(pid))?;
    let rest = Arguments::parse(&bytes).and_then(|arguments| arguments.environment).ok_or(Unread::Denied)?;
    let wanted = format!("LEDGER_TOKEN={token}");
    Ok(rest.split(|&byte| byte == 0).any(|entry| entry == wanted.as_bytes()))
}

/// The value of `LEDGER_TOKEN` a process was started with. A program of Apple's own hides its environment for as long as it runs, which
/// is an answer like another.
pub fn token_of(pid: i32) -> TokenRead {
    let Ok(bytes) = darwin::arguments(pid) else { return TokenRead::Denied };
    let Some(arguments) = Arguments::parse(&bytes) else { return TokenRead::Denied };
    let rest = arguments.environment.unwrap_or_default();
    let value = rest.split(|&byte| byte == 0).find_map(|entry| entry.strip_prefix(b"LEDGER_TOKEN="));
    TokenRead::Carries(value.map(|value| String::from_utf8_lossy(value).into_owned()))
}

/// The call has one word, EINVAL, for a process that is gone, that is another user's, and that is being replaced by exec.
fn denied_or_gone(pid: i32) -> Unread {
    match glimpse(pid) {
        Ok(seen) if !seen.is_gone() => Unread::Denied,
        _ => Unread::Gone,
    }
}

/// Whether the kernel shows the arguments of this user's processes to us.
pub fn may_read_arguments_of(uid: u32) -> bool {
    let own = rustix::process::geteuid();
    own.is_root() || uid == own.as_raw()
}

/// What `KERN_PROCARGS2` answers: the number of arguments, the path and zeros up to a boundary, the arguments, the environment, and what
/// the loader was told, each ended by a zero.
struct Arguments<'a> {
    argv: Vec<&'a [u8]>,
    /// The environment and all that follows. `None` where the kernel leaves them out: for a restricted program (Apple's own, under
    /// System Integrity Protection) the answer ends with the arguments, while the loader's words are there for every other one.
    environment: Option<&'a [u8]>,
}

impl<'a> Arguments<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (count, rest) = bytes.split_first_chunk::<4>()?;
        let count = usize::try_from(i32::from_ne_bytes(*count)).ok()?;
        let path_end = rest.iter().position(|&byte| byte == 0)?;
        let padding = rest[path_end..].iter().position(|&byte| byte != 0).unwrap_or(rest.len() - path_end);
        let mut rest = &rest[path_end + padding..];
        let mut argv = Vec::new();
        for _ in 0..count {
            let Some(end) = rest.iter().position(|&byte| byte == 0) else { break };
            argv.push(&rest[..end]);
            rest = &rest[end + 1..];
        }
        let shown = rest.iter().any(|&byte| byte != 0);
        Some(Self { argv, environment: shown.then_some(rest) })
    }
}

/// How many threads want to run is not known here.
pub fn is_host_crowded() -> bool {
    false
}

/// How many processes of this host the kernel has killed for memory since the boot: it does not tell here.
pub fn host_oom_kills() -> Option<u64> {
    None
}

/// Seconds since a process with this start time was born.
pub fn age_s(start_us: u64, now: Moment) -> f64 {
    let now_us = u64::try_from(now.wall.0).unwrap_or(0).saturating_mul(1000);
    now_us.saturating_sub(start_us) as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(count: i32, rest: &[u8]) -> Vec<u8> {
        [&count.to_ne_bytes()[..], rest].concat()
    }

    #[test]
    fn arguments_and_environment_are_told_apart() {
        let bytes = answer(2, b"/bin/x\0\0\0\0x\0LEDGER_TOKEN=no\0LEDGER_TOKEN=yes\0HOME=/\0\0ptr_munge=\0");
        let parsed = Arguments::parse(&bytes).expect("a valid answer");
        assert_eq!(parsed.argv, [&b"x"[..], b"LEDGER_TOKEN=no"]);
        assert!(parsed.environment.is_some_and(|rest| rest.starts_with(b"LEDGER_TOKEN=yes\0HOME=/\0")));
    }

    #[test]
    fn an_environment_that_is_left_out_is_not_an_empty_one() {
        let hidden = answer(1, b"/bin/x\0\0x\0");
        assert!(Arguments::parse(&hidden).expect("a valid answer").environment.is_none());
        let empty = answer(1, b"/bin/x\0\0x\0\0ptr_munge=\0");
        assert!(Arguments::parse(&empty).expect("a valid answer").environment.is_some());
        for garbage in [&b""[..], b"\x01\0\0", b"\x01\0\0\0/bin"] {
            assert!(Arguments::parse(garbage).is_none(), "{garbage:?}");
        }
    }

    #[test]
    fn we_see_ourselves() {
        let pid = std::process::id() as i32;
        let own = stat(pid).expect("our own process");
        assert!(is_alive(own.id));
        assert!(!is_alive(ProcessId { start: own.id.start + 1, ..own.id }));
        assert!(argv(pid).is_some());
        assert!(exe_path(pid).expect("our own program").starts_with('/'));
        assert!(all().expect("the processes").contains(&pid));
        assert_eq!(glimpse(pid).expect("our own process").unique, own.unique);
    }
}
