//! Secrets out of text before it is stored or sent (DESIGN §10).
//!
//! This module must not read the environment: `settings` hands it variables. What it promises is that no value it was given, and no
//! usual encoding of one, is in what it returns, however the bytes were cut into reads, nor in what a terminal or a report shows of it
//! once control sequences are gone. In whole text it also hides what stands where secrets stand, by its shape (`shapes`). It masks the union of all matches, so two
//! values that overlap leave nothing of either.

mod automaton;
mod event;
mod forms;
mod names;
mod shapes;
mod shown;
mod stream;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use automaton::Automaton;
pub use event::body;
pub use names::{is_secret_name, masks_of};
pub use stream::RedactStream;

/// What stands in for a value.
pub const MASK: &[u8] = b"***";
/// A shorter value would be found inside ordinary words and destroy the output.
pub const SHORTEST: usize = 4;
/// An environment variable cannot be longer on Linux, and a longer value would make the tables too large.
pub const LONGEST: usize = 128 * 1024;
/// All patterns together, in bytes: about 24 bytes of table each, so 12 MiB at the most.
const PATTERN_BUDGET: usize = 512 * 1024;
/// A test that prints `::add-mask::` without end must not make every later line slower.
const MOST_VALUES: usize = 1024;

/// A value that is not, or not in every encoding, kept out of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("a mask of {0} bytes is too short to hide: it would destroy ordinary output (at least {SHORTEST})")]
    TooShort(usize),
    #[error("a mask of {0} bytes is too long to hide (at most {LONGEST})")]
    TooLong(usize),
    #[error("there are more than {MOST_VALUES} masks: one of {0} bytes is not hidden")]
    TooMany(usize),
    #[error("masks are too large in all: one of {0} bytes is hidden as it is, not in its encoded forms")]
    EncodingsLeftOut(usize),
    #[error("masks are too large in all: one of {0} bytes is not hidden")]
    NoRoom(usize),
}

/// The values to keep out, ready to search. Cloning is cheap.
#[derive(Debug, Clone)]
pub struct Redactor {
    values: Vec<Vec<u8>>,
    automaton: Arc<Automaton>,
    refused: Vec<Refused>,
}

/// A process's command line as it may be shown, before anybody's values are known. Its words are joined here, for once they are joined
/// nobody knows where a value with blanks in it ends.
pub fn shown_command(words: &[String]) -> String {
    Redactor::default().command(words).join(" ")
}

impl Default for Redactor {
    fn default() -> Self {
        Self::new(std::iter::empty::<&[u8]>())
    }
}

impl Redactor {
    pub fn new<V: AsRef<[u8]>>(values: impl IntoIterator<Item = V>) -> Self {
        let mut redactor = Self { values: Vec::new(), automaton: Arc::new(Automaton::default()), refused: Vec::new() };
        for value in values {
            redactor.take(value.as_ref());
        }
        redactor.rebuild();
        redactor
    }

    /// Adds values at run time, from `::add-mask::` lines: together, because each time costs new tables. Streams then need
    /// `RedactStream::adopt`. The answer is what could not be hidden and was not known before.
    pub fn add<V: AsRef<[u8]>>(&mut self, values: impl IntoIterator<Item = V>) -> Vec<Refused> {
        let known = self.refused.clone();
        let mut changed = false;
        for value in values {
            changed |= self.take(value.as_ref());
        }
        if changed {
            self.rebuild();
        }
        self.refused.iter().filter(|refused| !known.contains(refused)).copied().collect()
    }

    /// What could not be hidden, for a warning. Sizes only: a value never appears in a message.
    pub fn refused(&self) -> &[Refused] {
        &self.refused
    }

    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Whole text: an error, a tail.
    pub fn text(&self, text: &str) -> String {
        shapes::in_output(&self.values_hidden(text))
    }

    /// A command line: what stands behind a flag that is named like a secret is one.
    pub fn command_line(&self, text: &str) -> String {
        shapes::in_command_line(&self.values_hidden(text))
    }

    /// A command as its words, in which a flag and its value are two.
    pub fn command(&self, words: &[String]) -> Vec<String> {
        let hidden: Vec<String> = words.iter().map(|word| self.values_hidden(word)).collect();
        shapes::in_words(&hidden)
    }

    fn values_hidden(&self, text: &str) -> String {
        if self.is_empty() {
            return text.to_owned();
        }
        String::from_utf8_lossy(&self.bytes(text.as_bytes())).into_owned()
    }

    /// Whole bytes.
    pub fn bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = self.stream();
        let mut out = Vec::with_capacity(bytes.len());
        stream.push(bytes, &mut out);
        stream.finish(&mut out);
        out
    }

    /// Bytes of which more may follow: the end that might be the beginning of a value is left out, not shown.
    pub fn bytes_so_far(&self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        self.stream().push(bytes, &mut out);
        out
    }

    /// The longest stretch that one value can cover. A window cut out of a stream is safe from this far behind its cut.
    pub fn reach(&self) -> usize {
        match self.automaton.longest() {
            0 => 0,
            longest => longest + shown::MOST_SEQUENCES,
        }
    }

    pub fn stream(&self) -> RedactStream {
        RedactStream::new(Arc::clone(&self.automaton))
    }

    fn take(&mut self, value: &[u8]) -> bool {
        let value = forms::trimmed(value);
        // A value of nothing but asterisks is already what a mask looks like.
        if value.iter().all(|byte| *byte == b'*') || self.values.iter().any(|known| known == value) {
            return false;
        }
        let refusal = match value.len() {
            short if short < SHORTEST => Some(Refused::TooShort(short)),
            long if long > LONGEST => Some(Refused::TooLong(long)),
            len if self.values.len() >= MOST_VALUES => Some(Refused::TooMany(len)),
            _ => None,
        };
        if let Some(refusal) = refusal {
            self.refuse(refusal);
            return false;
        }
        self.values.push(value.to_vec());
        true
    }

    fn rebuild(&mut self) {
        let mut automaton = Automaton::default();
        let mut refusals = Vec::new();
        let mut whole = Vec::new();
        // The values as they are come first: encodings only get the room that is left.
        for value in &self.values {
            let fits = automaton.insert(value, PATTERN_BUDGET);
            if !fits {
                refusals.push(Refused::NoRoom(value.len()));
            }
            whole.push(fits);
        }
        for value in self.values.iter().zip(&whole).filter(|(_, whole)| **whole).map(|(value, _)| value) {
            if !forms::encoded(value).iter().all(|form| automaton.insert(form, PATTERN_BUDGET)) {
                refusals.push(Refused::EncodingsLeftOut(value.len()));
            }
        }
        automaton.link();
        self.automaton = Arc::new(automaton);
        self.refused.retain(|refused| !matches!(refused, Refused::NoRoom(_) | Refused::EncodingsLeftOut(_)));
        refusals.into_iter().for_each(|refusal| self.refuse(refusal));
    }

    fn refuse(&mut self, refusal: Refused) {
        if self.refused.len() < 64 && !self.refused.contains(&refusal) {
            self.refused.push(refusal);
        }
    }
}
