//! The marker: a leg's newest state in a sink, small enough for every sink, complete enough to need nothing beside it.
//!
//! It is the leg's row with what a reader needs to judge silence. Rendering it to a budget gives up detail in a fixed order and never
//! the identity, the counts, the current file or the newest record.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::event::HostInfo;
use super::fold::Leg;
use super::moment::{Secs, Wall};
use super::outcome::Terminal;
use super::process::ProcessId;
use super::row::{FileRow, LegRow};

pub const MARKER_VERSION: u32 = 1;

/// More rows than any sink's marker has room for are not even drawn: a repro of thousands of files would draw them at every heartbeat.
const FILES_DRAWN: usize = 128;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Marker {
    pub v: u32,
    /// The verdict once the lease has run out.
    pub if_silent: Terminal,
    /// By the writer's clock, or by the sink's where it dates nothing itself (an open check run); a lease is judged by the sink's clock
    /// where it has one.
    pub written_at: Wall,
    pub host: HostInfo,
    pub writer: ProcessId,
    /// Whether the writer's own word on how the leg ended (`loop-finished`) is in: silence after it means nothing.
    pub closed: bool,
    /// How many file rows were left out for want of room, oldest first.
    #[serde(default)]
    pub files_omitted: u32,
    #[serde(flatten)]
    pub row: LegRow,
}

/// A marker in words: a headline and a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    pub title: String,
    pub summary: String,
}

impl Marker {
    pub fn of(leg: &Leg, lease: Secs, written_at: Wall) -> Self {
        let (row, files_omitted) = leg.newest_row(FILES_DRAWN);
        let row = LegRow { lease_s: Some(lease), ..row };
        let closed = row.terminal != Terminal::Running;
        Self {
            v: MARKER_VERSION,
            if_silent: Terminal::RunnerLost,
            written_at,
            host: leg.started.host.clone(),
            writer: leg.started.writer,
            closed,
            files_omitted,
            row,
        }
    }

    /// The same state, written at another time, for another sink.
    pub fn dated(&self, lease: Secs, written_at: Wall) -> Self {
        let mut marker = self.clone();
        marker.row.lease_s = Some(lease);
        marker.written_at = written_at;
        marker
    }

    /// JSON of at most `budget` bytes, with the newest kept.
    pub fn render(&self, budget: usize) -> Vec<u8> {
        let whole = self.json();
        if whole.len() <= budget {
            return whole;
        }
        let mut marker = self.clone();
        for step in 0.. {
            let more = marker.give_up(step);
            let bytes = marker.json();
            if bytes.len() <= budget || !more {
                return bytes;
            }
        }
        unreachable!("give_up ends")
    }

    fn json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a marker has string keys only")
    }

    /// Gives up the next detail. False when nothing is left to give.
    fn give_up(&mut self, step: u32) -> bool {
        match step {
            0 => self.row.files.iter_mut().for_each(|file| file.evidence = None),
            1 => self.row.files.iter_mut().for_each(|file| {
                file.last_output = None;
                file.foreign.clear();
                file.used = None;
                file.components.clear();
            }),
            2 => self.row.files.iter_mut().for_each(|file| {
                file.leftovers.truncate(3);
                file.leftovers.iter_mut().for_each(|leftover| leftover.argv = None);
                file.notes.clear();
                file.containment = None;
            }),
            3 => self.row.notes.clear(),
            4 => self.row.files.iter_mut().for_each(|file| {
                file.leftovers.clear();
                file.cap_basis = None;
                file.log = None;
            }),
            _ => return self.omit_files(),
        }
        true
    }

    /// Not-run rows go first, for the plan's length says as much; then the older half of the records.
    fn omit_files(&mut self) -> bool {
        let before = self.row.files.len();
        if before == 0 {
            return false;
        }
        drop_not_run(&mut self.row.files);
        if self.row.files.len() == before {
            self.row.files.drain(..before.div_ceil(2));
        }
        let gone = u32::try_from(before - self.row.files.len()).unwrap_or(u32::MAX);
        self.files_omitted = self.files_omitted.saturating_add(gone);
        true
    }
}

/// The plan's length says as much as these rows.
fn drop_not_run(files: &mut Vec<FileRow>) {
    files.retain(|file| file.outcome.is_none() || file.reported());
}
