//! Sources of evidence: whatever a path or an address holds becomes rows of legs, and rows become one summary.
//!
//! ```text
//! open(SOURCE) ─▶ Found: one Evidence per leg and epoch, warnings ─▶ assemble(found, plan, jobs, now) ─▶ Summary ─▶ report
//! ```
//!
//! This layer reads files and databases and asks the layers below; it decides nothing about a leg: that is `core::classify`.

pub mod aftermath;
pub mod against_files;
pub mod archive;
pub mod assemble;
pub mod ci_data;
mod epochs;
pub mod finalize;
mod followed;
pub mod junit;
pub mod ledger;
pub mod lines;
pub mod open;
pub mod push;
pub mod records;
pub mod recovery;
pub mod sink;
pub mod timing;
pub mod unnamed;

use std::path::PathBuf;

use crate::core::classify::{Trace, Writer};
use crate::core::ids::{Epoch, LegId};
use crate::core::moment::Wall;
use crate::core::row::LegRow;
use crate::sink::Narrow;

pub use open::SourceError;

/// What one source knows of one epoch of one leg.
#[derive(Debug, Clone)]
pub struct Evidence {
    /// `running` unless its own record says how it ended.
    pub row: LegRow,
    pub trace: Trace,
    pub writer: Writer,
    /// The epoch that this one continued.
    pub resumes: Option<Epoch>,
    /// The file that this was read from, where it does not name its own leg.
    pub unnamed: Option<PathBuf>,
}

/// Reads one SOURCE: a path, or the URL of a sink. In a folder, a file that cannot be read costs itself and is told.
pub fn read(source: &str, question: &assemble::Question, found: &mut Found) -> Result<(), SourceError> {
    let is_folder = std::path::Path::new(source).is_dir();
    let places = open::places(source, question, found)?;
    for (place, (held, read)) in places.iter().zip(read_places(&places, question)) {
        let says_nothing = held.evidence.is_empty();
        found.join(held);
        match read {
            Err(error) if is_folder => {
                found.warn(error.to_string());
                // Its leg does not vanish with it.
                match place {
                    open::Place::Ledger(path) | open::Place::Archive(path) => {
                        found.evidence.push(open::unreadable(path, &error, &[], question));
                    }
                    _ => found.unread.push(source.to_owned()),
                }
            }
            // A file that was named and says nothing at all is a mistake, not a night without legs.
            Ok(()) if !is_folder && place.is_text() && says_nothing => {
                return Err(SourceError::Empty { path: source.into() });
            }
            other => {
                other?;
                if let (true, open::Place::CiData(path)) = (says_nothing, place) {
                    found.warn(format!("{}: no line in it is evidence; whose leg it was cannot be told", path.display()));
                }
            }
        }
    }
    Ok(())
}

/// Fewer places than this are read faster than a thread starts.
const WORTH_A_THREAD: usize = 32;

/// What each place holds, in their order; many are shared out among the cores.
fn read_places(places: &[open::Place], question: &assemble::Question) -> Vec<(Found, Result<(), SourceError>)> {
    let read_all = |places: &[open::Place]| -> Vec<_> {
        let read = |place| {
            let mut found = Found::default();
            let read = open::read_place(place, question, &mut found);
            (found, read)
        };
        places.iter().map(read).collect()
    };
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get().min(places.len() / WORTH_A_THREAD));
    if cores < 2 {
        return read_all(places);
    }
    std::thread::scope(|scope| {
        let mut shares = places.chunks(places.len().div_ceil(cores));
        let own = shares.next().unwrap_or_default();
        let others: Vec<_> =
            shares.map(|share| (share, std::thread::Builder::new().spawn_scoped(scope, move || read_all(share)))).collect();
        let mut read = read_all(own);
        for (share, other) in others {
            // A host that gives no more threads costs time, not evidence.
            read.extend(match other {
                Ok(other) => other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                Err(_) => read_all(share),
            });
        }
        read
    })
}

/// What a sink is asked for.
pub fn narrow(question: &assemble::Question) -> Narrow {
    Narrow {
        run_id: question.run_id.clone(),
        attempt: question.attempt.clone(),
        // Siblings know the version of a lost leg, and the plan is of a whole run.
        platform: question.platform.clone().filter(|_| !question.whole_runs),
        target: question.target.clone().filter(|_| !question.whole_runs),
        set_clock: question.set_clock,
        variables: question.variables.clone(),
    }
}

/// What the asker says of a source that does not name its own leg: JUnit and timing files.
#[derive(Debug, Clone)]
pub struct Named {
    pub leg: LegId,
    /// When the file was last written: the best that is known of when the leg was.
    pub written: Option<Wall>,
}

/// Whether a SOURCE names a sink and not a path.
pub fn is_sink(source: &str) -> bool {
    source.contains("://") || source.starts_with("github:")
}

/// A runtime for a command that has to ask a sink.
pub fn runtime() -> Result<tokio::runtime::Runtime, SourceError> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(SourceError::Runtime)
}

/// What a source holds.
#[derive(Debug, Default)]
pub struct Found {
    pub evidence: Vec<Evidence>,
    pub warnings: Vec<String>,
    /// Sources of which nothing is known, because they could not be read.
    pub unread: Vec<String>,
}

/// More warnings of one sort than this are counted, not told.
const WARNINGS_KEPT: usize = 200;

impl Found {
    pub fn join(&mut self, other: Found) {
        self.evidence.extend(other.evidence);
        self.unread.extend(other.unread);
        other.warnings.into_iter().for_each(|warning| self.warn(warning));
    }

    pub fn warn(&mut self, text: String) {
        match self.warnings.len() {
            ..WARNINGS_KEPT => self.warnings.push(text),
            WARNINGS_KEPT => self.warnings.push("more warnings were left out".to_owned()),
            _ => {}
        }
    }
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
