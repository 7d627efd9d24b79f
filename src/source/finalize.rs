//! Closes what lost legs left open in a sink. The verdict is the report's; the sink only shows it, and keeps the payload as it was.

use crate::core::marker::Marker;
use crate::core::moment::Wall;
use crate::core::outcome::Terminal;
use crate::core::row::{LegRow, Summary};
use crate::report::check_run;
use crate::sink::{Closing, Narrow, SinkError, open_source};

/// How many legs were closed, and how many had been before.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Finalized {
    pub closed: usize,
    pub closed_already: usize,
    pub still_running: usize,
    /// Legs that could not be closed, and why. The others are closed all the same.
    pub failed: Vec<SinkError>,
}

pub async fn finalize(url: &str, narrow: &Narrow, now: Wall, summary: &Summary) -> Result<Finalized, SinkError> {
    let sink = open_source(url, &narrow.variables)?;
    let mut done = Finalized::default();
    for leg in sink.legs(narrow, now).await? {
        let marker = leg.marker.as_ref().and_then(|marker| serde_json::from_slice::<Marker>(&marker.bytes).ok());
        let Some(marker) = marker else { continue };
        if marker.closed {
            done.closed_already += 1;
            continue;
        }
        let Some((row, terminal)) = verdict_on(&marker.row, summary) else { continue };
        if terminal == Terminal::Running {
            done.still_running += 1;
            continue;
        }
        match sink.close(&leg, &check_run::verdict(row, terminal)).await {
            Ok(Closing::Closed) => done.closed += 1,
            Ok(Closing::ClosedAlready | Closing::NothingOpen) => done.closed_already += 1,
            Err(error) => done.failed.push(SinkError { detail: format!("{}: {}", marker.row.leg(), error.detail), ..error }),
        }
    }
    Ok(done)
}

/// What the report says of the epoch of a marker: as a leg of its own, or as another epoch of one.
fn verdict_on<'s>(marker: &'s LegRow, summary: &'s Summary) -> Option<(&'s LegRow, Terminal)> {
    let same_place = |row: &LegRow| {
        (&row.run_id, &row.platform, &row.target, row.shard) == (&marker.run_id, &marker.platform, &marker.target, marker.shard)
    };
    let leg = summary.legs.iter().find(|row| same_place(row))?;
    if leg.attempt == marker.attempt && leg.epoch == marker.epoch {
        return Some((leg, leg.terminal));
    }
    let other = leg.attempts.iter().find(|other| other.attempt == marker.attempt && other.epoch == marker.epoch)?;
    Some((marker, other.terminal))
}
