//! Importing into an archive, reporting out of it, and proving that what it derived is what its events say.

use std::collections::BTreeSet;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::assemble::Question;
use super::followed::Followed;
use super::open::{Place, SourceError, places, read_place};
use super::records::Weight;
use super::unnamed::tell_apart;
use super::{Evidence, Found, narrow, runtime};
use crate::core::chain::Chain;
use crate::core::classify::{Trace, Writer};
use crate::core::event::Envelope;
use crate::core::ids::{Epoch, LegId, Seq};
use crate::core::moment::{Secs, Wall};
use crate::core::outcome::Conclusion;
use crate::core::row::{Head, LegRow};
use crate::sink::open_source;
use crate::store::{Added, Archive, EpochNumber, Reader, StoreError, left_head};

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
    /// Of events whose chain breaks: the newest before the break.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    damaged_after: Option<Seq>,
}

/// Gathers `sources` into the archive at `into`. What cannot be read costs itself and is said in the warnings.
pub fn import(sources: &[String], into: &Path, question: &Question) -> Result<(Imported, Vec<String>), SourceError> {
    let mut found = Found::default();
    let mut all = Vec::new();
    for source in sources {
        all.extend(places(source, question, &mut found)?);
    }
    let mut importing = Importing {
        archive: Archive::create_or_open(into)?,
        done: Imported::default(),
        warnings: Vec::new(),
        seen: BTreeSet::new(),
        changed: BTreeSet::new(),
    };
    for evidence in std::mem::take(&mut found.evidence) {
        if question.asks_for_leg(&evidence.row.leg()) {
            importing.put_kept(&Kept::of(evidence, question.now))?;
        }
    }
    importing.unnamed(&all, question, &mut found)?;
    for place in all.into_iter().filter(|place| !place.is_unnamed()) {
        let taken = match &place {
            Place::Ledger(path) => importing.ledger(path, question, &mut found).map_err(SourceError::from),
            Place::Archive(path) => importing.other_archive(path, question, &mut found).map_err(SourceError::from),
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
        let mut damaged_after = None;
        for json in [&epoch.summary, &epoch.row].into_iter().flatten() {
            match serde_json::from_str::<Kept>(json) {
                Ok(mut kept) => {
                    // A marker's word of a pass is none beside events that are damaged.
                    damaged_after = damaged_after.or(kept.damaged_after);
                    if kept.row.conclusion == Some(Conclusion::Pass) && damaged_after.is_some() {
                        kept.row.distrust();
                        (kept.lease_s, kept.damaged_after) = (None, damaged_after);
                    }
                    // Events behind a break were not used when they were imported, and are not used now.
                    if question.samples && epoch.summary.as_ref() == Some(json) && kept.damaged_after.is_none() {
                        again.push(epoch.number);
                    }
                    found.evidence.push(kept.into_evidence(question.now, &shown));
                }
                Err(_) => unreadable += 1,
            }
        }
    })?;
    for number in again {
        if let Some(kept) = fold(&archive, number, None, Samples::Kept)?.kept {
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
        archive.events(number, |_, _| verified.events += 1)?;
        let Refolded { kept, fault } = fold(&archive, number, None, Samples::Dropped)?;
        let folded = kept.map(|kept| kept.to_json());
        let wrong = match (fault, &folded, &summary) {
            (Some(fault), ..) => fault,
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
    seen: BTreeSet<EpochNumber>,
    changed: BTreeSet<EpochNumber>,
}

impl Importing {
    fn ledger(&mut self, path: &Path, question: &Question, found: &mut Found) -> Result<(), StoreError> {
        let left = left_head(path);
        let reader = Reader::open(path)?;
        let identity = reader.identity().clone();
        if !question.asks_for_leg(&identity.leg) {
            return Ok(());
        }
        let mut adding = Adding::to(&mut self.archive, identity.leg, Some(identity.epoch))?;
        // The newest line that both have, and before which none is missing, speaks for all before it: each line carries the digest of its
        // predecessor.
        let last = self.archive.unbroken(adding.number)?;
        let from = Seq(last.0.saturating_sub(1));
        self.done.events_known += from.0;
        for stored in reader.lines_after(from) {
            let stored = stored?;
            if let Some(line) = &stored.line {
                adding.add(&mut self.archive, stored.seq, line)?;
            }
        }
        self.finish(adding, left, &path.display().to_string(), found)
    }

    /// Events as they lie there, and the marker's row with its lease. A segment is one piece of memory, and only one at a time.
    fn sink(&mut self, url: &str, question: &Question, found: &mut Found) -> Result<(), SourceError> {
        let mut rows = Found::default();
        let runtime = runtime()?;
        runtime.block_on(super::sink::read_markers(url, &narrow(question), question.now, &mut rows))?;
        self.put(rows, question, found)?;
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
                self.finish(adding, None, &shown, found)?;
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
                None => adding.insert(Adding::to(&mut self.archive, envelope.leg(), Some(envelope.epoch))?),
            };
            adding.add(&mut self.archive, envelope.seq, text)?;
        }
        Ok(())
    }

    fn file(&mut self, place: &Place, question: &Question, found: &mut Found) -> Result<(), SourceError> {
        let mut rows = Found::default();
        read_place(place, question, &mut rows)?;
        self.put(rows, question, found)?;
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
        Ok(self.put(rows, question, found)?)
    }

    fn other_archive(&mut self, path: &Path, question: &Question, found: &mut Found) -> Result<(), StoreError> {
        let other = Archive::open(path)?;
        let mut epochs = Vec::new();
        other.epochs(question.run_id.as_ref(), |epoch| {
            if question.asks_for_leg(&epoch.leg) {
                epochs.push((epoch.number, epoch.leg, epoch.epoch, epoch.row, epoch.summary));
            }
        })?;
        for (theirs, leg, epoch, row, summary) in epochs {
            let mut adding = Adding::to(&mut self.archive, leg, epoch)?;
            let number = adding.number;
            let mut failed = None;
            other.events(theirs, |seq, line| {
                if failed.is_none() {
                    failed = adding.add(&mut self.archive, seq, line).err();
                }
            })?;
            if let Some(error) = failed {
                return Err(error);
            }
            let has_new = adding.added > 0;
            if adding.known + adding.added + adding.differ > 0 {
                self.finish(adding, None, &path.display().to_string(), found)?;
            }
            // A break that only the head of the ledger has shown does not show in the events.
            let is_damaged = |json: &String| serde_json::from_str::<Kept>(json).is_ok_and(|kept| kept.damaged_after.is_some());
            if let Some(damaged) = summary.filter(is_damaged).filter(|_| has_new) {
                let upto = self.archive.last_seq(number)?;
                self.archive.put_summary(number, upto, &damaged)?;
            }
            if let Some(kept) = row.and_then(|row| serde_json::from_str::<Kept>(&row).ok()) {
                self.put_kept(&kept)?;
            }
        }
        Ok(())
    }

    fn finish(&mut self, adding: Adding, left: Option<Head>, shown: &str, found: &mut Found) -> Result<(), StoreError> {
        self.saw(adding.number, adding.added > 0);
        self.done.events_added += adding.added;
        self.done.events_known += adding.known;
        self.done.events_differ += adding.differ;
        if adding.differ > 0 {
            found.warn(format!("{shown}: {} events differ from what the archive has; the archive keeps its own", adding.differ));
        }
        if adding.added > 0 {
            let Refolded { kept, fault } = fold(&self.archive, adding.number, left, Samples::Dropped)?;
            if let Some(fault) = fault {
                found.warn(format!("{shown}: {}: {fault}; nothing behind that is used; see 'ledger verify {shown}'", adding.leg));
            }
            let upto = self.archive.last_seq(adding.number)?;
            match kept {
                Some(kept) => self.archive.put_summary(adding.number, upto, &kept.to_json())?,
                None => self.put_kept(&Kept::without_a_word(adding.leg, adding.epoch))?,
            }
        }
        Ok(())
    }

    /// Counts an epoch once, however many things came of it.
    fn saw(&mut self, number: EpochNumber, changed: bool) {
        self.done.legs += u64::from(self.seen.insert(number));
        self.done.legs_changed += u64::from(changed && self.changed.insert(number));
    }

    fn put(&mut self, rows: Found, question: &Question, found: &mut Found) -> Result<(), StoreError> {
        for warning in rows.warnings {
            found.warn(warning);
        }
        for evidence in rows.evidence.into_iter().filter(|evidence| question.asks_for_leg(&evidence.row.leg())) {
            self.put_kept(&Kept::of(evidence, question.now))?;
        }
        Ok(())
    }

    /// Keeps a row, unless the archive has the same or one that reaches further.
    fn put_kept(&mut self, kept: &Kept) -> Result<(), StoreError> {
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
        self.saw(number, !is_behind);
        if is_behind {
            self.done.rows_known += 1;
            return Ok(());
        }
        self.done.rows_added += 1;
        self.archive.put_row(number, &json)
    }
}

/// Events of one epoch on their way in.
struct Adding {
    number: EpochNumber,
    leg: LegId,
    epoch: Option<Epoch>,
    added: u64,
    known: u64,
    differ: u64,
}

impl Adding {
    fn to(archive: &mut Archive, leg: LegId, epoch: Option<Epoch>) -> Result<Self, StoreError> {
        Ok(Self { number: archive.number(&leg, epoch.as_ref())?, leg, epoch, added: 0, known: 0, differ: 0 })
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

/// What the events of an epoch fold to, and where their chain breaks.
struct Refolded {
    kept: Option<Kept>,
    fault: Option<String>,
}

/// What the events of an epoch say, as far as their chain holds and agrees with the head that their writer has `left`.
fn fold(archive: &Archive, number: EpochNumber, left: Option<Head>, samples: Samples) -> Result<Refolded, StoreError> {
    let mut chain = Followed::new(Chain::default()).against(left, "its writer");
    let mut fault = None;
    archive.events(number, |_, line| {
        if fault.is_none() {
            fault = chain.take(Some(line), None).err();
        }
    })?;
    let (leg, end) = chain.end();
    let fault = fault.or(end.err());
    let kept = leg.map(|leg| {
        let mut row = leg.row();
        if samples == Samples::Dropped {
            row.samples.clear();
        }
        let damaged_after = fault.is_some().then_some(leg.head.seq);
        if fault.is_some() {
            row.distrust();
        }
        Kept { row, resumes: leg.started.resumes.clone(), lease_s: None, written_at: None, unreadable: false, damaged_after }
    });
    Ok(Refolded { kept, fault })
}

impl Kept {
    /// Events that do not even tell how the leg began.
    fn without_a_word(leg: LegId, epoch: Option<Epoch>) -> Self {
        let mut row = LegRow::named(leg);
        row.epoch = epoch;
        row.why = "its events cannot be read from the first one on".to_owned();
        Self { row, resumes: None, lease_s: None, written_at: None, unreadable: true, damaged_after: None }
    }

    fn of(evidence: Evidence, now: Wall) -> Self {
        let (lease_s, written_at) = match evidence.trace {
            Trace::Marker { lease, age } => (Some(lease), Some(Wall(now.0.saturating_sub_unsigned(age.millis())))),
            Trace::Ledger | Trace::Damaged { .. } | Trace::Unreadable | Trace::Unread | Trace::None => (None, None),
        };
        let unreadable = matches!(evidence.trace, Trace::Unreadable | Trace::Unread);
        let damaged_after = if let Trace::Damaged { after } = evidence.trace { Some(after) } else { None };
        let mut row = evidence.row;
        // Where it was read from is no part of it: the same evidence from another place is the same evidence.
        row.source = None;
        row.samples.clear();
        Self { row, resumes: evidence.resumes, lease_s, written_at, unreadable, damaged_after }
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
        let trace = match (self.lease_s.zip(self.written_at), self.damaged_after) {
            (Some((lease, written)), _) => Trace::Marker { lease, age: now.since(written) },
            (None, Some(after)) => Trace::Damaged { after },
            (None, None) if self.unreadable => Trace::Unreadable,
            (None, None) => Trace::Ledger,
        };
        let mut row = self.row;
        row.source = Some(shown.to_owned());
        Evidence { row, trace, writer: Writer::Unknown, resumes: self.resumes, unnamed: None }
    }
}
