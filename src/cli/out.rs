//! Writing a file that others may read or write at the same moment.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::Failure;
use super::turn::Turn;

/// Reads the older content of `path`, lets `merge` make the new one, and puts it in place in one step. Two ledgers that do this at once
/// take turns, so that neither folds onto what the other is about to replace.
pub fn merge_into(path: &Path, merge: impl FnOnce(Option<&[u8]>) -> Result<String, Failure>) -> Result<(), Failure> {
    let wrong = |error: io::Error| Failure::usage(format!("{}: {error}", path.display())).hint("name another file with --out");
    let _turn = Turn::take(&folder_of(path)).map_err(wrong)?;
    let older = match fs::read(path) {
        Ok(bytes) => Some(bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(wrong(error)),
    };
    let text = merge(older.as_deref())?;
    if older.as_deref() == Some(text.as_bytes()) {
        return Ok(());
    }
    replace(path, text.as_bytes()).map_err(wrong)
}

/// Puts `bytes` at `path` in one step: a reader sees the old file or the new one, whole.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = path.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "it names no file"))?;
    let beside = folder_of(path).join(format!(".{}.{}-{number}.new", name.to_string_lossy(), std::process::id()));
    let written = File::create(&beside).and_then(|mut file| {
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
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shared");
        std::thread::scope(|scope| {
            for name in 0..16 {
                let path = &path;
                scope.spawn(move || {
                    merge_into(path, |older| {
                        let older = older.map_or(String::new(), |bytes| String::from_utf8_lossy(bytes).into_owned());
                        Ok(format!("{older}{name}\n"))
                    })
                    .unwrap();
                });
            }
        });
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 16, "{text}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn what_is_not_merged_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shared");
        fs::write(&path, "<<<<<<< ours").unwrap();
        assert!(merge_into(&path, |_| Err(Failure::usage("it cannot be read"))).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "<<<<<<< ours");
        assert!(merge_into(&folder.path().join("no/such"), |_| Ok(String::new())).is_err());
    }
}
