//! Unix: files of one user are closed to others; in a folder that several users may write, its own mode says who may.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

/// Makes the folder of pools (0700) and in it the pool's own.
pub fn make_folder(root: &Path, pool: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(root)?;
    match DirBuilder::new().mode(0o700).create(pool) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        Err(error) => return Err(error),
    }
    let shared = mode_of(root)? & 0o077;
    if shared != 0 { std::fs::set_permissions(pool, Permissions::from_mode(0o700 | shared)) } else { Ok(()) }
}

/// Opens a file that is there to be locked, making it where it is missing. Like every file of Rust's, it is closed on exec: no owner and
/// no child inherits a lock.
pub fn open_to_lock(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_NOFOLLOW);
    for _ in 0..3 {
        match options.open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => return other,
        }
        match create(path) {
            // Somebody else was quicker.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => return other,
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

/// A new file, with the mode that its folder grants.
pub fn create(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
    let shared = path.parent().map_or(Ok(0), mode_of)? & 0o066;
    if shared != 0 {
        file.set_permissions(Permissions::from_mode(0o600 | shared))?;
    }
    Ok(file)
}

pub fn open_to_read(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)
}

fn mode_of(path: &Path) -> io::Result<u32> {
    Ok(std::fs::metadata(path)?.permissions().mode())
}
