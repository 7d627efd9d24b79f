//! Stores outside the machine. One file per backend behind a small interface, and the flusher that feeds them.
//!
//! ```text
//! store's acknowledgements ─▶ Flusher::offer ─▶ one task per sink ─▶ Backend::send (events, then marker)
//!                                   ▲                  │
//!                        Backlog ───┘ (when the queue was too short: read again after the sink's own position)
//! Source (the reader's side) ◀─ legs, markers with their age by the sink's clock, segments of events
//! ```
//!
//! A sink never decides anything about the run and never holds it up: the worst it can do is to be behind. This layer must not read the
//! wall clock, the environment or the database; what it needs of them is handed in.

mod check;
mod error;
mod file;
mod flusher;
mod github;
mod http;
mod https;
mod layout;
mod object;
mod pace;
mod private;
pub mod runtime;
mod source;
mod state;
mod task;
mod variables;

use async_trait::async_trait;

use crate::core::chain::Stored;
use crate::core::ids::{Epoch, LegId, Seq};
use crate::core::marker::Marker;
use crate::core::moment::Secs;

pub use crate::core::marker::Described;
pub use check::{CHECK, Checked, check, check_leg};
pub use error::{SinkError, Trouble, lead};
pub use file::{FileSink, FileSource};
pub use flusher::{Backlog, Flusher, FlusherOptions, Patience, RenderMarker, SinkNews};
pub use github::{GithubSink, GithubSource, service_jobs};
pub use https::{HttpsSink, HttpsSource};
pub use object::{ObjectSink, ObjectSource};
pub use source::{Closing, FoundLeg, FoundMarker, LegName, Narrow, Source, open_source};
pub use variables::Variables;

/// Whose evidence a sink receives.
#[derive(Debug, Clone)]
pub struct SinkContext {
    pub leg: LegId,
    pub epoch: Epoch,
    /// The commit, where it is known.
    pub sha: Option<String>,
    /// How many legs share the service's budget of requests.
    pub legs: u32,
    /// Where credentials and addresses come from.
    pub variables: Variables,
    /// How a sink that people look at says what a marker means.
    pub describe: Describe,
}

/// A marker in words.
pub type Describe = fn(&Marker) -> Described;

fn in_short(marker: &Marker) -> Described {
    let text = format!("{} files reported", marker.row.files_reported);
    Described { title: text.clone(), summary: text }
}

impl SinkContext {
    pub fn new(leg: LegId, epoch: Epoch) -> Self {
        Self { leg, epoch, sha: None, legs: 1, variables: Variables::default(), describe: in_short }
    }
}

/// What a backend can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    pub takes: Takes,
    /// Longest marker, in bytes.
    pub marker_bytes: usize,
    /// Shortest time between two writes that the service wants, in the long run. Zero for a sink that takes every write.
    pub interval: Secs,
    /// How many boundaries may go out at once ahead of the interval; one more comes back with each interval.
    pub burst: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// Every event, and the marker.
    EventsAndMarker,
    /// The marker only.
    MarkerOnly,
}

/// What a removal came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removed {
    Gone,
    /// Why it stays.
    Kept(&'static str),
}

/// What is sent at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Events in order without a gap, beginning right after the sink's position. Empty for a marker alone.
    pub events: Vec<Stored>,
    pub marker: Vec<u8>,
}

/// One sink, for the one leg and epoch that this process writes.
#[async_trait]
pub trait Backend: Send {
    /// The URL as it may be printed: without credentials.
    fn url(&self) -> &str;

    fn capabilities(&self) -> Capabilities;

    /// The newest event of this epoch that the sink itself holds. Asked at the start and after every error, because an answer that was
    /// lost says nothing about what was written. It also makes what the first write needs, and so proves that the sink can be written.
    async fn position(&mut self) -> Result<Seq, SinkError>;

    /// Stores the plan object, once, before the first batch. One that is there already is as good if it is equal.
    async fn put_plan(&mut self, plan: &[u8]) -> Result<(), SinkError>;

    /// Stores the events, then the marker. When it answers, both are durable there.
    async fn send(&mut self, batch: &Batch) -> Result<(), SinkError>;

    /// Takes back everything of this epoch. Only a check does that.
    async fn remove(&mut self) -> Result<Removed, SinkError> {
        Ok(Removed::Kept("nothing is deleted here"))
    }
}

/// Opens the sink that a URL names. Nothing is written yet.
pub fn open(url: &str, context: &SinkContext) -> Result<Box<dyn Backend>, SinkError> {
    is_one(url)?;
    match scheme(url) {
        "file" => Ok(Box::new(FileSink::new(url, context)?)),
        "s3" | "gs" | "az" => Ok(Box::new(ObjectSink::new(url, context)?)),
        "github" => Ok(Box::new(GithubSink::new(url, context)?)),
        "https" | "http" => Ok(Box::new(HttpsSink::new(url, context)?)),
        other => Err(unknown_scheme(url, other)),
    }
}

fn scheme(url: &str) -> &str {
    url.split_once(':').map_or("", |(scheme, _)| scheme)
}

/// The kinds of sinks, by what their URLs begin with.
const SCHEMES: [&str; 7] = ["file:", "s3:", "gs:", "az:", "github:", "https:", "http:"];

/// A list of URLs is none: a path may hold a comma, and would take the second for a part of its name.
fn is_one(url: &str) -> Result<(), SinkError> {
    let begins_another = |rest: &str| SCHEMES.iter().any(|scheme| rest.trim_start().starts_with(scheme));
    if url.split(',').skip(1).any(begins_another) {
        let detail = "is more than one URL; give --sink once for each, and in LEDGER_SINK set a blank between them";
        return Err(SinkError::new(printable(url), Trouble::Usage, detail));
    }
    Ok(())
}

fn unknown_scheme(url: &str, scheme: &str) -> SinkError {
    let how = "write file:///path, s3://, gs:// or az://bucket/prefix, github: or https://host/path";
    let detail = match scheme {
        "" if url.is_empty() => format!("an empty text names no sink; {how}"),
        "" => format!("begins with no kind of sink; {how}"),
        scheme => format!("'{scheme}' is no kind of sink; {how}"),
    };
    SinkError::new(printable(url), Trouble::Usage, detail)
}

/// How long a reader that follows a leg should wait between two looks: what costs requests of a shared budget is asked rarely.
pub fn look_again(url: &str) -> std::time::Duration {
    match scheme(url) {
        // 240 of 1,000 requests in an hour.
        "github" => std::time::Duration::from_secs(15),
        "file" | "" => std::time::Duration::from_millis(500),
        _ => std::time::Duration::from_secs(2),
    }
}

/// Whether a URL says more than a place. What is not used is refused, never dropped: somebody has meant something by it.
fn has_query(url: &str) -> bool {
    url.contains(['?', '#'])
}

/// A URL without user information, query and fragment: that is where tokens stand.
pub fn printable(url: &str) -> String {
    let end = url.find(['?', '#']).unwrap_or(url.len());
    let url = &url[..end];
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_that_nobody_reads_is_refused_and_never_told() {
        let context = SinkContext::new(check_leg("check-1"), Epoch::tamed("e"));
        for url in ["https://h/c?token=hidden", "https://h/c#hidden", "file:///x?y=hidden", "file:///x#hidden", "s3://b/p?hidden"] {
            let read = open_source(url, &Variables::default()).map(|_| ()).expect_err("it is refused");
            for error in [open(url, &context).map(|_| ()).expect_err("it is refused"), read] {
                assert_eq!(error.trouble, Trouble::Usage, "{url}");
                assert!(error.to_string().contains("holds a query") && !error.to_string().contains("hidden"), "{error}");
            }
        }
        let encoded = if cfg!(windows) { "file:///C:/x%3Fy%23" } else { "file:///x%3Fy%23" };
        assert!(open(encoded, &context).is_ok());
    }

    #[test]
    fn a_url_that_is_wrong_is_said_in_words() {
        let context = SinkContext::new(check_leg("check-1"), Epoch::tamed("e"));
        for (url, said) in [
            ("", "an empty text names no sink; write file:///path,"),
            ("bogus", "bogus: begins with no kind of sink; write"),
            ("bogus://x", "bogus://x: 'bogus' is no kind of sink; write"),
            ("s3:", "s3: names no bucket; write s3://bucket/prefix"),
            ("file:", "file: is no absolute path of this machine; write file:///path"),
            ("github:?state=x", "github: state=x is unknown; write"),
            ("http://h/c", "write https://"),
            ("file:///a,s3://b", "is more than one URL; give --sink once for each, and in LEDGER_SINK set a blank between them"),
            ("github:, file:///a", "is more than one URL"),
        ] {
            let error = open(url, &context).map(|_| ()).expect_err("it is refused");
            assert_eq!(error.trouble, Trouble::Usage, "{url}");
            assert!(error.to_string().contains(said) && !error.to_string().starts_with(':'), "{error}");
        }
        let plain = if cfg!(windows) { "file:///C:/a,b" } else { "file:///a,b" };
        assert!(open(plain, &context).is_ok(), "a comma alone is a name's own");
    }

    #[test]
    fn a_printed_url_holds_no_secret() {
        for (url, printed) in [
            ("file:///tmp/x", "file:///tmp/x"),
            ("https://user:secret@host/path?token=secret#secret", "https://host/path"),
            ("https://secret@host", "https://host"),
            ("s3://bucket/a@b", "s3://bucket/a@b"),
            ("github:?sha=1", "github:"),
            ("nonsense", "nonsense"),
        ] {
            assert_eq!(printable(url), printed);
        }
    }
}
