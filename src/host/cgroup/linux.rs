//! Linux: cgroup v2, mounted alone or, on a hybrid host, beside v1.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::core::sample::CgroupMemory;
use crate::host::{process, procfs};

/// How long a leaf is waited for whose last processes are just ending, and how often it is looked at.
const REMOVED_WITHIN: Duration = Duration::from_millis(200);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// A leaf made for one file, below the cgroup ledger itself is in. Its folder is removed on drop, which fails while it is populated.
#[derive(Debug)]
pub struct Leaf {
    path: PathBuf,
    folder: OwnedFd,
}

impl Leaf {
    /// Makes a leaf, or says why there is none.
    pub fn make(name: &str) -> Result<Self, String> {
        let parent = own_folder().ok_or("no cgroup v2 is mounted")?;
        let path = parent.join(name);
        fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let made = Self::open(path.clone());
        if made.is_err() {
            let _ = fs::remove_dir(&path);
        }
        made
    }

    /// The leaf that an owner, dead by now, made for the file with this token.
    pub fn find(owner: i32, token: &str) -> Option<Self> {
        let name = leaf_name(owner, token);
        if let Some(leaf) = own_folder().and_then(|folder| Self::open(folder.join(&name)).ok()) {
            return Some(leaf);
        }
        // The dead run was in another cgroup than we are: ask those that carry the token where they are.
        let carriers = process::all().ok()?.into_iter().filter(|&pid| process::carries_token(pid, token) == Ok(true));
        carriers.filter_map(folder_of).filter(|folder| folder.ends_with(&name)).find_map(|folder| Self::open(folder).ok())
    }

    /// A leaf that somebody else made: what a dead owner left.
    pub fn open(path: PathBuf) -> Result<Self, String> {
        let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC;
        let folder = rustix::fs::open(&path, flags, rustix::fs::Mode::empty())
            .map_err(|error| format!("{}: {}", path.display(), io::Error::from(error)))?;
        if !path.join("cgroup.procs").exists() {
            return Err(format!("{}: not a cgroup", path.display()));
        }
        Ok(Self { path, folder })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn folder(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }

    /// Whether any process is inside, at any depth. Zombies do not count.
    pub fn is_populated(&self) -> io::Result<bool> {
        let events = keyed(&self.path.join("cgroup.events"))?;
        Ok(events.get("populated").is_none_or(|&populated| populated != 0))
    }

    /// Whether somebody has removed it, which the kernel allows only while it is empty.
    pub fn is_removed(&self) -> bool {
        matches!(self.path.try_exists(), Ok(false))
    }

    /// Every process inside, at any depth.
    pub fn pids(&self) -> io::Result<Vec<i32>> {
        members(&self.path)
    }

    /// Kills everything inside at once, forks included. Linux 5.14.
    pub fn kill(&self) -> io::Result<()> {
        fs::write(self.path.join("cgroup.kill"), "1")
    }

    pub fn freeze(&self) -> io::Result<()> {
        fs::write(self.path.join("cgroup.freeze"), "1")
    }

    pub fn thaw(&self) -> io::Result<()> {
        fs::write(self.path.join("cgroup.freeze"), "0")
    }

    /// Moves one process out, to the cgroup above.
    pub fn release(&self, pid: i32) -> io::Result<()> {
        match self.path.parent() {
            Some(parent) => fs::write(parent.join("cgroup.procs"), pid.to_string()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    pub fn cpu_s(&self) -> Option<f64> {
        let usage = *keyed(&self.path.join("cpu.stat")).ok()?.get("usage_usec")?;
        Some(usage as f64 / 1e6)
    }

    /// Absent where the memory controller is not handed down to us.
    pub fn memory_peak_mib(&self) -> Option<f64> {
        number(&self.path.join("memory.peak")).map(|bytes| bytes as f64 / 1_048_576.0)
    }

    pub fn process_peak(&self) -> Option<u64> {
        number(&self.path.join("pids.peak"))
    }

    /// Bytes read and written, where the io controller is handed down to us.
    pub fn io_bytes(&self) -> Option<(u64, u64)> {
        let text = fs::read_to_string(self.path.join("io.stat")).ok()?;
        let sum = |key: &str| text.split_ascii_whitespace().filter_map(|word| word.strip_prefix(key)?.parse::<u64>().ok()).sum();
        Some((sum("rbytes="), sum("wbytes=")))
    }

    /// How often the kernel killed a process inside for memory.
    pub fn oom_kills(&self) -> Option<u64> {
        keyed(&self.path.join("memory.events")).ok()?.get("oom_kill").copied()
    }
}

impl Drop for Leaf {
    fn drop(&mut self) {
        // Groups that the file made inside go first; what is populated stays, and the sweep has said so.
        let mut inside = Vec::new();
        let _ = each_group(&self.path, &mut |group| {
            inside.push(group.to_owned());
            Ok(())
        });
        for group in inside.iter().rev() {
            let _ = fs::remove_dir(group);
        }
    }
}

/// Every process in a cgroup, at any depth.
pub fn members(folder: &Path) -> io::Result<Vec<i32>> {
    let mut found = Vec::new();
    each_group(folder, &mut |group| {
        let text = fs::read_to_string(group.join("cgroup.procs"))?;
        // A process of another pid namespace reads as 0.
        found.extend(text.lines().filter_map(|line| line.parse::<i32>().ok()).filter(|&pid| pid > 0));
        Ok(())
    })?;
    Ok(found)
}

fn each_group(top: &Path, visit: &mut dyn FnMut(&Path) -> io::Result<()>) -> io::Result<()> {
    let mut open = vec![top.to_owned()];
    while let Some(group) = open.pop() {
        match visit(&group) {
            // A threaded or removed group below ours holds no process of its own.
            Err(error) if group != top && is_gone(&error) => continue,
            other => other?,
        }
        if let Ok(entries) = fs::read_dir(&group) {
            open.extend(entries.flatten().filter(|e| e.file_type().is_ok_and(|kind| kind.is_dir())).map(|e| e.path()));
        }
    }
    Ok(())
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP))
}

/// Memory of the cgroup ledger itself is in, out of v2 or else v1. `max` is absent when unlimited.
pub fn own_memory() -> Option<CgroupMemory> {
    own_folder().and_then(|folder| memory_v2(&folder)).or_else(memory_v1)
}

fn memory_v2(folder: &Path) -> Option<CgroupMemory> {
    let events = keyed(&folder.join("memory.events")).ok()?;
    let count = |key: &str| events.get(key).copied();
    Some(CgroupMemory {
        current_mib: number(&folder.join("memory.current")).map(mib),
        max_mib: number(&folder.join("memory.max")).map(mib),
        high: count("high"),
        max: count("max"),
        oom: count("oom"),
        oom_kill: count("oom_kill"),
    })
}

/// v1 counts how often the limit was hit and how often the kernel killed for it, and has no word for the rest.
fn memory_v1() -> Option<CgroupMemory> {
    /// v1 writes "no limit" as the largest page-aligned number.
    const UNLIMITED: u64 = 1 << 62;
    let groups = procfs::text("self/cgroup").ok()?;
    let own = groups.lines().find_map(|line| line.split_once(":memory:").map(|(_, path)| path))?;
    let mounted = Path::new("/sys/fs/cgroup/memory");
    // Inside a container the path of the host is not there, and the mount is the group itself.
    let folder = mounted.join(own.trim_start_matches('/'));
    let folder = if folder.join("memory.usage_in_bytes").exists() { folder } else { mounted.to_owned() };
    Some(CgroupMemory {
        current_mib: Some(mib(number(&folder.join("memory.usage_in_bytes"))?)),
        max_mib: number(&folder.join("memory.limit_in_bytes")).filter(|&limit| limit < UNLIMITED).map(mib),
        high: None,
        max: number(&folder.join("memory.failcnt")),
        oom: None,
        oom_kill: keyed(&folder.join("memory.oom_control")).ok()?.get("oom_kill").copied(),
    })
}

fn mib(bytes: u64) -> u64 {
    bytes / (1024 * 1024)
}

/// The name of a file's leaf: its owner and the head of its token, which a later start can put together again.
pub fn leaf_name(owner: i32, token: &str) -> String {
    let head: String = token.chars().filter(char::is_ascii_alphanumeric).take(8).collect();
    format!("ledger-{owner}-{head}")
}

/// The number of the owner that a leaf was made for.
fn owner_of_leaf(name: &str) -> Option<i32> {
    let (owner, head) = name.strip_prefix("ledger-")?.split_once('-')?;
    let is_head = (1..=8).contains(&head.len()) && head.bytes().all(|byte| byte.is_ascii_alphanumeric());
    owner.parse().ok().filter(|&owner| is_head && owner > 0)
}

/// Removes the empty leaves beside us whose owners are gone: an owner that was killed could not, and one that was started ahead and
/// never had a file is in no record. A leaf with anything in it stays, because a folder of this kind can only be removed empty.
pub fn remove_dead_leaves() {
    let Some(entries) = own_folder().and_then(|folder| fs::read_dir(folder).ok()) else { return };
    for entry in entries.flatten() {
        let owner = entry.file_name().to_str().and_then(owner_of_leaf);
        let is_gone = |owner| match process::stat(owner) {
            Ok(stat) => stat.is_gone(),
            Err(why) => why == process::Unread::Gone,
        };
        if owner.is_some_and(is_gone) {
            remove_within(&entry.path(), REMOVED_WITHIN);
        }
    }
}

/// A process that was killed is shown as ended a moment before its group is rid of it.
fn remove_within(path: &Path, bound: Duration) {
    let mut waited = Duration::ZERO;
    while let Ok(leaf) = Leaf::open(path.to_owned()) {
        let lives = leaf.pids().is_ok_and(|pids| !pids.is_empty());
        drop(leaf);
        if lives || waited >= bound || !path.exists() {
            return;
        }
        std::thread::sleep(LOOK_AGAIN);
        waited += LOOK_AGAIN;
    }
}

/// The folder of the cgroup v2 that this process is in.
fn own_folder() -> Option<PathBuf> {
    folder_of(std::process::id() as i32)
}

/// The folder of the cgroup v2 that a process is in.
pub fn folder_of(pid: i32) -> Option<PathBuf> {
    let mounts = procfs::text("self/mountinfo").ok()?;
    let (root, mount) = mounts.lines().find_map(cgroup2_mount)?;
    let groups = procfs::text(&format!("{pid}/cgroup")).ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    // What is mounted may itself begin below the root of the hierarchy (a container).
    let inside = own.strip_prefix(root.trim_end_matches('/')).unwrap_or(own);
    let folder = Path::new(&mount).join(inside.trim_start_matches('/'));
    folder.join("cgroup.procs").exists().then_some(folder)
}

/// Root and mount point of a line of mountinfo, if it is a cgroup v2 mount.
fn cgroup2_mount(line: &str) -> Option<(String, String)> {
    let (left, right) = line.split_once(" - ")?;
    if right.split(' ').next() != Some("cgroup2") {
        return None;
    }
    let mut fields = left.split(' ').skip(3);
    Some((unescape(fields.next()?), unescape(fields.next()?)))
}

/// mountinfo writes a space as `\040`.
fn unescape(text: &str) -> String {
    text.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// A file of lines `key number`.
fn keyed(path: &Path) -> io::Result<BTreeMap<String, u64>> {
    let text = fs::read_to_string(path)?;
    let pair = |line: &str| {
        let (key, value) = line.split_once(' ')?;
        Some((key.to_owned(), value.trim().parse().ok()?))
    };
    Ok(text.lines().filter_map(pair).collect())
}

#[cfg(test)]
mod tests {
    use super::{cgroup2_mount, leaf_name, owner_of_leaf};

    #[test]
    fn only_a_name_that_ledger_gives_names_an_owner() {
        assert_eq!(owner_of_leaf(&leaf_name(77, "0123456789abcdef")), Some(77));
        for other in
            ["ledger-77", "ledger-x-01234567", "ledger-77-0123456789", "ledger-77-", "ledger--7-0123", "ledger-77-a.b", "user-77-0"]
        {
            assert_eq!(owner_of_leaf(other), None, "{other}");
        }
    }

    #[test]
    fn a_mount_is_found_by_its_type() {
        let line = "30 24 0:27 / /sys/fs/cgroup/uni\\040fied rw,relatime shared:9 - cgroup2 cgroup2 rw";
        assert_eq!(cgroup2_mount(line), Some(("/".to_owned(), "/sys/fs/cgroup/uni fied".to_owned())));
        assert_eq!(cgroup2_mount("30 24 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu"), None);
        assert_eq!(cgroup2_mount("nonsense"), None);
    }
}
