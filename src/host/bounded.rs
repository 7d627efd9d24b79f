//! Reading what somebody else made: never more than a bound, whatever its size is said to be. A device says 0 and has no end.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// The whole of a file of at most `most` bytes. One that has more is an error, and no more than that is read of it.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if File::open(path)?.take(most.saturating_add(1)).read_to_end(&mut bytes)? as u64 > most {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("it has more than {most} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn no_more_than_the_bound_is_read() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let path = folder.path().join("a");
        std::fs::write(&path, "four").expect("written");
        assert_eq!(read(&path, 4).expect("it fits"), b"four");
        assert!(read(&path, 3).is_err() && read(&folder.path().join("b"), 3).is_err());
        #[cfg(unix)]
        assert!(read(std::path::Path::new("/dev/zero"), 1 << 20).is_err());
    }
}
