//! A sink as a source: markers judged by their leases, events folded where the sink keeps them. The runner may be long gone.

use futures_util::{StreamExt as _, stream};

use super::{Evidence, Found};
use crate::core::chain::Chain;
use crate::core::classify::{Trace, Writer};
use crate::core::event::Envelope;
use crate::core::fold::Leg;
use crate::core::ids::{Digest, Seq};
use crate::core::marker::Marker;
use crate::core::moment::{Secs, Wall};
use crate::core::outcome::Terminal;
use crate::core::row::{Head, LegRow};
use crate::sink::{FoundLeg, Narrow, SinkError, Source, open_source};

/// Reads every leg that is asked for.
pub async fn read(url: &str, narrow: &Narrow, now: Wall, found: &mut Found) -> Result<(), SinkError> {
    let sink = open_source(url, &narrow.variables)?;
    let mut legs = sink.legs(narrow, now).await?;
    if legs.len() > MANY_LEGS {
        legs.iter_mut().filter(|leg| is_closed(leg)).for_each(|leg| leg.segments.clear());
    }
    let sink = sink.as_ref();
    // In their order, and some under way at once: a far store answers late, not slowly.
    let mut gathered = stream::iter(legs).map(|leg| async move { (segments(sink, &leg).await, leg) }).buffered(LEGS_TOGETHER);
    while let Some((segments, leg)) = gathered.next().await {
        if let Some(evidence) = evidence_of(sink.url(), &leg, segments, found) {
            found.evidence.push(evidence);
        }
    }
    Ok(())
}

/// Of more legs than this, those that ended by themselves are told by their markers: one request instead of some dozens each. What is
/// not told then are details of files that the marker had no room for, and samples along the leg.
const MANY_LEGS: usize = 200;
const LEGS_TOGETHER: usize = 8;
const SEGMENTS_TOGETHER: usize = 8;

fn is_closed(leg: &FoundLeg) -> bool {
    let marker = leg.marker.as_ref().and_then(|marker| serde_json::from_slice::<Marker>(&marker.bytes).ok());
    marker.is_some_and(|marker| marker.closed && marker.files_omitted == 0)
}

/// The bytes of a leg's segments in order, up to the first that cannot be read.
async fn segments(sink: &dyn Source, leg: &FoundLeg) -> Vec<Segment> {
    let mut read = Vec::with_capacity(leg.segments.len());
    let mut coming = stream::iter(&leg.segments)
        .map(|name| async move { sink.segment(leg, name).await.map(|bytes| (name.clone(), bytes)) })
        .buffered(SEGMENTS_TOGETHER);
    while let Some(one) = coming.next().await {
        let failed = one.is_err();
        read.push(one);
        if failed {
            break;
        }
    }
    read
}

/// The markers alone, for an import that keeps the events as they are.
pub async fn read_markers(url: &str, narrow: &Narrow, now: Wall, found: &mut Found) -> Result<(), SinkError> {
    let sink = open_source(url, &narrow.variables)?;
    for mut leg in sink.legs(narrow, now).await? {
        leg.segments.clear();
        if let Some(evidence) = evidence_of(sink.url(), &leg, Vec::new(), found) {
            found.evidence.push(evidence);
        }
    }
    Ok(())
}

fn evidence_of(url: &str, place: &FoundLeg, segments: Vec<Segment>, found: &mut Found) -> Option<Evidence> {
    let name = format!("{url}: {}", place.place);
    let marker = place.marker.as_ref().and_then(|marker| match serde_json::from_slice::<Marker>(&marker.bytes) {
        Ok(read) => Some((read, marker.age)),
        Err(error) => {
            found.warn(format!("{name}: the marker cannot be read: {error}"));
            None
        }
    });
    let leg = folded(place, segments, &name, found);
    let resumes = leg.as_ref().and_then(|leg| leg.started.resumes.clone());
    let from_events = leg.as_ref().map(Leg::row);
    let (mut row, trace, writer) = match (marker, from_events) {
        (Some((marker, age)), events) => {
            let trace = Trace::Marker { lease: marker.row.lease_s.unwrap_or(Secs::ZERO), age };
            // A sink alone cannot tell a killed ledger from a lost machine, wherever it is read: only the lease speaks. The ledger folder
            // beside it, on the very host and boot, can.
            (newer(marker.row, events), trace, Writer::Unknown)
        }
        (None, Some(row)) => (row, Trace::Ledger, Writer::Unknown),
        (None, None) => return None,
    };
    row.source = Some(url.to_owned());
    Some(Evidence { row, trace, writer, resumes })
}

/// Events carry every detail and the marker may be ahead of them; whichever reaches further speaks, and the marker's lease stays.
fn newer(marker: LegRow, events: Option<LegRow>) -> LegRow {
    let reach = |row: &LegRow| row.head.as_ref().map_or(0, |head| head.seq.0);
    match events {
        Some(events) if reach(&events) >= reach(&marker) || events.terminal != Terminal::Running => {
            LegRow { lease_s: marker.lease_s, ..events }
        }
        _ => marker,
    }
}

/// A segment's name and bytes, or why there are none.
type Segment = Result<(String, Vec<u8>), SinkError>;

fn folded(place: &FoundLeg, segments: Vec<Segment>, name: &str, found: &mut Found) -> Option<Leg> {
    let mut chain = Chain::default();
    let mut leg: Option<Leg> = None;
    // A leg of which no more than the plan arrived has its first event.
    let plan = place.plan.clone().filter(|_| segments.is_empty()).map(|bytes| Ok(("the plan".to_owned(), bytes)));
    for segment in plan.into_iter().chain(segments) {
        let (segment, bytes) = match segment {
            Ok(read) => read,
            Err(error) => {
                found.warn(format!("{name}: {error}"));
                break;
            }
        };
        for line in String::from_utf8_lossy(&bytes).lines() {
            if let Err(why) = chain.follow(line, None).map_err(|error| error.to_string()).and_then(|_| take(&mut leg, line)) {
                found.warn(format!("{name}: {segment}: {why}; what comes after it is not used"));
                return leg;
            }
        }
    }
    leg
}

fn take(leg: &mut Option<Leg>, line: &str) -> Result<(), String> {
    let envelope: Envelope = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let head = Head { seq: envelope.seq, digest: Digest::of(line.as_bytes()) };
    match leg {
        Some(leg) => leg.apply(&envelope, head).map_err(|error| error.to_string()),
        None => {
            *leg = Some(Leg::begin(&envelope, head).map_err(|error| error.to_string())?);
            Ok(())
        }
    }
}

/// How one epoch in a sink stands: the chain of its segments, and its marker's head against it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SinkVerified {
    pub place: String,
    pub last: Seq,
    pub ended: bool,
    pub broken: Option<String>,
}

/// Follows the chain of every epoch that the sink holds.
pub async fn verify(url: &str, narrow: &Narrow, now: Wall) -> Result<Vec<SinkVerified>, SinkError> {
    let sink = open_source(url, &narrow.variables)?;
    let mut verified = Vec::new();
    for place in sink.legs(narrow, now).await? {
        // A writer that was refused, or killed before its first word, has left a name and no evidence.
        if place.marker.is_none() && place.segments.is_empty() {
            continue;
        }
        verified.push(verify_one(sink.as_ref(), &place).await?);
    }
    Ok(verified)
}

async fn verify_one(sink: &dyn Source, place: &FoundLeg) -> Result<SinkVerified, SinkError> {
    let mut chain = Chain::default();
    let mut broken = None;
    let marker = place.marker.as_ref().and_then(|marker| serde_json::from_slice::<Marker>(&marker.bytes).ok());
    let known = marker.and_then(|marker| marker.row.head);
    'segments: for segment in &place.segments {
        let bytes = sink.segment(place, segment).await?;
        for line in String::from_utf8_lossy(&bytes).lines() {
            if let Err(error) = chain.follow(line, None) {
                broken = Some(format!("{segment}: {error}"));
                break 'segments;
            }
            let differs = known.as_ref().is_some_and(|head| head.seq == chain.last() && head.digest != *chain.digest());
            if differs {
                broken = Some(format!("{segment}: event {} is not the one that the marker names", chain.last()));
                break 'segments;
            }
        }
    }
    let only_a_marker = place.segments.is_empty();
    let behind = known.filter(|head| !only_a_marker && head.seq > chain.last());
    if let (None, Some(head)) = (&broken, behind) {
        broken = Some(format!("the marker knows event {}, and the segments end at {}", head.seq, chain.last()));
    }
    Ok(SinkVerified { place: place.place.clone(), last: chain.last(), ended: chain.ended(), broken })
}
