//! Importing into an archive, reporting out of it, and proving that what it derived is what its events say.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::assemble::Question;
use super::open::{Place, SourceError, places, read_place};
use super::records::Weight;
use super::unnamed::tell_apart;
use super::{Evidence, Found, narrow, runtime};
use crate::core::chain::Chain;
use crate::core::classify::{Trace, Writer};
use crate::core::event::Envelope;
use crate::core::fold::Leg;
use crate::core::ids::{Digest, Epoch, Seq};
use crate::core::moment::{Secs, Wall};
use crate::core::row::{Head, LegRow};
use crate::sink::open_source;
use crate::store::{Added, Archive, EpochNumber, Reader, StoreError};

/// What an import did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Imported {
    /// Epochs of legs that the sources held.
    pub legs: u64,
    /// Those of them that were new or had something new.
    pub legs_changed: u64,
    pub events_added: u64,
    pub events_known: u64,
    /// Events that the archive has otherwise; what was there stays.
    pub events_differ: u64,
    pub rows_added: u64,
    pub rows_known: u64,
}

/// A row as an archive keeps it.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    row: LegRow,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resumes: Option<Epoch>,
    /// Of a marker: its lease, and when it was written by the sink's clock as the importer's clock tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lease_s: Option<Secs>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    written_at: Option<Wall>,
    /// Of a leg of which nothing could be read when it was imported.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    unreadable: bool,
}

/// Gathers `sources` into the archive at `into`. What cannot be read costs itself and is said in the warnings.
pub fn import(sources: &[String], into: &Path, question: &Question) -> Result<(Imported, Vec<String>), SourceError> {
    let mut found = Found::default();
    let mut all = Vec::new();
    for source in sources {
        all.extend(places(source, question, &mut found)?);
    }
    let mut importing = Importing { archive: Archive::create_or_open(into)?, done: Imported::default(), warnings: Vec::new() };
    for evidence in std::mem::take(&mut found.evidence) {
        importing.put_kept(&Kept::of(evidence, question.now))?;
    }
    importing.unnamed(&all, question, &mut found)?;
    for place in all.into_iter().filter(|place| !place.is_unnamed()) {
        let taken = match &place {
            Place::Ledger(path) => importing.ledger(path, &mut found).map_err(SourceError::from),
            Place::Archive(path) => importing.other_archive(path, &mut found).map_err(SourceError::from),
            Place::Sink(url) => importing.sink(url, question, &mut found),
            Place::CiData(_) | Place::JUnit(_) | Place::Timing(_) => importing.file(&place, question, &mut found),
        };
        match taken {
            // A full disk or a lost archive ends the import; a source that cannot be read costs itself.
            Err(SourceError::Store(error)) if error.path() == into => return Err(error.into()),
            Err(error) => found.warn(error.to_string()),
            Ok(()) => {}
        }
    }
    importing.warnings.into_iter().for_each(|warning| found.warn(warning));
    importing.archive.close()?;
    Ok((importing.done, found.warnings))
}

/// Reads an archive: one row per epoch, as it was kept.
pub fn read(path: &Path, question: &Question, found: &mut Found) -> Result<(), StoreError> {
    let archive = Archive::open(path)?;
    let shown = path.display().to_string();
    let mut unreadable = 0u64;
    let mut again = Vec::new();
    archive.epochs(question.run_id.as_ref(), |epoch| {
        for json in [&epoch.summary, &epoch.row].into_iter().flatten() {
            match serde_json::from_str::<Kept>(json) {
                Ok(kept) => found.evidence.push(kept.into_evidence(question.now, &shown)),
                Err(_) => unreadable += 1,
            }
        }
        if question.samples && epoch.summary.is_some() {
            again.push(epoch.number);
        }
    })?;
    for number in again {
        if let Some(kept) = fold(&archive, number, &shown, found, Samples::Kept)? {
            found.evidence.push(kept.into_evidence(question.now, &shown));
        }
    }
    if unreadable > 0 {
        found.warn(format!("{shown}: {unreadable} rows cannot be read; `ledger verify {shown}` says which"));
    }
    Ok(())
}

/// What an archive can prove about itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ArchiveVerified {
    pub epochs: u64,
    pub events: u64,
    /// What is not as it should be, leg by leg, in words.
    pub differing: Vec<String>,
}

/// Follows the chain of every epoch, folds its events again and compares with the summary.
pub fn verify(path: &Path) -> Result<ArchiveVerified, StoreError> {
    let archive = Archive::open(path)?;
    let mut epochs = Vec::new();
    archive.epochs(None, |epoch| epochs.push((epoch.number, epoch.leg, epoch.summary)))?;
    let mut verified = ArchiveVerified { epochs: epochs.len() as u64, ..ArchiveVerified::default() };
    for (number, leg, summary) in epochs {
        let mut chain = Chain::default();
        let mut fault = None;
        archive.events(number, |_, line| {
            verified.events += 1;
            if fault.is_none() {
                fault = chain.follow(line, None).err();
            }
        })?;
        let folded = fold(&archive, number, "", &mut Found::default(), Samples::Dropped)?.map(|kept| kept.to_json());
        let wrong = match (fault, &folded, &summary) {
            (Some(fault), ..) => fault.to_string(),
            (None, Some(folded), Some(summary)) if folded != summary => "its summary is not what its events say".to_owned(),
            (None, Some(_), None) => "its events have no summary".to_owned(),
            (None, None, Some(_)) => "its summary rests on no events".to_owned(),
            (None, ..) => continue,
        };
        verified.differing.push(format!("{leg}: {wrong}"));
    }
    Ok(verified)
}

struct Importing {
    archive: Archive,
    done: Imported,
    warnings: Vec<String>,
}

impl Importing {
    fn ledger(&mut self, path: &Path, found: &mut Found) -> Result<(), StoreError> {
        let reader = Reader::open(path)?;
        let identity = reader.identity().clone();
        let number = self.archive.number(&identity.leg, Some(&identity.epoch))?;
        let last = self.archive.last_seq(number)?;
        // The newest line that both have speaks for all before it: each line carries the digest of its predecessor.
        let from = Seq(last.0.saturating_sub(1));
        self.done.events_known += from.0;
        let mut adding = Adding::of(number);
        for stored in reader.lines_after(from) {
            let stored = stored?;
            if let Some(line) = &stored.line {
                adding.add(&mut self.archive, stored.seq, line)?;
            }
        }
        self.finish(adding, &path.display().to_string(), found)
    }

    /// Events as they lie there, and the marker's row with its lease. A segment is one piece of memory, and only one at a time.
    fn sink(&mut self, url: &str, question: &Question, found: &mut Found) -> Result<(), SourceError> {
        let mut rows = Found::default();
        let runtime = runtime()?;
        runtime.block_on(super::sink::read_markers(url, &narrow(question), question.now, &mut rows))?;
        self.put(rows, question.now, found)?;
        let source = open_source(url, &question.variables)?;
        for place in runtime.block_on(source.legs(&narrow(question), question.now))? {
            let mut adding: Option<Adding> = None;
            let mut unreadable = 0u64;
            if let Some(plan) = &place.plan {
                self.lines(plan, &mut adding, &mut unreadable)?;
            }
            for segment in &place.segments {
                match runtime.block_on(source.segment(&place, segment)) {
                    Ok(bytes) => self.lines(&bytes, &mut adding, &mut unreadable)?,
                    Err(error) => found.warn(error.to_string()),
                }
            }
            if adding.is_none()
                && let Ok(Some(plan)) = runtime.block_on(source.plan(&place))
            {
                self.lines(&plan, &mut adding, &mut unreadable)?;
            }
            if adding.is_none() && !place.is_a_mere_name() && !super::sink::has_a_marker(&place) {
                self.put_kept(&Kept::of(super::sink::of_a_name(url, &place), question.now))?;
            }
            let shown = format!("{url}: {}", place.place);
            if unreadable > 0 {
                found.warn(format!("{shown}: {unreadable} lines were not read"));
            }
            if let Some(adding) = adding {
                self.finish(adding, &shown, found)?;
            }
        }
        Ok(())
    }

    fn lines(&mut self, bytes: &[u8], adding: &mut Option<Adding>, unreadable: &mut u64) -> Result<(), StoreError> {
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()) {
            let text = std::str::from_utf8(line).ok();
            let Some((text, envelope)) = text.and_then(|text| Some((text, serde_json::from_str::<Envelope>(text).ok()?))) else {
                *unreadable += 1;
                continue;
            };
            let adding = match adding {
                Some(adding) => adding,
                None => adding.insert(Adding::of(self.archive.number(&envelope.leg(), Some(&envelope.epoch))?)),
            };
            adding.add(&mut self.archive, envelope.seq, text)?;
        }
        Ok(())
    }

    fn file(&mut self, place: &Place, question: &Question, found: &mut Found) -> Result<(), SourceError> {
        let mut rows = Found::default();
        read_place(place, question, &mut rows)?;
        self.put(rows, question.now, found)?;
        Ok(())
    }

    /// Files that do not name their own legs are told apart by each other, so all of them are read before any is kept.
    fn unnamed(&mut self, places: &[Place], question: &Question, found: &mut Found) -> Result<(), SourceError> {
        let mut rows = Found::default();
        for place in places.iter().filter(|place| place.is_unnamed()) {
            if let Err(error) = read_place(place, question, &mut rows) {
                rows.warn(error.to_string());
            }
        }
        rows.evidence = tell_apart(std::mem::take(&mut rows.evidence));
        Ok(self.put(rows, question.now, found)?)
    }

    fn other_archive(&mut self, path: &Path, found: &mut Found) -> Result<(), StoreError> {
        let other = Archive::open(path)?;
        let mut epochs = Vec::new();
        other.epochs(None, |epoch| epochs.push((epoch.number, epoch.leg, epoch.epoch, epoch.row)))?;
        for (theirs, leg, epoch, row) in epochs {
            let number = self.archive.number(&leg, epoch.as_ref())?;
            let mut adding = Adding::of(number);
            let mut failed = None;
            other.events(theirs, |seq, line| {
                if failed.is_none() {
                    failed = adding.add(&mut self.archive, seq, line).err();
                }
            })?;
            if let Some(error) = failed {
                return Err(error);
            }
            if adding.known + adding.added + adding.differ > 0 {
                self.finish(adding, &path.display().to_string(), found)?;
            }
            if let Some(kept) = row.and_then(|row| serde_json::from_str::<Kept>(&row).ok()) {
                self.put_kept(&kept)?;
            }
        }
        Ok(())
    }

    fn finish(&mut self, adding: Adding, shown: &str, found: &mut Found) -> Result<(), StoreError> {
        self.done.legs += 1;
        self.done.legs_changed += u64::from(adding.added > 0);
        self.done.events_added += adding.added;
        self.done.events_known += adding.known;
        self.done.events_differ += adding.differ;
        if adding.differ > 0 {
            found.warn(format!("{shown}: {} events differ from what the archive has; the archive keeps its own", adding.differ));
        }
        if adding.added > 0
            && let Some(kept) = fold(&self.archive, adding.number, shown, found, Samples::Dropped)?
        {
            let upto = self.archive.last_seq(adding.number)?;
            self.archive.put_summary(adding.number, upto, &kept.to_json())?;
        }
        Ok(())
    }

    fn put(&mut self, rows: Found, now: Wall, found: &mut Found) -> Result<(), StoreError> {
        for warning in rows.warnings {
            found.warn(warning);
        }
        for evidence in rows.evidence {
            self.put_kept(&Kept::of(evidence, now))?;
        }
        Ok(())
    }

    /// Keeps a row, unless the archive has the same or one that reaches further.
    fn put_kept(&mut self, kept: &Kept) -> Result<(), StoreError> {
        self.done.legs += 1;
        let number = self.archive.number(&kept.row.leg(), kept.row.epoch.as_ref())?;
        let json = kept.to_json();
        let older = self.archive.row(number)?;
        let is_behind = match older.as_ref().filter(|older| **older != json).map(|older| serde_json::from_str::<Kept>(older)) {
            None => older.is_some(),
            Some(Err(_)) => false,
            // Without an epoch there is room for one record only, and times decide.
            Some(Ok(older)) if kept.row.epoch.is_none() => {
                let (known, new) = (Weight::of(&older.row), Weight::of(&kept.row));
                if known.is_as_new_as(&new) {
                    self.warnings.push(format!(
                        "{}: what the archive has of it and what is imported are of one time and differ; the worse counts",
                        kept.row.leg()
                    ));
                }
                known > new
            }
            Some(Ok(older)) => older.reach() > kept.reach(),
        };
        if is_behind {
            self.done.rows_known += 1;
            return Ok(());
        }
        self.done.rows_added += 1;
        self.done.legs_changed += 1;
        self.archive.put_row(number, &json)
    }
}

/// Events of one epoch on their way in.
struct Adding {
    number: EpochNumber,
    added: u64,
    known: u64,
    differ: u64,
}

impl Adding {
    fn of(number: EpochNumber) -> Self {
        Self { number, added: 0, known: 0, differ: 0 }
    }

    fn add(&mut self, archive: &mut Archive, seq: Seq, line: &str) -> Result<(), StoreError> {
        match archive.add_event(self.number, seq, line)? {
            Added::New => self.added += 1,
            Added::Known => self.known += 1,
            Added::Differs => self.differ += 1,
        }
        Ok(())
    }
}

/// Whether a folded row keeps the samples along its leg.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Samples {
    Kept,
    /// 512 samples a leg would make ten thousand summaries three gigabytes.
    Dropped,
}

/// What the events of an epoch say. Those that cannot be read or cannot follow are counted; a gap costs what is missing in it.
fn fold(
    archive: &Archive,
    number: EpochNumber,
    shown: &str,
    found: &mut Found,
    samples: Samples,
) -> Result<Option<Kept>, StoreError> {
    let mut leg: Option<Leg> = None;
    let mut newest = String::new();
    let mut skipped = 0u64;
    archive.events(number, |seq, line| {
        let Ok(envelope) = serde_json::from_str::<Envelope>(line) else {
            skipped += 1;
            return;
        };
        let head = Head { seq, digest: Digest(String::new()) };
        let taken = match &mut leg {
            Some(leg) => {
                leg.head.seq = leg.head.seq.max(Seq(seq.0.saturating_sub(1)));
                leg.apply(&envelope, head)
            }
            None => Leg::begin(&envelope, head).map(|begun| leg = Some(begun)),
        };
        match taken {
            Ok(()) => line.clone_into(&mut newest),
            Err(_) => skipped += 1,
        }
    })?;
    if skipped > 0 {
        found.warn(format!("{shown}: {skipped} events of one leg were not understood"));
    }
    Ok(leg.map(|mut leg| {
        // The digest is taken once, of the newest line: a reader's row needs no other.
        leg.head.digest = Digest::of(newest.as_bytes());
        let mut row = leg.row();
        if samples == Samples::Dropped {
            row.samples.clear();
        }
        Kept { row, resumes: leg.started.resumes.clone(), lease_s: None, written_at: None, unreadable: false }
    }))
}

impl Kept {
    fn of(evidence: Evidence, now: Wall) -> Self {
        let (lease_s, written_at) = match evidence.trace {
            Trace::Marker { lease, age } => (Some(lease), Some(Wall(now.0.saturating_sub_unsigned(age.millis())))),
            Trace::Ledger | Trace::Damaged { .. } | Trace::Unreadable | Trace::None => (None, None),
        };
        let unreadable = matches!(evidence.trace, Trace::Unreadable);
        let mut row = evidence.row;
        // Where it was read from is no part of it: the same evidence from another place is the same evidence.
        row.source = None;
        row.samples.clear();
        Self { row, resumes: evidence.resumes, lease_s, written_at, unreadable }
    }

    fn reach(&self) -> (bool, Option<u64>, Option<u64>, u32) {
        let row = &self.row;
        let ended = row.terminal != crate::core::outcome::Terminal::Running;
        (ended, row.progress_seq, row.heartbeat_seq, row.files_reported)
    }

    fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a row has string keys only")
    }

    fn into_evidence(self, now: Wall, shown: &str) -> Evidence {
        let trace = match self.lease_s.zip(self.written_at) {
            Some((lease, written)) => Trace::Marker { lease, age: now.since(written) },
            None if self.unreadable => Trace::Unreadable,
            None => Trace::Ledger,
        };
        let mut row = self.row;
        row.source = Some(shown.to_owned());
        Evidence { row, trace, writer: Writer::Unknown, resumes: self.resumes, unnamed: None }
    }
}
