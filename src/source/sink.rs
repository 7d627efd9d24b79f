//! A sink as a source: markers judged by their leases, events folded where the sink keeps them. The runner may be long gone.

use futures_util::{StreamExt as _, stream};

use super::followed::Followed;
use super::{Evidence, Found};
use crate::core::chain::Chain;
use crate::core::classify::{Trace, Writer};
use crate::core::event::SinkState;
use crate::core::fold::Leg;
use crate::core::ids::Seq;
use crate::core::lease;
use crate::core::marker::Marker;
use crate::core::moment::{Secs, Wall};
use crate::core::outcome::{Conclusion, Terminal};
use crate::core::row::{Head, LegRow};
use crate::sink::{FoundLeg, Narrow, SinkError, Source, open_source};

/// Reads every leg that is asked for.
pub async fn read(url: &str, narrow: &Narrow, now: Wall, found: &mut Found) -> Result<(), SinkError> {
    let sink = open_source(url, &narrow.variables)?;
    let mut legs = sink.legs(narrow, now).await?;
    if legs.len() > MANY_LEGS {
        for leg in legs.iter_mut().filter(|leg| is_closed(leg)) {
            leg.segments.clear();
            leg.promised = Seq(0);
        }
    }
    let sink = sink.as_ref();
    // In their order, and some under way at once: a far store answers late, not slowly.
    let mut gathered = stream::iter(legs).map(|leg| look(sink, leg, now)).buffered(LEGS_TOGETHER);
    while let Some(one) = gathered.next().await {
        found.join(one);
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
    for leg in sink.legs(narrow, now).await? {
        let name = name_of(sink.as_ref(), &leg);
        if let Some(marker) = marker_or_told(&leg, &name, found) {
            found.evidence.push(of_marker(sink.url(), marker, None));
        }
    }
    Ok(())
}

fn name_of(sink: &dyn Source, leg: &FoundLeg) -> String {
    format!("{}: {}", sink.url(), leg.place)
}

/// What one epoch's place says, and what of it cannot be read. A place with nothing readable in it still is a leg that ran.
async fn look(sink: &dyn Source, place: FoundLeg, now: Wall) -> Found {
    let mut found = Found::default();
    let name = name_of(sink, &place);
    let marker = marker_or_told(&place, &name, &mut found);
    let known = marker.as_ref().and_then(|(marker, _)| marker.row.head.clone());
    let mut folded = fold(segments(sink, &place).await, known, &name, &mut found);
    if folded.leg.is_none() {
        match sink.plan(&place).await {
            // A leg of which no more than the plan arrived, or is left, has its first event.
            Ok(Some(plan)) => folded.begin(&plan, &name, &mut found),
            Ok(None) => {}
            Err(error) => found.warn(format!("{name}: {error}")),
        }
    }
    if !folded.cut && folded.last() < place.promised {
        folded.cut = true;
        found.warn(format!("{name}: {}", short_of(&place, folded.last())));
    }
    let evidence = match (marker, folded.leg) {
        (Some(marker), leg) if folded.broken => Some(of_broken(sink.url(), marker, leg.as_ref())),
        (Some(marker), leg) => Some(of_marker(sink.url(), marker, leg.as_ref())),
        (None, Some(leg)) => Some(of_events(sink.url(), &leg, folded.cut, now)),
        (None, None) if place.is_a_mere_name() => None,
        (None, None) => Some(of_a_name(sink.url(), &place)),
    };
    found.evidence.extend(evidence);
    found
}

/// The marker, if there is one that can be read. What of the place cannot be read is told.
fn marker_or_told(place: &FoundLeg, name: &str, found: &mut Found) -> Option<(Marker, Secs)> {
    place.unreadable.iter().for_each(|why| found.warn(format!("{name}: {why}")));
    marker_of(place).unwrap_or_else(|why| {
        found.warn(format!("{name}: {why}"));
        None
    })
}

/// The marker and its age, or why it cannot be read.
pub fn marker_of(place: &FoundLeg) -> Result<Option<(Marker, Secs)>, String> {
    let Some(marker) = &place.marker else { return Ok(None) };
    let read = serde_json::from_slice::<Marker>(&marker.bytes);
    read.map(|read| Some((read, marker.age))).map_err(|error| format!("the marker cannot be read: {error}"))
}

pub fn has_a_marker(place: &FoundLeg) -> bool {
    matches!(marker_of(place), Ok(Some(_)))
}

fn short_of(place: &FoundLeg, last: Seq) -> String {
    format!("it is said to hold event {}, and gives events up to {last}", place.promised)
}

fn of_marker(url: &str, (marker, age): (Marker, Secs), leg: Option<&Leg>) -> Evidence {
    let trace = Trace::Marker { lease: marker.row.lease_s.unwrap_or(Secs::ZERO), age };
    let row = newer(marker.row, leg.map(Leg::row));
    // A sink alone cannot tell a killed ledger from a lost machine, wherever it is read: only the lease speaks. The ledger folder beside
    // it, on the very host and boot, can.
    evidence(url, row, trace, leg)
}

/// A marker beside events that were changed, or that are not the ones it names: a pass that only the marker tells is none.
fn of_broken(url: &str, marker: (Marker, Secs), leg: Option<&Leg>) -> Evidence {
    let mut told = of_marker(url, marker, leg);
    if told.row.conclusion == Some(Conclusion::Pass) {
        told.trace = Trace::Damaged { after: leg.map_or(Seq(0), |leg| leg.head.seq) };
        if let Some(leg) = leg {
            told.row = LegRow { lease_s: told.row.lease_s, source: told.row.source, ..leg.row() };
        }
        told.row.distrust();
    }
    told
}

/// Events whose marker is lost. How long their silence has been is told by the newest of them, which is older than the marker was: it is
/// counted by the reader's clock, against the lease that the leg's own heartbeat asks for.
fn of_events(url: &str, leg: &Leg, cut: bool, now: Wall) -> Evidence {
    let mut row = leg.row();
    if cut {
        row.distrust();
        return evidence(url, row, Trace::Damaged { after: leg.head.seq }, Some(leg));
    }
    let lease = lease::lease_for(leg.started.heartbeat_s);
    row.lease_s = Some(lease);
    evidence(url, row, Trace::Marker { lease, age: now.since(leg.last_event()) }, Some(leg))
}

/// A leg of which nothing can be read: it is known by the name of its place, and never by its absence.
pub fn of_a_name(url: &str, place: &FoundLeg) -> Evidence {
    let why = place.unreadable.first().cloned().or_else(|| marker_of(place).err());
    let mut row = LegRow::named(place.named.leg.clone());
    row.epoch.clone_from(&place.named.epoch);
    row.why = why.unwrap_or_else(|| match place.promised {
        Seq(0) => "its plan and its events are damaged".to_owned(),
        _ => short_of(place, Seq(0)),
    });
    evidence(url, row, Trace::Unreadable, None)
}

fn evidence(url: &str, mut row: LegRow, trace: Trace, leg: Option<&Leg>) -> Evidence {
    row.source = Some(url.to_owned());
    // What the leg could not send before its end, and is here to be read, has come since.
    let here = row.head.as_ref().map_or(0, |head| head.seq.0);
    for sink in row.sinks.iter_mut().filter(|sink| sink.url == url && sink.sent + sink.unsent <= here) {
        *sink = SinkState { sent: here, unsent: 0, degraded: false, error: None, url: sink.url.clone() };
    }
    Evidence { row, trace, writer: Writer::Unknown, resumes: leg.and_then(|leg| leg.started.resumes.clone()), unnamed: None }
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

/// The events of one epoch, folded as far as they follow one another.
struct Folded {
    leg: Option<Leg>,
    /// Something stands there that cannot be read or cannot follow, and nothing after it is used.
    cut: bool,
    /// What stands there is not what was written.
    broken: bool,
}

impl Folded {
    fn last(&self) -> Seq {
        self.leg.as_ref().map_or(Seq(0), |leg| leg.head.seq)
    }

    fn begin(&mut self, plan: &[u8], name: &str, found: &mut Found) {
        let text = String::from_utf8_lossy(plan);
        let mut first = Followed::new(Chain::default());
        let taken = first.take(Some(text.trim_end()), None);
        let (leg, end) = first.end();
        self.leg = leg;
        if let Err(why) = taken.and(end) {
            self.cut = true;
            found.warn(format!("{name}: the plan cannot be read: {why}"));
        }
    }
}

fn fold(segments: Vec<Segment>, known: Option<Head>, name: &str, found: &mut Found) -> Folded {
    let mut chain = Followed::new(Chain::default()).against(known, "the marker");
    let (mut cut, mut broken) = (false, false);
    'segments: for segment in segments {
        let (segment, bytes) = match segment {
            Ok(read) => read,
            Err(error) => {
                found.warn(format!("{name}: {}", error.detail));
                cut = true;
                break;
            }
        };
        let text = String::from_utf8_lossy(&bytes);
        if text.trim().is_empty() {
            found.warn(format!("{name}: {segment} is empty; what comes after it is not used"));
            cut = true;
            break;
        }
        for line in text.lines() {
            if let Err(why) = chain.take(Some(line), None) {
                found.warn(format!("{name}: {segment}: {why}; what comes after it is not used"));
                (cut, broken) = (true, true);
                break 'segments;
            }
        }
    }
    // A marker that is ahead of the segments is the usual state of a live leg.
    let (leg, _) = chain.end();
    Folded { leg, cut, broken }
}

/// How one epoch in a sink stands: the chain of its segments, and its marker's head against it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SinkVerified {
    pub place: String,
    pub last: Seq,
    pub ended: bool,
    pub broken: Option<String>,
    /// Why nobody can say how it stands.
    pub unreadable: Option<String>,
    /// What cannot be read beside a chain that is whole.
    pub notes: Vec<String>,
}

/// Follows the chain of every epoch that the sink holds.
pub async fn verify(url: &str, narrow: &Narrow, now: Wall) -> Result<Vec<SinkVerified>, SinkError> {
    let sink = open_source(url, &narrow.variables)?;
    let mut verified = Vec::new();
    for place in sink.legs(narrow, now).await? {
        // A writer that was refused, or killed before its first word, has left a name and no evidence.
        if !place.is_a_mere_name() {
            verified.push(verify_one(sink.as_ref(), &place).await);
        }
    }
    Ok(verified)
}

async fn verify_one(sink: &dyn Source, place: &FoundLeg) -> SinkVerified {
    let mut told = place.unreadable.clone();
    let marker = marker_of(place).unwrap_or_else(|why| {
        told.push(why);
        None
    });
    let known = marker.and_then(|(marker, _)| marker.row.head);
    let mut verified = follow(sink, place, known.as_ref()).await;
    let promised = known.map_or(Seq(0), |head| head.seq).max(place.promised);
    // Where a sink keeps no events, none of them is missing.
    let behind = sink.keeps_events() && promised > verified.last;
    if behind && verified.broken.is_none() && verified.unreadable.is_none() {
        verified.broken = Some(match promised == place.promised {
            true => short_of(place, verified.last),
            false => format!("the marker knows event {promised}, and the segments end at {}", verified.last),
        });
    }
    if verified.ended || verified.broken.is_some() || verified.unreadable.is_some() {
        verified.notes = told;
    } else if !told.is_empty() {
        verified.unreadable = Some(told.join("; "));
    }
    verified
}

/// The chain of a place's segments, as far as it holds, against the head that the marker names.
async fn follow(sink: &dyn Source, place: &FoundLeg, known: Option<&Head>) -> SinkVerified {
    let mut chain = Chain::default();
    let mut verified = SinkVerified { place: place.place.clone(), ..SinkVerified::default() };
    'segments: for segment in &place.segments {
        let bytes = match sink.segment(place, segment).await {
            Ok(bytes) => bytes,
            Err(error) => {
                verified.unreadable = Some(error.detail);
                break;
            }
        };
        if bytes.trim_ascii().is_empty() && sink.keeps_events() && place.promised == Seq(0) {
            verified.broken = Some(format!("{segment} is empty"));
            break;
        }
        for line in String::from_utf8_lossy(&bytes).lines() {
            if let Err(error) = chain.follow(line, None) {
                verified.broken = Some(format!("{segment}: {error}"));
                break 'segments;
            }
            let differs = known.is_some_and(|head| head.seq == chain.last() && head.digest != *chain.digest());
            if differs {
                verified.broken = Some(format!("{segment}: event {} is not the one that the marker names", chain.last()));
                break 'segments;
            }
        }
    }
    SinkVerified { last: chain.last(), ended: chain.ended(), ..verified }
}
