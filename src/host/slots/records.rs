//! The records beside the locks, as they are stored. They come from other processes, on a shared folder from other users: bounded, and
//! nothing in them reaches a terminal unchecked.

use std::io::{Read as _, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{SlotError, system};
use crate::core::moment::Wall;
use crate::core::process::ProcessId;
use crate::core::slot::{Party, Quarantine};

const VERSION: u32 = 1;
/// A record has a few hundred bytes.
const MOST_BYTES: u64 = 16 * 1024;
const MOST_CHARS: usize = 300;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct PoolRecord {
    pub v: u32,
    pub name: String,
    pub capacity: u32,
}

impl PoolRecord {
    pub fn new(name: &str, capacity: u32) -> Self {
        Self { v: VERSION, name: name.to_owned(), capacity }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub struct PartyRecord {
    v: u32,
    pid: i32,
    start: u64,
    run_id: Option<String>,
    leg: Option<String>,
    since: Wall,
    /// A waiter's last look, on the clock that counts awake time since boot.
    #[serde(default)]
    pub looked_mono_ms: Option<u64>,
}

impl PartyRecord {
    pub fn of(party: &Party, looked_mono_ms: Option<u64>) -> Self {
        Self {
            v: VERSION,
            pid: party.id.pid,
            start: party.id.start,
            run_id: party.run_id.clone(),
            leg: party.leg.clone(),
            since: party.since,
            looked_mono_ms,
        }
    }

    pub fn party(&self) -> Party {
        Party {
            id: ProcessId { pid: self.pid, start: self.start },
            run_id: self.run_id.as_deref().map(harmless),
            leg: self.leg.as_deref().map(harmless),
            since: self.since,
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub struct QuarantineRecord {
    v: u32,
    reason: String,
    since: Wall,
    expires: Wall,
}

impl QuarantineRecord {
    pub fn of(kept: &Quarantine) -> Self {
        Self { v: VERSION, reason: kept.reason.clone(), since: kept.since, expires: kept.expires }
    }

    pub fn quarantine(&self) -> Quarantine {
        Quarantine { reason: harmless(&self.reason), since: self.since, expires: self.expires }
    }
}

/// A record that is missing, damaged, too large or no file at all is none.
pub fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Option<T> {
    let file = system::open_to_read(path).ok().filter(|file| file.metadata().is_ok_and(|data| data.is_file()))?;
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// Whether a record outlives a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flush {
    /// A quarantine that a power cut takes back would let somebody meet a device that may still run.
    ToDisk,
    /// It only tells of a process, which a power cut ends too.
    No,
}

/// Writes a record whole: whoever reads meets the old one or the new one.
pub fn write<T: Serialize>(path: &Path, record: &T, flush: Flush) -> Result<(), SlotError> {
    let failed = |source| SlotError::File { path: path.to_owned(), source };
    let bytes = serde_json::to_vec(record).map_err(|error| failed(error.into()))?;
    let draft = path.with_extension(format!("{}-new", std::process::id()));
    // Left by a process of this number that died in between.
    remove(&draft);
    let written = system::create(&draft).and_then(|mut file| {
        file.write_all(&bytes)?;
        if flush == Flush::ToDisk {
            file.sync_data()?;
        }
        std::fs::rename(&draft, path)
    });
    written.map_err(|source| {
        remove(&draft);
        failed(source)
    })
}

pub fn remove(path: &Path) {
    // One that is gone already is what was wanted; one that cannot be removed is read as what it says.
    let _ = std::fs::remove_file(path);
}

/// Text of somebody else's, fit for a terminal.
pub fn harmless(text: &str) -> String {
    text.chars().take(MOST_CHARS).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
