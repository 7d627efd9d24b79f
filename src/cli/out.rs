//! Writing a file that others may read or write at the same moment.
//!
//! Only a regular file is ever replaced. A link is followed and stays; a device, a pipe or an open descriptor is written to, never removed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::Failure;
use super::turn::Turn;
use crate::host::bounded;
use crate::report::shared_json::MAX_SHARED_BYTES;

/// Reads the older content of `path`, lets `merge` make the new one, and puts it in place in one step. Two ledgers that do this at once
/// take turns, so that neither folds onto what the other is about to replace.
pub fn merge_into(path: &Path, merge: impl FnOnce(Option<&[u8]>) -> Result<String, Failure>) -> Result<(), Failure> {
    let wrong = |error: io::Error| Failure::usage(format!("{}: {error}", path.display())).hint("name another file with --out");
    let place = match Place::of(path).map_err(wrong)? {
        Place::File(place) => place,
        // A stream has no older content; what a terminal or a pipe would give is nobody's.
        stream => return stream.put(merge(None)?.as_bytes()).map_err(wrong),
    };
    let _turn = Turn::take(&folder_of(&place)).map_err(wrong)?;
    let older = match bounded::read(&place, MAX_SHARED_BYTES as u64) {
        Ok(bytes) => Some(bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(wrong(error)),
    };
    let text = merge(older.as_deref())?;
    if older.as_deref() == Some(text.as_bytes()) {
        return Ok(());
    }
    swap(&place, text.as_bytes()).map_err(wrong)
}

/// Puts `bytes` at `path` in one step: a reader sees the old file or the new one, whole. What is no file is written to as it is.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    Place::of(path)?.put(bytes)
}

/// As many links as the system itself follows.
const MOST_LINKS: usize = 40;

/// What a path comes to.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// A regular file, or none yet; all links are followed.
    File(PathBuf),
    /// A device, a pipe, a descriptor of some process.
    Stream(PathBuf),
    Stdout,
    Stderr,
}

impl Place {
    fn of(path: &Path) -> io::Result<Self> {
        let mut place = path.to_owned();
        for _ in 0..MOST_LINKS {
            // A name in here stands for an open descriptor, whatever it is that is open.
            let folder = fs::canonicalize(folder_of(&place)).unwrap_or_default();
            let opened = folder.ends_with("fd") && (folder.starts_with("/proc") || folder.starts_with("/dev"));
            let own = folder == Path::new("/dev/fd") || folder == Path::new(&format!("/proc/{}/fd", std::process::id()));
            match place.file_name().and_then(|name| name.to_str()) {
                Some("1") if own => return Ok(Self::Stdout),
                Some("2") if own => return Ok(Self::Stderr),
                _ if opened => return Ok(Self::Stream(place)),
                _ => {}
            }
            match fs::symlink_metadata(&place) {
                Ok(found) if found.is_symlink() => place = folder_of(&place).join(fs::read_link(&place)?),
                Ok(found) if found.is_dir() => return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder")),
                Ok(found) if !found.is_file() => return Ok(Self::Stream(place)),
                // What cannot be looked at is told by whoever reads or writes it, in its turn: on Windows a file that is being replaced
                // refuses every look for a moment.
                Ok(_) | Err(_) => return Ok(Self::File(place)),
            }
        }
        Err(io::Error::other("its links lead in a circle"))
    }

    fn put(&self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::File(place) => swap(place, bytes),
            // It is there already, so nothing is made and nothing cut; behind what others write, where that means anything.
            Self::Stream(place) => OpenOptions::new().append(true).open(place)?.write_all(bytes),
            Self::Stdout => all_of(io::stdout().lock(), bytes),
            Self::Stderr => all_of(io::stderr().lock(), bytes),
        }
    }
}

/// A reader that has gone away has what it wanted.
fn all_of(mut out: impl Write, bytes: &[u8]) -> io::Result<()> {
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

fn swap(path: &Path, bytes: &[u8]) -> io::Result<()> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = path.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "it names no file"))?;
    let beside = folder_of(path).join(format!(".{}.{}-{number}.new", name.to_string_lossy(), std::process::id()));
    let written = File::create(&beside).and_then(|mut file| {
        // Whoever may read the file that is replaced may read this one. A new one is made as every program here makes one: shared files
        // are checked in, and pages are served by others.
        if let Ok(old) = fs::metadata(path) {
            file.set_permissions(old.permissions())?;
        }
        file.write_all(bytes)?;
        file.sync_all()
    });
    let moved = written.and_then(|()| fs::rename(&beside, path));
    if moved.is_err() {
        let _ = fs::remove_file(&beside);
    }
    moved
}

fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_that_merge_at_once_lose_nothing() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let path = folder.path().join("shared");
        std::thread::scope(|scope| {
            for name in 0..16 {
                let path = &path;
                scope.spawn(move || {
                    merge_into(path, |older| {
                        let older = older.map_or(String::new(), |bytes| String::from_utf8_lossy(bytes).into_owned());
                        Ok(format!("{older}{name}\n"))
                    })
                    .expect("it merges");
                });
            }
        });
        let text = fs::read_to_string(&path).expect("it can be read");
        assert_eq!(text.lines().count(), 16, "{text}");
        assert_eq!(fs::read_dir(folder.path()).expect("it can be read").count(), 1, "nothing is left beside it");
    }

    #[cfg(unix)]
    #[test]
    fn links_stay_and_what_they_lead_to_is_replaced() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().expect("a temp folder");
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("real")).expect("it can be made");
        fs::write(at("real/shared"), "older\n").expect("written");
        symlink("real/shared", at("second")).expect("it can be made");
        symlink("second", at("first")).expect("it can be made");
        symlink("real/new", at("dangling")).expect("it can be made");
        merge_into(&at("first"), |older| Ok(format!("{}newer\n", String::from_utf8_lossy(older.expect("it merges")))))
            .expect("it is made");
        assert_eq!(fs::read_to_string(at("real/shared")).expect("it can be read"), "older\nnewer\n");
        replace(&at("first"), b"last").expect("it is replaced");
        replace(&at("dangling"), b"made").expect("it is replaced");
        assert_eq!(fs::read_to_string(at("real/shared")).expect("it can be read"), "last");
        assert_eq!(fs::read_to_string(at("real/new")).expect("it can be read"), "made");
        for link in ["first", "second", "dangling"] {
            assert!(fs::symlink_metadata(at(link)).expect("it can be read").is_symlink(), "{link}");
        }
        assert_eq!(fs::read_dir(at("real")).expect("it can be read").count(), 2, "nothing is left beside them");
        symlink("circle", at("circle")).expect("it can be made");
        assert!(replace(&at("circle"), b"").is_err() && replace(folder.path(), b"").is_err());
    }

    #[cfg(unix)]
    #[test]
    fn whoever_may_read_the_old_file_may_read_the_new_one() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().expect("a temp folder");
        let mode = |name: &str| fs::metadata(folder.path().join(name)).expect("it can be read").permissions().mode() & 0o777;
        fs::write(folder.path().join("plain"), "").expect("written");
        replace(&folder.path().join("new"), b"x").expect("it is replaced");
        assert_eq!(mode("new"), mode("plain"));
        for old in [0o600, 0o640, 0o664] {
            fs::set_permissions(folder.path().join("new"), fs::Permissions::from_mode(old)).expect("it can be made");
            replace(&folder.path().join("new"), b"y").expect("it is replaced");
            assert_eq!(mode("new"), old);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_is_no_file_is_written_to_and_stays() {
        use std::os::unix::fs::FileTypeExt as _;
        let folder = tempfile::tempdir().expect("a temp folder");
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs").success());
        for merged in [false, true] {
            let reader = std::thread::spawn({
                let pipe = pipe.clone();
                move || fs::read_to_string(pipe).expect("it can be read")
            });
            let written = if merged {
                merge_into(&pipe, |older| Ok(format!("{older:?}"))).map_err(|failure| io::Error::other(failure.message))
            } else {
                replace(&pipe, b"text")
            };
            written.expect("it is written");
            assert_eq!(reader.join().expect("no panic"), if merged { "None" } else { "text" });
            assert!(fs::symlink_metadata(&pipe).expect("it can be read").file_type().is_fifo());
        }
        // A file that is reached through somebody's descriptor is not replaced under its writer.
        let open = File::create(folder.path().join("open")).expect("it can be made");
        let through = PathBuf::from(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&open)));
        replace(&through, b"through").expect("it is replaced");
        assert_eq!(fs::read_to_string(folder.path().join("open")).expect("it can be read"), "through");
        assert_eq!(Place::of(Path::new("/proc/self/fd/1")).expect("it is there"), Place::Stdout);
        assert_eq!(Place::of(Path::new("/proc/self/fd/2")).expect("it is there"), Place::Stderr);
    }

    #[test]
    fn what_is_not_merged_is_not_written() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let path = folder.path().join("shared");
        fs::write(&path, "<<<<<<< ours").expect("written");
        assert!(merge_into(&path, |_| Err(Failure::usage("it cannot be read"))).is_err());
        assert_eq!(fs::read_to_string(&path).expect("it can be read"), "<<<<<<< ours");
        assert!(merge_into(&folder.path().join("no/such"), |_| Ok(String::new())).is_err());
    }
}
