//! Legs whose writers died on this machine: said aloud at the next start, with their trees ended.

use std::path::Path;

use crate::core::classify::Writer;
use crate::core::ids::base_name;
use crate::store::{LedgerFolder, StoreError};

use super::ledger;

/// Says which legs of this folder ended without their record, each once: a word beside its database marks it as told.
pub fn recover(folder: &LedgerFolder) -> Result<Vec<String>, StoreError> {
    let mut told = Vec::new();
    for database in folder.databases()? {
        let mark = database.path.with_extension("recovered");
        if database.identity.is_err() || mark.exists() {
            continue;
        }
        let Some(evidence) = ledger::unfinished(&database.path)? else { continue };
        if evidence.writer == Writer::Alive {
            continue;
        }
        let row = &evidence.row;
        let at = row.current_file.as_deref().map_or(String::new(), |file| format!(" in {file}"));
        told.push(format!(
            "{} ended without its record{at}, {} files reported; its ledger {} is whole as far as it goes",
            row.leg(),
            row.files_reported,
            base_name(&database.path.display().to_string())
        ));
        note(&mark);
    }
    Ok(told)
}

/// A mark that cannot be written costs a repetition of the message.
fn note(mark: &Path) {
    if let Err(error) = std::fs::write(mark, "told\n") {
        tracing::debug!(path = %mark.display(), %error, "a recovered leg could not be marked");
    }
}
