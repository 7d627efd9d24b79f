//! Windows: the Job Object of one file. Whatever a member starts is a member too, and nothing can leave: breaking away is not allowed.
//!
//! The only handle to it is ledger's own and is not inherited, so the kernel ends every member when ledger ends, however it ends. It
//! must not decide when the members end before that.

use std::collections::BTreeSet;
use std::io;
use std::os::windows::io::{AsRawHandle as _, BorrowedHandle, FromRawHandle as _, OwnedHandle};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use windows_sys::Win32::Foundation::{ERROR_MORE_DATA, HANDLE};
use windows_sys::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE, JOBOBJECT_BASIC_AND_IO_ACCOUNTING_INFORMATION,
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JOBOBJECTINFOCLASS, JobObjectBasicAndIoAccountingInformation,
    JobObjectBasicProcessIdList, JobObjectExtendedLimitInformation, QueryInformationJobObject, SetInformationJobObject,
    TerminateJobObject,
};

use crate::core::process::ProcessId;
use crate::host::process::{self, Stat};

/// What a process ends with that `kill` ended: the number that a shell shows for KILL.
const KILLED: u32 = 137;

/// Holds a tree. Dropping the last reference ends whatever is still in it.
#[derive(Debug)]
pub struct Job {
    handle: OwnedHandle,
}

/// What the kernel has added up of all members, those that have ended too.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Account {
    pub cpu_s: f64,
    pub read_mib: f64,
    pub write_mib: f64,
    /// The highest committed memory of all members together.
    pub peak_mib: f64,
}

/// The jobs that this process holds.
static HELD: Mutex<Vec<Weak<Job>>> = Mutex::new(Vec::new());

impl Job {
    pub fn make() -> io::Result<Arc<Self>> {
        // SAFETY: no attributes and no name are asked for: the handle is not inherited, and nobody else can open the job.
        let handle = unsafe { CreateJobObjectW(std::ptr::null(), std::ptr::null()) };
        if handle.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call above made this handle, and nobody else owns it.
        let job = Arc::new(Self { handle: unsafe { OwnedHandle::from_raw_handle(handle) } });
        job.limit(JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE)?;
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|job| job.strong_count() > 0);
        held.push(Arc::downgrade(&job));
        Ok(job)
    }

    /// Takes in a process that has not run yet. It may be in jobs of others already: this one is nested in those.
    pub fn take_in(&self, process: BorrowedHandle<'_>) -> io::Result<()> {
        // SAFETY: both handles are open for the length of the call.
        done(unsafe { AssignProcessToJobObject(self.raw(), process.as_raw_handle()) })
    }

    /// The numbers of all members that have not ended.
    pub fn members(&self) -> io::Result<Vec<i32>> {
        // Two counts of 32 bits, then the numbers, each as wide as a pointer.
        let counts = 8 / size_of::<usize>();
        let mut room = 64;
        loop {
            let mut list = vec![0_usize; counts + room];
            match self.query(JobObjectBasicProcessIdList, list.as_mut_ptr().cast(), size_of_val(list.as_slice())) {
                Err(error) if error.raw_os_error() == Some(ERROR_MORE_DATA as i32) => room *= 4,
                Err(error) => return Err(error),
                Ok(()) => {
                    // SAFETY: the buffer is aligned for and larger than the two counts, which the call has filled in.
                    let listed = unsafe { *list.as_ptr().cast::<u32>().add(1) } as usize;
                    let numbers = list.iter().skip(counts).take(listed);
                    return Ok(numbers.filter_map(|&pid| i32::try_from(pid).ok()).collect());
                }
            }
        }
    }

    pub fn account(&self) -> io::Result<Account> {
        let mut sums = JOBOBJECT_BASIC_AND_IO_ACCOUNTING_INFORMATION::default();
        self.query(JobObjectBasicAndIoAccountingInformation, (&raw mut sums).cast(), size_of_val(&sums))?;
        let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
        self.query(JobObjectExtendedLimitInformation, (&raw mut limits).cast(), size_of_val(&limits))?;
        let mib = |bytes: u64| bytes as f64 / 1_048_576.0;
        Ok(Account {
            // Units of 100 ns.
            cpu_s: (sums.BasicInfo.TotalUserTime + sums.BasicInfo.TotalKernelTime) as f64 / 1e7,
            read_mib: mib(sums.IoInfo.ReadTransferCount),
            write_mib: mib(sums.IoInfo.WriteTransferCount),
            peak_mib: mib(limits.PeakJobMemoryUsed as u64),
        })
    }

    /// Ends every member at once; none of them can start another one in between.
    pub fn kill(&self) -> io::Result<()> {
        // SAFETY: the handle is open.
        done(unsafe { TerminateJobObject(self.raw(), KILLED) })
    }

    /// Lets the members live on when the job is closed.
    pub fn release(&self) -> io::Result<()> {
        self.limit(0)
    }

    fn limit(&self, flags: u32) -> io::Result<()> {
        let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
        limits.BasicLimitInformation.LimitFlags = flags;
        let size = size_of_val(&limits) as u32;
        // SAFETY: the structure is the one of this class and lives through the call.
        done(unsafe { SetInformationJobObject(self.raw(), JobObjectExtendedLimitInformation, (&raw const limits).cast(), size) })
    }

    fn query(&self, class: JOBOBJECTINFOCLASS, into: *mut std::ffi::c_void, size: usize) -> io::Result<()> {
        let size = u32::try_from(size).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: every caller hands over a buffer of this size that is its own.
        done(unsafe { QueryInformationJobObject(self.raw(), class, into, size, std::ptr::null_mut()) })
    }

    fn raw(&self) -> HANDLE {
        self.handle.as_raw_handle()
    }
}

/// All jobs that this process holds.
pub fn held() -> Vec<Arc<Job>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner).iter().filter_map(Weak::upgrade).collect()
}

/// The members of all jobs that this process holds, and what descends from it outside of any.
pub fn held_below(own: ProcessId, all: &[Stat]) -> BTreeSet<i32> {
    let mut found: BTreeSet<i32> = held().iter().flat_map(|job| job.members().unwrap_or_default()).collect();
    found.extend(process::below(&[own], None, all).iter().map(|id| id.pid));
    found
}

fn done(answer: i32) -> io::Result<()> {
    if answer == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::os::windows::io::AsHandle as _;
    use std::process::{Command, Stdio};

    use windows_sys::Win32::Foundation::ERROR_INVALID_FUNCTION;

    use super::*;

    #[test]
    fn a_member_is_listed_and_ends_with_its_job() {
        let job = Job::make().expect("a job");
        assert!(job.members().expect("a list").is_empty());
        let mut child =
            Command::new("cmd").args(["/c", "set /p line="]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("cmd");
        job.take_in(child.as_handle()).expect("a member");
        assert!(job.members().expect("a list").contains(&(child.id() as i32)));
        assert!(held().iter().any(|held| Arc::ptr_eq(held, &job)));
        // Nothing but the end of its job may end it: `wait` would close its input, and another test may hold the job a moment longer.
        let input = child.stdin.take();
        drop(job);
        assert!(!child.wait().expect("the end").success());
        drop(input);
    }

    #[test]
    fn a_kill_ends_all_and_says_how() {
        let job = Job::make().expect("a job");
        let mut child =
            Command::new("cmd").args(["/c", "set /p line="]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("cmd");
        job.take_in(child.as_handle()).expect("a member");
        job.kill().expect("killed");
        assert_eq!(child.wait().expect("the end").code(), Some(KILLED as i32));
        match job.account() {
            // Wine 8 keeps none.
            Err(error) if error.raw_os_error() == Some(ERROR_INVALID_FUNCTION as i32) => {
                eprintln!("SKIPPED: no account here: {error}")
            }
            account => drop(account.expect("an account")),
        }
    }
}
