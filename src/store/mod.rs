//! The ledger on disk: one SQLite database per leg and epoch inside the ledger folder, written by one thread, read by anyone.
//!
//! ```text
//! Writer::append(moment, bodies) ──▶ writer thread ──▶ one transaction, synced ──▶ Appended { stored }   then, and only then,
//!                                        │                                                                acted on or sent
//!                                        └─ head file: lock of the living writer, newest acknowledged event
//! Reader::open(path) ──▶ events after a number, never writing        verify(path, sink's head) ──▶ Whole | OpenEnd | Broken | Unreadable
//! ```
//!
//! This layer must not read a clock (every event brings its moment), must not know what an event means (that is `core::fold`), and must
//! not open a database file by any other way than SQLite: closing such a descriptor would drop the locks of a writer in this process.

mod archive;
mod ballast;
mod book;
mod copy;
mod database;
mod error;
mod folder;
mod head;
pub mod private;
mod pulled;
mod reader;
mod restore;
mod verify;
mod wal;
mod writer;

pub use crate::core::chain::Stored;
pub use crate::core::row::Head;
pub use archive::{Added, Archive, ArchivedEpoch, EpochNumber, is_archive};
pub use error::StoreError;
pub use folder::{LedgerFolder, LegDatabase, database_bytes, ids_of_name, in_a_name, remove_database};
pub use head::{is_writer_alive, left_head};
pub use pulled::Pulled;
pub use reader::{Event, Events, Identity, MAX_LINE_BYTES, Reader, StoredLine};
pub use restore::{Restored, restore};
pub use verify::{Verdict, Verified, verify};
pub use writer::{Appended, NoFaults, Room, WriteFault, WriteFaults, WriteStep, Writer, WriterOptions};
