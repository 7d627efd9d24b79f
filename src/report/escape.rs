//! One place per target language where text from outside is made inert. Every format goes through here.
//!
//! Names, output and messages are written by tests, by people, by a stranger's pull request. Nothing in them may act: not on a
//! terminal, not in a page, not in Markdown, not as a workflow command.

use std::borrow::Cow;

/// A name in a line; more than this of it helps nobody.
pub const NAME_CHARS: usize = 300;
/// A sentence in a line.
pub const SENTENCE_CHARS: usize = 1000;
/// A block of output. A record holds 2 KiB; a hostile file may claim more.
pub const BLOCK_CHARS: usize = 4096;

/// At most `limit` characters: the beginning and the end, with what is missing between them marked.
pub fn clip(text: &str, limit: usize) -> Cow<'_, str> {
    // A text of at most `limit` bytes has at most `limit` characters: the usual case costs nothing.
    if text.len() <= limit || text.chars().count() <= limit {
        return Cow::Borrowed(text);
    }
    let half = limit.saturating_sub(1) / 2;
    let head_end = text.char_indices().nth(half).map_or(text.len(), |(at, _)| at);
    let tail_start = text.char_indices().rev().nth(half.saturating_sub(1)).map_or(0, |(at, _)| at);
    Cow::Owned(format!("{}…{}", &text[..head_end], &text[tail_start..]))
}

/// Characters that act on a terminal, or that make text look like other text: controls, bidirectional overrides, invisible ones.
fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{061C}' | '\u{200B}' | '\u{200E}' | '\u{200F}' | '\u{2028}' | '\u{2029}' | '\u{202A}'..='\u{202E}')
        || matches!(c, '\u{2060}'..='\u{2069}' | '\u{FEFF}' | '\u{FFF9}'..='\u{FFFB}' | '\u{E0000}'..='\u{E007F}')
}

/// One line: whatever acts is shown as an escape, line ends too.
pub fn line(text: &str, limit: usize) -> String {
    let clipped = clip(text, limit);
    let mut out = String::with_capacity(clipped.len());
    for c in clipped.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if acts(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    without_old_commands(out)
}

/// The CI service takes `##[name]` for a command wherever it stands in a line.
const OLD_COMMAND: &str = "##[";

fn without_old_commands(text: String) -> String {
    if text.contains(OLD_COMMAND) { text.replace(OLD_COMMAND, "##\\[") } else { text }
}

/// It takes `::name::` for one only where a line begins with it, behind whatever space.
fn without_new_command(line: String) -> String {
    let words = line.trim_start();
    if !words.strip_prefix("::").is_some_and(|rest| rest.contains("::")) {
        return line;
    }
    format!("{}\\{words}", &line[..line.len() - words.len()])
}

/// A name in a line that a program reads: what acts is replaced, for there is no escape that the reader would undo.
pub fn plain(text: &str) -> String {
    without_old_commands(text.chars().map(|c| if acts(c) { '\u{fffd}' } else { c }).collect())
}

/// A text of whole lines, in which no line is a command of the CI service. Where a line begins with space, its width stays.
pub fn without_commands(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let words = line.trim_start();
        let indent = &line[..line.len() - words.len()];
        if words.strip_prefix("::").is_some_and(|rest| rest.contains("::")) {
            let mut kept = indent.to_owned();
            kept.pop();
            out.push_str(&format!("{kept}\\{words}"));
        } else {
            out.push_str(line);
        }
    }
    out
}

/// JSON in which nothing acts on a terminal or on the CI service: whatever would is written in the escapes of JSON, so that it reads back
/// as it was. Outside of strings JSON has none of these characters.
pub fn json(text: String) -> String {
    if !text.contains(OLD_COMMAND) && !text.chars().any(|c| acts(c) && c != '\n' && c != '\t') {
        return text;
    }
    let mut out = String::with_capacity(text.len() + 64);
    for c in text.replace(OLD_COMMAND, "#\\u0023[").chars() {
        if acts(c) && c != '\n' && c != '\t' {
            let mut units = [0; 2];
            c.encode_utf16(&mut units).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        } else {
            out.push(c);
        }
    }
    out
}

/// A message of ours that may quote anything, as it goes to a log that the CI service reads: its lines are kept, no command is.
pub fn message(text: &str) -> String {
    let lines = text.split(['\n', '\r']).map(|line| without_new_command(line.to_owned()));
    without_old_commands(lines.collect::<Vec<_>>().join("\n"))
}

/// A name in a line.
pub fn name(text: &str) -> String {
    line(text, NAME_CHARS)
}

/// A sentence in a line.
pub fn sentence(text: &str) -> String {
    line(text, SENTENCE_CHARS)
}

/// Lines of output as a terminal would have left them: colours and cursor movements are gone, overwritten text too, the rest is inert,
/// also where the CI service reads the page that quotes it.
pub fn block(text: &str) -> String {
    let clipped = clip(text, BLOCK_CHARS);
    let plain = without_sequences(&clipped);
    let lines = plain.split('\n').map(|full| {
        let shown = full.trim_end_matches('\r').rsplit('\r').find(|part| !part.is_empty()).unwrap_or_default();
        without_new_command(line(&shown.replace('\t', "    "), BLOCK_CHARS))
    });
    lines.collect::<Vec<_>>().join("\n").trim_end().to_owned()
}

/// The last lines of a block, with a word for those that are left out.
pub fn last_lines(block: &str, most: usize) -> String {
    let lines: Vec<&str> = block.lines().collect();
    match lines.len().checked_sub(most) {
        None | Some(0) => block.to_owned(),
        Some(left_out) => format!("… {left_out} lines above\n{}", lines[left_out..].join("\n")),
    }
}

/// Without escape sequences: CSI, OSC and the other strings, two-character ones. An unfinished one takes the rest of its line.
fn without_sequences(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let kind = match c {
            '\u{1b}' => rest.next(),
            '\u{9b}' => Some('['),
            '\u{9d}' | '\u{90}' => Some(']'),
            _ => {
                out.push(c);
                continue;
            }
        };
        match kind {
            Some('[') => while rest.next_if(|c| !('\u{40}'..='\u{7e}').contains(c) && *c != '\n').is_some() {},
            Some(']' | 'P' | 'X' | '^' | '_') => {
                while rest.next_if(|c| !matches!(c, '\u{7}' | '\u{1b}' | '\u{9c}' | '\n')).is_some() {}
                if rest.next_if_eq(&'\u{1b}').is_none() {
                    rest.next_if(|c| *c != '\n');
                    continue;
                }
                rest.next_if_eq(&'\\');
                continue;
            }
            Some('\n') => {
                out.push('\n');
                continue;
            }
            // A choice of a character set has its last character still to come.
            Some(' '..='/') => while rest.next_if(|c| (' '..='/').contains(c)).is_some() {},
            _ => continue,
        }
        rest.next_if(|c| *c != '\n');
    }
    out
}

/// HTML text and attribute values in double quotes. The text must have gone through `line` or `block`.
pub fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// Text in Markdown, in a table cell too: every character that could be structure is a character reference, and what a service
/// turns into a mention, a reference or a link by itself is broken by an invisible space.
pub fn markdown(text: &str) -> String {
    let clean = sentence(text);
    let mut out = String::with_capacity(clean.len() + 16);
    for (c, next) in with_next(&clean) {
        if !markdown_acts(c, next) {
            out.push(c);
            continue;
        }
        out.push_str(&format!("&#{};", u32::from(c)));
        if matches!(c, '@' | '#') {
            out.push_str("&#8203;");
        }
    }
    out
}

/// A name in Markdown, in code style. Mentions and references do not act in there.
pub fn markdown_code(text: &str) -> String {
    let clean = name(text);
    let mut out = String::from("<code>");
    for (c, next) in with_next(&clean) {
        if markdown_acts(c, next) {
            out.push_str(&format!("&#{};", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    out.push_str("</code>");
    out
}

fn with_next(text: &str) -> impl Iterator<Item = (char, Option<char>)> {
    text.chars().zip(text.chars().skip(1).map(Some).chain([None]))
}

fn markdown_acts(c: char, next: Option<char>) -> bool {
    match c {
        '&' | '<' | '>' | '`' | '*' | '_' | '~' | '[' | ']' | '|' | '$' | '\\' | '@' | '#' => true,
        // A link that makes itself (`http://`) or a picture (`:name:`); a time of day and the end of a clause are neither.
        ':' => next.is_some_and(|next| !next.is_whitespace() && !next.is_ascii_digit()),
        // The other link that makes itself: `www.`.
        'w' | 'W' => matches!(next, Some('w' | 'W' | '.')),
        _ => false,
    }
}

/// Output in Markdown: a fence longer than any run of backticks inside it.
pub fn markdown_block(text: &str) -> String {
    let clean = block(text);
    let longest = clean.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}text\n{clean}\n{fence}\n")
}

/// Text that an XML writer may be given: only characters that XML 1.0 has.
pub fn xml(text: &str) -> String {
    text.chars().map(|c| if xml_has(c) { c } else { '\u{FFFD}' }).collect()
}

fn xml_has(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | '\u{20}'..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}' | '\u{10000}'..)
}

/// The message of a workflow command.
pub fn command_data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// A property of a workflow command.
pub fn command_property(text: &str) -> String {
    command_data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn clipping_keeps_both_ends() {
        assert_eq!(clip("short", 10), "short");
        assert_eq!(clip("abcdefghij", 5), "ab…ij");
        assert_eq!(clip("ééééé", 5), "ééééé");
        assert_eq!(clip("éééééé", 5), "éé…éé");
    }

    #[test]
    fn lines_show_what_acts() {
        assert_eq!(name("a\nb\tc\u{1b}[31m\u{202e}\0\u{9b}"), "a\\nb\\tc\\u{1b}[31m\\u{202e}\\u{0}\\u{9b}");
        assert_eq!(name("plain é 🦀"), "plain é 🦀");
    }

    #[test]
    fn blocks_are_what_a_terminal_would_have_left() {
        let cases = [
            ("\u{1b}[1;31mred\u{1b}[0m end", "red end"),
            ("10%\r50%\r100%\r\nnext\r\n", "100%\nnext"),
            ("\u{1b}]0;title\u{7}text", "text"),
            ("\u{1b}]8;;http://x\u{1b}\\link", "link"),
            ("\u{1b}[2J\u{1b}[Hhome", "home"),
            ("\u{1b}(Bplain\u{1b}(B\u{1b}[m end", "plain end"),
            ("\u{1b}]0;unfinished\nnext line", "\nnext line"),
            ("\u{1b}[31\nnext line", "\nnext line"),
            ("a\u{1b}", "a"),
            ("a\tb\u{8}", "a    b\\u{8}"),
            ("\u{202e}gnp.exe", "\\u{202e}gnp.exe"),
        ];
        for (input, expect) in cases {
            assert_eq!(block(input), expect, "{input:?}");
        }
    }

    #[test]
    fn the_last_lines_are_kept_and_the_others_counted() {
        assert_eq!(last_lines("a\nb", 2), "a\nb");
        assert_eq!(last_lines("a\nb\nc", 2), "… 1 lines above\nb\nc");
        assert_eq!(last_lines("", 2), "");
    }

    #[test]
    fn markdown_is_inert() {
        assert_eq!(
            markdown("a|b <b> [x](y) @me #1 `c` 10:02: end :tada: http://x"),
            "a&#124;b &#60;b&#62; &#91;x&#93;(y) &#64;&#8203;me &#35;&#8203;1 &#96;c&#96; 10:02: end &#58;tada: http&#58;//x"
        );
        assert_eq!(markdown_code("test/anchor.test.ts"), "<code>test/anchor.test.ts</code>");
        assert_eq!(markdown_code("</code><img>"), "<code>&#60;/code&#62;&#60;img&#62;</code>");
        assert_eq!(markdown("see www.example.com, now"), "see &#119;&#119;&#119;.example.com, now");
        assert_eq!(markdown_block("a\n```\nb````"), "`````text\na\n```\nb````\n`````\n");
    }

    #[test]
    fn no_command_of_the_service_is_left() {
        assert_eq!(name("a ##[error]b ###[add-mask]c ## [x]"), "a ##\\[error]b ###\\[add-mask]c ## [x]");
        assert_eq!(name(&name("##[x]")), "##\\[x]", "once is enough");
        let cases = [
            ("one\n::error::x", "one\n\\::error::x"),
            ("\u{1b}[31m \t::add-mask::x", "     \\::add-mask::x"),
            ("over\r::warning file=a::x", "\\::warning file=a::x"),
            ("::std is no command\na::b::c", "::std is no command\na::b::c"),
            ("see ##[error]x", "see ##\\[error]x"),
        ];
        for (input, expect) in cases {
            assert_eq!(block(input), expect, "{input:?}");
            assert_eq!(block(expect), expect, "once is enough");
        }
        assert_eq!(message("no such file: 'a\n::error::b##[group]c'"), "no such file: 'a\n\\::error::b##\\[group]c'");
    }

    #[test]
    fn json_says_the_same_and_nothing_in_it_acts() {
        let text = "a\u{9b}31m \u{202e}x ##[error]y \u{E0041}\u{7f} é ##";
        let json = json(serde_json::to_string(text).expect("plain data"));
        assert!(!json.chars().any(acts) && !json.contains("##["), "{json}");
        assert_eq!(serde_json::from_str::<String>(&json).expect("JSON that fits"), text);
        assert_eq!(super::json("{\n\t\"a\": 1\n}\n".to_owned()), "{\n\t\"a\": 1\n}\n");
    }

    #[test]
    fn no_line_of_a_text_is_a_command() {
        let text = "a ::b::\n  ::error::x\n::warning::\n::std\n";
        assert_eq!(without_commands(text), "a ::b::\n \\::error::x\n\\::warning::\n::std\n");
    }

    #[test]
    fn commands() {
        assert_eq!(command_data("50%\r\n::error::x"), "50%25%0D%0A::error::x");
        assert_eq!(command_property("a:b,c%\n"), "a%3Ab%2Cc%25%0A");
    }

    proptest! {
        #[test]
        fn nothing_that_acts_is_left(text in any::<String>()) {
            prop_assert!(!name(&text).chars().any(acts));
            prop_assert!(!block(&text).chars().any(|c| acts(c) && c != '\n'));
            for text in [name(&text), block(&text), message(&text)] {
                let command = |line: &str| line.trim_start().strip_prefix("::").is_some_and(|rest| rest.contains("::"));
                prop_assert!(!text.contains("##[") && (!text.contains('\n') || !text.lines().any(command)));
            }
            prop_assert!(!html(&text).contains(['<', '>', '"', '\'']));
            prop_assert!(!markdown(&text).contains(['<', '>', '|', '`', '*', '@']));
            prop_assert!(!command_data(&text).contains(['\n', '\r']));
            prop_assert!(!command_property(&text).contains(['\n', '\r', ':', ',']));
            prop_assert!(xml(&text).chars().all(xml_has));
            prop_assert!(clip(&text, 7).chars().count() <= 7);
        }
    }
}
