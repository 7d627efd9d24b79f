//! The shapes in which a value turns up: as it is, line by line, in base64 (also broken into lines), in hexadecimal digits,
//! percent-encoded, in a JSON string.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};

use super::SHORTEST;

/// A line of a long value is hidden by itself from this length on: a tail is cut between lines, and a key has many.
const SHORTEST_LINE: usize = 8;

/// A value is read from files and commands, where a line end at its edge is no part of it.
pub(super) fn trimmed(value: &[u8]) -> &[u8] {
    value.trim_ascii()
}

/// Everything but the value itself.
pub(super) fn encoded(value: &[u8]) -> BTreeSet<Vec<u8>> {
    let mut forms = BTreeSet::new();
    for part in parts(value) {
        base64_forms(part, &mut forms);
        hex_forms(part, &mut forms);
        percent_forms(part, &mut forms);
        json_forms(part, &mut forms);
        if part != value {
            forms.insert(part.to_vec());
        }
    }
    broken_base64_forms(value, &mut forms);
    forms.retain(|form| form.len() >= SHORTEST && form != value);
    forms
}

fn parts(value: &[u8]) -> Vec<&[u8]> {
    let lines = value.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let mut parts: Vec<&[u8]> = lines.filter(|line| line.len() >= SHORTEST_LINE && *line != value).collect();
    parts.push(value);
    parts
}

/// Base64 of the value at each of the three places it can have in a longer text, without the characters that its neighbours share.
fn base64_forms(value: &[u8], forms: &mut BTreeSet<Vec<u8>>) {
    for before in 0..3_usize {
        let mut padded = vec![0; before];
        padded.extend_from_slice(value);
        let first = (before * 8).div_ceil(6);
        let last = padded.len() * 8 / 6;
        for text in [STANDARD.encode(&padded), URL_SAFE.encode(&padded)] {
            forms.insert(text.as_bytes()[first..last].to_vec());
        }
    }
}

/// What `base64` and MIME writers break their output to.
const BASE64_LINES: [usize; 2] = [64, 76];

/// Base64 of the value alone, as programs print it that break lines: each line by itself.
fn broken_base64_forms(value: &[u8], forms: &mut BTreeSet<Vec<u8>>) {
    let text = STANDARD.encode(value);
    for width in BASE64_LINES.into_iter().filter(|width| text.len() > *width) {
        forms.extend(text.as_bytes().chunks(width).filter(|line| line.len() >= SHORTEST_LINE).map(<[u8]>::to_vec));
    }
}

/// As `xxd -p` and most programs print bytes.
fn hex_forms(value: &[u8], forms: &mut BTreeSet<Vec<u8>>) {
    for digits in [b"0123456789abcdef", b"0123456789ABCDEF"] {
        forms.insert(value.iter().flat_map(|byte| [digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]]).collect());
    }
}

fn percent_forms(value: &[u8], forms: &mut BTreeSet<Vec<u8>>) {
    // RFC 3986, encodeURIComponent, encodeURI, form data, and the escapes of workflow commands.
    let kept_by: [&[u8]; 5] = [b"-._~", b"-_.!~*'()", b"-_.!~*'();/?:@&=+$,#", b"-._*", b"-._~/"];
    for kept in kept_by {
        for hex in [b"0123456789ABCDEF", b"0123456789abcdef"] {
            let keep = |byte: u8| byte.is_ascii_alphanumeric() || kept.contains(&byte);
            let text = percent(value, hex, keep);
            if kept == b"-._*" {
                forms.insert(percent_spaces_as_plus(&text));
            }
            forms.insert(text);
        }
    }
    forms.insert(percent(value, b"0123456789ABCDEF", |byte| !matches!(byte, b'%' | b'\r' | b'\n')));
    forms.insert(percent(value, b"0123456789ABCDEF", |byte| !matches!(byte, b'%' | b'\r' | b'\n' | b':' | b',')));
}

fn percent(value: &[u8], hex: &[u8; 16], keep: impl Fn(u8) -> bool) -> Vec<u8> {
    let mut text = Vec::with_capacity(value.len());
    for byte in value {
        if keep(*byte) {
            text.push(*byte);
        } else {
            text.extend([b'%', hex[usize::from(byte >> 4)], hex[usize::from(byte & 15)]]);
        }
    }
    text
}

fn percent_spaces_as_plus(text: &[u8]) -> Vec<u8> {
    let mut plus = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, tail)) = rest.split_first() {
        if rest.starts_with(b"%20") {
            plus.push(b'+');
            rest = &rest[3..];
        } else {
            plus.push(*first);
            rest = tail;
        }
    }
    plus
}

/// The inside of a JSON string, as the usual writers differ: slashes, angle brackets and other scripts escaped or not.
fn json_forms(value: &[u8], forms: &mut BTreeSet<Vec<u8>>) {
    let Ok(text) = std::str::from_utf8(value) else { return };
    let quoted = serde_json::to_string(text).expect("a string has a JSON form");
    let plain = &quoted[1..quoted.len() - 1];
    let slashes = plain.replace('/', "\\/");
    let html = escaped(plain, |c| matches!(c, '<' | '>' | '&'));
    let ascii = escaped(plain, |c| !c.is_ascii());
    // A program that logs JSON inside JSON escapes it once more.
    let twice = serde_json::to_string(plain).expect("a string has a JSON form");
    forms.insert(twice.as_bytes()[1..twice.len() - 1].to_vec());
    for form in [plain.to_owned(), slashes, html, ascii] {
        forms.insert(form.into_bytes());
    }
}

fn escaped(text: &str, escape: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if escape(c) {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            out.push(c);
        }
    }
    out
}
