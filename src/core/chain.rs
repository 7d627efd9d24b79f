//! The chain of a leg: whether stored lines are the ones that were written, all of them, in order, of one leg.
//!
//! It knows lines, not where they come from: a database, a sink's segments and an archive are held to the same rules.

use std::sync::Arc;

use serde::Deserialize;

use super::event::{Body, EVENT_VERSION, Envelope};
use super::ids::{Digest, Epoch, LegId, Seq};

/// One event, durable: what the store acknowledges, and what goes on to the sinks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    pub seq: Seq,
    /// The exact text that the database holds, without a newline.
    pub line: Arc<str>,
    pub digest: Digest,
    /// Whether the event moves the leg on (`Body::is_progress`).
    pub progress: bool,
}

/// Checks the lines of one epoch one after the other, from the first.
#[derive(Debug, Clone)]
pub struct Chain {
    last: Seq,
    digest: Digest,
    identity: Option<(LegId, Epoch)>,
    ended: bool,
    foreign_versions: u64,
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChainFault {
    #[error("event {expected} is missing: event {found} follows event {}", .expected.0 - 1)]
    Gap { expected: Seq, found: Seq },
    #[error("event {seq} does not carry the digest of event {}: one of the two was changed", .seq.0 - 1)]
    Digest { seq: Seq },
    #[error("event {seq} belongs to another leg or epoch")]
    Identity { seq: Seq },
    #[error("event {seq} is labelled '{label}' and is of kind '{kind}'")]
    Kind { seq: Seq, label: String, kind: String },
    #[error("event {seq} cannot be read: {why}")]
    Unreadable { seq: Seq, why: String },
}

/// The part of an envelope that every version has.
#[derive(Deserialize)]
struct Loose {
    v: u32,
    #[serde(flatten)]
    leg: LegId,
    epoch: Epoch,
    seq: Seq,
    kind: String,
    prev: Digest,
}

impl Default for Chain {
    fn default() -> Self {
        Self { last: Seq(0), digest: Digest::genesis(), identity: None, ended: false, foreign_versions: 0 }
    }
}

impl Chain {
    /// A chain whose leg is known from elsewhere.
    pub fn of(leg: LegId, epoch: Epoch) -> Self {
        Self { identity: Some((leg, epoch)), ..Self::default() }
    }

    /// Takes the next line, and says its kind. `label` is the kind under which it was kept, where there is one.
    pub fn follow(&mut self, line: &str, label: Option<&str>) -> Result<String, ChainFault> {
        let expected = self.last.next();
        let unreadable = |error: serde_json::Error| ChainFault::Unreadable { seq: expected, why: error.to_string() };
        let loose: Loose = serde_json::from_str(line).map_err(unreadable)?;
        if loose.seq != expected {
            return Err(ChainFault::Gap { expected, found: loose.seq });
        }
        if loose.prev != self.digest {
            return Err(ChainFault::Digest { seq: expected });
        }
        if label.is_some_and(|label| label != loose.kind) {
            let label = label.unwrap_or_default().to_owned();
            return Err(ChainFault::Kind { seq: expected, label, kind: loose.kind });
        }
        if loose.v <= EVENT_VERSION {
            let envelope: Envelope = serde_json::from_str(line).map_err(unreadable)?;
            self.ended = matches!(envelope.body, Body::RunFinished(_));
        } else {
            self.foreign_versions += 1;
            self.ended = false;
        }
        let identity = (loose.leg, loose.epoch);
        if *self.identity.get_or_insert_with(|| identity.clone()) != identity {
            return Err(ChainFault::Identity { seq: expected });
        }
        self.last = expected;
        self.digest = Digest::of(line.as_bytes());
        Ok(loose.kind)
    }

    /// The newest event that was followed, 0 for none.
    pub fn last(&self) -> Seq {
        self.last
    }

    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    /// Whether the newest event is the record of the end. Without it the end is open: the writer was killed, or is still at work.
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// Events of a newer version than this program knows; their bodies were not read.
    pub fn foreign_versions(&self) -> u64 {
        self.foreign_versions
    }
}
