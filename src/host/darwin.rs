//! macOS: the kernel's own words, typed. It must not interpret any.
//!
//! Read in xnu-11417 (bsd/kern/proc_info.c, kern_sysctl.c, kern_proc.c) and tried on no Mac: `proc_pidinfo` with a start time and
//! `proc_pid_rusage` answer for processes of one's own user only (root: all); the short form, the unique ids and the path of the
//! executable answer for all. The unique id of a process is never used twice in one boot, its parent's is kept when it is handed to
//! launchd, and the version changes with every exec.

use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::sync::OnceLock;

/// Plain data of the kernel's.
///
/// # Safety
/// Every pattern of bits is a value of the type, and it holds no pointer that anybody follows.
pub unsafe trait Plain: Copy {}

/// `struct proc_uniqidentifierinfo` of bsd/sys/proc_info_private.h, which the kernel's own source calls API.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Unique {
    executable: [u8; 16],
    pub id: u64,
    pub parent: u64,
    /// Changes with every exec; 0 on systems that do not count it.
    pub version: i32,
    parents_version: i32,
    reserved: [u64; 2],
}

/// `struct proc_bsdinfowithuniqid`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Whole {
    pub bsd: libc::proc_bsdinfo,
    pub unique: Unique,
}

const _: () = assert!(size_of::<Unique>() == 56 && size_of::<Whole>() == 136 + 56);

// SAFETY: integers only.
unsafe impl Plain for Unique {}
// SAFETY: integers only.
unsafe impl Plain for Whole {}
// SAFETY: integers only.
unsafe impl Plain for libc::proc_bsdshortinfo {}
// SAFETY: an integer.
unsafe impl Plain for u32 {}
// SAFETY: an integer.
unsafe impl Plain for i32 {}

/// `PROC_PIDUNIQIDENTIFIERINFO` and `PROC_PIDT_BSDINFOWITHUNIQID` of bsd/sys/proc_info_private.h.
const UNIQUE: i32 = 17;
const WHOLE: i32 = 18;
/// The argument that makes the kernel look among zombies too.
const ZOMBIES_TOO: u64 = 1;

pub fn whole(pid: i32) -> io::Result<Whole> {
    pid_info(pid, WHOLE, ZOMBIES_TOO)
}

pub fn unique(pid: i32) -> io::Result<Unique> {
    pid_info(pid, UNIQUE, ZOMBIES_TOO)
}

pub fn short(pid: i32) -> io::Result<libc::proc_bsdshortinfo> {
    pid_info(pid, libc::PROC_PIDT_SHORTBSDINFO, ZOMBIES_TOO)
}

fn pid_info<T: Plain>(pid: i32, flavour: i32, argument: u64) -> io::Result<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    let size = size_of::<T>() as i32;
    // SAFETY: the buffer is as long as is said, and the kernel writes into it only.
    let got = unsafe { libc::proc_pidinfo(pid, flavour, argument, value.as_mut_ptr().cast(), size) };
    match got {
        // SAFETY: it was zeroed and then filled in, and `Plain` says that any bits will do.
        _ if got == size => Ok(unsafe { value.assume_init() }),
        _ if got > 0 => Err(io::ErrorKind::InvalidData.into()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Every process number there is. The kernel cuts a list that does not fit and does not say so; so it is asked again with more room until
/// some is left.
pub fn all_pids() -> io::Result<Vec<i32>> {
    let mut room = 1024_usize;
    loop {
        let mut pids = vec![0_i32; room];
        // SAFETY: the buffer is as long as is said.
        let count = unsafe { libc::proc_listallpids(pids.as_mut_ptr().cast(), (room * size_of::<i32>()) as i32) };
        let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        if count == 0 {
            return Err(io::Error::last_os_error());
        }
        if count < room {
            pids.truncate(count);
            pids.retain(|&pid| pid > 0);
            return Ok(pids);
        }
        room *= 2;
    }
}

/// `PROX_FDTYPE_VNODE`, `_SOCKET` and `_PIPE` of bsd/sys/proc_info.h.
const ORDINARY: [u32; 3] = [1, 2, 6];

/// The files, sockets and pipes that are open in this process. Other kinds are the system libraries' own; some of them are guarded, and the
/// kernel ends a process that closes one.
pub fn own_descriptors() -> io::Result<Vec<i32>> {
    let none = libc::proc_fdinfo { proc_fd: -1, proc_fdtype: 0 };
    let own = std::process::id() as i32;
    let mut room = 256_usize;
    loop {
        let mut fds = vec![none; room];
        let bytes = (room * size_of::<libc::proc_fdinfo>()) as i32;
        // SAFETY: the buffer is as long as is said.
        let got = unsafe { libc::proc_pidinfo(own, libc::PROC_PIDLISTFDS, 0, fds.as_mut_ptr().cast(), bytes) };
        if got <= 0 {
            return Err(io::Error::last_os_error());
        }
        if got < bytes {
            fds.truncate(usize::try_from(got).unwrap_or(0) / size_of::<libc::proc_fdinfo>());
            return Ok(fds.into_iter().filter(|fd| ORDINARY.contains(&fd.proc_fdtype)).map(|fd| fd.proc_fd).collect());
        }
        room *= 2;
    }
}

/// What a process has used. Times are in ticks of the processor's counter; `seconds` converts them.
pub fn rusage(pid: i32) -> io::Result<libc::rusage_info_v4> {
    let mut usage = MaybeUninit::<libc::rusage_info_v4>::zeroed();
    // SAFETY: the buffer is a rusage_info_v4, which is what this flavour fills in; the parameter's type is libproc's odd way to say so.
    let failed = unsafe { libc::proc_pid_rusage(pid, libc::RUSAGE_INFO_V4, usage.as_mut_ptr().cast()) };
    if failed != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it was zeroed and then filled in, and holds integers only.
    Ok(unsafe { usage.assume_init() })
}

/// `struct mach_timebase_info` of mach/mach_time.h: nanoseconds per tick, as a fraction.
#[repr(C)]
struct Timebase {
    numerator: u32,
    denominator: u32,
}

// libc has both and points to another crate for them.
unsafe extern "C" {
    fn mach_timebase_info(base: *mut Timebase) -> libc::c_int;
    fn mach_host_self() -> libc::mach_port_t;
}

/// Seconds of so many ticks: on Intel a tick is a nanosecond, on Apple's own processors it is not.
pub fn seconds(ticks: u64) -> f64 {
    let mut base = Timebase { numerator: 0, denominator: 0 };
    // SAFETY: the pointer is valid for the call.
    let failed = unsafe { mach_timebase_info(&raw mut base) } != 0;
    let ratio = if failed || base.denominator == 0 { 1.0 } else { f64::from(base.numerator) / f64::from(base.denominator) };
    ticks as f64 * ratio / 1e9
}

/// The path of the executable.
pub fn path(pid: i32) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0_u8; libc::PROC_PIDPATHINFO_MAXSIZE as usize];
    // SAFETY: the buffer is as long as is said.
    let length = unsafe { libc::proc_pidpath(pid, buffer.as_mut_ptr().cast(), buffer.len() as u32) };
    match usize::try_from(length) {
        Ok(length) if length > 0 => {
            buffer.truncate(length);
            Ok(buffer)
        }
        _ => Err(io::Error::last_os_error()),
    }
}

/// `KERN_PROCARGS2`: the number of arguments, the path, the arguments, and, where they may be seen, the environment and what the loader
/// was told.
pub fn arguments(pid: i32) -> io::Result<Vec<u8>> {
    let mut name = [libc::CTL_KERN, libc::KERN_PROCARGS2, pid];
    let mut length = 0_usize;
    // SAFETY: without a buffer the call only tells the length.
    if unsafe { libc::sysctl(name.as_mut_ptr(), 3, std::ptr::null_mut(), &raw mut length, std::ptr::null_mut(), 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // A buffer that is too short is answered with the end of the data instead of its head, and one longer than all arguments may be (one
    // MiB and the number of them) is refused.
    let mut bytes = vec![0_u8; (length + 4096).min((1 << 20) + size_of::<i32>())];
    length = bytes.len();
    // SAFETY: the buffer is as long as is said.
    if unsafe { libc::sysctl(name.as_mut_ptr(), 3, bytes.as_mut_ptr().cast(), &raw mut length, std::ptr::null_mut(), 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    bytes.truncate(length);
    Ok(bytes)
}

/// A number or a plain structure by its name.
pub fn setting<T: Plain>(name: &CStr) -> io::Result<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut length = size_of::<T>();
    // SAFETY: the buffer is as long as is said, and the name ends with its zero.
    let failed = unsafe { libc::sysctlbyname(name.as_ptr(), value.as_mut_ptr().cast(), &raw mut length, std::ptr::null_mut(), 0) };
    match failed {
        // SAFETY: it was zeroed and then filled in, and `Plain` says that any bits will do.
        0 if length == size_of::<T>() => Ok(unsafe { value.assume_init() }),
        0 => Err(io::ErrorKind::InvalidData.into()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A short text by its name.
pub fn text(name: &CStr) -> io::Result<String> {
    let mut bytes = [0_u8; 256];
    let mut length = bytes.len();
    // SAFETY: the buffer is as long as is said, and the name ends with its zero.
    if unsafe { libc::sysctlbyname(name.as_ptr(), bytes.as_mut_ptr().cast(), &raw mut length, std::ptr::null_mut(), 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let text = bytes[..length].split(|&byte| byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(text).into_owned())
}

/// Every call would count one more right to the same port.
static HOST: OnceLock<libc::mach_port_t> = OnceLock::new();

/// The pages of the host's memory, by what they are used for.
pub fn memory() -> io::Result<libc::vm_statistics64> {
    let mut pages = MaybeUninit::<libc::vm_statistics64>::zeroed();
    let mut count = libc::HOST_VM_INFO64_COUNT;
    // SAFETY: it has no arguments.
    let host = *HOST.get_or_init(|| unsafe { mach_host_self() });
    // SAFETY: the buffer holds as many integers as is said; an older kernel fills in fewer and the rest stays zero.
    let failed = unsafe { libc::host_statistics64(host, libc::HOST_VM_INFO64, pages.as_mut_ptr().cast(), &raw mut count) };
    if failed != libc::KERN_SUCCESS {
        return Err(io::Error::other(format!("host_statistics64: {failed}")));
    }
    // SAFETY: it was zeroed and then filled in, and holds integers only.
    Ok(unsafe { pages.assume_init() })
}
