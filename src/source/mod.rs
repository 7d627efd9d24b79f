//! Sources of evidence: whatever a path or an address holds becomes rows of legs, and rows become one summary.
//!
//! ```text
//! open(SOURCE) ─▶ Found: one Evidence per leg and epoch, warnings ─▶ assemble(found, plan, jobs, now) ─▶ Summary ─▶ report
//! ```
//!
//! This layer reads files and databases and asks the layers below; it decides nothing about a leg: that is `core::classify`.

pub mod assemble;
pub mod ci_data;
pub mod lines;
pub mod open;

use crate::core::classify::{Trace, Writer};
use crate::core::ids::Epoch;
use crate::core::row::LegRow;

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

/// What a source holds.
#[derive(Debug, Default)]
pub struct Found {
    pub evidence: Vec<Evidence>,
    pub warnings: Vec<String>,
}

/// More warnings of one sort than this are counted, not told.
const WARNINGS_KEPT: usize = 200;

impl Found {
    pub fn warn(&mut self, text: String) {
        match self.warnings.len() {
            ..WARNINGS_KEPT => self.warnings.push(text),
            WARNINGS_KEPT => self.warnings.push("more warnings were left out".to_owned()),
            _ => {}
        }
    }
}
