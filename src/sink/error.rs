//! What a sink can answer that is not success, and what the flusher makes of it.

use std::time::Duration;

/// A failure of a sink. The text names the place and what to do; it never holds a credential.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{detail}", lead(url))]
pub struct SinkError {
    pub url: String,
    pub trouble: Trouble,
    pub detail: String,
}

/// A URL before what is said of it. Some end with a colon themselves, and one that was left empty has nothing to show.
pub fn lead(url: &str) -> String {
    match url {
        "" => String::new(),
        url if url.ends_with(':') => format!("{url} "),
        url => format!("{url}: "),
    }
}

/// How to go on after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Trouble {
    /// It may pass by itself: try again soon, not before `after` where the service named a time.
    Retryable { after: Option<Duration> },
    /// It needs somebody (a permission, a bucket that is missing): try again now and then, for that somebody may come.
    Refused,
    /// Another writer has written this epoch: nothing more is sent, both versions stay.
    Fenced,
    /// The URL makes no sense.
    Usage,
}

impl SinkError {
    pub fn new(url: impl Into<String>, trouble: Trouble, detail: impl Into<String>) -> Self {
        Self { url: url.into(), trouble, detail: detail.into() }
    }

    pub fn retryable(url: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(url, Trouble::Retryable { after: None }, detail)
    }
}

/// What a service says about itself may be a page of HTML: one line of it is enough.
const DETAIL_BYTES: usize = 300;

/// A service's words as one short line.
pub(super) fn bounded(text: &str) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line: String = line.chars().filter(|c| !c.is_control()).collect();
    if line.len() <= DETAIL_BYTES {
        return line;
    }
    let mut end = DETAIL_BYTES;
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &line[..end])
}
