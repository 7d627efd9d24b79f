//! A leg that comes home: its lines, as a sink held them, become a ledger again.

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::core::chain::{Chain, ChainFault};
use crate::core::ids::{Epoch, LegId, Seq};
use crate::core::moment::Wall;

use super::error::StoreError;
use super::folder::LedgerFolder;
use super::reader::{Identity, Reader};
use super::{database, folder, head};

/// Lines per transaction: enough to make a sync cheap, few enough to stay small in memory.
const LINES: usize = 1000;

/// What came home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    pub path: PathBuf,
    /// The newest event that is in the ledger now.
    pub last: Seq,
    /// How many of its events came now.
    pub added: u64,
    /// Whether the newest one is the record of the end.
    pub ended: bool,
    /// Why the lines after it are not: a chain has no second half without its first.
    pub fault: Option<ChainFault>,
}

/// Makes the ledger of this leg and epoch out of its lines, which are stored as they are. It ends before the first line that does not
/// follow the one before it. A ledger that is here already is gone on with where the lines go on from it, and else refused and kept.
pub fn restore(
    folder: &LedgerFolder,
    leg: LegId,
    epoch: Epoch,
    created: Wall,
    lines: impl IntoIterator<Item = String>,
) -> Result<Restored, StoreError> {
    let path = folder.database_path(&leg, &epoch);
    let mut chain = Chain::of(leg.clone(), epoch.clone());
    let (added, fault) = match path.exists() {
        true => go_on(&path, &mut chain, lines.into_iter())?,
        false => begin(&path, &Identity { leg, epoch, created }, &mut chain, lines.into_iter())?,
    };
    Ok(Restored { last: chain.last(), ended: chain.ended(), path, added, fault })
}

type Added = (u64, Option<ChainFault>);

fn begin(path: &Path, identity: &Identity, chain: &mut Chain, lines: impl Iterator<Item = String>) -> Result<Added, StoreError> {
    let mut owned = head::HeadFile::create(path)?;
    let made = folder::create_database_file(path).and_then(|()| {
        let connection = database::create(path, identity)?;
        fill(connection, path, chain, lines)
    });
    match made {
        Ok(fault) => {
            note_head(&mut owned, chain);
            Ok((chain.last().0, fault))
        }
        Err(error) => {
            if !matches!(error, StoreError::Exists { .. }) {
                folder::remove_files(path);
            }
            Err(error)
        }
    }
}

/// Adds what comes after the events that are here. Each of these must be the one that comes in under its number.
fn go_on(path: &Path, chain: &mut Chain, mut lines: impl Iterator<Item = String>) -> Result<Added, StoreError> {
    let mut owned = head::HeadFile::reopen(path)?;
    let reader = Reader::open(path)?;
    for stored in reader.lines_after(Seq(0)) {
        let stored = stored?;
        let seq = stored.seq;
        let differs = || StoreError::Differs { path: path.to_owned(), seq };
        let here = stored.line.ok_or_else(differs)?;
        if lines.next().is_some_and(|line| line != here) {
            return Err(differs());
        }
        if let Err(fault) = chain.follow(&here, None) {
            return Ok((0, Some(fault)));
        }
    }
    drop(reader);
    let Some(next) = lines.next() else { return Ok((0, None)) };
    let before = chain.last();
    let (connection, _) = database::open_writable(path)?;
    let fault = fill(connection, path, chain, std::iter::once(next).chain(lines))?;
    note_head(&mut owned, chain);
    Ok((chain.last().0 - before.0, fault))
}

/// The head only adds to what the chain proves by itself.
fn note_head(owned: &mut head::HeadFile, chain: &Chain) {
    let _ = owned.write(&crate::core::row::Head { seq: chain.last(), digest: chain.digest().clone() });
}

fn fill(
    connection: Connection,
    path: &Path,
    chain: &mut Chain,
    mut lines: impl Iterator<Item = String>,
) -> Result<Option<ChainFault>, StoreError> {
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
