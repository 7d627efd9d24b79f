//! The reader's side of a sink: which legs it holds, how fresh their markers are, what events they left.

use async_trait::async_trait;

use crate::core::ids::{Attempt, Epoch, LegId, Platform, RunId, Seq, Target};
use crate::core::moment::{Secs, Wall};

use super::check::is_check;
use super::error::SinkError;
use super::file::FileSource;
use super::github::GithubSource;
use super::https::HttpsSource;
use super::object::ObjectSource;
use super::{Described, Variables, is_one, scheme, unknown_scheme};

/// A marker over this is not read: it comes from outside, and an honest one has at most 64 KiB.
pub const MAX_MARKER_BYTES: u64 = 1024 * 1024;
/// A segment over this is not read. The flusher makes none over some MiB.
pub const MAX_SEGMENT_BYTES: u64 = 64 * 1024 * 1024;

/// Which legs are asked for. A field that is `None` asks for all. Only `run_id` and `attempt` keep a sink from being listed whole.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Narrow {
    pub run_id: Option<RunId>,
    pub attempt: Option<Attempt>,
    pub platform: Option<Platform>,
    pub target: Option<Target>,
    /// The reader's clock, where it was set by hand: then a marker's age is counted to it, and not to the sink's own clock.
    pub set_clock: Option<Wall>,
    /// Where credentials and addresses come from.
    pub variables: Variables,
}

/// One epoch of a leg that has left something in the sink. What it says is from outside and unchecked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundLeg {
    /// The sink's own name for the epoch's folder.
    pub place: String,
    /// Whose it is by that name: all that is known of a leg of which nothing can be read.
    pub named: LegName,
    /// The `run-started` event, where it arrived.
    pub plan: Option<Vec<u8>>,
    pub marker: Option<FoundMarker>,
    /// Names of the event segments in order.
    pub segments: Vec<String>,
    /// The newest event that the sink itself says it holds; 0 where it says nothing of that.
    pub promised: Seq,
    /// What is there and cannot be read: which, and why.
    pub unreadable: Vec<String>,
}

impl FoundLeg {
    /// Whether nothing but a name was left: a writer that was refused, or killed before its first word.
    pub fn is_a_mere_name(&self) -> bool {
        self.plan.is_none()
            && self.marker.is_none()
            && self.segments.is_empty()
            && self.promised == Seq(0)
            && self.unreadable.is_empty()
    }
}

/// A leg and epoch as the name of its place tells them. Ids that make no plain name stand there in the form that the name has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LegName {
    pub leg: LegId,
    /// `None` where the place's name does not hold it.
    pub epoch: Option<Epoch>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundMarker {
    pub bytes: Vec<u8>,
    /// Time since it was written, by the sink's own clock where it has one.
    pub age: Secs,
}

/// A sink as a source of evidence.
#[async_trait]
pub trait Source: Send + Sync {
    fn url(&self) -> &str;

    /// Whether it keeps every event. One that keeps markers only is whole without any.
    fn keeps_events(&self) -> bool {
        true
    }

    /// The `run-started` event of a leg of which nothing else can be read.
    async fn plan(&self, leg: &FoundLeg) -> Result<Option<Vec<u8>>, SinkError> {
        Ok(leg.plan.clone())
    }

    /// Every epoch of every leg that is asked for. What cannot be read costs its own leg, and is told there. `now` is the reader's clock,
    /// for a sink that has none of its own.
    async fn legs(&self, narrow: &Narrow, now: Wall) -> Result<Vec<FoundLeg>, SinkError>;

    /// The bytes of one segment: event lines, each with its newline.
    async fn segment(&self, leg: &FoundLeg, name: &str) -> Result<Vec<u8>, SinkError>;

    /// Closes what a lost leg left open, where a sink has such a thing. Doing it twice changes nothing, and the payload stays verbatim.
    async fn close(&self, _: &FoundLeg, _: &Described) -> Result<Closing, SinkError> {
        Ok(Closing::NothingOpen)
    }
}

/// What a closing came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Closing {
    /// This sink keeps nothing open.
    NothingOpen,
    ClosedAlready,
    Closed,
}

/// Opens the sink that a URL names, for reading. Every reader goes through here.
pub fn open_source(url: &str, variables: &Variables) -> Result<Box<dyn Source>, SinkError> {
    is_one(url)?;
    let source: Box<dyn Source> = match scheme(url) {
        "file" => Box::new(FileSource::new(url)?),
        "s3" | "gs" | "az" => Box::new(ObjectSource::new(url, variables)?),
        "github" => Box::new(GithubSource::new(url, variables)?),
        "https" | "http" => Box::new(HttpsSource::new(url, variables)?),
        other => return Err(unknown_scheme(url, other)),
    };
    Ok(Box::new(WithoutChecks(source)))
}

/// A source in which nothing is seen of what checks of the sink have left there, unless it is just that which is asked for.
struct WithoutChecks(Box<dyn Source>);

#[async_trait]
impl Source for WithoutChecks {
    fn url(&self) -> &str {
        self.0.url()
    }

    fn keeps_events(&self) -> bool {
        self.0.keeps_events()
    }

    async fn plan(&self, leg: &FoundLeg) -> Result<Option<Vec<u8>>, SinkError> {
        self.0.plan(leg).await
    }

    async fn legs(&self, narrow: &Narrow, now: Wall) -> Result<Vec<FoundLeg>, SinkError> {
        let mut legs = self.0.legs(narrow, now).await?;
        if !narrow.run_id.as_ref().is_some_and(|run| is_check(run.as_str())) {
            legs.retain(|leg| !is_check(leg.named.leg.run_id.as_str()));
        }
        Ok(legs)
    }

    async fn segment(&self, leg: &FoundLeg, name: &str) -> Result<Vec<u8>, SinkError> {
        self.0.segment(leg, name).await
    }

    async fn close(&self, leg: &FoundLeg, described: &Described) -> Result<Closing, SinkError> {
        self.0.close(leg, described).await
    }
}
