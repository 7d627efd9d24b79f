//! Windows: a path is UTF-16, also where that makes no characters. Separators are written `/`, which Windows reads too, so that a file has
//! one name in the history of all systems.

use std::ffi::OsString;
use std::os::windows::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use crate::core::ids::FilePath;

/// UTF-8, in which half a pair of surrogates is encoded as if it were a character (WTF-8).
pub fn bytes_of(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    for unit in char::decode_utf16(path.as_os_str().encode_wide()) {
        match unit {
            Ok('\\') => bytes.push(b'/'),
            Ok(character) => bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
            Err(half) => {
                let unit = half.unpaired_surrogate();
                bytes.extend([0xed, 0x80 | (unit >> 6 & 0x3f) as u8, 0x80 | (unit & 0x3f) as u8]);
            }
        }
    }
    bytes
}

pub fn path_of(path: &FilePath) -> PathBuf {
    let mut units = Vec::new();
    let mut rest = path.bytes();
    while !rest.is_empty() {
        let valid = match std::str::from_utf8(rest) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&rest[..error.valid_up_to()]).unwrap_or_default(),
        };
        units.extend(valid.encode_utf16());
        rest = &rest[valid.len()..];
        match rest {
            [0xed, high @ 0xa0..=0xbf, low @ 0x80..=0xbf, after @ ..] => {
                units.push(0xd000 | u16::from(high & 0x3f) << 6 | u16::from(low & 0x3f));
                rest = after;
            }
            // A record of another system: what has no name here is no file here.
            [_, after @ ..] => {
                units.push(0xfffd);
                rest = after;
            }
            [] => {}
        }
    }
    PathBuf::from(OsString::from_wide(&units))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_pair_of_surrogates_comes_back() {
        let odd: PathBuf = OsString::from_wide(&[0x61, 0xd83d, 0x62, 0xdc00, 0xd83e, 0xdd80]).into();
        let bytes = bytes_of(&odd);
        assert_eq!(bytes, b"a\xed\xa0\xbdb\xed\xb0\x80\xf0\x9f\xa6\x80");
        assert_eq!(path_of(&FilePath::from_bytes(&bytes)), odd);
    }

    #[test]
    fn separators_are_written_one_way() {
        assert_eq!(bytes_of(Path::new(r"t\sub\a.ts")), b"t/sub/a.ts");
        assert_eq!(bytes_of(Path::new(r"C:\t\a.ts")), b"C:/t/a.ts");
    }
}
