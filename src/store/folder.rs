//! The ledger folder: who may read it, what its databases are called, which ones there are.
//!
//! Names of databases are made of text that comes from the environment, so nothing of it may choose a place outside the folder, be too
//! long for a file system, or fall on the name of another leg.

use std::cmp;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::core::ids::{Digest, Epoch, LegId};

use super::error::StoreError;
use super::private::{self, create_file};
use super::reader::{Identity, Reader};

/// What a database of a leg is called: `leg-RUN-ATTEMPT-PLATFORM-TARGET-DIGEST.db`.
const PREFIX: &str = "leg-";
pub(super) const EXTENSION: &str = "db";

/// Longest part of a name that is taken from an id. Four of them, the digest and the longest companion extension stay near 130 of the
/// 143 bytes that the tightest common file system (an encrypted ext4 folder) allows.
const PART_BYTES: usize = 22;

/// Hex digits of the digest that makes a name collision-free: 64 bits, for a folder of at most some thousand legs.
const DIGEST_DIGITS: usize = 16;

/// A folder of leg databases.
#[derive(Debug, Clone)]
pub struct LedgerFolder {
    path: PathBuf,
}

/// One database of a folder. A file that cannot be read is listed too: it costs its leg, never the report.
#[derive(Debug, Clone)]
pub struct LegDatabase {
    pub path: PathBuf,
    pub identity: Result<Identity, StoreError>,
}

impl LedgerFolder {
    /// Makes the folder where it is missing, keeps it out of version control, and probes that it can be written.
    pub fn create(path: &Path) -> Result<Self, StoreError> {
        let folder = Self { path: path.to_owned() };
        match private::make_folders(path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(StoreError::NotAFolder { path: path.to_owned() });
            }
            // A parent that cannot take a folder, as in /proc, says that there is no such place.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(StoreError::ReadOnly { path: path.to_owned(), detail: error.to_string() });
            }
            Err(error) => return Err(StoreError::io(path, &error)),
        }
        folder.probe().map_err(|error| StoreError::io(path, &error))?;
        folder.ignore_from_version_control().map_err(|error| StoreError::io(path, &error))?;
        Ok(folder)
    }

    /// An existing folder, for reading. Nothing is written.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let metadata = fs::metadata(path).map_err(|error| StoreError::io(path, &error))?;
        if !metadata.is_dir() {
            return Err(StoreError::NotAFolder { path: path.to_owned() });
        }
        Ok(Self { path: path.to_owned() })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the database of this leg and epoch is or will be.
    pub fn database_path(&self, leg: &LegId, epoch: &Epoch) -> PathBuf {
        self.path.join(database_name(leg, epoch))
    }

    /// Every database of the folder, oldest epoch first; those that cannot be read stand last, by name. A database whose writer has not
    /// come to its first record yet is left out.
    pub fn databases(&self) -> Result<Vec<LegDatabase>, StoreError> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(|error| StoreError::io(&self.path, &error))? {
            let path = entry.map_err(|error| StoreError::io(&self.path, &error))?.path();
            if path.extension().is_none_or(|extension| extension != EXTENSION) {
                continue;
            }
            let identity = open_if_regular(&path).map(|reader| reader.identity().clone());
            if matches!(identity, Err(StoreError::Stillborn { .. })) && super::head::is_writer_alive(&path) {
                continue;
            }
            found.push(LegDatabase { path, identity });
        }
        found.sort_by(|a, b| match (&a.identity, &b.identity) {
            (Ok(a), Ok(b)) => (&a.epoch, &a.leg).cmp(&(&b.epoch, &b.leg)),
            (Ok(_), Err(_)) => cmp::Ordering::Less,
            (Err(_), Ok(_)) => cmp::Ordering::Greater,
            (Err(_), Err(_)) => a.path.cmp(&b.path),
        });
        Ok(found)
    }

    /// A first write, so that a folder that only looks writable is found out before anything runs.
    fn probe(&self) -> io::Result<()> {
        static PROBES: AtomicU32 = AtomicU32::new(0);
        let number = PROBES.fetch_add(1, Ordering::Relaxed);
        let path = self.path.join(format!(".probe-{}-{number}", std::process::id()));
        // One that is there was left by a process of the same number that was killed at this very place.
        let _ = fs::remove_file(&path);
        let written = create_file(&path).and_then(|mut file| {
            file.write_all(b"probe\n")?;
            file.sync_data()
        });
        let removed = fs::remove_file(&path);
        written.and(removed)
    }

    fn ignore_from_version_control(&self) -> io::Result<()> {
        match create_file(&self.path.join(".gitignore")) {
            Ok(mut file) => file.write_all(b"*\n"),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// A pipe or a device of that name would hold whoever opens it.
fn open_if_regular(path: &Path) -> Result<Reader, StoreError> {
    let metadata = fs::metadata(path).map_err(|error| StoreError::io(path, &error))?;
    if !metadata.is_file() {
        return Err(StoreError::Io { path: path.to_owned(), detail: "is no regular file".to_owned() });
    }
    Reader::open(path)
}

/// The ids in the name of a leg's database: run, attempt, platform, target, each in the form that `in_a_name` gives it. `None` for a name
/// of another make.
pub fn ids_of_name(database: &Path) -> Option<[String; 4]> {
    let stem = database.file_stem()?.to_str()?.strip_prefix(PREFIX)?;
    let (ids, digest) = stem.rsplit_once('-')?;
    let is_digest = digest.len() == DIGEST_DIGITS && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    let ids: Vec<String> = ids.split('-').map(str::to_owned).collect();
    if is_digest { ids.try_into().ok() } else { None }
}

/// An id as it stands in the name of a database.
pub fn in_a_name(id: &str) -> String {
    tame(id)
}

/// The name of a leg's database. Readable where the ids are, and told apart by a digest where they are not.
pub(super) fn database_name(leg: &LegId, epoch: &Epoch) -> String {
    let shard = leg.shard.map(|shard| shard.to_string()).unwrap_or_default();
    // Lengths in front of each part: no choice of ids can shift text from one field into the next.
    let mut exact = String::new();
    for part in [leg.run_id.as_str(), leg.attempt.as_str(), leg.platform.as_str(), leg.target.as_str(), &shard, epoch.as_str()] {
        exact.push_str(&format!("{}:{part};", part.len()));
    }
    let digest = Digest::of(exact.as_bytes()).0;
    let parts = [leg.run_id.as_str(), leg.attempt.as_str(), leg.platform.as_str(), leg.target.as_str()].map(tame);
    format!("{PREFIX}{}-{}.{EXTENSION}", parts.join("-"), &digest[..DIGEST_DIGITS])
}

/// Text as part of a file name: letters, digits, dots and underscores of ASCII, bounded.
fn tame(text: &str) -> String {
    let tamed: String =
        text.chars().take(PART_BYTES).map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '_' }).collect();
    if tamed.is_empty() { "_".to_owned() } else { tamed }
}

/// The empty file that becomes a database.
pub(super) fn create_database_file(path: &Path) -> Result<(), StoreError> {
    create_file(path).map(|_| ()).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => StoreError::Exists { path: path.to_owned() },
        _ => StoreError::io(path, &error),
    })
}

/// The database and what stands beside it; the head with its lock goes last.
fn files_of(database: &Path) -> impl Iterator<Item = PathBuf> {
    ["ballast", "db-journal", "db-shm", "db-wal", "db", super::pulled::EXTENSION, "head"]
        .into_iter()
        .map(|extension| database.with_extension(extension))
}

/// Removes whatever there is of a database.
pub(super) fn remove_files(database: &Path) {
    for path in files_of(database) {
        let _ = fs::remove_file(path);
    }
}

/// What a database takes on the disk, with all that stands beside it.
pub fn database_bytes(database: &Path) -> u64 {
    files_of(database).filter_map(|path| fs::metadata(path).ok()).map(|metadata| metadata.len()).sum()
}

/// Removes a leg's database and all that stands beside it. One that is being written is refused.
pub fn remove_database(database: &Path) -> Result<(), StoreError> {
    fs::metadata(database).map_err(|error| StoreError::io(database, &error))?;
    let owned = super::head::HeadFile::reopen(database)?;
    for path in files_of(database).filter(|path| path.exists()) {
        fs::remove_file(&path).map_err(|error| StoreError::io(&path, &error))?;
    }
    drop(owned);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::ids::{Attempt, Platform, RunId, Target};

    fn leg(run: &str, attempt: &str, platform: &str, target: &str) -> LegId {
        LegId {
            run_id: RunId::from(run),
            attempt: Attempt::from(attempt),
            platform: Platform::from(platform),
            target: Target::from(target),
            shard: None,
        }
    }

    #[test]
    fn a_name_is_readable() {
        let name = database_name(&leg("17384", "2", "macos-x86", "7.20.8"), &Epoch::parse("e").expect("it is well formed"));
        assert!(name.starts_with("leg-17384-2-macos_x86-7.20.8-"), "{name}");
        assert!(name.ends_with(".db"), "{name}");
        let ids = ["17384", "2", "macos-x86", "7.20.8"].map(in_a_name);
        assert_eq!(ids_of_name(&Path::new("/x").join(name)), Some(ids));
        for other in ["night.db", "leg-1-2-3-4.db", "leg-1-2-3-4-5-0123456789abcdef.db", "leg-1-2-3-0123456789abcdef.db"] {
            assert_eq!(ids_of_name(Path::new(other)), None, "{other}");
        }
    }

    #[test]
    fn hostile_ids_stay_in_the_folder_bounded_and_apart() {
        let long = "x".repeat(5000);
        let hostile = [
            "",
            ".",
            "..",
            "../../etc/passwd",
            "/",
            "a/b",
            "a\\b",
            "a\0b",
            "a\nb",
            "-rf",
            "con",
            "a-b",
            "é",
            "e\u{301}",
            "A",
            "a",
            "💥",
            long.as_str(),
        ];
        let mut names = std::collections::BTreeSet::new();
        for run in hostile {
            for target in hostile {
                let name = database_name(&leg(run, "1", "p", target), &Epoch::parse("e").expect("it is well formed"));
                assert!(name.len() <= 143 - ".ballast".len(), "{name}");
                assert!(!name.contains(['/', '\\', '\0']), "{name}");
                // Two legs whose names differ in case only share one file on a Mac.
                assert!(names.insert(name.to_lowercase()), "two legs share {name}");
            }
        }
    }

    #[test]
    fn text_does_not_move_between_fields() {
        let epoch = Epoch::parse("e").expect("it is well formed");
        assert_ne!(database_name(&leg("1", "23", "p", "t"), &epoch), database_name(&leg("12", "3", "p", "t"), &epoch));
    }

    #[test]
    fn a_folder_is_private_and_ignored() {
        let dir = tempfile::tempdir().expect("a temp folder");
        let path = dir.path().join("deep/.ledger");
        let folder = LedgerFolder::create(&path).expect("it can be made");
        assert_eq!(fs::read_to_string(path.join(".gitignore")).expect("it can be read"), "*\n");
        assert!(folder.databases().expect("it can be read").is_empty());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(fs::metadata(&path).expect("it can be read").permissions().mode() & 0o777, 0o700);
            assert_eq!(fs::metadata(path.join(".gitignore")).expect("it can be read").permissions().mode() & 0o777, 0o600);
        }
        LedgerFolder::create(&path).expect("it can be made");
    }

    #[test]
    fn a_file_in_the_place_of_the_folder_is_refused_and_kept() {
        let dir = tempfile::tempdir().expect("a temp folder");
        let path = dir.path().join("ledger");
        fs::write(&path, "mine").expect("written");
        let error = LedgerFolder::create(&path).expect_err("it is refused");
        assert_eq!(error, StoreError::NotAFolder { path: path.clone() });
        assert_eq!(fs::read_to_string(&path).expect("it can be read"), "mine");
        assert!(matches!(LedgerFolder::open(&path), Err(StoreError::NotAFolder { .. })));
        assert!(matches!(LedgerFolder::open(&dir.path().join("none")), Err(StoreError::Missing { .. })));
    }
}
