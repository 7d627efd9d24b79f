//! Redaction of a stream: bytes in, bytes out, cut anywhere.

use std::sync::Arc;

use super::automaton::Automaton;
use super::shown::Shown;
use super::{MASK, Redactor};

/// Redacts a stream. What is held back is only what may still become a value, never more than the longest pattern.
#[derive(Debug, Clone)]
pub struct RedactStream {
    automaton: Arc<Automaton>,
    state: u32,
    /// The same search in the text as a terminal shows it, while that differs.
    shown: Option<Shown>,
    /// Bytes that were read and not yet given out.
    held: Vec<u8>,
    /// Stretches of `held` to mask, in order, apart from one another.
    masked: Vec<(usize, usize)>,
    /// The last thing given out was a mask that ended exactly where `held` begins: a match that follows on belongs to it.
    after_mask: bool,
}

impl RedactStream {
    pub(super) fn new(automaton: Arc<Automaton>) -> Self {
        let state = automaton.start();
        Self { automaton, state, shown: None, held: Vec::new(), masked: Vec::new(), after_mask: false }
    }

    /// Goes on with values that were added since. What is still held is searched again.
    pub fn adopt(&mut self, redactor: &Redactor) {
        if Arc::ptr_eq(&self.automaton, &redactor.automaton) {
            return;
        }
        self.automaton = Arc::clone(&redactor.automaton);
        self.state = self.automaton.start();
        self.shown = None;
        for at in 0..self.held.len() {
            self.step(at);
        }
    }

    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.held.is_empty() {
                let plain = self.automaton.skip(rest);
                if plain > 0 {
                    out.extend_from_slice(&rest[..plain]);
                    self.after_mask = false;
                    rest = &rest[plain..];
                    continue;
                }
            }
            self.held.push(rest[0]);
            rest = &rest[1..];
            self.step(self.held.len() - 1);
            // Giving out one byte at a time would move the rest each time; once it has doubled is soon enough.
            let open = self.open();
            if open == 0 || self.held.len() >= 2 * open + 64 {
                self.release(self.held.len() - open, out);
            }
        }
        self.release(self.held.len() - self.open(), out);
    }

    /// Takes the byte at this place of `held` into account.
    fn step(&mut self, at: usize) {
        let (byte, before) = (self.held[at], self.state);
        self.state = self.automaton.next(before, byte);
        self.mark(at + 1 - self.automaton.ends(self.state), at + 1);
        let begun = || Shown::begin(byte, before, self.automaton.depth(before), at);
        let Some(mut shown) = self.shown.take().or_else(begun) else { return };
        if let Some(start) = shown.step(&self.automaton, byte, at) {
            self.mark(start, at + 1);
        }
        self.shown = Some(shown).filter(|shown| shown.differs(&self.automaton, self.state, at));
    }

    /// How many of the last bytes may be the beginning of a match.
    fn open(&self) -> usize {
        let of_shown = self.shown.as_ref().map_or(0, |shown| self.held.len() - shown.first());
        self.automaton.depth(self.state).max(of_shown)
    }

    /// The stream is over: what was held cannot become a value any more.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        self.shown = None;
        self.release(self.held.len(), out);
        self.state = self.automaton.start();
    }

    /// How many bytes are held back.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    fn mark(&mut self, mut start: usize, end: usize) {
        if start == end {
            return;
        }
        while let Some((last_start, last_end)) = self.masked.last().copied() {
            if last_end < start {
                break;
            }
            start = start.min(last_start);
            self.masked.pop();
        }
        self.masked.push((start, end));
    }

    /// Gives out the first `safe` bytes of `held`. A stretch that reaches beyond is masked now and its rest dropped when it is reached.
    fn release(&mut self, safe: usize, out: &mut Vec<u8>) {
        if safe == 0 {
            return;
        }
        let mut at = 0;
        let mut kept = Vec::new();
        for (start, end) in std::mem::take(&mut self.masked) {
            if start >= safe {
                kept.push((start - safe, end - safe));
                continue;
            }
            if start > at {
                out.extend_from_slice(&self.held[at..start]);
                self.after_mask = false;
            }
            if !(self.after_mask && start == at) {
                out.extend_from_slice(MASK);
            }
            self.after_mask = true;
            at = end.min(safe);
            if end > safe {
                kept.push((0, end - safe));
            }
        }
        if at < safe {
            out.extend_from_slice(&self.held[at..safe]);
            self.after_mask = false;
        }
        self.masked = kept;
        self.held.drain(..safe);
        if let Some(shown) = &mut self.shown {
            shown.released(safe);
        }
    }
}
