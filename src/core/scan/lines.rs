//! Lines that speak to ledger: `ledger: component NAME SECONDS` and `::add-mask::VALUE`.

use crate::core::event::Component;
use crate::core::redact;

const COMPONENT: &[u8] = b"ledger: component ";
const ADD_MASK: &[u8] = b"::add-mask::";
/// A name is a word or two; a whole line of text is no component.
const NAME_CHARS: usize = 64;
/// More named parts than this say nothing about one file.
const MOST_COMPONENTS: usize = 200;

#[derive(Debug, Clone, PartialEq)]
pub enum Found {
    Component(Component),
    /// A value that must not be shown from here on, nor in what was printed before.
    Mask(Vec<u8>),
}

/// Finds the lines, whatever the reads were cut into. One scanner per stream: stdout and stderr are two.
#[derive(Debug, Clone, Default)]
pub struct LineScanner {
    line: Vec<u8>,
    /// The rest of this line is of no interest.
    skipping: bool,
    components: usize,
}

impl LineScanner {
    pub fn push(&mut self, mut bytes: &[u8]) -> Vec<Found> {
        let mut found = Vec::new();
        while !bytes.is_empty() {
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let (part, rest) = match end {
                Some(end) => (&bytes[..end], &bytes[end + 1..]),
                None => (bytes, &[][..]),
            };
            if !self.skipping {
                self.take(part);
            }
            if end.is_some() {
                found.extend(self.end_line());
            }
            bytes = rest;
        }
        found
    }

    /// A last line without an end counts too.
    pub fn finish(&mut self) -> Option<Found> {
        self.end_line()
    }

    fn take(&mut self, part: &[u8]) {
        let room = ADD_MASK.len() + redact::LONGEST - self.line.len().min(ADD_MASK.len() + redact::LONGEST);
        // Enough to tell whether the line is of interest first; a line of 100 MB must not be copied.
        let head = part.len().min(COMPONENT.len() + 32);
        self.line.extend_from_slice(&part[..head]);
        if !may_speak(self.line.trim_ascii_start()) || part.len() > room {
            self.line.clear();
            self.skipping = true;
            return;
        }
        self.line.extend_from_slice(&part[head..]);
    }

    fn end_line(&mut self) -> Option<Found> {
        self.skipping = false;
        let found = self.look_at_line();
        // Its room is kept for the next line, unless it was an uncommon one.
        self.line.clear();
        self.line.shrink_to(COMPONENT.len() + NAME_CHARS);
        found
    }

    fn look_at_line(&mut self) -> Option<Found> {
        let line = self.line.trim_ascii();
        if let Some(value) = line.strip_prefix(ADD_MASK) {
            let value = unescaped(value);
            return (!value.is_empty()).then_some(Found::Mask(value));
        }
        let component = component(line)?;
        self.components += 1;
        (self.components <= MOST_COMPONENTS).then_some(Found::Component(component))
    }
}

fn may_speak(line: &[u8]) -> bool {
    let begins = |prefix: &[u8]| line.starts_with(&prefix[..prefix.len().min(line.len())]);
    begins(COMPONENT) || begins(ADD_MASK)
}

fn component(line: &[u8]) -> Option<Component> {
    let rest = std::str::from_utf8(line.strip_prefix(COMPONENT)?).ok()?;
    let (name, seconds) = rest.trim().rsplit_once(char::is_whitespace)?;
    let seconds: f64 = seconds.strip_suffix('s').unwrap_or(seconds).parse().ok()?;
    let name = name.trim();
    let fits = !name.is_empty() && name.chars().count() <= NAME_CHARS && seconds.is_finite() && (0.0..=3.2e9).contains(&seconds);
    fits.then(|| Component { name: name.to_owned(), seconds })
}

/// The service writes a value of several lines with these three escapes.
fn unescaped(value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some((first, tail)) = rest.split_first() {
        let decoded = match rest.get(..3).map(<[u8]>::to_ascii_uppercase).as_deref() {
            Some(b"%0D") => Some(b'\r'),
            Some(b"%0A") => Some(b'\n'),
            Some(b"%25") => Some(b'%'),
            _ => None,
        };
        out.push(decoded.unwrap_or(*first));
        rest = if decoded.is_some() { &rest[3..] } else { tail };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(input: &[u8], size: usize) -> Vec<Found> {
        let mut scanner = LineScanner::default();
        let mut found: Vec<Found> = input.chunks(size.max(1)).flat_map(|chunk| scanner.push(chunk)).collect();
        found.extend(scanner.finish());
        found
    }

    fn part(name: &str, seconds: f64) -> Found {
        Found::Component(Component { name: name.to_owned(), seconds })
    }

    #[test]
    fn lines_are_found_however_they_are_cut() {
        let input = b"hello\nledger: component cold download 619.5\r\n \t::add-mask::p%25q%0Ar\nledger: componentX y 1\n\xff\0ledger: component a 1\n\
            ledger: component boot NaN\nledger: component boot -1\nledger: component boot 2s\nledger: component last 3";
        let expect = [part("cold download", 619.5), Found::Mask(b"p%q\nr".to_vec()), part("boot", 2.0), part("last", 3.0)];
        for size in 1..80 {
            assert_eq!(all(input, size), expect, "chunks of {size}");
        }
    }

    #[test]
    fn long_lines_cost_nothing() {
        let mut scanner = LineScanner::default();
        for _ in 0..200 {
            assert!(scanner.push(&vec![b'x'; 512 * 1024]).is_empty());
            assert!(scanner.line.capacity() < 1024);
        }
        assert!(scanner.push(b"\nledger: component a 1\n").contains(&part("a", 1.0)));
        scanner.push(b"::add-mask::");
        for _ in 0..64 {
            scanner.push(&vec![b'x'; 16 * 1024]);
            assert!(scanner.line.capacity() <= 4 * redact::LONGEST);
        }
        assert!(scanner.push(b"\n").is_empty());
    }

    #[test]
    fn components_without_end_are_bounded() {
        let many = "ledger: component a 1\n".repeat(1000);
        assert_eq!(all(many.as_bytes(), 4096).len(), MOST_COMPONENTS);
    }
}
