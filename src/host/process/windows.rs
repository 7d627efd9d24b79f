//! Windows: one call lists every process with its times and its memory; what is left is asked of the process itself.

use std::io;
use std::os::windows::io::{AsRawHandle as _, FromRawHandle as _, OwnedHandle};

use windows_sys::Wdk::System::SystemInformation::{NtQuerySystemInformation, SystemProcessInformation};
use windows_sys::Wdk::System::Threading::{NtQueryInformationProcess, ProcessCommandLineInformation};
use windows_sys::Win32::Foundation::{
    ERROR_ACCESS_DENIED, FILETIME, LocalFree, STATUS_INFO_LENGTH_MISMATCH, UNICODE_STRING, WAIT_TIMEOUT,
};
use windows_sys::Win32::System::Threading::{
    GetProcessTimes, OpenProcess, PROCESS_ACCESS_RIGHTS, PROCESS_QUERY_LIMITED_INFORMATION, PROCESS_SYNCHRONIZE,
    QueryFullProcessImageNameW, WaitForSingleObject,
};
use windows_sys::Win32::System::WindowsProgramming::SYSTEM_PROCESS_INFORMATION;
use windows_sys::Win32::UI::Shell::CommandLineToArgvW;

use crate::core::moment::Moment;
use crate::core::process::ProcessId;
use crate::core::stop::Activity;

/// One process of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    pub id: ProcessId,
    /// The number of whoever started it; that process may be gone, and its number another's by now.
    pub ppid: i32,
    /// The base name of the executable.
    pub comm: String,
    /// User and system time, in units of 100 ns. 0 where the listing does not tell.
    pub cpu_100ns: u64,
    pub rss_bytes: u64,
    pub threads: u32,
}

impl Stat {
    /// One that has ended and is still listed has no thread left.
    pub fn is_gone(&self) -> bool {
        self.threads == 0
    }

    pub fn activity(&self) -> Activity {
        if self.is_gone() { Activity::Zombie } else { Activity::Running }
    }

    pub fn cpu_s(&self) -> f64 {
        self.cpu_100ns as f64 / 1e7
    }

    pub fn rss_mib(&self) -> f64 {
        self.rss_bytes as f64 / 1_048_576.0
    }
}

/// Why nothing could be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unread {
    /// There is no such process.
    Gone,
    /// It exists and may not be looked at: a protected or another user's process.
    Denied,
    /// This system does not tell.
    Unsupported,
}

/// Every process there is, at one moment.
pub fn list() -> io::Result<Vec<Stat>> {
    let bytes = listing()?;
    let mut found = Vec::new();
    let mut at = 0;
    while at + size_of::<SYSTEM_PROCESS_INFORMATION>() <= size_of_val(bytes.as_slice()) {
        // SAFETY: the record lies within the buffer, as just checked. Windows aligns it for its widest field and Wine does not.
        let record = unsafe { bytes.as_ptr().cast::<u8>().add(at).cast::<SYSTEM_PROCESS_INFORMATION>().read_unaligned() };
        // Number 0 is the idle time and no process.
        if !record.UniqueProcessId.is_null() {
            found.push(stat_of(&record));
        }
        if record.NextEntryOffset == 0 {
            break;
        }
        at += record.NextEntryOffset as usize;
    }
    Ok(found)
}

fn listing() -> io::Result<Vec<u64>> {
    let mut words = 32 * 1024;
    loop {
        let mut buffer = vec![0_u64; words];
        let mut needed = 0;
        let size = u32::try_from(words * 8).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: the buffer has the size that is stated, and lives through the call.
        let status =
            unsafe { NtQuerySystemInformation(SystemProcessInformation, buffer.as_mut_ptr().cast(), size, &raw mut needed) };
        match status {
            0.. => return Ok(buffer),
            // Processes may be started in between, hence some more than is asked for.
            STATUS_INFO_LENGTH_MISMATCH => words = (words * 2).max(needed as usize / 8 + 4096),
            _ => return Err(io::Error::other(format!("the system's list of processes: status {status:#x}"))),
        }
    }
}

/// The documented structure calls three times reserved that have stood in this place since Windows NT: creation, user, kernel.
fn stat_of(record: &SYSTEM_PROCESS_INFORMATION) -> Stat {
    let time = |at: usize| {
        let bytes = record.Reserved1[at..at + 8].try_into().expect("eight bytes");
        u64::from_ne_bytes(bytes)
    };
    let number = |handle: *mut std::ffi::c_void| i32::try_from(handle as isize).unwrap_or(0);
    Stat {
        id: ProcessId { pid: number(record.UniqueProcessId), start: time(24) },
        ppid: number(record.Reserved2),
        comm: text_of(&record.ImageName),
        cpu_100ns: time(32).saturating_add(time(40)),
        rss_bytes: record.WorkingSetSize as u64,
        threads: record.NumberOfThreads,
    }
}

fn text_of(text: &UNICODE_STRING) -> String {
    if text.Buffer.is_null() {
        return String::new();
    }
    let units = (0..usize::from(text.Length) / 2).map(|at| {
        // SAFETY: the system sets pointer and length (in bytes) together, and both belong to a buffer that the caller still holds.
        unsafe { text.Buffer.add(at).read_unaligned() }
    });
    char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

/// Whether the numbers that are listed here are those that signals go by. There are no namespaces of them here.
pub fn can_be_told_apart() -> Result<(), &'static str> {
    Ok(())
}

pub fn stat(pid: i32) -> Result<Stat, Unread> {
    let all = list().map_err(|_| Unread::Denied)?;
    all.into_iter().find(|stat| stat.id.pid == pid).ok_or(Unread::Gone)
}

/// Opens a process; the caller compares its start time, because numbers are used again.
pub fn open(pid: i32, rights: PROCESS_ACCESS_RIGHTS) -> Result<OwnedHandle, Unread> {
    let pid = u32::try_from(pid).map_err(|_| Unread::Gone)?;
    // SAFETY: the call takes numbers only.
    let handle = unsafe { OpenProcess(rights, 0, pid) };
    if handle.is_null() {
        let denied = io::Error::last_os_error().raw_os_error() == Some(ERROR_ACCESS_DENIED as i32);
        return Err(if denied { Unread::Denied } else { Unread::Gone });
    }
    // SAFETY: the call above made this handle, and nobody else owns it.
    Ok(unsafe { OwnedHandle::from_raw_handle(handle) })
}

/// Creation, and user and system time together, each in units of 100 ns.
pub fn times(process: &OwnedHandle) -> Option<(u64, u64)> {
    let mut times = [FILETIME::default(); 4];
    let [created, ended, kernel, user] = &mut times;
    // SAFETY: the handle is open, and the four structures live through the call.
    let answer = unsafe { GetProcessTimes(process.as_raw_handle(), created, ended, kernel, user) };
    (answer != 0).then(|| (units(times[0]), units(times[2]) + units(times[3])))
}

fn units(time: FILETIME) -> u64 {
    u64::from(time.dwHighDateTime) << 32 | u64::from(time.dwLowDateTime)
}

/// Whether the process behind a handle still runs. Its number cannot go to another one while the handle is open.
pub fn runs(process: &OwnedHandle) -> bool {
    // SAFETY: the handle is open and has the right to be waited for.
    unsafe { WaitForSingleObject(process.as_raw_handle(), 0) == WAIT_TIMEOUT }
}

/// Whether exactly this process still exists and has not ended.
pub fn is_alive(id: ProcessId) -> bool {
    match open(id.pid, PROCESS_QUERY_LIMITED_INFORMATION | PROCESS_SYNCHRONIZE) {
        Ok(process) => times(&process).is_some_and(|(created, _)| created == id.start) && runs(&process),
        Err(Unread::Gone) => false,
        Err(_) => stat(id.pid).is_ok_and(|stat| stat.id == id && !stat.is_gone()),
    }
}

/// What exactly this process is doing; `None` when it is gone.
pub fn activity(id: ProcessId) -> Option<Activity> {
    is_alive(id).then_some(Activity::Running)
}

/// The path of the executable.
pub fn exe_path(pid: i32) -> Result<String, Unread> {
    let process = open(pid, PROCESS_QUERY_LIMITED_INFORMATION)?;
    let mut path = vec![0_u16; 32 * 1024];
    let mut length = path.len() as u32;
    // SAFETY: the handle is open, and the buffer has the length that is stated.
    let answer = unsafe { QueryFullProcessImageNameW(process.as_raw_handle(), 0, path.as_mut_ptr(), &raw mut length) };
    if answer == 0 {
        return Err(Unread::Denied);
    }
    Ok(String::from_utf16_lossy(&path[..(length as usize).min(path.len())]))
}

/// At most this much of a command line is kept, in characters.
const ARGV_LIMIT: usize = 1024;

/// The command line in words, split as the C runtime does.
pub fn argv(pid: i32) -> Option<Vec<String>> {
    let mut line = command_line(pid)?;
    line.truncate(ARGV_LIMIT);
    line.push(0);
    let mut count = 0;
    // SAFETY: the line ends with a zero, and `count` lives through the call.
    let words = unsafe { CommandLineToArgvW(line.as_ptr(), &raw mut count) };
    if words.is_null() {
        return None;
    }
    // SAFETY: the call answers with so many pointers to texts that end with a zero, all in one block that is given back below.
    let found = unsafe { std::slice::from_raw_parts(words, usize::try_from(count).unwrap_or(0)) };
    let found = found.iter().map(|&word| text_at(word)).collect();
    // SAFETY: the block came from the call above and is not used any more.
    unsafe { LocalFree(words.cast()) };
    Some(found)
}

fn text_at(word: *const u16) -> String {
    let mut length = 0;
    // SAFETY: the caller's text ends with a zero, and nothing beyond that is read.
    unsafe {
        while *word.add(length) != 0 {
            length += 1;
        }
        String::from_utf16_lossy(std::slice::from_raw_parts(word, length))
    }
}

fn command_line(pid: i32) -> Option<Vec<u16>> {
    let process = open(pid, PROCESS_QUERY_LIMITED_INFORMATION).ok()?;
    // The structure, and behind it the text that it points to, at most 64 KiB of it.
    let mut buffer = vec![0_u64; (size_of::<UNICODE_STRING>() + 65_536).div_ceil(8)];
    let size = size_of_val(buffer.as_slice()) as u32;
    let mut needed = 0;
    let into = buffer.as_mut_ptr().cast();
    // SAFETY: the handle is open, and the buffer has the size that is stated.
    let status =
        unsafe { NtQueryInformationProcess(process.as_raw_handle(), ProcessCommandLineInformation, into, size, &raw mut needed) };
    if status < 0 {
        return None;
    }
    // SAFETY: on success the buffer begins with this structure, whose text lies in the same buffer.
    let text = unsafe { &*buffer.as_ptr().cast::<UNICODE_STRING>() };
    // SAFETY: as above; the length is in bytes.
    let units = unsafe { std::slice::from_raw_parts(text.Buffer, usize::from(text.Length) / 2) };
    (!units.is_empty()).then(|| units.to_vec())
}

/// How many threads want to run is not known here.
pub fn is_host_crowded() -> bool {
    false
}

/// How many processes of this host the kernel has killed for memory since the boot: it does not tell here.
pub fn host_oom_kills() -> Option<u64> {
    None
}

/// Seconds since a process with this start time (100 ns since 1601, by the wall clock) was born.
pub fn age_s(start: u64, now: Moment) -> f64 {
    (now.wall.0 as f64 / 1000.0 + SECONDS_1601_TO_1970 - start as f64 / 1e7).max(0.0)
}

const SECONDS_1601_TO_1970: f64 = 11_644_473_600.0;

/// Those below `roots`, without the roots themselves, by the numbers of their parents. A number proves nothing once its process is gone,
/// because it is used again: only parents that live count, and `kept`, which somebody has open.
pub fn below(roots: &[ProcessId], kept: Option<ProcessId>, all: &[Stat]) -> Vec<ProcessId> {
    let lives = |id: &ProcessId| kept == Some(*id) || all.iter().any(|stat| stat.id == *id);
    let mut open: Vec<ProcessId> = roots.iter().copied().filter(lives).collect();
    let mut found = Vec::new();
    while let Some(parent) = open.pop() {
        // A child is never older than its parent; one that is belonged to whoever had the number before.
        let children = all.iter().filter(|stat| stat.ppid == parent.pid && stat.id.start >= parent.start && stat.id != parent);
        for child in children.map(|stat| stat.id) {
            if !found.contains(&child) && !roots.contains(&child) {
                found.push(child);
                open.push(child);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::clock;

    fn process(pid: i32, ppid: i32, start: u64) -> Stat {
        Stat { id: ProcessId { pid, start }, ppid, comm: String::new(), cpu_100ns: 0, rss_bytes: 0, threads: 1 }
    }

    #[test]
    fn we_see_ourselves() {
        let pid = std::process::id() as i32;
        let own = stat(pid).expect("our own stat");
        assert!(is_alive(own.id), "{own:?}");
        assert!(!is_alive(ProcessId { start: own.id.start + 1, ..own.id }));
        assert!(own.comm.ends_with(".exe"), "{own:?}");
        assert!(exe_path(pid).expect("our own exe").ends_with(&own.comm));
        assert!(age_s(own.id.start, clock::now()) < 3600.0);
        assert!(own.threads > 0 && !own.is_gone());
    }

    #[test]
    fn a_number_that_was_used_again_makes_no_child() {
        let all = [process(10, 4, 100), process(11, 10, 110), process(12, 11, 120), process(13, 10, 90)];
        let root = ProcessId { pid: 10, start: 100 };
        let ids = |kept, all: &[Stat]| below(&[root], kept, all).iter().map(|id| id.pid).collect::<Vec<_>>();
        assert_eq!(ids(None, &all), [11, 12]);
        assert!(ids(None, &all[1..]).is_empty(), "the root is gone");
        assert_eq!(ids(Some(root), &all[1..]), [11, 12], "the root is gone and its number is kept");
    }
}
