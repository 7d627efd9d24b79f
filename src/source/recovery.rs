//! Legs whose writers died on this machine: what is left of their trees is ended, and they are said aloud at the next start.

use std::path::PathBuf;

use super::aftermath::{self, Aftermath, By, Deed, named, parted};
use super::ledger::{self, Unfinished};
use crate::core::classify::Writer;
use crate::core::ids::base_name;
use crate::core::moment::Secs;
use crate::core::outcome::Cleanup;
use crate::core::pattern::Patterns;
use crate::core::process::{Fate, Leftover, Swept};
use crate::core::stop::StopOrder;
use crate::host::clock;
use crate::host::reap::{Hurry, dead};
use crate::store::{LedgerFolder, StoreError};

/// What is left of a dead run is nobody's any more; it gets a short grace.
const GRACE: Secs = Secs::from_secs(1);

/// A leg of a dead writer.
pub struct DeadLeg {
    pub database: PathBuf,
    unfinished: Unfinished,
    aftermath: Aftermath,
}

impl DeadLeg {
    /// Processes of it that still live. Empty on another boot: numbers of another boot mean nothing.
    pub fn alive(&self) -> Vec<Leftover> {
        self.dead_run(&Patterns::default()).map(|run| dead::find(&run)).unwrap_or_default()
    }

    /// Ends what still lives and neither the dead run nor `allow_leftover` spares, and puts it on the leg's record. `None` where there
    /// is nothing that could be looked for.
    pub fn reap(&self, allow_leftover: &Patterns, by: By) -> Option<Swept> {
        let swept = self.dead_run(allow_leftover).map(|run| dead::sweep(&run, StopOrder::ask(GRACE), Hurry::default()));
        // What was spared before is no news.
        let known = self.aftermath.spared();
        let is_news = |left: &Leftover| left.fate != Fate::Allowed || !known.contains(&left.pid);
        let news = swept.as_ref().filter(|swept| swept.leftovers.iter().any(is_news));
        aftermath::note(&self.database, news.map(|swept| Deed::new(clock::now().wall, by, swept)).as_ref());
        swept
    }

    fn dead_run(&self, allow_leftover: &Patterns) -> Option<dead::DeadRun> {
        let leg = &self.unfinished.leg;
        let mark = leg.mark().filter(|_| self.unfinished.writer == Writer::Dead)?;
        let mut spared = self.aftermath.spared();
        // Between two files the newest record is of the very file that the mark is of.
        let newest = leg.files().last().filter(|_| leg.current().is_none());
        let by_record = newest.into_iter().flat_map(|file| &file.leftovers).filter(|left| left.fate == Fate::Allowed);
        spared.extend(by_record.map(|left| left.pid));
        Some(dead::DeadRun {
            token: mark.token.clone(),
            owner: mark.owner,
            leader: None,
            descendants: self.aftermath.descendants_of(&mark.token),
            // Its first event says what its obituary says, which may be missing or damaged.
            allow_leftover: self.aftermath.allow_leftover.or(&leg.started.allow_leftover).or(allow_leftover),
            spared,
        })
    }

    /// What is known of it and of what its owner did.
    pub fn sentence(&self) -> String {
        let leg = &self.unfinished.leg;
        let at = leg.current().map_or(String::new(), |at| format!(" in {}", at.file));
        format!(
            "{} ended without its record{at}, {} files reported; its ledger {} stays as it is{}{}",
            leg.id,
            leg.counts().0,
            base_name(&self.database.display().to_string()),
            self.aftermath.by_owner_text(),
            self.aftermath.earlier_text(),
        )
    }

    /// What `reap` came to, as the end of that sentence.
    pub fn outcome(&self, swept: Option<&Swept>) -> String {
        match swept {
            Some(swept) => ended(swept),
            None if self.unfinished.writer == Writer::Dead => "; no file had begun, so nothing is left".to_owned(),
            None => "; it ran on another boot or machine, so nothing of it is looked for".to_owned(),
        }
    }
}

fn ended(swept: &Swept) -> String {
    let (spared, ended) = parted(&swept.leftovers);
    let alive = |count: usize| if count == 1 { "1 process of it was".to_owned() } else { format!("{count} processes of it were") };
    let mut text = match (ended.len(), swept.cleanup) {
        (0, Cleanup::Clean) => "; nothing of it is found any more".to_owned(),
        (0, _) => "; whether anything is left could not be told: `ledger reap --dry-run` looks again".to_owned(),
        (count, Cleanup::Clean) => format!("; {} still alive and ended now, and nothing of it is found any more", alive(count)),
        (count, Cleanup::Dirty) => {
            format!("; {} still alive and did not all end: `ledger reap --dry-run` tells which", alive(count))
        }
        (count, Cleanup::Unknown) => format!(
            "; {} still alive and sent to the end, which could not be proved: `ledger reap --dry-run` looks again",
            alive(count)
        ),
    };
    if !spared.is_empty() {
        let but = if swept.cleanup == Cleanup::Clean { " but" } else { "; left alone is" };
        text.push_str(&format!("{but} what --allow-leftover spares: {}", named(&spared)));
    }
    text
}

/// What a folder has of dead writers.
pub struct DeadLegs {
    pub legs: Vec<DeadLeg>,
    /// Databases that cannot be read. They stay as they are, and nobody takes them for a leg that was never there.
    pub unreadable: Vec<StoreError>,
}

/// Unfinished legs of this folder whose writers are not alive. `New` leaves out those that an earlier start has dealt with. A database that
/// cannot be read costs itself: it stands among the unreadable ones.
pub fn dead_legs(folder: &LedgerFolder, which: Which) -> Result<DeadLegs, StoreError> {
    let mut found = DeadLegs { legs: Vec::new(), unreadable: Vec::new() };
    for database in folder.databases()? {
        if let Err(error) = database.identity {
            found.unreadable.push(error);
            continue;
        }
        if which == Which::New && aftermath::mark(&database.path).exists() {
            continue;
        }
        match ledger::unfinished(&database.path) {
            Ok(Some(unfinished)) if unfinished.writer != Writer::Alive => {
                let aftermath = Aftermath::of(&database.path);
                found.legs.push(DeadLeg { database: database.path, unfinished, aftermath });
            }
            Ok(_) => {}
            Err(error) => found.unreadable.push(error),
        }
    }
    Ok(found)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    All,
    New,
}

/// What the start of a run found of earlier ones.
#[derive(Debug, Default)]
pub struct Recovered {
    /// A sentence for each dead leg.
    pub told: Vec<String>,
    pub unreadable: Vec<StoreError>,
}

/// Recovers at the start of a run: ends what dead runs left, and says each dead leg once. What they spared, and what `allow_leftover`
/// of this run names, is left alone.
pub async fn recover(folder: &LedgerFolder, allow_leftover: &Patterns) -> Result<Recovered, StoreError> {
    let DeadLegs { legs, unreadable } = dead_legs(folder, Which::New)?;
    let mut told = Vec::new();
    for leg in legs {
        let mut sentence = leg.sentence();
        let allow_leftover = allow_leftover.clone();
        // Ending a tree blocks for up to its grace.
        let reaped = tokio::task::spawn_blocking(move || {
            let swept = leg.reap(&allow_leftover, By::Run);
            leg.outcome(swept.as_ref())
        });
        sentence.push_str(&reaped.await.unwrap_or_default());
        told.push(sentence);
    }
    Ok(Recovered { told, unreadable })
}
