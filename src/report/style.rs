//! What a terminal can show. The CLI decides it; nothing in here asks a terminal or the environment.

use crate::report::words::Verdict;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Columns; text is never wider where this is known.
    pub width: u16,
    pub colour: Colour,
    pub glyphs: Glyphs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    Off,
    On,
}

/// Which characters ledger's own words use. Names and output are shown as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Glyphs {
    Ascii,
    Unicode,
}

/// What a piece of text means; only `Style::paint` knows which colour that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ink {
    Good,
    Bad,
    Missing,
    Busy,
    Dim,
    Strong,
}

impl From<Verdict> for Ink {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Pass => Ink::Good,
            Verdict::Fail => Ink::Bad,
            Verdict::Incomplete => Ink::Missing,
            Verdict::Running => Ink::Busy,
        }
    }
}

impl Style {
    /// No colour, plain characters, lines for a page of text.
    pub const PLAIN: Style = Style { width: 100, colour: Colour::Off, glyphs: Glyphs::Ascii };

    pub fn paint(self, ink: Ink, text: &str) -> String {
        if self.colour == Colour::Off || text.is_empty() {
            return text.to_owned();
        }
        let code = match ink {
            Ink::Good => "32",
            Ink::Bad => "31;1",
            Ink::Missing => "33;1",
            Ink::Busy => "36",
            Ink::Dim => "2",
            Ink::Strong => "1",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }

    /// Replaces the few characters beyond ASCII that ledger's own words use.
    pub fn glyphs(self, text: &str) -> String {
        match self.glyphs {
            Glyphs::Unicode => text.to_owned(),
            Glyphs::Ascii => text
                .replace(" · ", " / ")
                .replace('…', "...")
                .replace('–', "-")
                .replace('×', "x")
                .replace('≥', ">=")
                .replace('≤', "<="),
        }
    }

    pub fn bullet(self) -> &'static str {
        if self.glyphs == Glyphs::Unicode { "•" } else { "-" }
    }

    pub fn gutter(self) -> &'static str {
        if self.glyphs == Glyphs::Unicode { "│ " } else { "| " }
    }
}
