//! A ledger folder or one of its databases as a source: every epoch folded, with what is known of its writer.

use std::collections::HashSet;
use std::path::Path;

use super::aftermath::Aftermath;
use super::followed::Followed;
use super::{Evidence, Found, push};
use crate::core::chain::Chain;
use crate::core::classify::{Trace, Writer};
use crate::core::event::{HostInfo, PlannedFile, RUN_FINISHED};
use crate::core::fold::Leg;
use crate::core::history::PastLeg;
use crate::core::ids::{FilePath, Seq};
use crate::core::row::{Head, LegRow};
use crate::host::identity;
use crate::store::{LedgerFolder, Pulled, Reader, StoreError, is_writer_alive, left_head};

/// Caps look at no more than this many of the newest legs of the folder: enough for every window of the default policy, and the start
/// of a run stays quick however long nobody prunes.
const PAST_LEGS: usize = 200;

/// One database.
pub fn read_database(path: &Path) -> Result<Found, StoreError> {
    let mut found = Found::default();
    let evidence = evidence_of(path, &mut found)?;
    found.evidence.extend(evidence);
    Ok(found)
}

fn evidence_of(path: &Path, found: &mut Found) -> Result<Option<Evidence>, StoreError> {
    // Asked first: a writer that ends while its events are read was alive when they were not all there.
    let alive = is_writer_alive(path);
    let left = left_head(path);
    let reader = Reader::open(path)?;
    let Folded { leg, mut damaged } = fold(&reader, left, found);
    let Some(leg) = leg else {
        let why = "it has no run-started and says nothing of a leg";
        found.warn(format!("{}: {why}", path.display()));
        return Ok(Some(without_a_word(&reader, why, alive)));
    };
    let mut row = leg.row();
    row.source = Some(path.display().to_string());
    if !leg.is_over() {
        Aftermath::of(path).add_to(&mut row);
    }
    push::add_to(&mut row, path);
    let pulled = Pulled::of(path);
    if let Some(missing) = pulled.as_ref().and_then(|pulled| pulled.missing(leg.head.seq)) {
        damaged = true;
        found.warn(format!("{}: {missing}", path.display()));
    }
    // A copy says nothing of its writer, also where that one ran on this very host.
    let writer = if pulled.is_some() { Writer::Unknown } else { writer(alive, &leg) };
    let trace = if damaged { Trace::Damaged { after: leg.head.seq } } else { Trace::Ledger };
    if damaged {
        row.distrust();
    }
    Ok(Some(Evidence { row, trace, writer, resumes: leg.started.resumes.clone(), unnamed: None }))
}

/// A database that names its leg and says nothing of it.
fn without_a_word(reader: &Reader, why: &str, alive: bool) -> Evidence {
    let identity = reader.identity();
    let mut row = LegRow::named(identity.leg.clone());
    row.epoch = Some(identity.epoch.clone());
    row.why = why.to_owned();
    row.source = Some(reader.path().display().to_string());
    let (trace, writer) = if alive { (Trace::Ledger, Writer::Alive) } else { (Trace::Unreadable, Writer::Unknown) };
    Evidence { row, trace, writer, resumes: None, unnamed: None }
}

fn writer(alive: bool, leg: &Leg) -> Writer {
    match alive {
        true => Writer::Alive,
        // A leg with its own end needs no look at its writer, and a folder may hold thousands of these.
        false if !leg.is_over() && is_this_boot(&leg.started.host) => Writer::Dead,
        false => Writer::Unknown,
    }
}

pub(super) struct Folded {
    pub leg: Option<Leg>,
    /// Something stands in it that cannot be read or cannot follow, and nothing after that is used.
    pub damaged: bool,
}

/// The events of a database, folded as far as their chain holds and agrees with the head that their writer has `left`; where it does not is
/// told once, with what it costs.
pub(super) fn fold(reader: &Reader, left: Option<Head>, found: &mut Found) -> Folded {
    let shown = reader.path().display();
    let identity = reader.identity();
    let mut chain = Followed::new(Chain::of(identity.leg.clone(), identity.epoch.clone())).against(left, "its writer");
    let mut damaged = false;
    let mut lines = reader.lines_after(Seq(0));
    while let Some(line) = lines.next() {
        let taken = match line {
            Ok(line) => chain.take(line.line.as_deref(), Some(&line.kind)),
            Err(error) => {
                damaged = true;
                found.warn(format!("{error}; what comes after it is not used"));
                break;
            }
        };
        if let Err(why) = taken {
            damaged = true;
            let lost = lines.count();
            found.warn(format!("{shown}: {why}; {lost} events after it are not used; see 'ledger verify {shown}'"));
            break;
        }
    }
    let (leg, end) = chain.end();
    if let (false, Err(why)) = (damaged, end) {
        damaged = true;
        found.warn(format!("{shown}: {why}; see 'ledger verify {shown}'"));
    }
    Folded { leg, damaged }
}

/// A leg whose last event is not its end.
pub struct Unfinished {
    pub leg: Leg,
    pub writer: Writer,
}

/// `None` for a database with its end in it, for one that says nothing of a leg, and for a copy of a leg that a sink has kept.
pub fn unfinished(path: &Path) -> Result<Option<Unfinished>, StoreError> {
    if Pulled::of(path).is_some() {
        return Ok(None);
    }
    let reader = Reader::open(path)?;
    let last = reader.last_seq()?;
    let newest = reader.lines_after(Seq(last.0.saturating_sub(1))).next().transpose()?;
    if newest.is_none_or(|line| line.kind == RUN_FINISHED) {
        return Ok(None);
    }
    let alive = is_writer_alive(path);
    let Folded { leg, .. } = fold(&reader, None, &mut Found::default());
    Ok(leg.map(|leg| Unfinished { writer: writer(alive, &leg), leg }))
}

/// What `--resume` found.
pub enum Resumable {
    Leg(Box<Leg>),
    /// Nothing that may be continued; where there is a leg of these files all the same, which one, and what keeps it apart.
    Nothing(Option<String>),
}

/// Which plan the leg has that is to be gone on with.
pub enum PlanOf<'a> {
    These(&'a [FilePath]),
    Whichever,
}

/// The newest leg of the folder that has this plan and no living writer, if it has not finished its loop. A leg that `differs` is another
/// leg, however like its plan is.
pub fn resumable(path: &Path, plan: &PlanOf<'_>, differs: &dyn Fn(&Leg) -> Option<String>) -> Result<Resumable, StoreError> {
    let databases = LedgerFolder::open(path)?.databases()?;
    let mut other = None;
    let mut finished: HashSet<Work> = HashSet::new();
    for database in databases.iter().rev().filter(|database| database.identity.is_ok() && !is_writer_alive(&database.path)) {
        let left = left_head(&database.path);
        // One that cannot be read is no leg that could be gone on with; the start of the run says so.
        let Ok(reader) = Reader::open(&database.path) else { continue };
        let Folded { leg: Some(leg), damaged: false } = fold(&reader, left, &mut Found::default()) else { continue };
        if let PlanOf::These(files) = plan
            && !paths_of(&leg).eq(files.iter().cloned())
        {
            continue;
        }
        // Only the newest leg of a plan counts: one that came to its end is not gone back behind.
        match (differs(&leg), leg.row().loop_finished) {
            (Some(why), false) if other.is_none() => other = Some(format!("{} {why}", leg.id)),
            (Some(_), _) => {}
            (None, true) if matches!(plan, PlanOf::These(_)) => break,
            (None, true) => {
                finished.insert(work_of(&leg));
            }
            (None, false) if finished.contains(&work_of(&leg)) => {}
            (None, false) => return Ok(Resumable::Leg(Box::new(leg))),
        }
    }
    Ok(Resumable::Nothing(other))
}

fn paths_of(leg: &Leg) -> impl Iterator<Item = FilePath> {
    leg.started.plan.iter().map(PlannedFile::path)
}

/// What two runs have in common that do the same: leg, command, files, and how many with all rounds.
type Work = (String, Vec<String>, Vec<FilePath>, Option<u32>);

fn work_of(leg: &Leg) -> Work {
    (leg.id.key(), leg.started.command.clone(), paths_of(leg).collect(), leg.started.files_planned)
}

/// What the newest ended legs of a folder teach about cost. A folder that is not there teaches nothing.
pub fn past_legs(path: &Path) -> Result<Vec<PastLeg>, StoreError> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let mut past = Vec::new();
    let mut unread = Found::default();
    let databases = LedgerFolder::open(path)?.databases()?;
    for database in databases.iter().filter(|database| database.identity.is_ok()).rev().take(PAST_LEGS) {
        // A damaged ledger teaches nothing here; `ledger verify` and `ledger report` say so.
        if let Ok(Some(evidence)) = evidence_of(&database.path, &mut unread) {
            past.extend(PastLeg::of(&evidence.row));
        }
    }
    Ok(past)
}

/// A writer's process number means something only on the boot that it was recorded on.
fn is_this_boot(host: &HostInfo) -> bool {
    host.boot_id.is_some() && host.boot_id == identity::host_info().boot_id
}
