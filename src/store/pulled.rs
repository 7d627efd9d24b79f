//! What a ledger that was brought home out of a sink remembers of that: it is a copy, and this is how far its sink said the leg had got.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::core::ids::Seq;
use crate::core::row::Head;

use super::error::StoreError;
use super::private;

pub(super) const EXTENSION: &str = "pulled";
const VERSION: u32 = 1;
/// A URL, a head and a sentence.
const MOST_BYTES: u64 = 64 * 1024;

/// Stands beside the database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pulled {
    v: u32,
    /// The sink's URL, as it may be printed.
    pub from: String,
    /// The head that the marker named.
    pub head: Option<Head>,
    /// The newest event that the sink spoke of.
    pub known: Seq,
    /// Why not everything came, at the last try.
    pub why: Option<String>,
}

impl Pulled {
    pub fn new(from: &str, head: Option<Head>, known: Seq) -> Self {
        Self { v: VERSION, from: from.to_owned(), head, known, why: None }
    }

    /// `None` for a ledger that was written here. What is there and cannot be read says that it is a copy, and nothing of how whole.
    pub fn of(database: &Path) -> Option<Self> {
        let unreadable = |why: String| Self {
            v: VERSION,
            from: "a sink".to_owned(),
            head: None,
            known: Seq(0),
            why: Some(format!("what was noted about that cannot be read: {why}")),
        };
        let path = path_of(database);
        match fs::metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => Some(unreadable(error.to_string())),
            Ok(data) if !data.is_file() || data.len() > MOST_BYTES => Some(unreadable("it is no note".to_owned())),
            Ok(_) => {
                let read = fs::read(&path).map_err(|error| error.to_string());
                let read = read.and_then(|text| serde_json::from_slice(&text).map_err(|error| error.to_string()));
                Some(read.unwrap_or_else(unreadable))
            }
        }
    }

    /// Puts it beside the database, on disk.
    pub fn note(&self, database: &Path) -> Result<(), StoreError> {
        let path = path_of(database);
        let text = serde_json::to_string(self).expect("a note has string keys only");
        let written = private::overwrite(&path).and_then(|mut file| {
            writeln!(file, "{text}")?;
            file.sync_data()
        });
        written.map_err(|error| StoreError::io(&path, &error))
    }

    /// Takes the note away again, where nothing came of the copy.
    pub fn forget(database: &Path) {
        let _ = fs::remove_file(path_of(database));
    }

    /// What is known to be missing from a copy that ends with this event.
    pub fn missing(&self, last: Seq) -> Option<String> {
        let from = &self.from;
        match &self.why {
            Some(why) => Some(format!("it is a copy out of {from}, which did not give everything: {why}")),
            None if self.known > last => {
                Some(format!("it is a copy out of {from}, which speaks of event {}, and ends with event {last}", self.known))
            }
            None => None,
        }
    }
}

fn path_of(database: &Path) -> PathBuf {
    database.with_extension(EXTENSION)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_knows_what_it_is() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let database = folder.path().join("leg.db");
        assert_eq!(Pulled::of(&database), None);
        let mut pulled = Pulled::new("file:///sink", None, Seq(9));
        pulled.note(&database).expect("written");
        assert_eq!(Pulled::of(&database), Some(pulled.clone()));
        assert_eq!(pulled.missing(Seq(9)), None);
        assert!(pulled.missing(Seq(4)).expect("it is there").contains("speaks of event 9"));
        pulled.why = Some("half of it is gone".to_owned());
        pulled.note(&database).expect("written");
        assert!(Pulled::of(&database).expect("it is there").missing(Seq(9)).expect("it is there").contains("half of it is gone"));
        fs::write(path_of(&database), "{").expect("written");
        assert!(Pulled::of(&database).expect("it is there").missing(Seq(9)).is_some(), "in doubt it is not whole");
    }
}
