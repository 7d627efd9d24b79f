//! A document in another encoding than UTF-8, read as UTF-8. What cannot be decoded is refused by its name, never guessed.

use std::io::{self, BufRead, Cursor, Read};

/// The declaration stands in the first line; honest ones end within 60 bytes.
const LOOKED_AT: u64 = 256;
/// Bytes that are decoded at a time.
const STEP: usize = 8 << 10;

/// The stream as UTF-8, or the name of an encoding that is not read here.
pub(super) fn as_utf8<'s>(mut stream: impl BufRead + 's) -> io::Result<Result<Box<dyn BufRead + 's>, String>> {
    let mut head = Vec::new();
    stream.by_ref().take(LOOKED_AT).read_to_end(&mut head)?;
    let decoder = match Decoder::of(&head) {
        Ok(decoder) => decoder,
        Err(name) => return Ok(Err(name)),
    };
    let whole = Cursor::new(head).chain(stream);
    Ok(Ok(match decoder {
        None => Box::new(whole),
        Some(decoder) => Box::new(Decoded { inner: whole, decoder, pending: Vec::new(), text: String::new(), at: 0 }),
    }))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decoder {
    Utf16 {
        little: bool,
    },
    /// Windows-1252, which is what ISO 8859-1 is read as everywhere.
    Latin1,
}

impl Decoder {
    /// `None` for UTF-8.
    fn of(head: &[u8]) -> Result<Option<Self>, String> {
        match head {
            [0xff, 0xfe, ..] | [b'<', 0, ..] => return Ok(Some(Self::Utf16 { little: true })),
            [0xfe, 0xff, ..] | [0, b'<', ..] => return Ok(Some(Self::Utf16 { little: false })),
            _ => {}
        }
        let Some(name) = declared(head) else { return Ok(None) };
        match name.to_ascii_lowercase().as_str() {
            // A document that says UTF-16 in bytes of ASCII was converted by somebody who left the word.
            "utf-8" | "utf8" | "us-ascii" | "ascii" | "utf-16" => Ok(None),
            "iso-8859-1" | "iso8859-1" | "iso_8859-1" | "latin1" | "latin-1" | "windows-1252" | "cp1252" => Ok(Some(Self::Latin1)),
            _ => Err(name),
        }
    }
}

/// The `encoding` of an XML declaration.
fn declared(head: &[u8]) -> Option<String> {
    let text: String = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).iter().map(|byte| char::from(*byte)).collect();
    let declaration = text.trim_start().strip_prefix("<?xml")?.split_once("?>")?.0;
    let value = declaration.split_once("encoding")?.1.trim_start().strip_prefix('=')?.trim_start();
    let quote = value.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
    let name = value[1..].split_once(quote)?.0;
    Some(name.chars().take(40).collect())
}

/// What Windows-1252 has where ISO 8859-1 has controls.
const HIGH: [char; 32] = [
    '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}', '\u{90}', '‘', '’', '“', '”',
    '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
];

struct Decoded<R> {
    inner: R,
    decoder: Decoder,
    /// Bytes that are no whole character yet: at most three.
    pending: Vec<u8>,
    text: String,
    at: usize,
}

impl<R: BufRead> Decoded<R> {
    fn decode(&mut self, is_end: bool) {
        let Decoder::Utf16 { little } = self.decoder else {
            let character = |byte: u8| if (0x80..0xa0).contains(&byte) { HIGH[usize::from(byte - 0x80)] } else { char::from(byte) };
            self.text.extend(self.pending.drain(..).map(character));
            return;
        };
        let unit =
            |pair: &[u8]| if little { u16::from_le_bytes([pair[0], pair[1]]) } else { u16::from_be_bytes([pair[0], pair[1]]) };
        let mut units: Vec<u16> = self.pending.chunks_exact(2).map(unit).collect();
        // The first half of a pair waits for the second.
        if !is_end && units.last().is_some_and(|last| (0xd800..0xdc00).contains(last)) {
            units.pop();
        }
        self.pending.drain(..units.len() * 2);
        if is_end && !self.pending.is_empty() {
            self.pending.clear();
            units.push(0xfffd);
        }
        let characters = char::decode_utf16(units).map(|character| character.unwrap_or(char::REPLACEMENT_CHARACTER));
        self.text.extend(characters.filter(|character| *character != '\u{feff}'));
    }
}

impl<R: BufRead> Read for Decoded<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = self.fill_buf()?.read(into)?;
        self.consume(n);
        Ok(n)
    }
}

impl<R: BufRead> BufRead for Decoded<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.at >= self.text.len() {
            self.text.clear();
            self.at = 0;
            let chunk = self.inner.fill_buf()?;
            let used = chunk.len().min(STEP);
            self.pending.extend_from_slice(&chunk[..used]);
            self.inner.consume(used);
            let is_end = used == 0;
            self.decode(is_end);
            if is_end {
                break;
            }
        }
        Ok(&self.text.as_bytes()[self.at..])
    }

    fn consume(&mut self, n: usize) {
        self.at += n;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8], chunk: usize) -> Result<String, String> {
        let stream = io::BufReader::with_capacity(chunk, bytes);
        let mut decoded = as_utf8(stream).expect("it is there")?;
        let mut text = String::new();
        decoded.read_to_string(&mut text).expect("it can be read");
        Ok(text)
    }

    #[test]
    fn each_encoding_is_read_whatever_the_pieces() {
        let document =
            |encoding: &str| format!("<?xml version='1.0' encoding=\"{encoding}\"?><testsuite name=\"{}\"/>", "é😀".repeat(200));
        let wide = document("UTF-16");
        let little: Vec<u8> = [0xfeff].into_iter().chain(wide.encode_utf16()).flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = [0xfeff].into_iter().chain(wide.encode_utf16()).flat_map(u16::to_be_bytes).collect();
        for chunk in [1, 3, 64, 1 << 16] {
            assert_eq!(text(&little, chunk).as_ref(), Ok(&wide), "pieces of {chunk}");
            assert_eq!(text(&big, chunk).as_ref(), Ok(&wide), "pieces of {chunk}");
            assert_eq!(text(&little[2..], chunk).as_ref(), Ok(&wide), "without a mark");
            assert_eq!(text(document("utf-8").as_bytes(), chunk), Ok(document("utf-8")));
        }
        let latin = b"<?xml version=\"1.0\" encoding='ISO-8859-1'?><testsuite name=\"caf\xe9 \x80\"/>";
        assert!(text(latin, 4).expect("it is there").ends_with("<testsuite name=\"café €\"/>"));
        assert_eq!(text(b"<?xml version=\"1.0\" encoding=\"Shift_JIS\"?><a/>", 9), Err("Shift_JIS".to_owned()));
        assert_eq!(text(&little[..little.len() - 1], 5).expect("it is there").chars().last(), Some('\u{fffd}'));
        assert_eq!(text(b"", 5), Ok(String::new()));
    }
}
