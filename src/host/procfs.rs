//! Linux: the /proc that was there when this process first looked. A file may mount another one over it, in whose pid namespace the same
//! numbers mean other processes, and a signal by number would go to a stranger.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::LazyLock;

use rustix::fs::{Dir, Mode, OFlags};

static FOLDER: LazyLock<Result<OwnedFd, rustix::io::Errno>> = LazyLock::new(|| {
    let flags = OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC;
    let folder = rustix::fs::open(c"/proc", flags, Mode::empty())?;
    let own = rustix::fs::readlinkat(&folder, c"self", Vec::new())?;
    // Of another pid namespace it has another number for us, or none.
    let is_ours = own.to_str().ok().and_then(|own| own.parse::<u32>().ok()) == Some(std::process::id());
    if is_ours { Ok(folder) } else { Err(rustix::io::Errno::OPNOTSUPP) }
});

fn folder() -> io::Result<BorrowedFd<'static>> {
    match &*FOLDER {
        Ok(folder) => Ok(folder.as_fd()),
        Err(error) => Err((*error).into()),
    }
}

/// Opens it now, and says whether its numbers are this process's own.
pub fn is_ours() -> bool {
    folder().is_ok()
}

pub fn open(path: &str) -> io::Result<OwnedFd> {
    Ok(rustix::fs::openat(folder()?, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
}

/// One read into `buffer`: a sweep of a thousand processes does this some thousand times, and `std::fs::read` asks for the size and for
/// the end of the file as well.
pub fn read_short<'a>(path: &str, buffer: &'a mut [u8]) -> io::Result<&'a [u8]> {
    let file = open(path)?;
    let count = rustix::io::read(&file, &mut *buffer)?;
    Ok(&buffer[..count])
}

/// A file, or the first `limit` bytes of it.
pub fn read(path: &str, limit: u64) -> io::Result<Vec<u8>> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    std::fs::File::from(open(path)?).take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

pub fn text(path: &str) -> io::Result<String> {
    // The name of a process may be any bytes.
    Ok(String::from_utf8_lossy(&read(path, u64::MAX)?).into_owned())
}

pub fn link(path: &str) -> io::Result<String> {
    let target = rustix::fs::readlinkat(folder()?, path, Vec::new())?;
    Ok(String::from_utf8_lossy(target.as_bytes()).into_owned())
}

pub fn exists(path: &str) -> bool {
    folder().is_ok_and(|folder| rustix::fs::statat(folder, path, rustix::fs::AtFlags::empty()).is_ok())
}

/// The entries of a folder (`.` for the first one) that are numbers, each with its inode.
pub fn numbered(path: &str) -> io::Result<Vec<(i32, u64)>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let listed = Dir::new(rustix::fs::openat(folder()?, path, flags, Mode::empty())?)?;
    let mut found = Vec::new();
    for entry in listed {
        let entry = entry?;
        if let Some(number) = entry.file_name().to_str().ok().and_then(|name| name.parse().ok()) {
            found.push((number, entry.ino()));
        }
    }
    Ok(found)
}
