//! What a leg could not send while it ran, sent later out of its ledger.
//!
//! How far a sink has got is asked of the sink itself. A leg that somebody still writes is left to its writer.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Found;
use super::ledger;
use crate::core::chain::Stored;
use crate::core::event::SinkState;
use crate::core::ids::Seq;
use crate::core::marker::Marker;
use crate::core::moment::{Secs, Wall};
use crate::core::row::{LegRow, Note};
use crate::report::check_run;
use crate::sink::{self, Backlog, Flusher, FlusherOptions, Patience, SinkContext, Variables};
use crate::store::{Pulled, Reader, is_writer_alive, private};

/// A sink that says nothing for so long has not answered.
const SILENCE: Duration = Duration::from_secs(15);
/// Nobody waits for a next file here; a night's events over a slow line take their time.
const IN_ALL: Duration = Duration::from_secs(600);
/// Each is a line of some hundred bytes.
const MOST_BYTES: u64 = 1 << 20;

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sent {
    /// The sink had everything.
    There(Seq),
    Now {
        events: u64,
        last: Seq,
    },
    /// Why it is not for anybody here to send.
    Left(String),
}

/// Sends what is missing in this sink of one database.
pub async fn push(database: &Path, url: &str, variables: &Variables, now: Wall) -> Result<Sent, String> {
    if is_writer_alive(database) {
        return Ok(Sent::Left("its writer is alive and sends by itself".to_owned()));
    }
    if let Some(pulled) = Pulled::of(database) {
        return Ok(Sent::Left(format!("it is a copy out of {}", pulled.from)));
    }
    let reader = Reader::open(database).map_err(|error| error.to_string())?;
    let folded = ledger::fold(&reader, None, &mut Found::default());
    let damaged = || format!("it is damaged; `ledger verify {}` says where", database.display());
    let (Some(leg), false) = (folded.leg, folded.damaged) else { return Err(damaged()) };
    let last = leg.head.seq;
    let newest = reader.lines_after(Seq(last.0 - 1)).next().transpose().map_err(|error| error.to_string())?;
    let newest = newest.and_then(|line| line.stored()).ok_or_else(damaged)?;
    let context = SinkContext {
        leg: leg.id.clone(),
        epoch: leg.epoch.clone(),
        sha: leg.started.sha.clone(),
        legs: 1,
        variables: variables.clone(),
        describe: check_run::describe,
    };
    let mut backend = sink::open(url, &context).map_err(|error| error.to_string())?;
    let asked = tokio::time::timeout(SILENCE, backend.position()).await;
    let position = asked.map_err(|_| "no answer in time".to_owned())?.map_err(|error| error.detail)?;
    if position == last {
        note(database, url, last, now);
        return Ok(Sent::There(last));
    }
    let marker = Marker::of(&leg, Secs::ZERO, now);
    let render = move |lease: Secs, budget: usize| {
        // A leg that ended without its record will not speak again: nobody need wait for it.
        let lease = if marker.closed { lease } else { Secs::ZERO };
        marker.dated(lease, now).render(budget)
    };
    let backlog = Arc::new(Kept { database: database.to_owned() });
    let options = FlusherOptions { backlog, render: Arc::new(render), heartbeat: leg.started.heartbeat_s };
    let (flusher, _news) = Flusher::start(vec![backend], options).map_err(|error| error.to_string())?;
    flusher.offer(&[newest]);
    let states = flusher.settle(Patience { silence: SILENCE, total: IN_ALL }).await;
    let state = states.into_iter().next().expect("one sink, one state");
    if state.unsent > 0 || state.degraded {
        let why = state.error.unwrap_or_else(|| "no answer in time".to_owned());
        return Err(format!("{} of its {last} events are not there: {why}", state.unsent));
    }
    note(database, url, last, now);
    Ok(Sent::Now { events: last.0.saturating_sub(position.0), last })
}

/// A ledger as a sink reads it again.
pub struct Kept {
    pub database: PathBuf,
}

impl Backlog for Kept {
    fn read_after(&self, after: Seq, most_events: usize, most_bytes: usize) -> Result<Vec<Stored>, String> {
        let reader = Reader::open(&self.database).map_err(|error| error.to_string())?;
        let mut bytes = 0;
        let mut found = Vec::new();
        for line in reader.lines_after(after) {
            let line = line.map_err(|error| error.to_string())?;
            let stored = line.stored().ok_or_else(|| format!("event {} cannot be read back", line.seq))?;
            bytes += stored.line.len();
            found.push(stored);
            if found.len() >= most_events || bytes >= most_bytes {
                break;
            }
        }
        Ok(found)
    }
}

/// That a sink got the rest after the end. The leg's own record was written before that, and stays.
#[derive(Debug, Serialize, Deserialize)]
struct Late {
    v: u32,
    at: Wall,
    url: String,
    seq: Seq,
}

pub fn path_of(database: &Path) -> PathBuf {
    database.with_extension("pushed")
}

/// A note that cannot be written costs a report's word, and nothing in the sink.
fn note(database: &Path, url: &str, seq: Seq, at: Wall) {
    let url = sink::printable(url);
    let known = notes(database).iter().any(|late| late.url == url && late.seq == seq);
    if known {
        return;
    }
    let path = path_of(database);
    let late = Late { v: 1, at, url, seq };
    let written = serde_json::to_string(&late).map_err(io::Error::from).and_then(|line| {
        let mut file = match private::create_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => std::fs::OpenOptions::new().append(true).open(&path)?,
            made => made?,
        };
        writeln!(file, "{line}")
    });
    if let Err(error) = written {
        tracing::debug!(path = %path.display(), %error, "what was sent later could not be noted");
    }
}

fn notes(database: &Path) -> Vec<Late> {
    let path = path_of(database);
    let is_small = std::fs::metadata(&path).is_ok_and(|data| data.is_file() && data.len() <= MOST_BYTES);
    let text = if is_small { std::fs::read_to_string(&path).unwrap_or_default() } else { String::new() };
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Says in a leg's row what its sinks got after its end.
pub fn add_to(row: &mut LegRow, database: &Path) {
    let Some(last) = row.head.as_ref().map(|head| head.seq) else { return };
    for late in notes(database).into_iter().filter(|late| late.seq == last) {
        let got = SinkState { url: late.url.clone(), sent: last.0, unsent: 0, degraded: false, error: None };
        match row.sinks.iter_mut().find(|sink| sink.url == late.url) {
            Some(sink) if sink.unsent == 0 && !sink.degraded => continue,
            Some(sink) => *sink = got,
            None => row.sinks.push(got),
        }
        let text = format!("{} has all {last} events since `ledger sink push`", late.url);
        row.notes.push(Note { ts: late.at, kind: "sink-pushed".to_owned(), text });
    }
}
