//! The last lines of output: what a marker and a record keep of it.
//!
//! Takes any amount of output in bounded room. Values are hidden when the text is taken out, not before, so that a mask which the
//! output itself announces also covers what was printed before it. Control sequences stay as they are; renderers make them inert.

use super::redact::Redactor;

/// What a marker has room for (DESIGN §8).
pub const TAIL_BYTES: usize = 2048;

#[derive(Debug, Clone, Default)]
pub struct Tail {
    window: Vec<u8>,
    /// How many bytes went by before `window`.
    dropped: u64,
}

impl Tail {
    /// Takes output that is no secret to `redactor` yet; its reach says how much must be kept behind the visible end.
    pub fn push(&mut self, bytes: &[u8], redactor: &Redactor) {
        let keep = TAIL_BYTES + margin(redactor);
        if bytes.len() >= keep {
            let cut = bytes.len() - keep;
            self.dropped += (self.window.len() + cut) as u64;
            self.window.clear();
            self.window.extend_from_slice(&bytes[cut..]);
            return;
        }
        // Moving the window only when it has doubled keeps the cost per byte constant.
        if self.window.len() + bytes.len() > 2 * keep {
            let cut = self.window.len() + bytes.len() - keep;
            self.window.drain(..cut);
            self.dropped += cut as u64;
        }
        self.window.extend_from_slice(bytes);
    }

    /// While more may follow: an end that may be the beginning of a secret is left out.
    pub fn so_far(&self, redactor: &Redactor) -> Option<String> {
        self.text(redactor, false)
    }

    /// After the end of the output.
    pub fn at_end(&self, redactor: &Redactor) -> Option<String> {
        self.text(redactor, true)
    }

    fn text(&self, redactor: &Redactor, over: bool) -> Option<String> {
        // Behind the cut there may be the second half of a secret, and after that what looks like the first half of one.
        let unsafe_bytes = if self.dropped > 0 { margin(redactor).min(self.window.len()) } else { 0 };
        let mut stream = redactor.stream();
        let mut out = Vec::new();
        stream.push(&self.window[..unsafe_bytes], &mut out);
        out.clear();
        stream.push(&self.window[unsafe_bytes..], &mut out);
        if over {
            stream.finish(&mut out);
        }
        let whole = self.dropped == 0;
        let text = last_lines(&String::from_utf8_lossy(&out), TAIL_BYTES, whole);
        (!text.is_empty()).then_some(text)
    }
}

fn margin(redactor: &Redactor) -> usize {
    2 * redactor.reach()
}

/// The end of `text` in at most `limit` bytes, never a part of a character, and from the beginning of a line where one is in reach.
pub fn last_lines(text: &str, limit: usize, whole: bool) -> String {
    let text = text.trim_end_matches(['\n', '\r']);
    if whole && text.len() <= limit {
        return text.to_owned();
    }
    let mut start = text.len().saturating_sub(limit);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    let kept = &text[start..];
    let begins_line = start > 0 && text.as_bytes()[start - 1] == b'\n';
    match kept.find('\n') {
        Some(end) if !begins_line => kept[end + 1..].to_owned(),
        _ => kept.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn none() -> Redactor {
        Redactor::default()
    }

    #[test]
    fn whole_short_output_is_kept() {
        let mut tail = Tail::default();
        assert_eq!(tail.so_far(&none()), None);
        tail.push(b"one\ntwo\n", &none());
        assert_eq!(tail.so_far(&none()).expect("it is there"), "one\ntwo");
    }

    #[test]
    fn long_output_is_cut_at_a_line() {
        let mut tail = Tail::default();
        for n in 0..100_000 {
            tail.push(format!("line {n}\n").as_bytes(), &none());
        }
        let text = tail.at_end(&none()).expect("it is there");
        assert!(text.len() <= TAIL_BYTES && text.len() > TAIL_BYTES - 20, "{}", text.len());
        assert!(text.starts_with("line ") && text.ends_with("line 99999"), "{text}");
        assert!(tail.window.capacity() < 3 * TAIL_BYTES);
    }

    #[test]
    fn a_line_of_100_mb_without_end_does_not_grow() {
        let mut tail = Tail::default();
        let chunk = vec![b'x'; 64 * 1024];
        for _ in 0..1600 {
            tail.push(&chunk, &none());
        }
        assert_eq!(tail.at_end(&none()).expect("it is there").len(), TAIL_BYTES);
        assert!(tail.window.capacity() <= 3 * TAIL_BYTES);
    }

    #[test]
    fn characters_are_never_cut() {
        let mut tail = Tail::default();
        for _ in 0..3000 {
            tail.push("é…🦀".as_bytes(), &none());
        }
        let text = tail.at_end(&none()).expect("it is there");
        assert!(text.len() <= TAIL_BYTES);
        assert!(text.chars().skip(1).all(|c| "é…🦀".contains(c)), "{text}");
    }

    #[test]
    fn a_mask_announced_later_hides_what_came_before() {
        let mut redactor = none();
        let mut tail = Tail::default();
        tail.push(b"the key is hunter22\n::add-mask::hunter22\nhunte", &redactor);
        redactor.add([b"hunter22"]);
        assert_eq!(tail.so_far(&redactor).expect("it is there"), "the key is ***\n::add-mask::***");
    }

    proptest! {
        #[test]
        fn no_part_of_a_secret_at_either_edge(pad in 1980_usize..2200, cut in 1_usize..40, after in 0_usize..2100) {
            let secret = "S3CRET-VALUE-0123456789";
            let redactor = Redactor::new([secret]);
            let text = format!("{}{secret}{}{}", "x".repeat(pad), "y".repeat(after), &secret[..cut.min(secret.len() - 1)]);
            let mut tail = Tail::default();
            for chunk in text.as_bytes().chunks(cut) {
                tail.push(chunk, &redactor);
            }
            let shown = tail.so_far(&redactor).unwrap_or_default();
            for length in 3..=secret.len() {
                prop_assert!(!shown.contains(&secret[..length]) && !shown.contains(&secret[secret.len() - length..]), "{shown}");
            }
        }
    }
}
