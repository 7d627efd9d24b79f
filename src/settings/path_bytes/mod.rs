//! Paths of the plan as bytes that every system reads alike, and back.

#[cfg(unix)]
mod unix;
#[cfg(unix)]
pub use unix::{bytes_of, path_of};
#[cfg(windows)]
mod windows;
#[cfg(windows)]
pub use windows::{bytes_of, path_of};

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::core::ids::FilePath;

    #[test]
    fn a_path_comes_back() {
        for text in ["a.sh", "t/a b.ts", "t/ä/日本/🦀.ts", "../x", "-a"] {
            let bytes = bytes_of(Path::new(text));
            assert_eq!(bytes, text.as_bytes());
            assert_eq!(path_of(&FilePath::from_bytes(&bytes)), Path::new(text));
        }
    }
}
