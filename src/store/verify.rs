//! Whether a ledger is whole: its chain, the head its writer left, and the head a sink has received.

use std::path::Path;

use crate::core::chain::Chain;
use crate::core::ids::Seq;
use crate::core::row::Head;

use super::error::StoreError;
use super::head::{genesis, is_writer_alive, read_head};
use super::pulled::Pulled;
use super::reader::{Identity, Reader};
use super::wal::{self, LogState};

/// What a ledger can prove about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// Every event up to the record of the end.
    Whole,
    /// Every event that is known of, and no record of the end: the writer was killed or is still at work. It counts as whole.
    OpenEnd,
    /// Something was changed or is missing. `after` is the newest event that can still be trusted.
    Broken { after: Seq, why: String },
    /// It cannot be read at all.
    Unreadable { why: String },
}

/// A verdict and what it rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    pub verdict: Verdict,
    pub identity: Option<Identity>,
    /// The end of the chain as far as it holds.
    pub head: Head,
    /// What was seen and breaks nothing, in words.
    pub notes: Vec<String>,
}

/// Reads the whole ledger. `known` is the head that a sink has received, where one is known.
pub fn verify(path: &Path, known: Option<&Head>) -> Verified {
    // Before the first look into the database: a living writer may only be ahead of the head that is read here.
    let left = read_head(path).filter(|head| head.seq > Seq(0));
    let reader = match Reader::open(path) {
        Ok(reader) => reader,
        Err(error) => {
            let verdict = Verdict::Unreadable { why: error.to_string() };
            return Verified { verdict, identity: None, head: genesis(), notes: Vec::new() };
        }
    };
    let identity = reader.identity().clone();
    let pulled = Pulled::of(path);
    let promised = pulled.as_ref().and_then(|pulled| pulled.head.as_ref());
    let heads = [
        left.as_ref().map(|head| (head, "its writer")),
        known.map(|head| (head, "the sink")),
        promised.map(|head| (head, "the sink that it was pulled from")),
    ];
    let heads: Vec<(&Head, &str)> = heads.into_iter().flatten().collect();
    let mut chain = Chain::of(identity.leg.clone(), identity.epoch.clone());
    let mut notes = Vec::new();
    let walked = walk(&reader, &mut chain, &heads);
    let head = Head { seq: chain.last(), digest: chain.digest().clone() };
    let missing = || pulled.as_ref().and_then(|pulled| pulled.missing(head.seq));
    let broken = walked.err().or_else(|| missing_end(&head, &heads)).or_else(missing).or_else(|| {
        let alive = is_writer_alive(path);
        let end_is_proved = heads.iter().any(|(known, _)| **known == head);
        if alive { None } else { look_at_log(path, end_is_proved, chain.ended(), &mut notes) }
    });
    if chain.foreign_versions() > 0 {
        notes.push(format!("{} events are of a newer version: their bodies were not read", chain.foreign_versions()));
    }
    let verdict = match broken {
        Some(why) => Verdict::Broken { after: chain.last(), why },
        None if chain.ended() => Verdict::Whole,
        None => Verdict::OpenEnd,
    };
    Verified { verdict, identity: Some(identity), head, notes }
}

fn walk(reader: &Reader, chain: &mut Chain, heads: &[(&Head, &str)]) -> Result<(), String> {
    for stored in reader.lines_after(Seq(0)) {
        let stored = stored.map_err(|error| match error {
            StoreError::Damaged { detail, .. } | StoreError::Io { detail, .. } => detail,
            other => other.to_string(),
        })?;
        let expected = chain.last().next();
        if stored.seq != expected {
            return Err(format!("event {expected} is missing: event {} follows", stored.seq));
        }
        let line = stored.line.ok_or_else(|| format!("event {expected} is no text, or too long"))?;
        chain.follow(&line, Some(&stored.kind)).map_err(|fault| fault.to_string())?;
        for (head, who) in heads {
            if head.seq == stored.seq && head.digest != *chain.digest() {
                return Err(format!("event {} is not the one that {who} has", head.seq));
            }
        }
    }
    Ok(())
}

fn missing_end(head: &Head, heads: &[(&Head, &str)]) -> Option<String> {
    let (known, who) = heads.iter().find(|(known, _)| known.seq > head.seq)?;
    Some(format!("the ledger ends with event {}, {who} has had event {}", head.seq, known.seq))
}

fn look_at_log(path: &Path, end_is_proved: bool, ended: bool, notes: &mut Vec<String>) -> Option<String> {
    match wal::inspect(path) {
        LogState::Sound => None,
        LogState::Absent => {
            if !ended && !end_is_proved {
                notes.push(
                    "there is no write-ahead log beside it: if its writer was killed, its last events are missing".to_owned(),
                );
            }
            None
        }
        LogState::TornEnd => {
            notes.push(
                "the last write of the write-ahead log is incomplete: it was never acknowledged, or it was damaged".to_owned(),
            );
            None
        }
        LogState::Damaged { frame } => {
            let what = format!("frame {frame} of its write-ahead log is damaged and commits stand behind it");
            if end_is_proved {
                notes.push(format!("{what}; no event is lost by that"));
                return None;
            }
            Some(what)
        }
        LogState::Unreadable { why } => {
            notes.push(format!("its write-ahead log cannot be read: {why}"));
            None
        }
    }
}
