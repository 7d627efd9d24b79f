//! Redaction of a stream: bytes in, bytes out, cut anywhere.

use std::sync::Arc;

use super::automaton::Automaton;
use super::{MASK, Redactor};

/// Redacts a stream. What is held back is only what may still become a value, never more than the longest pattern.
#[derive(Debug, Clone)]
pub struct RedactStream {
    automaton: Arc<Automaton>,
    state: u32,
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
        Self { automaton, state, held: Vec::new(), masked: Vec::new(), after_mask: false }
    }

    /// Goes on with values that were added since. What is still held is searched again.
    pub fn adopt(&mut self, redactor: &Redactor) {
        if Arc::ptr_eq(&self.automaton, &redactor.automaton) {
            return;
        }
        self.automaton = Arc::clone(&redactor.automaton);
        self.state = self.automaton.start();
        for at in 0..self.held.len() {
            self.state = self.automaton.next(self.state, self.held[at]);
            self.mark(at + 1);
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
            self.state = self.automaton.next(self.state, rest[0]);
            self.held.push(rest[0]);
            rest = &rest[1..];
            self.mark(self.held.len());
            // Giving out one byte at a time would move the rest each time; once it has doubled is soon enough.
            let depth = self.automaton.depth(self.state);
            if depth == 0 || self.held.len() >= 2 * depth + 64 {
                self.release(self.held.len() - depth, out);
            }
        }
        self.release(self.held.len() - self.automaton.depth(self.state), out);
    }

    /// The stream is over: what was held cannot become a value any more.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        self.release(self.held.len(), out);
        self.state = self.automaton.start();
    }

    /// How many bytes are held back.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    fn mark(&mut self, end: usize) {
        let length = self.automaton.ends(self.state);
        if length == 0 {
            return;
        }
        let mut start = end - length;
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
    }
}
