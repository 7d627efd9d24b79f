//! Sources of evidence: whatever a path or an address holds becomes rows of legs, and rows become one summary.
//!
//! ```text
//! open(SOURCE) ─▶ Found: one Evidence per leg and epoch, warnings ─▶ assemble(found, plan, jobs, now) ─▶ Summary ─▶ report
//! ```
//!
//! This layer reads files and databases and asks the layers below; it decides nothing about a leg: that is `core::classify`.

pub mod assemble;
pub mod ci_data;
pub mod ledger;
pub mod lines;
pub mod open;
pub mod recovery;
pub mod sink;

use std::path::Path;

use crate::core::classify::{Trace, Writer};
use crate::core::ids::Epoch;
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
}

/// Reads one SOURCE: a path, or the URL of a sink. Only a sink needs an async runtime, so only a sink pays for one.
pub fn read(source: &str, question: &assemble::Question, found: &mut Found) -> Result<(), SourceError> {
    if !is_sink(source) {
        return open::open(Path::new(source), found);
    }
    let narrow = Narrow {
        run_id: question.run_id.clone(),
        attempt: question.attempt.clone(),
        platform: question.platform.clone(),
        target: question.target.clone(),
    };
    runtime()?.block_on(sink::read(source, &narrow, question.now, found)).map_err(SourceError::from)
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
}

/// More warnings of one sort than this are counted, not told.
const WARNINGS_KEPT: usize = 200;

impl Found {
    pub fn join(&mut self, other: Found) {
        self.evidence.extend(other.evidence);
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
