//! The machine's part of a check run: the marker, fenced so that nothing in it acts as Markdown, and cut as the service counts.

use serde_json::Value;

/// The service refuses a summary or a text of more than 65,535 bytes; this leaves room for what it may add.
pub const SERVICE_BYTES: usize = 60_000;

const OPEN: &str = "```json\n";
const CLOSE: &str = "\n```\n";
pub const FENCE_BYTES: usize = OPEN.len() + CLOSE.len();

/// A payload has no line end of its own, so no line of it can close the fence.
pub fn text_of(payload: &str) -> String {
    format!("{OPEN}{payload}{CLOSE}")
}

/// The payload of a check run.
pub fn payload_of(run: &Value) -> Option<&str> {
    let text = run.get("output")?.get("text")?.as_str()?;
    let inside = text.trim().strip_prefix(OPEN.trim_end()).and_then(|rest| rest.trim_end().strip_suffix("```"));
    let payload = inside.unwrap_or(text).trim();
    (!payload.is_empty()).then_some(payload)
}

/// At most so many bytes, counted in UTF-8 as the service counts them, never half a character; the newest lines, which stand last, are
/// kept together with the first.
pub fn cut(text: &str, limit: usize) -> String {
    const GAP: &str = "\n\n…\n\n";
    if text.len() <= limit {
        return text.to_owned();
    }
    let mut head = limit / 4;
    while !text.is_char_boundary(head) {
        head -= 1;
    }
    let mut tail = text.len() - (limit - head).saturating_sub(GAP.len());
    while !text.is_char_boundary(tail) {
        tail += 1;
    }
    format!("{}{GAP}{}", &text[..head], &text[tail..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_payload_comes_back_fenced_or_bare() {
        let run = |text: &str| serde_json::json!({ "output": { "text": text } });
        for text in [text_of("{\"a\":\"```\"}"), "{\"a\":\"```\"}".to_owned(), "```json\r\n{\"a\":\"```\"}\r\n```".to_owned()] {
            assert_eq!(payload_of(&run(&text)), Some("{\"a\":\"```\"}"), "{text}");
        }
        assert_eq!(payload_of(&run("")), None);
    }

    proptest! {
        #[test]
        fn what_is_cut_fits_and_ends_as_the_whole_ends(text in "\\PC{0,400}", limit in 40usize..300) {
            let cut = cut(&text, limit);
            prop_assert!(cut.len() <= limit.max(text.len().min(limit)));
            let end: String = text.chars().rev().take(5).collect();
            let kept: String = cut.chars().rev().take(5).collect();
            prop_assert_eq!(kept, end);
        }
    }
}
