//! Legs whose writers died on this machine: what is left of their trees is ended, and they are said aloud at the next start.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::ledger::{self, Unfinished};
use crate::core::classify::Writer;
use crate::core::ids::base_name;
use crate::core::moment::Secs;
use crate::core::outcome::Cleanup;
use crate::core::process::{Leftover, Swept};
use crate::core::stop::StopOrder;
use crate::host::reap::{Hurry, dead};
use crate::store::{LedgerFolder, StoreError, private};

/// What is left of a dead run is nobody's any more; it gets a short grace.
const GRACE: Secs = Secs::from_secs(1);

/// An obituary is one line about at most a hundred leftovers.
const OBITUARY_MAX: usize = 1 << 20;

/// Where the owners of a leg's files write down what they swept if their ledger dies.
pub fn obituary(database: &Path) -> PathBuf {
    database.with_extension("obituary")
}

/// A leg of a dead writer.
pub struct DeadLeg {
    pub database: PathBuf,
    unfinished: Unfinished,
}

impl DeadLeg {
    /// Processes of it that still live. Empty on another boot: numbers of another boot mean nothing.
    pub fn alive(&self) -> Vec<Leftover> {
        self.dead_run().map(|run| dead::find(&run)).unwrap_or_default()
    }

    /// Ends what still lives. `None` where there is nothing that could be looked for.
    pub fn reap(&self) -> Option<(Cleanup, Vec<Leftover>)> {
        let swept = dead::sweep(&self.dead_run()?, StopOrder::ask(GRACE), Hurry::default());
        Some((swept.cleanup, swept.leftovers))
    }

    fn dead_run(&self) -> Option<dead::DeadRun> {
        let mark = self.unfinished.leg.mark().filter(|_| self.unfinished.writer == Writer::Dead)?;
        Some(dead::DeadRun { token: mark.token.clone(), owner: mark.owner, leader: None })
    }

    pub fn sentence(&self) -> String {
        let leg = &self.unfinished.leg;
        let at = leg.current().map_or(String::new(), |at| format!(" in {}", at.file));
        format!(
            "{} ended without its record{at}, {} files reported; its ledger {} stays as it is",
            leg.id,
            leg.counts().0,
            base_name(&self.database.display().to_string())
        )
    }

    /// What the owner of its last file wrote down when its ledger died, and takes the note away: it is told once.
    fn last_rites(&self) -> Option<String> {
        let path = obituary(&self.database);
        let text = std::fs::read_to_string(&path).ok().filter(|text| text.len() <= OBITUARY_MAX)?;
        if let Err(error) = std::fs::remove_file(&path) {
            tracing::debug!(path = %path.display(), %error, "an obituary could not be removed");
        }
        let swept: Swept = serde_json::from_str(text.lines().next()?).ok()?;
        let proof = match swept.cleanup {
            Cleanup::Clean => "nothing was left",
            Cleanup::Dirty => "something survived",
            Cleanup::Unknown => "what was left could not be told",
        };
        Some(format!("; its owner ended the tree when ledger died, and {proof}"))
    }

    fn mark(&self) -> PathBuf {
        mark_of(&self.database)
    }
}

/// Unfinished legs of this folder whose writers are not alive. `Told` leaves out those that an earlier start has dealt with.
pub fn dead_legs(folder: &LedgerFolder, which: Which) -> Result<Vec<DeadLeg>, StoreError> {
    let mut found = Vec::new();
    for database in folder.databases()? {
        if database.identity.is_err() || (which == Which::New && mark_of(&database.path).exists()) {
            continue;
        }
        if let Some(unfinished) = ledger::unfinished(&database.path)?
            && unfinished.writer != Writer::Alive
        {
            found.push(DeadLeg { database: database.path, unfinished });
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
    /// Databases that cannot be read. They stay as they are, and nobody takes them for a leg that was never there.
    pub unreadable: Vec<StoreError>,
}

/// Recovers at the start of a run: ends what dead runs left, and says each dead leg once.
pub async fn recover(folder: &LedgerFolder) -> Result<Recovered, StoreError> {
    let unreadable = folder.databases()?.into_iter().filter_map(|database| database.identity.err()).collect();
    let mut told = Vec::new();
    for leg in dead_legs(folder, Which::New)? {
        let mut sentence = leg.sentence();
        let mark = leg.mark();
        sentence.extend(leg.last_rites());
        // Ending a tree blocks for up to its grace.
        let reaped = tokio::task::spawn_blocking(move || leg.reap()).await.unwrap_or_default();
        if let Some((cleanup, leftovers)) = reaped.filter(|(_, leftovers)| !leftovers.is_empty()) {
            let end = match cleanup {
                Cleanup::Clean => "are ended now, and nothing is left",
                Cleanup::Dirty => "did not all end: `ledger reap` tells which",
                Cleanup::Unknown => "were sent to their end, which could not be proved: `ledger reap --dry-run` looks again",
            };
            sentence.push_str(&format!("; {} processes of it were still alive and {end}", leftovers.len()));
        }
        told.push(sentence);
        note(&mark);
    }
    Ok(Recovered { told, unreadable })
}

/// A word beside its database says that a dead leg was dealt with.
fn mark_of(database: &Path) -> PathBuf {
    database.with_extension("recovered")
}

/// A mark that cannot be written costs a repetition of the message.
fn note(mark: &Path) {
    if let Err(error) = private::create_file(mark).and_then(|mut file| file.write_all(b"told\n")) {
        tracing::debug!(path = %mark.display(), %error, "a recovered leg could not be marked");
    }
}
