//! What the output of a file says to ledger: parts of its cost, values to hide, and words that refine a failure.
//!
//! Everything streams: lines of any length, NUL and invalid UTF-8 go by in bounded room. Nothing in here changes the output.

mod lines;
mod rules;

pub use lines::{Found, LineScanner};
pub use rules::{RuleError, RuleMatcher, Rules, refined};
