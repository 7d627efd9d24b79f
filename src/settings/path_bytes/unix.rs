//! Unix: a path is bytes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::core::ids::FilePath;

pub fn bytes_of(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

pub fn path_of(path: &FilePath) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(path.bytes()))
}
