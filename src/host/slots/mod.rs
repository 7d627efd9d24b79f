//! Slots as locks of the operating system, and the records beside them that others can read.
//!
//! ```text
//! <pools>/<pool>/pool.json           the name and the capacity that was stated last
//!                gate.lock           held for the moment of a look and an admission, so that nobody is let in between
//!                slot-0001.lock      locked while the slot is held; the file stays, the lock dies with its process
//!                slot-0001.holder    who holds it
//!                slot-0001.kept      quarantine: reason and end
//!                wait-<ticket>.lock  locked while its waiter lives; the ticket is its place
//!                wait-<ticket>.who   who waits, and when it looked last
//! ```
//!
//! Everything that counts is a lock; the records say who and since when, and a pool whose records are all lost still admits as many as
//! it should. Nothing in here decides who goes in (`core::slot::admit` does), waits, or removes a lock file that stands for a slot.
//!
//! First come, first served, with three limits. Who arrives first is who gets the gate first. A waiter that has not looked for
//! `STALLED` (stopped, or its machine sleeps) is passed over and keeps its ticket. And a slot that falls free is noticed by the next
//! look of the first waiter, not sooner. Locks on a network file system are as good as that file system.

#[cfg(unix)]
mod unix;
#[cfg(unix)]
use unix as system;
#[cfg(windows)]
mod windows;
#[cfg(windows)]
use windows as system;

mod hold;
mod records;
mod scan;
mod wait;

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::core::slot::{MOST_SLOTS, PoolName, PoolView};

pub use hold::Held;
pub use wait::{Attempt, Claim, Waiting};

use crate::core::moment::{Moment, Secs};

/// Ten looks of a waiter that is well; one that is only slow is not passed over.
const STALLED: Secs = Secs::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub enum SlotError {
    #[error("the pool's file '{}' cannot be used: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("the folder of pools '{}' cannot be used: {source}", path.display())]
    Folder { path: PathBuf, source: io::Error },
    #[error("there is no pool '{name}' in '{}'", folder.display())]
    NoPool { name: String, folder: PathBuf },
    #[error("{0} slots: a pool has 1 to {MOST_SLOTS}")]
    Capacity(u32),
}

/// The folder that holds the pools of one user, or of several where they share it.
#[derive(Debug, Clone)]
pub struct Pools {
    root: PathBuf,
}

impl Pools {
    pub fn at(root: PathBuf) -> Self {
        Self { root }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Makes the pool where it does not exist yet. Whoever states a capacity last is believed.
    pub fn open(&self, name: &PoolName, capacity: Option<u32>) -> Result<Pool, SlotError> {
        if let Some(slots) = capacity.filter(|slots| !(1..=MOST_SLOTS).contains(slots)) {
            return Err(SlotError::Capacity(slots));
        }
        let folder = self.root.join(name.folder());
        system::make_folder(&self.root, &folder).map_err(|source| SlotError::Folder { path: folder.clone(), source })?;
        let pool = Pool { name: name.as_str().to_owned(), folder };
        pool.open_file(&pool.gate_path())?;
        Ok(pool)
    }

    /// Every pool there is; only what exists, and nothing is made.
    pub fn list(&self) -> Result<Vec<Pool>, SlotError> {
        let entries = match std::fs::read_dir(&self.root) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(SlotError::Folder { path: self.root.clone(), source }),
        };
        let mut pools: Vec<Pool> = entries.flatten().filter_map(|entry| Pool::found(entry.path())).collect();
        pools.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(pools)
    }

    pub fn find(&self, name: &PoolName) -> Result<Pool, SlotError> {
        let missing = || SlotError::NoPool { name: name.as_str().to_owned(), folder: self.root.clone() };
        let found = Pool::found(self.root.join(name.folder())).ok_or_else(missing)?;
        // No two names have one folder, so this one's name is known without its record.
        Ok(Pool { name: name.as_str().to_owned(), ..found })
    }
}

/// What a pool's record says.
#[derive(Debug, PartialEq)]
enum Stated {
    Whole(records::PoolRecord),
    /// It cannot be read, or it is gone while locks are there.
    Damaged,
    /// Nobody has used the pool yet.
    Missing,
}

impl Stated {
    fn capacity(&self) -> Option<u32> {
        match self {
            Stated::Whole(stated) => Some(stated.capacity),
            Stated::Damaged | Stated::Missing => None,
        }
    }
}

#[derive(Debug, Clone)]
pub struct Pool {
    name: String,
    folder: PathBuf,
}

impl Pool {
    /// The record is read for the name only: where it is damaged, or gone while locks are there, the folder still is a pool.
    fn found(folder: PathBuf) -> Option<Self> {
        let pool = Self { name: String::new(), folder };
        let name = match pool.stated() {
            Stated::Whole(stated) => records::harmless(&stated.name),
            Stated::Missing => return None,
            Stated::Damaged => PoolName::of_folder(pool.folder.file_name()?.to_str()?),
        };
        Some(Self { name, ..pool })
    }

    fn stated(&self) -> Stated {
        let path = self.folder.join("pool.json");
        match records::read::<records::PoolRecord>(&path) {
            Some(stated) => Stated::Whole(stated),
            None if path.symlink_metadata().is_ok() || self.was_used() => Stated::Damaged,
            None => Stated::Missing,
        }
    }

    /// The pool's record is written before the first of these is made.
    fn was_used(&self) -> bool {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .any(|name| name.starts_with("slot-") || name.starts_with("wait-"))
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the locks say now. Nothing is written, and nothing waits: a gate that is busy is passed by after a moment, because a look
    /// needs it only so as not to be in the way of an admission.
    pub fn look(&self, now: Moment) -> Result<PoolView, SlotError> {
        let gate = system::open_to_read(&self.gate_path()).ok();
        let _shared = gate.as_ref().and_then(|gate| {
            let mut tries = 0..50;
            tries.find_map(|_| match gate.try_lock_shared() {
                Ok(()) => Some(()),
                Err(_) => {
                    std::thread::sleep(std::time::Duration::from_millis(2));
                    None
                }
            })
        });
        self.scan(now)
    }

    fn gate_path(&self) -> PathBuf {
        self.folder.join("gate.lock")
    }

    fn slot_path(&self, number: u32, kind: &str) -> PathBuf {
        self.folder.join(format!("slot-{number:04}.{kind}"))
    }

    fn wait_path(&self, ticket: u64, kind: &str) -> PathBuf {
        self.folder.join(format!("wait-{ticket:012}.{kind}"))
    }

    fn open_file(&self, path: &Path) -> Result<File, SlotError> {
        system::open_to_lock(path).map_err(|source| SlotError::File { path: path.to_owned(), source })
    }
}

/// Whether a lock could be had.
enum Tried {
    Locked,
    HeldByAnother,
}

fn try_lock(file: &File, path: &Path) -> Result<Tried, SlotError> {
    match file.try_lock() {
        Ok(()) => Ok(Tried::Locked),
        Err(TryLockError::WouldBlock) => Ok(Tried::HeldByAnother),
        Err(TryLockError::Error(source)) => Err(SlotError::File { path: path.to_owned(), source }),
    }
}
