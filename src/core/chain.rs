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

/// What the chain needs of a line.
struct Link {
    leg: LegId,
    epoch: Epoch,
    seq: Seq,
    kind: String,
    prev: Digest,
    ends: bool,
    foreign_version: bool,
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

impl Link {
    fn of(envelope: &Envelope) -> Self {
        Self {
            kind: envelope.body.kind().to_owned(),
            ends: matches!(envelope.body, Body::RunFinished(_)),
            foreign_version: envelope.v > EVENT_VERSION,
            leg: envelope.leg(),
            epoch: envelope.epoch.clone(),
            seq: envelope.seq,
            prev: envelope.prev.clone(),
        }
    }
}

fn read(line: &str) -> Result<Link, String> {
    match serde_json::from_str::<Envelope>(line) {
        Ok(envelope) => Ok(Link::of(&envelope)),
        // A newer ledger may say what this one does not know; its envelope still has to hold.
        Err(error) => match serde_json::from_str::<Loose>(line) {
            Ok(Loose { v, leg, epoch, seq, kind, prev }) if v > EVENT_VERSION => {
                Ok(Link { leg, epoch, seq, kind, prev, ends: false, foreign_version: true })
            }
            _ => Err(error.to_string()),
        },
    }
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
        let link = read(line).map_err(|why| ChainFault::Unreadable { seq: self.last.next(), why })?;
        self.take(link, line, label)
    }

    /// As `follow`, for a line that was parsed already.
    pub fn follow_event(&mut self, event: &Envelope, line: &str, label: Option<&str>) -> Result<(), ChainFault> {
        self.take(Link::of(event), line, label).map(|_| ())
    }

    fn take(&mut self, link: Link, line: &str, label: Option<&str>) -> Result<String, ChainFault> {
        let expected = self.last.next();
        if link.seq != expected {
            return Err(ChainFault::Gap { expected, found: link.seq });
        }
        if link.prev != self.digest {
            return Err(ChainFault::Digest { seq: expected });
        }
        if let Some(label) = label.filter(|label| *label != link.kind) {
            return Err(ChainFault::Kind { seq: expected, label: label.to_owned(), kind: link.kind });
        }
        let identity = (link.leg, link.epoch);
        if *self.identity.get_or_insert_with(|| identity.clone()) != identity {
            return Err(ChainFault::Identity { seq: expected });
        }
        self.last = expected;
        self.digest = Digest::of(line.as_bytes());
        self.ended = link.ends;
        self.foreign_versions += u64::from(link.foreign_version);
        Ok(link.kind)
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::event::{Cancelled, RunFinished};
    use super::super::ids::{Attempt, Platform, RunId, Target};
    use super::super::moment::Wall;
    use super::*;

    fn leg(run: &str) -> LegId {
        LegId {
            run_id: RunId::from(run),
            attempt: Attempt::from("1"),
            platform: Platform::from("p"),
            target: Target::from("t"),
            shard: None,
        }
    }

    fn lines(count: u64) -> Vec<String> {
        let mut prev = Digest::genesis();
        let mut lines = Vec::new();
        for seq in 1..=count {
            let body = match seq == count {
                true => Body::RunFinished(RunFinished { exit_code: 0, sinks: Vec::new(), dropped: 0 }),
                false => Body::Cancelled(Cancelled { signal: seq.to_string(), file: None }),
            };
            let LegId { run_id, attempt, platform, target, shard } = leg("1");
            let (epoch, ts) = (Epoch::parse("e").expect("it is well formed"), Wall(1_760_000_000_000));
            let (seq, mono_ms, v) = (Seq(seq), 7, EVENT_VERSION);
            let envelope = Envelope { v, run_id, attempt, platform, target, shard, epoch, seq, ts, mono_ms, body, prev };
            let line = serde_json::to_string(&envelope).expect("plain data");
            prev = Digest::of(line.as_bytes());
            lines.push(line);
        }
        lines
    }

    /// Follows the lines; the newest that holds, and what ended it.
    fn follow(mut chain: Chain, lines: &[String]) -> (u64, Option<ChainFault>, bool) {
        for line in lines {
            if let Err(fault) = chain.follow(line, None) {
                return (chain.last().0, Some(fault), chain.ended());
            }
        }
        (chain.last().0, None, chain.ended())
    }

    #[test]
    fn a_chain_holds_whole_and_with_an_open_end() {
        let lines = lines(5);
        assert_eq!(follow(Chain::default(), &lines), (5, None, true));
        assert_eq!(follow(Chain::default(), &lines[..3]), (3, None, false));
        assert_eq!(follow(Chain::of(leg("1"), Epoch::parse("e").expect("it is well formed")), &lines), (5, None, true));
        assert_eq!(
            follow(Chain::of(leg("2"), Epoch::parse("e").expect("it is well formed")), &lines),
            (0, Some(ChainFault::Identity { seq: Seq(1) }), false)
        );
        assert_eq!(
            follow(Chain::of(leg("1"), Epoch::parse("f").expect("it is well formed")), &lines),
            (0, Some(ChainFault::Identity { seq: Seq(1) }), false)
        );
    }

    #[test]
    fn every_fault_names_its_event() {
        let whole = lines(5);
        let gap = [&whole[..2], &whole[3..]].concat();
        assert_eq!(follow(Chain::default(), &gap).1, Some(ChainFault::Gap { expected: Seq(3), found: Seq(4) }));
        let twice = [&whole[..2], &whole[1..]].concat();
        assert_eq!(follow(Chain::default(), &twice).1, Some(ChainFault::Gap { expected: Seq(3), found: Seq(2) }));
        let mut changed = whole.clone();
        changed[1] = changed[1].replace("\"2\"", "\"9\"");
        assert_eq!(follow(Chain::default(), &changed).1, Some(ChainFault::Digest { seq: Seq(3) }));
        let mut unknown = whole.clone();
        unknown[0] = unknown[0].replace("cancelled", "abandoned");
        assert!(matches!(follow(Chain::default(), &unknown).1, Some(ChainFault::Unreadable { seq: Seq(1), .. })));
        let labelled = Chain::default().follow(&whole[0], Some("heartbeat"));
        assert!(matches!(labelled, Err(ChainFault::Kind { seq: Seq(1), .. })));
    }

    #[test]
    fn a_newer_version_is_followed_and_not_read() {
        let newer = lines(1)[0].replace(&format!("\"v\":{EVENT_VERSION}"), "\"v\":99").replace("run-finished", "something-new");
        let mut chain = Chain::default();
        assert_eq!(chain.follow(&newer, None).as_deref(), Ok("something-new"));
        assert_eq!((chain.last(), chain.ended(), chain.foreign_versions()), (Seq(1), false, 1));
    }

    proptest! {
        #[test]
        fn no_changed_byte_before_the_last_line_passes(line in 0_usize..4, at in 0_usize..2000, with in any::<u8>()) {
            let mut changed = lines(5);
            let mut bytes = changed[line].clone().into_bytes();
            let at = at % bytes.len();
            prop_assume!(bytes[at] != with);
            bytes[at] = with;
            if let Ok(text) = String::from_utf8(bytes) {
                changed[line] = text;
                prop_assert!(follow(Chain::default(), &changed).1.is_some());
            }
        }

        #[test]
        fn no_text_panics_the_reader(text in ".*") {
            let _ = Chain::default().follow(&text, None);
        }
    }
}
