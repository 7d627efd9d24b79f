//! From what a person names to the places that hold evidence: what is there is told by what it holds, not only by its name.

use std::fs::File;
use std::io::{self, BufReader, Read as _};
use std::path::{Path, PathBuf};

use super::assemble::Question;
use super::lines::BYTE_ORDER_MARK;
use super::unnamed::UNKNOWN;
use super::{Evidence, Found, Named, archive, ci_data, junit, ledger, narrow, sink, timing};
use crate::core::classify::{Trace, Writer};
use crate::core::ids::{Attempt, Epoch, LegId, Platform, RunId, Target};
use crate::core::moment::Wall;
use crate::core::row::LegRow;
use crate::store::{LedgerFolder, StoreError, ids_of_name, in_a_name, is_archive};

#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error(
        "{}: nothing in it is evidence; a ledger folder or database, ci-data, JUnit XML, a timing file or a sink's folder is wanted",
        path.display()
    )]
    Empty { path: PathBuf },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Sink(#[from] crate::sink::SinkError),
    #[error("the async runtime cannot start: {0}")]
    Runtime(io::Error),
}

impl SourceError {
    /// Whether there is nothing at all: no leg has left a trace there, and none is hidden there.
    pub fn is_nothing(&self) -> bool {
        match self {
            Self::Empty { .. } => true,
            Self::Io { source, .. } => source.kind() == io::ErrorKind::NotFound,
            Self::Sink(error) => is_missing_folder(&error.url),
            Self::Store(_) | Self::Runtime(_) => false,
        }
    }

    fn io(path: &Path, source: io::Error) -> Self {
        Self::Io { path: path.to_owned(), source }
    }
}

/// Whether the URL is of a file sink that nobody has written yet.
fn is_missing_folder(url: &str) -> bool {
    let path = url::Url::parse(url).ok().and_then(|url| url.to_file_path().ok());
    path.is_some_and(|path| path.try_exists().is_ok_and(|exists| !exists))
}

/// One place that holds evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    CiData(PathBuf),
    JUnit(PathBuf),
    Timing(PathBuf),
    /// One database of a ledger folder.
    Ledger(PathBuf),
    Archive(PathBuf),
    Sink(String),
}

impl Place {
    pub fn is_text(&self) -> bool {
        matches!(self, Place::CiData(_)) || self.is_unnamed()
    }

    /// Whether what it holds does not name its own leg.
    pub fn is_unnamed(&self) -> bool {
        matches!(self, Place::JUnit(_) | Place::Timing(_))
    }
}

/// Bytes that tell what a file is.
const SNIFFED: usize = 512;
const BUFFER_BYTES: usize = 64 << 10;

/// The places that one SOURCE names.
pub fn places(source: &str, question: &Question, found: &mut Found) -> Result<Vec<Place>, SourceError> {
    if super::is_sink(source) {
        return Ok(vec![Place::Sink(source.to_owned())]);
    }
    let path = Path::new(source);
    let metadata = std::fs::metadata(path).map_err(|error| SourceError::io(path, error))?;
    let told = found.warnings.len();
    let places = if metadata.is_dir() { folder(path, question, found)? } else { file(path)?.into_iter().collect() };
    // A folder of which each file is damaged was told of, file by file.
    if places.is_empty() && found.warnings.len() == told { Err(SourceError::Empty { path: path.to_owned() }) } else { Ok(places) }
}

/// Reads one place.
pub fn read_place(place: &Place, question: &Question, found: &mut Found) -> Result<(), SourceError> {
    match place {
        Place::CiData(path) => ci_data::read_file(path, found).map_err(|error| SourceError::io(path, error)),
        Place::JUnit(path) | Place::Timing(path) => {
            let named = named(path, question);
            let shown = path.display().to_string();
            let stream = File::open(path).map(|file| BufReader::with_capacity(BUFFER_BYTES, file));
            let read = match place {
                Place::JUnit(_) => stream.and_then(|stream| junit::read(stream, &named, &shown, found)),
                _ => stream.and_then(|stream| timing::read(stream, &named, &shown, found)),
            };
            read.map_err(|error| SourceError::io(path, error))
        }
        Place::Ledger(path) => {
            found.join(ledger::read_database(path)?);
            Ok(())
        }
        Place::Archive(path) => Ok(archive::read(path, question, found)?),
        Place::Sink(url) => Ok(super::runtime()?.block_on(sink::read(url, &narrow(question), question.now, found))?),
    }
}

fn file(path: &Path) -> Result<Option<Place>, SourceError> {
    let path = path.to_owned();
    Ok(match sniff(&path).map_err(|error| SourceError::io(&path, error))? {
        Some(Kind::CiData) => Some(Place::CiData(path)),
        Some(Kind::JUnit) => Some(Place::JUnit(path)),
        Some(Kind::Timing) => Some(Place::Timing(path)),
        Some(Kind::Database) if is_archive(&path) => Some(Place::Archive(path)),
        Some(Kind::Database) => Some(Place::Ledger(path)),
        None => None,
    })
}

/// How many levels of folders below the named one are looked into, where it holds no evidence itself: services unpack each artifact into
/// a folder of its own.
const LEVELS: u32 = 2;
/// Folders on one level that are looked into.
const MAX_FOLDERS: usize = 10_000;

/// A folder: of ledgers, of ci-data (`runs/` below it is looked at too, which is how public projects keep it), of JUnit or timing
/// files, of folders of these, or a file sink's own.
fn folder(path: &Path, question: &Question, found: &mut Found) -> Result<Vec<Place>, SourceError> {
    let mut places = folder_itself(path, question, found)?;
    if places.is_empty() {
        places = folders_below(path, question, found, LEVELS)?;
    }
    if places.is_empty()
        && let Some(url) = sink_url(path)
    {
        places.push(Place::Sink(url));
    }
    Ok(places)
}

fn folder_itself(path: &Path, question: &Question, found: &mut Found) -> Result<Vec<Place>, SourceError> {
    let mut places = databases(path, question, found)?;
    for file_path in plain_files(path)? {
        let extension = file_path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let is_read = matches!(extension, "ndjson" | "jsonl" | "xml" | "txt");
        if is_read && !file_path.metadata().is_ok_and(|metadata| metadata.is_file()) {
            found.warn(format!("{}: is no regular file, and not read", file_path.display()));
            continue;
        }
        match extension {
            "ndjson" | "jsonl" => places.push(Place::CiData(file_path)),
            "xml" => places.push(Place::JUnit(file_path)),
            "txt" if file_path.file_name().is_some_and(|name| name.to_string_lossy().contains("timing")) => {
                places.push(Place::Timing(file_path));
            }
            _ => {}
        }
    }
    let runs = path.join("runs");
    if places.is_empty() && runs.is_dir() {
        return folder_itself(&runs, question, found);
    }
    Ok(places)
}

/// What folders in a folder hold. Nobody named these, so only what says by its own bytes that it is evidence is taken.
fn folders_below(path: &Path, question: &Question, found: &mut Found, levels: u32) -> Result<Vec<Place>, SourceError> {
    let mut places = Vec::new();
    if levels == 0 {
        return Ok(places);
    }
    let is_hidden = |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.') && name != ".ledger");
    let folders = plain_files(path)?.into_iter().filter(|inner| !is_hidden(inner) && inner.is_dir() && !inner.is_symlink());
    for inner in folders.take(MAX_FOLDERS) {
        let mut told = Found::default();
        let mut below = folder_itself(&inner, question, &mut told).unwrap_or_default();
        below.retain(says_that_it_is_evidence);
        if below.is_empty() && told.evidence.is_empty() {
            below = folders_below(&inner, question, found, levels - 1)?;
            below.extend(below.is_empty().then(|| sink_url(&inner)).flatten().map(Place::Sink));
        } else {
            found.join(told);
        }
        places.append(&mut below);
    }
    Ok(places)
}

fn says_that_it_is_evidence(place: &Place) -> bool {
    match place {
        Place::JUnit(path) => {
            let mut head = Vec::new();
            let read = File::open(path).and_then(|file| file.take(4096).read_to_end(&mut head));
            // Every second byte of a wide encoding is 0.
            head.retain(|byte| *byte != 0);
            read.is_ok() && memchr::memmem::find(&head, b"<testsuite").is_some()
        }
        Place::CiData(path) => sniff(path).is_ok_and(|kind| kind == Some(Kind::CiData)),
        Place::Timing(_) | Place::Ledger(_) | Place::Archive(_) | Place::Sink(_) => true,
    }
}

fn databases(path: &Path, question: &Question, found: &mut Found) -> Result<Vec<Place>, SourceError> {
    let has_one = plain_files(path)?.iter().any(|file| file.extension().is_some_and(|extension| extension == "db"));
    if !has_one {
        return Ok(Vec::new());
    }
    let (mut places, mut known) = (Vec::new(), Vec::new());
    for database in LedgerFolder::open(path)?.databases()? {
        match database.identity {
            Ok(identity) => {
                known.push(identity.leg);
                places.push(Place::Ledger(database.path));
            }
            Err(StoreError::Foreign { path, .. }) if is_archive(&path) => places.push(Place::Archive(path)),
            // A database of something else was never evidence.
            Err(error @ StoreError::Foreign { .. }) => found.warn(error.to_string()),
            // Those stand last, when all others are known.
            Err(error) => {
                found.warn(error.to_string());
                found.evidence.push(unreadable(&database.path, &error, &known, question));
            }
        }
    }
    Ok(places)
}

/// A database that cannot be read is a leg all the same: by what its name says, with ids as they were asked for or as other legs of the
/// folder have them, for a name holds a tamed form only. Among the epochs of its leg it stands where it was written last.
pub fn unreadable(path: &Path, error: &dyn std::fmt::Display, known: &[LegId], question: &Question) -> Evidence {
    let named = named(path, question);
    let leg = ids_of_name(path).map_or(named.leg, |[run, attempt, platform, target]| {
        let whole = |part: String, asked: Option<&str>, of: fn(&LegId) -> &str| {
            let mut ids = asked.into_iter().chain(known.iter().map(of));
            ids.find(|id| in_a_name(id) == part).map_or_else(|| part.clone(), str::to_owned)
        };
        LegId {
            run_id: RunId::new(whole(run, question.run_id.as_ref().map(RunId::as_str), |leg| leg.run_id.as_str())),
            attempt: Attempt::new(whole(attempt, question.attempt.as_ref().map(Attempt::as_str), |leg| leg.attempt.as_str())),
            platform: Platform::new(whole(platform, question.platform.as_ref().map(Platform::as_str), |leg| leg.platform.as_str())),
            target: Target::new(whole(target, question.target.as_ref().map(Target::as_str), |leg| leg.target.as_str())),
            shard: None,
        }
    });
    let written = named.written.unwrap_or(question.now).0.max(0);
    let mut row = LegRow::named(leg);
    // As an epoch's own name begins, so that it falls in order among them.
    row.epoch = Some(Epoch::tamed(&format!("{:08x}-{:04x}-unreadable", written >> 16, written & 0xffff)));
    row.why = error.to_string();
    row.source = Some(path.display().to_string());
    Evidence { row, trace: Trace::Unreadable, writer: Writer::Unknown, resumes: None, unnamed: None }
}

/// Files directly in a folder, by name.
fn plain_files(folder: &Path) -> Result<Vec<PathBuf>, SourceError> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|error| SourceError::io(folder, error))? {
        files.push(entry.map_err(|error| SourceError::io(folder, error))?.path());
    }
    files.sort();
    Ok(files)
}

/// The URL of a folder that a file sink has written: run, attempt, leg, epoch, and files in them.
fn sink_url(path: &Path) -> Option<String> {
    let mut inner = path.to_owned();
    for _ in 0..4 {
        inner = std::fs::read_dir(&inner).ok()?.flatten().map(|entry| entry.path()).find(|path| path.is_dir())?;
    }
    let absolute = std::path::absolute(path).ok()?;
    url::Url::from_directory_path(absolute).ok().map(|url| url.to_string())
}

/// The leg of a file that does not name its own: what the asker says, else the file's name.
fn named(path: &Path, question: &Question) -> Named {
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let written = std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    let since_1970 = written.and_then(|written| written.duration_since(std::time::UNIX_EPOCH).ok());
    Named {
        leg: LegId {
            run_id: question.run_id.clone().unwrap_or_else(|| stem.as_str().into()),
            attempt: question.attempt.clone().unwrap_or_else(|| "1".into()),
            platform: question.platform.clone().unwrap_or_else(|| UNKNOWN.into()),
            target: question.target.clone().unwrap_or_else(|| UNKNOWN.into()),
            shard: None,
        },
        written: since_1970.map(|since| Wall(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))),
    }
}

/// What a file holds, by its first bytes and then by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Database,
    CiData,
    JUnit,
    Timing,
}

/// `None` where neither bytes nor name say what it is.
fn sniff(path: &Path) -> io::Result<Option<Kind>> {
    let mut head = Vec::with_capacity(SNIFFED);
    File::open(path)?.take(SNIFFED as u64).read_to_end(&mut head)?;
    if head.starts_with(b"SQLite format 3\0") {
        return Ok(Some(Kind::Database));
    }
    // XML in two bytes a character, with its mark or without.
    if matches!(head.as_slice(), [0xff, 0xfe, b'<', 0, ..] | [0xfe, 0xff, 0, b'<', ..] | [b'<', 0, ..] | [0, b'<', ..]) {
        return Ok(Some(Kind::JUnit));
    }
    let text = head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&head).trim_ascii_start();
    Ok(match (text.first(), path.extension().and_then(|extension| extension.to_str())) {
        (Some(b'<'), _) | (None, Some("xml")) => Some(Kind::JUnit),
        (Some(b'{'), _) | (_, Some("ndjson" | "jsonl")) => Some(Kind::CiData),
        (_, Some("db" | "sqlite")) => Some(Kind::Database),
        (_, Some("txt" | "timing")) => Some(Kind::Timing),
        _ => None,
    })
}
