//! A value that is cut apart by terminal control sequences: a terminal and a report show it whole, so it is searched in the text as they
//! show it. What a sequence is must be the same here as in `report::escape`.

use std::collections::VecDeque;

use super::automaton::Automaton;

const ESCAPE: u8 = 0x1b;
const BELL: u8 = 7;
/// The first byte of a control character of the second set, in UTF-8.
const C1: u8 = 0xc2;
/// Sequences inside one value, in bytes: a token of 40 characters, each in a colour of its own, has 600. With more it is not found.
pub(super) const MOST_SEQUENCES: usize = 1024;

/// The search in the text without sequences. It is begun where a sequence stands inside what may become a match.
#[derive(Debug, Clone)]
pub(super) struct Shown {
    state: u32,
    within: Within,
    /// Where those bytes stand that may be the beginning of a match.
    at: VecDeque<usize>,
}

/// What the next byte belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Within {
    Text,
    /// What was seen may be the first half of a control character.
    Half,
    Escape,
    /// An escape with characters before its last, as those that choose a character set.
    Intermediate,
    Parameters,
    /// A title, a link: up to its end.
    StringText,
    StringEscape,
}

impl Shown {
    /// A sequence may begin with `byte`, at the place `at`, behind the beginning of a match of `depth` bytes.
    pub(super) fn begin(byte: u8, state: u32, depth: usize, at: usize) -> Option<Self> {
        let begins = matches!(byte, ESCAPE | C1) && depth > 0;
        begins.then(|| Self { state, within: Within::Text, at: (at - depth..at).collect() })
    }

    /// Where a match begins that ends with this byte.
    pub(super) fn step(&mut self, automaton: &Automaton, byte: u8, at: usize) -> Option<usize> {
        let (within, is_shown) = self.within.next(byte);
        let was_half = self.within == Within::Half;
        self.within = within;
        if was_half && is_shown {
            self.show(automaton, C1, at - 1);
        }
        if !is_shown {
            return None;
        }
        self.show(automaton, byte, at);
        let length = automaton.ends(self.state);
        (length > 0).then(|| self.at[self.at.len() - length])
    }

    fn show(&mut self, automaton: &Automaton, byte: u8, at: usize) {
        self.state = automaton.next(self.state, byte);
        self.at.push_back(at);
        while self.at.len() > automaton.depth(self.state) {
            self.at.pop_front();
        }
    }

    /// Whether this is still another search than the one in the whole text.
    pub(super) fn differs(&self, automaton: &Automaton, whole: u32, at: usize) -> bool {
        let Some(first) = self.at.front() else { return false };
        let is_the_same = self.within == Within::Text && self.state == whole && at + 1 - first == automaton.depth(whole);
        !is_the_same && at + 1 - first - self.at.len() < MOST_SEQUENCES
    }

    /// The first byte that may be the beginning of a match.
    pub(super) fn first(&self) -> usize {
        *self.at.front().expect("a search that nothing is open in is given up")
    }

    /// So many bytes before it are gone.
    pub(super) fn released(&mut self, gone: usize) {
        self.at.iter_mut().for_each(|at| *at -= gone);
    }
}

impl Within {
    /// What comes after this byte, and whether it is shown itself.
    fn next(self, byte: u8) -> (Self, bool) {
        let in_text = || match byte {
            ESCAPE => (Within::Escape, false),
            C1 => (Within::Half, false),
            _ => (Within::Text, true),
        };
        match (self, byte) {
            // A sequence never reaches beyond its line.
            (_, b'\n') => (Within::Text, true),
            (Within::Text, _) => in_text(),
            (Within::Half, 0x9b) => (Within::Parameters, false),
            (Within::Half, 0x90 | 0x9d) => (Within::StringText, false),
            (Within::Half, _) => (Within::Text, true),
            (Within::Escape, b'[') => (Within::Parameters, false),
            (Within::Escape, b']' | b'P' | b'X' | b'^' | b'_') => (Within::StringText, false),
            (Within::Escape | Within::Intermediate, b' '..=b'/') => (Within::Intermediate, false),
            (Within::Escape | Within::Intermediate, _) => (Within::Text, false),
            (Within::Parameters, b'@'..=b'~') => (Within::Text, false),
            (Within::Parameters, _) => (Within::Parameters, false),
            (Within::StringText, BELL) => (Within::Text, false),
            (Within::StringText, ESCAPE) => (Within::StringEscape, false),
            (Within::StringText, _) => (Within::StringText, false),
            (Within::StringEscape, b'\\') => (Within::Text, false),
            (Within::StringEscape, _) => in_text(),
        }
    }
}
