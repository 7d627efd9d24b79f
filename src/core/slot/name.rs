//! The name of a pool, and the folder name made of it.

use std::fmt;
use std::str::FromStr;

use crate::core::ids::Digest;

/// Longer than any name a person gives.
const MOST_BYTES: usize = 200;
/// As much of the name as its folder shows.
const SHOWN_CHARS: usize = 40;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PoolName(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{shown}' is no name of a pool: it must have 1 to 200 bytes and no control characters")]
pub struct PoolNameError {
    shown: String,
}

impl PoolName {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// One path component that is this pool's alone, whatever the name is made of: slashes, dots, a device name of Windows, or another
    /// case of a name on a file system that does not tell them apart.
    pub fn folder(&self) -> String {
        let harmless = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') { c.to_ascii_lowercase() } else { '_' };
        let shown: String = self.0.chars().take(SHOWN_CHARS).map(harmless).collect();
        let digest = Digest::of(self.0.as_bytes());
        format!("{shown}-{}", digest.0.get(..12).unwrap_or_default())
    }

    /// The name that a folder was made of, where the folder still shows it whole; else the folder's own name, which at least points there.
    pub fn of_folder(folder: &str) -> String {
        let shown = folder.rsplit_once('-').and_then(|(shown, _)| shown.parse::<Self>().ok());
        shown.filter(|name| name.folder() == folder).map_or_else(|| folder.to_owned(), |name| name.0)
    }
}

impl FromStr for PoolName {
    type Err = PoolNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() || text.len() > MOST_BYTES || text.chars().any(char::is_control) {
            let shown = text.chars().take(40).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
            return Err(PoolNameError { shown });
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for PoolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_gives_its_name_back_where_it_shows_it_whole() {
        for name in ["g", "mac-mini_2", "a-b-c"] {
            let pool: PoolName = name.parse().expect("a name");
            assert_eq!(PoolName::of_folder(&pool.folder()), name);
        }
        for name in ["a b", "MAC", "a/b"] {
            let folder = name.parse::<PoolName>().expect("a name").folder();
            assert_eq!(PoolName::of_folder(&folder), folder);
        }
        assert_eq!(PoolName::of_folder("nonsense"), "nonsense");
    }
}
