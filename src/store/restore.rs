//! A leg that comes home: its lines, as a sink held them, become a ledger again.

use std::path::PathBuf;

use crate::core::chain::{Chain, ChainFault};
use crate::core::ids::{Epoch, LegId, Seq};
use crate::core::moment::Wall;

use super::error::StoreError;
use super::folder::LedgerFolder;
use super::reader::Identity;
use super::{database, folder, head};

/// Lines per transaction: enough to make a sync cheap, few enough to stay small in memory.
const LINES: usize = 1000;

/// What came home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    pub path: PathBuf,
    /// The newest event that is in the ledger now.
    pub last: Seq,
    /// Why the lines after it are not: a chain has no second half without its first.
    pub fault: Option<ChainFault>,
}

/// Makes the ledger of this leg and epoch out of its lines, which are stored as they are. It ends before the first line that does not
/// follow the one before it. A ledger that is here already is refused, and kept.
pub fn restore(
    folder: &LedgerFolder,
    leg: LegId,
    epoch: Epoch,
    created: Wall,
    lines: impl IntoIterator<Item = String>,
) -> Result<Restored, StoreError> {
    let path = folder.database_path(&leg, &epoch);
    let mut owned = head::HeadFile::create(&path)?;
    let mut chain = Chain::of(leg.clone(), epoch.clone());
    let identity = Identity { leg, epoch, created };
    let fault = match fill(&path, &identity, &mut chain, lines.into_iter()) {
        Ok(fault) => fault,
        Err(error) => {
            if !matches!(error, StoreError::Exists { .. }) {
                folder::remove_files(&path);
            }
            return Err(error);
        }
    };
    // The head only adds to what the chain proves by itself.
    let _ = owned.write(&crate::core::row::Head { seq: chain.last(), digest: chain.digest().clone() });
    Ok(Restored { path, last: chain.last(), fault })
}

fn fill(
    path: &std::path::Path,
    identity: &Identity,
    chain: &mut Chain,
    mut lines: impl Iterator<Item = String>,
) -> Result<Option<ChainFault>, StoreError> {
    folder::create_database_file(path)?;
    let connection = database::create(path, identity)?;
    let sql = |error: rusqlite::Error| StoreError::sql(path, &error);
    let mut fault = None;
    let mut more = true;
    while more {
        connection.execute_batch("BEGIN IMMEDIATE").map_err(sql)?;
        more = false;
        for line in lines.by_ref().take(LINES) {
            match chain.follow(&line, None) {
                Ok(kind) => database::insert_event(&connection, chain.last(), &kind, &line).map_err(sql)?,
                Err(found) => {
                    fault = Some(found);
                    break;
                }
            }
            more = true;
        }
        connection.execute_batch("COMMIT").map_err(sql)?;
        more = more && fault.is_none();
    }
    database::close(connection, path)?;
    Ok(fault)
}
