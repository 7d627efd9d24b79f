//! `[[classify]]`: words in the output that say what kind of failure it was.

use regex::bytes::{Regex, RegexBuilder};

use crate::core::outcome::Outcome;

/// A pattern is looked for inside one line; of a longer line, inside windows of this size that overlap by half.
const WINDOW: usize = 8 * 1024;
/// A compiled rule larger than this was written by accident or in malice.
const REGEX_BYTES: usize = 1 << 20;
const LONGEST_WORD: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    #[error("[[classify]] rule {rule}: pattern '{pattern}': {error}")]
    Pattern { rule: usize, pattern: String, error: String },
    #[error("[[classify]] rule {rule}: outcome 'pass' is refused: a refinement never turns a failure into a pass")]
    Pass { rule: usize },
    #[error("[[classify]] rule {rule}: outcome '{word}' must be lower-case letters, digits and hyphens, at most {LONGEST_WORD}")]
    Word { rule: usize, word: String },
}

/// The rules of a run, in the order in which they are asked.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    rules: Vec<(Regex, Outcome)>,
}

impl Rules {
    /// Reads (pattern, outcome) pairs. Rules are numbered from 1 in messages.
    pub fn new<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, RuleError> {
        let mut rules = Vec::new();
        for (rule, (pattern, word)) in (1..).zip(pairs) {
            let wanted = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
            if word.is_empty() || word.len() > LONGEST_WORD || !word.bytes().all(wanted) {
                return Err(RuleError::Word { rule, word: word.chars().take(LONGEST_WORD).collect() });
            }
            let outcome = Outcome::parse(word);
            if outcome == Outcome::Pass {
                return Err(RuleError::Pass { rule });
            }
            let regex = RegexBuilder::new(pattern).multi_line(true).size_limit(REGEX_BYTES).build().map_err(|error| {
                let error = error.to_string().lines().last().unwrap_or("cannot be read").trim().to_owned();
                RuleError::Pattern { rule, pattern: pattern.chars().take(200).collect(), error }
            })?;
            rules.push((regex, outcome));
        }
        Ok(Self { rules })
    }

    pub fn matcher(&self) -> RuleMatcher {
        RuleMatcher { rules: self.rules.clone(), carry: Vec::new(), first: None }
    }
}

/// Watches one stream of one file.
#[derive(Debug, Clone)]
pub struct RuleMatcher {
    rules: Vec<(Regex, Outcome)>,
    /// The unfinished line.
    carry: Vec<u8>,
    /// The first rule, in the order of the file, that has matched so far.
    first: Option<usize>,
}

impl RuleMatcher {
    pub fn push(&mut self, bytes: &[u8]) {
        if self.open() == 0 {
            return;
        }
        for piece in bytes.chunks(WINDOW) {
            self.carry.extend_from_slice(piece);
            // An unfinished line is left for later: `$` must not match where a read happened to end.
            if let Some(end) = self.carry.iter().rposition(|byte| *byte == b'\n') {
                self.search(end);
                self.carry.drain(..=end);
            }
            if self.carry.len() > WINDOW {
                self.search(self.carry.len());
                self.carry.drain(..self.carry.len() - WINDOW / 2);
            }
        }
    }

    /// The rule that holds, after the end of the output: the outcome and the pattern it came from.
    pub fn finish(&mut self) -> Option<(Outcome, &str)> {
        self.search(self.carry.len());
        self.carry = Vec::new();
        let (regex, outcome) = &self.rules[self.first?];
        Some((outcome.clone(), regex.as_str()))
    }

    /// How many rules a match could still change anything about.
    fn open(&self) -> usize {
        self.first.unwrap_or(self.rules.len())
    }

    fn search(&mut self, end: usize) {
        let open = self.open();
        let found = self.rules[..open].iter().position(|(regex, _)| regex.is_match(&self.carry[..end]));
        self.first = found.or(self.first);
    }
}

/// Refines a failure of the test itself. A timeout, a cancellation and a kill for memory have a cause already.
pub fn refined(outcome: &Outcome, rule: Option<(Outcome, &str)>) -> Option<(Outcome, String)> {
    let (word, pattern) = rule?;
    let open = matches!(outcome, Outcome::TestFailure | Outcome::Crash);
    open.then(|| {
        let note = format!("refined from {outcome} to {word}: the output matches '{pattern}'");
        (word, note)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(rules: &[(&str, &str)], input: &[u8], size: usize) -> Option<String> {
        let mut matcher = Rules::new(rules.iter().copied()).expect("it is well formed").matcher();
        input.chunks(size).for_each(|chunk| matcher.push(chunk));
        matcher.finish().map(|(outcome, _)| outcome.as_str().to_owned())
    }

    #[test]
    fn the_first_rule_wins_wherever_it_matches() {
        let rules = [("DOWNLOAD_STALLED", "infra-download"), ("(?i)no space", "infra-disk"), ("^end$", "infra-end")];
        let cases: &[(&[u8], Option<&str>)] = &[
            (b"nothing\n", None),
            (b"x DOWNLOAD_STALLED y", Some("infra-download")),
            (b"No Space left\nDOWNLOAD_STALLED\n", Some("infra-download")),
            (b"\xff\0NO SPACE\n", Some("infra-disk")),
            (b"a\nend\nb", Some("infra-end")),
            (b"the end\nending\n", None),
            (b"end", Some("infra-end")),
        ];
        for (input, expect) in cases {
            for size in 1..30 {
                assert_eq!(first(&rules, input, size).as_deref(), *expect, "{input:?} by {size}");
            }
        }
    }

    #[test]
    fn long_lines_are_searched_in_bounded_room() {
        let mut matcher = Rules::new([("NEEDLE", "infra")]).expect("it is well formed").matcher();
        for _ in 0..200 {
            matcher.push(&[b'x'; 64 * 1024]);
            assert!(matcher.carry.capacity() <= 4 * WINDOW);
        }
        matcher.push(b"NEE");
        matcher.push(b"DLE");
        matcher.push(&[b'x'; 64 * 1024]);
        assert!(matcher.finish().is_some());
    }

    #[test]
    fn wrong_rules_are_named() {
        let error = |pattern, outcome| Rules::new([("ok", "x"), (pattern, outcome)]).expect_err("it is refused").to_string();
        assert_eq!(error("(", "x"), "[[classify]] rule 2: pattern '(': error: unclosed group");
        assert!(error("a", "pass").contains("rule 2: outcome 'pass' is refused"));
        assert!(error("a", "Bad Word").contains("'Bad Word' must be lower-case"));
        assert!(error(r"\w{1000}{1000}", "x").contains("rule 2"));
    }

    #[test]
    fn only_a_failure_of_the_test_is_refined() {
        let rule = || Some((Outcome::Other("infra".to_owned()), "X"));
        assert_eq!(
            refined(&Outcome::TestFailure, rule()).expect("it is there").1,
            "refined from test-failure to infra: the output matches 'X'"
        );
        for outcome in [Outcome::Pass, Outcome::FileWatchdogTimeout, Outcome::OomKilled, Outcome::Cancelled, Outcome::NotRun] {
            assert!(refined(&outcome, rule()).is_none());
        }
        assert!(refined(&Outcome::Crash, None).is_none());
    }
}
