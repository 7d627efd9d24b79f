//! Lines out of a stream, bounded: the memory it takes does not depend on what is in the stream.

use std::io::{self, BufRead};

/// What some editors and tools of Windows put before UTF-8 text.
pub const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// One line of a stream.
#[derive(Debug, PartialEq, Eq)]
pub enum Read<'a> {
    Line(&'a [u8]),
    /// A line of more than the allowed bytes was skipped.
    TooLong,
}

/// Calls `each` with every line, without its line feed. The last line needs none.
/// A byte order mark before the first of them is no part of it.
pub fn for_each_line<R: BufRead>(mut reader: R, longest: usize, mut take: impl FnMut(Read<'_>)) -> io::Result<()> {
    let mut is_first = true;
    let mut each = |read: Read<'_>| match read {
        Read::Line(line) if std::mem::take(&mut is_first) => take(Read::Line(line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line))),
        read => {
            is_first = false;
            take(read);
        }
    };
    let mut carried: Vec<u8> = Vec::new();
    let mut skipping = false;
    loop {
        let chunk = match reader.fill_buf() {
            Ok(chunk) => chunk,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if chunk.is_empty() {
            break;
        }
        let end = memchr::memchr(b'\n', chunk);
        let part = &chunk[..end.unwrap_or(chunk.len())];
        let fits = !skipping && carried.len() + part.len() <= longest;
        match (end, fits) {
            (Some(_), true) if carried.is_empty() => each(Read::Line(part)),
            (Some(_), true) => {
                carried.extend_from_slice(part);
                each(Read::Line(&carried));
            }
            (Some(_), false) => each(Read::TooLong),
            (None, true) => carried.extend_from_slice(part),
            (None, false) => skipping = true,
        }
        if end.is_some() || skipping {
            carried.clear();
        }
        skipping &= end.is_none();
        let used = part.len() + usize::from(end.is_some());
        reader.consume(used);
    }
    if skipping {
        each(Read::TooLong);
    } else if !carried.is_empty() {
        each(Read::Line(&carried));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines(bytes: &[u8], chunk: usize, longest: usize) -> Vec<Option<Vec<u8>>> {
        let mut found = Vec::new();
        let reader = io::BufReader::with_capacity(chunk.max(1), bytes);
        for_each_line(reader, longest, |read| {
            found.push(match read {
                Read::Line(line) => Some(line.to_vec()),
                Read::TooLong => None,
            });
        })
        .expect("memory can be read");
        found
    }

    #[test]
    fn a_long_line_is_skipped_and_the_next_one_is_read() {
        assert_eq!(lines(b"ab\n123456\ncd", 2, 4), [Some(b"ab".to_vec()), None, Some(b"cd".to_vec())]);
        assert_eq!(lines(b"\n\n", 2, 4), [Some(vec![]), Some(vec![])]);
        assert_eq!(lines(b"123456", 2, 4), [None]);
        assert!(lines(b"", 2, 4).is_empty());
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_first_line() {
        for chunk in [1, 2, 3, 64] {
            assert_eq!(lines(b"\xef\xbb\xbfab\n\xef\xbb\xbfc", chunk, 9), [Some(b"ab".to_vec()), Some(b"\xef\xbb\xbfc".to_vec())]);
            assert_eq!(lines(b"\xef\xbb\xbf", chunk, 9), [Some(vec![])]);
        }
    }

    proptest! {
        #[test]
        fn lines_do_not_depend_on_the_buffer(bytes in "[a\n]{0,60}", chunk in 1usize..20, longest in 0usize..10) {
            let expect: Vec<Option<Vec<u8>>> = bytes
                .split_terminator('\n')
                .map(|line| (line.len() <= longest).then(|| line.as_bytes().to_vec()))
                .collect();
            prop_assert_eq!(lines(bytes.as_bytes(), chunk, longest), expect);
        }
    }
}
