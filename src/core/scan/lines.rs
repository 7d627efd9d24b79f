//! Lines that speak to ledger: `ledger: component NAME SECONDS` and `::add-mask::VALUE`, which the CI service also takes in its older
//! form, `##[add-mask]VALUE`, wherever that stands in a line.

use crate::core::event::Component;
use crate::core::redact;

const COMPONENT: &[u8] = b"ledger: component ";
const ADD_MASK: &[u8] = b"::add-mask::";
const OLD_ADD_MASK: &[u8] = b"##[add-mask]";
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
    /// This line is of no interest, unless a mask stands further on.
    skipping: bool,
    /// The last bytes of a line that is skipped: a word may lie across two reads.
    edge: Vec<u8>,
    /// The bytes at hand may hold such a word. A look at all of them costs less than one at each of their lines.
    hunting: bool,
    components: usize,
}

impl LineScanner {
    pub fn push(&mut self, mut bytes: &[u8]) -> Vec<Found> {
        let mut found = Vec::new();
        let begun = !self.edge.is_empty() || self.line.contains(&b'#');
        self.hunting = begun || bytes.ends_with(b"#") || memchr::memmem::find(bytes, &OLD_ADD_MASK[..3]).is_some();
        while !bytes.is_empty() {
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let (part, rest) = match end {
                Some(end) => (&bytes[..end], &bytes[end + 1..]),
                None => (bytes, &[][..]),
            };
            match self.skipping {
                true if self.hunting => self.look_on(part),
                true => {}
                false => self.take(part),
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
        let speaks = may_speak(self.line.trim_ascii_start());
        if !speaks && self.hunting {
            let mut begun = std::mem::take(&mut self.line);
            self.skipping = true;
            self.look_on(&begun[..begun.len() - head]);
            // A mask that was found takes the rest as its value.
            if self.skipping {
                self.look_on(part);
            } else {
                self.take(part);
            }
            if self.skipping {
                begun.clear();
                self.line = begun;
            }
        } else if !speaks || part.len() > room {
            self.line.clear();
            self.skipping = true;
        } else {
            self.line.extend_from_slice(&part[head..]);
        }
    }

    /// Looks for a mask in the rest of a line that is skipped.
    fn look_on(&mut self, part: &[u8]) {
        let before = self.edge.len();
        let seam = part.len().min(OLD_ADD_MASK.len() - 1);
        self.edge.extend_from_slice(&part[..seam]);
        let across = old_mask(&self.edge).map(|at| at + OLD_ADD_MASK.len() - before);
        if let Some(value) = across.or_else(|| old_mask(part).map(|at| at + OLD_ADD_MASK.len())) {
            self.edge.clear();
            self.skipping = false;
            self.line.clear();
            self.line.extend_from_slice(OLD_ADD_MASK);
            self.take(&part[value..]);
            return;
        }
        if part.len() > seam {
            self.edge.clear();
            self.edge.extend_from_slice(&part[part.len() - seam..]);
        } else {
            let old = self.edge.len().saturating_sub(OLD_ADD_MASK.len() - 1);
            self.edge.drain(..old);
        }
        if !self.edge.ends_with(b"#") && memchr::memmem::find(&self.edge, &OLD_ADD_MASK[..3]).is_none() {
            self.edge.clear();
        }
    }

    fn end_line(&mut self) -> Option<Found> {
        self.skipping = false;
        self.edge.clear();
        let found = self.look_at_line();
        // Its room is kept for the next line, unless it was an uncommon one.
        self.line.clear();
        self.line.shrink_to(COMPONENT.len() + NAME_CHARS);
        found
    }

    fn look_at_line(&mut self) -> Option<Found> {
        let line = self.line.trim_ascii();
        let mask = |value: Vec<u8>| (!value.is_empty()).then_some(Found::Mask(value));
        if let Some(value) = line.strip_prefix(ADD_MASK) {
            return mask(unescaped(value, ESCAPES));
        }
        if let Some(at) = old_mask(line) {
            return mask(unescaped(&line[at + OLD_ADD_MASK.len()..], OLD_ESCAPES));
        }
        let component = component(line)?;
        self.components += 1;
        (self.components <= MOST_COMPONENTS).then_some(Found::Component(component))
    }
}

fn may_speak(line: &[u8]) -> bool {
    let begins = |prefix: &[u8]| line.starts_with(&prefix[..prefix.len().min(line.len())]);
    begins(COMPONENT) || begins(ADD_MASK) || begins(OLD_ADD_MASK)
}

/// Where the older form stands. The service does not look at its case.
fn old_mask(text: &[u8]) -> Option<usize> {
    let is_mask = |at: &usize| text.get(*at..at + OLD_ADD_MASK.len()).is_some_and(|word| word.eq_ignore_ascii_case(OLD_ADD_MASK));
    memchr::memmem::find_iter(text, &OLD_ADD_MASK[..3]).find(is_mask)
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
const ESCAPES: &[(&[u8; 3], u8)] = &[(b"%0D", b'\r'), (b"%0A", b'\n'), (b"%25", b'%')];
/// In the older form also what ends a property and a command.
const OLD_ESCAPES: &[(&[u8; 3], u8)] = &[(b"%0D", b'\r'), (b"%0A", b'\n'), (b"%25", b'%'), (b"%3B", b';'), (b"%5D", b']')];

fn unescaped(value: &[u8], escapes: &[(&[u8; 3], u8)]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some((first, tail)) = rest.split_first() {
        let known = |written: &&(&[u8; 3], u8)| rest.get(..3).is_some_and(|next| next.eq_ignore_ascii_case(written.0));
        let decoded = escapes.iter().find(known).map(|(_, byte)| *byte);
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
    fn the_older_form_of_a_mask_is_found_anywhere_in_a_line() {
        let input = b"##[add-mask]first\n  ##[add-mask]sec%5Dond%3B\r\n2026-01-01 12:00 ##[ADD-Mask]third one\n##[error]no\n\
            #####[add-mask]fourth\nledger: component ##[add-mask]fifth\n##[add-mask]\n##[add-maskx]no\n::x##[add-mask]last";
        let mask = |text: &str| Found::Mask(text.as_bytes().to_vec());
        let expect = ["first", "sec]ond;", "third one", "fourth", "fifth", "last"].map(mask);
        for size in 1..100 {
            assert_eq!(all(input, size), expect, "chunks of {size}");
        }
        let long = [vec![b'x'; 300_000], b" ##[add-mask]far on\n".to_vec()].concat();
        for size in [7, 4096, 299_999, 300_005, 400_000] {
            assert_eq!(all(&long, size), [mask("far on")], "chunks of {size}");
        }
        let too_long = [b"##[add-mask]".to_vec(), vec![b'x'; 2 * redact::LONGEST], b"\n##[add-mask]next\n".to_vec()].concat();
        assert_eq!(all(&too_long, 64 * 1024), [mask("next")]);
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
