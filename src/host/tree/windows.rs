//! Windows: the members of a Job Object. Where there is none, descendants that were noted while the file ran.

use std::collections::BTreeSet;
use std::os::windows::io::OwnedHandle;
use std::sync::Arc;

use windows_sys::Win32::System::Console::{CTRL_BREAK_EVENT, GenerateConsoleCtrlEvent};

use super::hold::Hold;
use super::{Children, Mechanism, OurTree, Root, UNKNOWN_FOLLOWED};
use crate::core::process::{OursBy, ProcessId};
use crate::core::stop::Reach;
use crate::host::job::Job;
use crate::host::process::{self, Stat};

/// A process that was started after the list was made is in no list; a second one has it.
const LISTS: usize = 3;

/// What holds the tree, and what a look keeps for the signals that follow it.
#[derive(Debug, Default)]
pub struct Bonds {
    job: Option<Arc<Job>>,
    in_job: BTreeSet<i32>,
    /// The leader. While it is open, the leader's number is nobody else's.
    leader: Option<OwnedHandle>,
    /// The leader's group was asked to end. Everybody in it heard it, and a second event is no kinder: some programs end at once then.
    broke: bool,
    /// Why the leader could not be asked to end.
    unasked: Option<String>,
}

impl OurTree {
    /// From now on the members of this job are ours.
    pub fn hold_in(&mut self, job: Arc<Job>) {
        self.bonds.job = Some(job);
    }

    /// The leader is not in it.
    pub fn let_go_of_job(&mut self) {
        self.bonds.job = None;
    }

    /// Who leads it, and a handle that is kept open as long as this tree is looked at.
    pub fn led_by(&mut self, leader: ProcessId, handle: OwnedHandle) {
        self.leader = Some(leader);
        self.bonds.leader = Some(handle);
    }

    pub fn job(&self) -> Option<&Job> {
        self.bonds.job.as_deref()
    }

    /// Whether the leader and its group were asked to end.
    pub fn was_asked(&self) -> bool {
        self.bonds.broke
    }

    /// Why the leader could not be asked to end, where it was tried.
    pub fn unasked(&self) -> Option<&str> {
        self.bonds.unasked.as_deref()
    }

    /// Without a job an orphan is seen only if it was noted before its parent ended. A lost owner has taken its job and its notes along.
    pub(super) fn blind_to(&self) -> Option<&'static str> {
        match self.root {
            Root::Adopted { .. } => Some(UNKNOWN_FOLLOWED),
            Root::Subreaper if self.bonds.job.is_none() => {
                Some("no Job Object holds this tree: an orphan that was not noted before its parent ended would not be seen")
            }
            Root::Subreaper | Root::Nobody => None,
        }
    }

    /// Everything that is ours, and why something may have been overlooked.
    pub(super) fn find(&mut self, _: Children) -> (Vec<(Stat, OursBy)>, Option<String>) {
        let mut missing = None;
        for _ in 0..LISTS {
            let all = match process::list() {
                Ok(all) => all,
                Err(error) => return (Vec::new(), Some(error.to_string())),
            };
            let members = match self.bonds.job.as_ref().map_or_else(|| Ok(Vec::new()), |job| job.members()) {
                Ok(members) => members,
                Err(error) => return (Vec::new(), Some(format!("the members of the job cannot be listed: {error}"))),
            };
            self.bonds.in_job = members.into_iter().collect();
            let unlisted = self.bonds.in_job.iter().find(|&&pid| all.iter().all(|stat| stat.id.pid != pid));
            missing = unlisted.map(|pid| format!("process {pid} is in the job and in no list"));
            if missing.is_none() {
                return (self.ours_of(all), None);
            }
        }
        (Vec::new(), missing)
    }

    fn ours_of(&self, all: Vec<Stat>) -> Vec<(Stat, OursBy)> {
        let noted = if self.has(Mechanism::Descendant) { self.noted_and_below(&all) } else { BTreeSet::new() };
        let own = std::process::id() as i32;
        let why = |stat: &Stat| match () {
            () if stat.id.pid == own || self.spared_before.contains(&stat.id) => None,
            () if self.bonds.in_job.contains(&stat.id.pid) => Some(OursBy::Job),
            () if noted.contains(&stat.id) => Some(OursBy::Descendant),
            () => None,
        };
        all.into_iter().filter_map(|stat| why(&stat).map(|why| (stat, why))).collect()
    }

    /// A job knows its members better than any note, so notes count only where there is none.
    fn noted_and_below(&self, all: &[Stat]) -> BTreeSet<ProcessId> {
        if self.bonds.job.is_some() {
            return BTreeSet::new();
        }
        let mut roots: Vec<ProcessId> = self.noted.iter().copied().collect();
        roots.extend(self.leader);
        let kept = self.leader.filter(|_| self.bonds.leader.is_some());
        let below = process::below(&roots, kept, all);
        roots.into_iter().chain(below).collect()
    }

    /// Asks the leader's process group to end, once. Everybody in it hears it at once; there is no word for one process.
    pub(super) fn term_whole(&mut self, ids: &[ProcessId]) -> Vec<ProcessId> {
        if let Some(group) = self.group_to_ask() {
            // SAFETY: the call takes numbers only. The leader was started as a group of its own, and its number is not used again while
            // it is kept open.
            if unsafe { GenerateConsoleCtrlEvent(CTRL_BREAK_EVENT, group) } == 0 {
                let error = std::io::Error::last_os_error();
                self.bonds.unasked = Some(format!("no console event reached the leader, so it was not asked to end: {error}"));
            } else {
                self.bonds.broke = true;
                self.bonds.unasked = None;
            }
        }
        ids.to_vec()
    }

    /// The group of a leader that runs and was not asked yet. Group 0 would be everybody on this console, ledger too, and a number that is
    /// no group's is taken for 0: the group of one that has ended may be empty.
    fn group_to_ask(&self) -> Option<u32> {
        let runs = self.bonds.leader.as_ref().is_some_and(process::runs);
        let leader = self.leader.filter(|_| runs && !self.bonds.broke)?;
        u32::try_from(leader.pid).ok().filter(|&group| group > 0)
    }

    /// A job is ended as a whole, and no member can start another one in between: nothing has to be stopped first.
    pub(super) fn freeze_whole(&self, ids: &[ProcessId], reach: Reach) -> Vec<ProcessId> {
        if reach == Reach::Whole && self.bonds.job.is_some() { self.outside(ids) } else { ids.to_vec() }
    }

    /// Ends the job as a whole, and answers with those that are still to be ended one by one.
    pub(super) fn kill_whole(&self, ids: &[ProcessId], reach: Reach) -> Vec<ProcessId> {
        match &self.bonds.job {
            Some(job) if reach == Reach::Whole && job.kill().is_ok() => self.outside(ids),
            _ => ids.to_vec(),
        }
    }

    fn outside(&self, ids: &[ProcessId]) -> Vec<ProcessId> {
        ids.iter().filter(|id| !self.bonds.in_job.contains(&id.pid)).copied().collect()
    }

    /// The job, which may hold nobody any more.
    pub(super) fn hit_unseen(&self, signal: crate::host::deliver::Signal) -> bool {
        if signal == crate::host::deliver::Signal::Kill {
            let _ = self.kill_whole(&[], Reach::Whole);
        }
        false
    }

    /// Never asked for: how many threads want to run is not known here.
    pub(super) fn stand_still(&self, _: bool) -> Option<Hold> {
        None
    }

    pub(super) fn move_on(&self, _: Hold) {}

    /// All one by one.
    pub(super) fn pause_whole(&self, ids: &[ProcessId]) -> Vec<ProcessId> {
        ids.to_vec()
    }

    pub(super) fn resume_whole(&self) {}
}

/// Windows does not tell what a process waits for.
pub fn waits_on(_: i32) -> Option<String> {
    None
}

#[cfg(test)]
mod tests {
    use std::os::windows::io::AsHandle as _;
    use std::process::{Command, Stdio};

    use windows_sys::Win32::System::Threading::PROCESS_QUERY_LIMITED_INFORMATION;

    use super::*;

    #[test]
    fn a_group_is_asked_once_and_while_its_leader_runs_and_the_number_is_kept() {
        let mut child =
            Command::new("cmd").args(["/c", "set /p line="]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("cmd");
        let handle = child.as_handle().try_clone_to_owned().expect("a handle");
        let created = |handle: &OwnedHandle| process::times(handle).map(|(created, _)| created);
        let leader = ProcessId { pid: child.id() as i32, start: created(&handle).expect("it is open") };
        let mut tree = OurTree::new(Root::Subreaper);
        assert_eq!(tree.group_to_ask(), None, "nobody leads it yet");
        tree.led_by(leader, handle);
        assert_eq!(tree.group_to_ask(), Some(child.id()));
        tree.bonds.broke = true;
        assert_eq!(tree.group_to_ask(), None, "it was asked");
        tree.bonds.broke = false;
        child.kill().expect("it runs");
        child.wait().expect("the end");
        drop(child);
        assert_eq!(tree.group_to_ask(), None, "it has ended");
        let again = process::open(leader.pid, PROCESS_QUERY_LIMITED_INFORMATION).expect("the number is still its own");
        assert_eq!(created(&again), Some(leader.start));
    }
}
