//! Which version a leg marks: a target that is a version, or what its machines booted most.

/// Whether a target names a version (`7.20.8`, `7.24rc1`, `v2.0`, `22`) and no channel (`stable`, `long-term`, `24h`).
pub fn is_version(target: &str) -> bool {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let text = target.strip_prefix('v').unwrap_or(target);
    let major = digits(text);
    if major == 0 || text.len() > 64 {
        return false;
    }
    match text[major..].strip_prefix('.') {
        None => text.len() == major,
        Some(rest) => digits(rest) > 0 && rest.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'+' | b'_')),
    }
}

/// Counts versions in the order in which they were first seen.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Booted {
    seen: Vec<(String, u32)>,
}

/// A leg boots a handful of versions; a hostile one must not make the counting slow.
const VERSIONS_KEPT: usize = 64;

impl Booted {
    pub fn count(&mut self, version: &str) {
        match self.seen.iter().position(|(known, _)| known == version) {
            Some(at) => self.seen[at].1 += 1,
            None if self.seen.len() < VERSIONS_KEPT => self.seen.push((version.to_owned(), 1)),
            None => {}
        }
    }

    /// Adds what was counted later.
    pub fn absorb(&mut self, later: Booted) {
        for (version, times) in later.seen {
            self.count(&version);
            if let Some((_, counted)) = self.seen.iter_mut().find(|(known, _)| *known == version) {
                *counted += times - 1;
            }
        }
    }

    /// The version seen most; the first seen wins a tie.
    pub fn most(&self) -> Option<&str> {
        let most = self.seen.iter().map(|(_, times)| times).max()?;
        self.seen.iter().find(|(_, times)| times == most).map(|(version, _)| version.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_channels() {
        for target in ["7.20.8", "7.24rc1", "7.24beta3", "v2.0", "22", "1.0.0-rc.1+x", "0.1"] {
            assert!(is_version(target), "{target}");
        }
        for target in ["stable", "long-term", "testing", "", "v", "24h", "7.", "7.x", "7zip", "1.2/../3", "nightly-2026"] {
            assert!(!is_version(target), "{target}");
        }
    }

    #[test]
    fn the_first_seen_wins_a_tie() {
        let mut booted = Booted::default();
        assert_eq!(booted.most(), None);
        for version in ["2", "1", "1", "2", "3"] {
            booted.count(version);
        }
        assert_eq!(booted.most(), Some("2"));
        booted.count("1");
        assert_eq!(booted.most(), Some("1"));
    }
}
