//! What stands beside the database of a leg whose writer died: the obituary, and what a later start or `ledger reap` ended.
//!
//! The writer itself begins the obituary with what it spares; the owners of its files add what they swept when it died. It stays, so
//! that whoever looks later spares the same. Nothing in here looks at a process.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::core::ids::Token;
use crate::core::moment::Wall;
use crate::core::outcome::Cleanup;
use crate::core::pattern::Patterns;
use crate::core::process::{Descendants, Fate, Leftover, ProcessId, Swept};
use crate::core::row::{LegRow, Note};
use crate::host::bounded;
use crate::report::escape;
use crate::store::private;

const VERSION: u32 = 1;
/// A line for what stayed of each file, two hundred processes at most, and a few about at most a hundred leftovers each.
const MOST_BYTES: u64 = 64 << 20;
/// So many processes are named in a sentence.
const NAMED: usize = 5;

/// Where the owners of a leg's files write down what they swept if their ledger dies.
pub fn obituary(database: &Path) -> PathBuf {
    database.with_extension("obituary")
}

/// That it is there says that the leg was dealt with; what was ended then is in it.
pub fn mark(database: &Path) -> PathBuf {
    database.with_extension("recovered")
}

/// The first line of an obituary, written while all is well.
#[derive(Debug, Serialize, Deserialize)]
struct Will {
    allow_leftover: Patterns,
}

/// Makes the obituary of a leg that begins. Owners only add to it.
pub fn begin(obituary: &Path, allow_leftover: &Patterns) -> io::Result<()> {
    let will = serde_json::to_string(&Will { allow_leftover: allow_leftover.clone() })?;
    writeln!(private::create_file(obituary)?, "{will}")
}

/// Who looked after a dead leg.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    Run,
    Reap,
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            By::Run => "the next `ledger run`",
            By::Reap => "`ledger reap`",
        })
    }
}

/// What somebody did about a dead leg.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Deed {
    v: u32,
    pub at: Wall,
    pub by: By,
    pub cleanup: Cleanup,
    pub leftovers: Vec<Leftover>,
}

impl Deed {
    pub fn new(at: Wall, by: By, swept: &Swept) -> Self {
        Self { v: VERSION, at, by, cleanup: swept.cleanup, leftovers: without_argv(swept.leftovers.clone()) }
    }

    fn text(&self) -> String {
        let (spared, ended) = parted(&self.leftovers);
        let mut text = match self.cleanup {
            Cleanup::Clean => format!("{} ended {}", self.by, named(&ended)),
            Cleanup::Dirty => format!("{} could not end all of {}", self.by, named(&ended)),
            Cleanup::Unknown => format!("{} could not prove the end of {}", self.by, named(&ended)),
        };
        if !spared.is_empty() {
            text.push_str(&format!("; {} spared as --allow-leftover says", named(&spared)));
        }
        text
    }
}

/// All that was written after a death.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Aftermath {
    /// What the run itself spares.
    pub allow_leftover: Patterns,
    /// What owners swept when their ledger died.
    pub by_owner: Vec<Swept>,
    /// Who descended from the files of the leg.
    pub descendants: Vec<Descendants>,
    pub deeds: Vec<Deed>,
}

impl Aftermath {
    /// What cannot be read was not written.
    pub fn of(database: &Path) -> Self {
        let mut aftermath = Self::default();
        for line in lines(&obituary(database)) {
            if let Ok(swept) = serde_json::from_str::<Swept>(&line) {
                aftermath.by_owner.push(Swept { leftovers: without_argv(swept.leftovers), ..swept });
            } else if let Ok(will) = serde_json::from_str::<Will>(&line) {
                aftermath.allow_leftover = will.allow_leftover;
            } else if let Ok(descendants) = serde_json::from_str::<Descendants>(&line) {
                aftermath.descendants.push(descendants);
            }
        }
        aftermath.deeds = lines(&mark(database)).iter().filter_map(|line| serde_json::from_str(line).ok()).collect();
        aftermath
    }

    fn leftovers(&self) -> impl Iterator<Item = &Leftover> {
        let by_owner = self.by_owner.iter().flat_map(|swept| &swept.leftovers);
        by_owner.chain(self.deeds.iter().flat_map(|deed| &deed.leftovers))
    }

    /// Who was left alone on purpose, by number.
    pub fn spared(&self) -> BTreeSet<i32> {
        self.leftovers().filter(|left| left.fate == Fate::Allowed).map(|left| left.pid).collect()
    }

    /// Who was seen to descend from the file with this token.
    pub fn descendants_of(&self, token: &Token) -> BTreeSet<ProcessId> {
        let of_file = self.descendants.iter().filter(|noted| noted.token == token.as_str());
        of_file.flat_map(|noted| &noted.descendants).copied().collect()
    }

    /// What the owners did, as the end of a sentence.
    pub fn by_owner_text(&self) -> String {
        let mut text = String::new();
        for swept in &self.by_owner {
            let (spared, _) = parted(&swept.leftovers);
            text.push_str(match swept.cleanup {
                Cleanup::Clean => "; its owner ended the tree when ledger died",
                Cleanup::Dirty => "; its owner could not end all of the tree when ledger died",
                Cleanup::Unknown => "; its owner could not prove the end of the tree when ledger died",
            });
            if !spared.is_empty() {
                text.push_str(&format!(", and spared {} as --allow-leftover says", named(&spared)));
            }
        }
        text
    }

    /// What was ended earlier by others than owners.
    pub fn earlier_text(&self) -> String {
        let ended = self.deeds.iter().filter(|deed| deed.leftovers.iter().any(|left| left.fate != Fate::Allowed));
        ended.map(|deed| format!("; at {} {}", deed.at, deed.text())).collect()
    }

    /// Puts it where a report shows it: what outlived the file in its row, and who dealt with it among the leg's notes.
    pub fn add_to(&self, row: &mut LegRow) {
        if let Some(file) = row.files.iter_mut().find(|file| file.outcome.is_none()) {
            for left in self.leftovers() {
                match file.leftovers.iter_mut().find(|known| known.pid == left.pid) {
                    Some(known) => known.fate = left.fate,
                    None => file.leftovers.push(left.clone()),
                }
            }
        }
        let told = self.deeds.iter().filter(|deed| !deed.leftovers.is_empty());
        row.notes.extend(told.map(|deed| Note { ts: deed.at, kind: "recovered".to_owned(), text: deed.text() }));
    }
}

/// Marks the leg as dealt with. A mark that cannot be written costs a repetition.
pub fn note(database: &Path, deed: Option<&Deed>) {
    let path = mark(database);
    let written = deed.map(serde_json::to_string).transpose().map_err(io::Error::from).and_then(|line| {
        let mut file = match private::create_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => std::fs::OpenOptions::new().append(true).open(&path)?,
            made => made?,
        };
        line.map_or(Ok(()), |line| writeln!(file, "{line}"))
    });
    if let Err(error) = written {
        tracing::debug!(path = %path.display(), %error, "a recovered leg could not be marked");
    }
}

/// Spared, and all others.
pub fn parted(leftovers: &[Leftover]) -> (Vec<&Leftover>, Vec<&Leftover>) {
    leftovers.iter().partition(|left| left.fate == Fate::Allowed)
}

/// `sleep (pid 7), sh (pid 8) and 3 more`.
pub fn named(leftovers: &[&Leftover]) -> String {
    if leftovers.is_empty() {
        return "nothing".to_owned();
    }
    let name = |left: &&Leftover| format!("{} (pid {})", escape::name(left.exe.as_deref().unwrap_or(&left.comm)), left.pid);
    let mut text = leftovers.iter().take(NAMED).map(name).collect::<Vec<_>>().join(", ");
    if leftovers.len() > NAMED {
        text.push_str(&format!(" and {} more", leftovers.len() - NAMED));
    }
    text
}

/// A command line may hold a secret, and nobody here knows the secrets of a run that is over.
fn without_argv(leftovers: Vec<Leftover>) -> Vec<Leftover> {
    leftovers.into_iter().map(|left| Leftover { argv: None, ..left }).collect()
}

fn lines(path: &Path) -> Vec<String> {
    // A pipe of that name would hold whoever opens it.
    let is_file = std::fs::metadata(path).is_ok_and(|data| data.is_file());
    let bytes = if is_file { bounded::read(path, MOST_BYTES).unwrap_or_default() } else { Vec::new() };
    String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::moment::Secs;
    use crate::core::process::OursBy;

    fn left(pid: i32, fate: Fate) -> Leftover {
        Leftover {
            pid,
            comm: "sleep".to_owned(),
            exe: None,
            argv: Some("sleep --token=secret".to_owned()),
            age_s: None,
            rss_mib: None,
            ours_by: OursBy::Token,
            fate,
            waits_on: None,
        }
    }

    fn swept(leftovers: Vec<Leftover>) -> Swept {
        let (foreign, notes) = (Vec::new(), Vec::new());
        Swept { cleanup: Cleanup::Clean, leftovers, foreign, escalated: true, notes, took: Secs::ZERO }
    }

    #[test]
    fn what_is_written_beside_a_database_is_read_again_without_command_lines() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let database = folder.path().join("leg-x.db");
        assert_eq!(Aftermath::of(&database), Aftermath::default());
        let allow = Patterns::new(["sle*"]).expect("a pattern");
        begin(&obituary(&database), &allow).expect("written");
        let line = serde_json::to_string(&swept(vec![left(1, Fate::Allowed), left(2, Fate::Killed)])).expect("a line");
        let mut file = std::fs::OpenOptions::new().append(true).open(obituary(&database)).expect("it was begun");
        writeln!(file, "{line}").expect("written");
        // As an older version marked it.
        std::fs::write(mark(&database), "told\n").expect("written");
        note(&database, Some(&Deed::new(Wall(0), By::Reap, &swept(vec![left(3, Fate::Killed), left(4, Fate::Allowed)]))));
        note(&database, None);
        let aftermath = Aftermath::of(&database);
        assert_eq!(aftermath.allow_leftover, allow);
        assert_eq!(aftermath.spared(), BTreeSet::from([1, 4]));
        assert_eq!((aftermath.by_owner.len(), aftermath.deeds.len()), (1, 1));
        assert!(aftermath.leftovers().all(|left| left.argv.is_none()));
        assert_eq!(
            aftermath.by_owner_text(),
            "; its owner ended the tree when ledger died, and spared sleep (pid 1) as --allow-leftover says"
        );
        assert_eq!(aftermath.deeds[0].text(), "`ledger reap` ended sleep (pid 3); sleep (pid 4) spared as --allow-leftover says");
    }
}
