//! From settings to what will run: the files of this leg in order, each with its cap. Asked before anything is written.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::RunError;
use super::resume::Resumed;
use crate::core::cap::{CapChoice, Policy};
use crate::core::capfile::{Caps, CapsFile, CapsSource, MAX_CAPS_FILE_BYTES};
use crate::core::event::PlannedFile;
use crate::core::history::History;
use crate::core::ids::{FilePath, RunId};
use crate::core::moment::Secs;
use crate::core::plan::share;
use crate::host::bounded;
use crate::settings::{self, Resume, RunSettings, path_of};
use crate::source::ledger;

/// One file of the plan.
#[derive(Debug, Clone)]
pub struct Planned {
    pub index: u32,
    pub path: FilePath,
    pub choice: Option<CapChoice>,
}

#[derive(Debug, Clone)]
pub struct Plan {
    pub files: Vec<Planned>,
    /// Files times rounds; `None` with an open end.
    pub total: Option<u32>,
    pub warnings: Vec<String>,
    /// The epoch that this run continues, with its records.
    pub resumed: Option<Resumed>,
}

impl Planned {
    pub fn event(&self) -> PlannedFile {
        PlannedFile {
            index: self.index,
            file: self.path.text().to_owned(),
            file_b64: self.path.b64(),
            cap_s: self.choice.as_ref().map(|choice| choice.cap),
            cap_basis: self.choice.as_ref().map(|choice| choice.basis.clone()),
            expect_s: self.choice.as_ref().and_then(|choice| choice.expect),
        }
    }
}

impl Plan {
    /// `recorded` is what the settings have their files from, where nobody has named any.
    pub fn make(settings: &RunSettings, recorded: Option<Resumed>) -> Result<Self, RunError> {
        let caps = Caps { source: source(settings)?, lever: settings.cap };
        let platform = &settings.identity.leg.platform;
        let choices: Vec<Option<CapChoice>> = settings.files.iter().map(|file| caps.cap_for(file, platform)).collect();
        // What is on record is a share already.
        let mine: Vec<usize> = match settings.shard.filter(|_| recorded.is_none()) {
            None => (0..settings.files.len()).collect(),
            Some(shard) => {
                let known: HashMap<&FilePath, &Option<CapChoice>> = settings.files.iter().zip(&choices).collect();
                let expect = |file: &FilePath| known.get(file)?.as_ref()?.expect;
                share(&settings.files, expect, shard)
            }
        };
        let mut files = Vec::with_capacity(mine.len());
        for (index, position) in (1_u32..).zip(mine) {
            let path = settings.files[position].clone();
            files.push(Planned { index, path, choice: choices[position].clone() });
        }
        if files.is_empty() {
            let shard = settings.shard.map_or_else(String::new, |shard| shard.to_string());
            return Err(RunError::EmptyShard { shard, files: settings.files.len() });
        }
        let unknown: Vec<&str> = files.iter().filter(|file| !caps.knows(&file.path)).map(|file| file.path.text()).collect();
        let mut warnings = settings.warnings.clone();
        if let (CapsSource::File(_), Some(first)) = (&caps.source, unknown.first()) {
            let more = if unknown.len() > 1 { format!(" and {} more", unknown.len() - 1) } else { String::new() };
            warnings.push(format!("the caps file does not know '{first}'{more}; such files get its floor"));
        }
        let count = u32::try_from(files.len()).unwrap_or(u32::MAX);
        let total = settings.rounds.count.map(|rounds| count.saturating_mul(rounds));
        let resumed = match settings.resume {
            Resume::No => None,
            Resume::OfThese => Some(Resumed::of_these(settings, &files, total)?),
            Resume::AsRecorded(_) => recorded,
        };
        Ok(Self { files, total, warnings, resumed })
    }

    pub fn events(&self) -> Vec<PlannedFile> {
        self.files.iter().map(Planned::event).collect()
    }

    /// Whether the continued epoch has a record of this file.
    pub fn is_done(&self, index: u32, round: u32) -> bool {
        let carried = self.resumed.iter().flat_map(|resumed| &resumed.carried);
        carried.into_iter().any(|row| (row.index, row.round) == (index, round))
    }

    /// What each file of a round is expected to take, from this position on; `None` for one without history.
    pub fn expected_from(&self, position: usize) -> impl Iterator<Item = Option<Secs>> {
        self.files.iter().skip(position).map(|file| file.choice.as_ref()?.expect)
    }
}

fn source(settings: &RunSettings) -> Result<CapsSource, RunError> {
    match &settings.caps {
        settings::CapsSource::None => Ok(CapsSource::None),
        settings::CapsSource::File(path) => Ok(CapsSource::File(Box::new(read_caps_file(path)?))),
        settings::CapsSource::History => {
            let history = history(&settings.ledger, &settings.identity.leg.run_id)?;
            Ok(CapsSource::History { history: Box::new(history), policy: Policy::default() })
        }
    }
}

fn read_caps_file(path: &Path) -> Result<CapsFile, RunError> {
    let unreadable = |reason: String| RunError::CapsFile { path: path.to_owned(), reason };
    let bytes = bounded::read(path, MAX_CAPS_FILE_BYTES as u64).map_err(|error| unreadable(error.to_string()))?;
    CapsFile::parse(&bytes).map_err(|error| unreadable(error.to_string()))
}

/// What this machine's own ledgers say, frozen at the start. Nothing of the present run feeds its own caps.
fn history(ledger: &Path, this_run: &RunId) -> Result<History, RunError> {
    let legs = ledger::past_legs(ledger).map_err(RunError::History)?;
    Ok(History::of(legs.iter().filter(|leg| leg.run_id != *this_run)))
}

/// The command of one file: `{file}`, `{name}` and `{index}` are replaced, and with no `{file}` the path is appended.
pub fn command_for(command: &[std::ffi::OsString], file: &Planned, folder: &Path) -> (PathBuf, Vec<std::ffi::OsString>) {
    let path = path_of(&file.path);
    // A path that begins with a dash would be read as an option, and a bare name would be looked up in PATH.
    let bare = |path: &Path| path.components().count() == 1 && path.is_relative();
    let dashed = file.path.bytes().first() == Some(&b'-');
    let shown = if dashed { Path::new(".").join(&path) } else { path.clone() };
    let Some((program, arguments)) = command.split_first() else {
        let program = if bare(&path) { Path::new(".").join(&path) } else { path };
        return (folder.join(program), Vec::new());
    };
    let mut has_file = false;
    let mut replaced = Vec::new();
    for word in arguments {
        let (word, had_file) = substitute(word, file, &shown);
        has_file |= had_file;
        replaced.push(word);
    }
    let (program, had_file) = substitute(program, file, &shown);
    if !has_file && !had_file {
        replaced.push(shown.into_os_string());
    }
    (program.into(), replaced)
}

fn substitute(word: &std::ffi::OsStr, file: &Planned, shown: &Path) -> (std::ffi::OsString, bool) {
    let Some(text) = word.to_str() else { return (word.to_owned(), false) };
    let mut out = std::ffi::OsString::new();
    let mut rest = text;
    let mut had_file = false;
    while let Some(open) = rest.find('{') {
        let (before, from) = rest.split_at(open);
        out.push(before);
        let name = shown.file_name().unwrap_or(shown.as_os_str());
        let index = file.index.to_string();
        let known = [("{file}", shown.as_os_str()), ("{name}", name), ("{index}", index.as_ref())];
        match known.into_iter().find(|(key, _)| from.starts_with(key)) {
            Some((key, value)) => {
                had_file |= key == "{file}";
                out.push(value);
                rest = &from[key.len()..];
            }
            None => {
                out.push("{");
                rest = &from[1..];
            }
        }
    }
    out.push(rest);
    (out, had_file)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As paths, which are equal however a system writes their separators.
    fn command(words: &[&str], file: &str) -> (PathBuf, Vec<PathBuf>) {
        let words: Vec<std::ffi::OsString> = words.iter().map(Into::into).collect();
        let planned = Planned { index: 3, path: FilePath::from(file), choice: None };
        let (program, arguments) = command_for(&words, &planned, Path::new("/w"));
        (program, arguments.into_iter().map(PathBuf::from).collect())
    }

    #[test]
    fn the_path_is_put_in_or_appended() {
        let table: Vec<(&[&str], &str, &str, &[&str])> = vec![
            (&["bun", "test", "./{file}"], "t/a.ts", "bun", &["test", "./t/a.ts"]),
            (&["sh"], "a.sh", "sh", &["a.sh"]),
            (&["sh"], "-a.sh", "sh", &["./-a.sh"]),
            (&["run", "{name}", "{index}"], "t/a b.ts", "run", &["a b.ts", "3", "t/a b.ts"]),
            (&["run", "{other}{file}{"], "a", "run", &["{other}a{"]),
            (&["{file}", "-x"], "t/a", "t/a", &["-x"]),
            (&[], "a.sh", "/w/./a.sh", &[]),
            (&[], "t/a.sh", "/w/t/a.sh", &[]),
        ];
        for (words, file, program, arguments) in table {
            assert_eq!(command(words, file), (program.into(), arguments.iter().map(PathBuf::from).collect()));
        }
    }
}
