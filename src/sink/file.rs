//! `file:///path`: another volume, or a mounted share.
//!
//! Segments are immutable and created once; the marker is replaced whole. A write is on disk, folder entry included, when it is answered.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use async_trait::async_trait;
use serde::Deserialize;
use tokio::task::JoinHandle;

use crate::core::chain::Stored;
use crate::core::ids::Seq;
use crate::core::moment::{Secs, Wall};

use super::error::{SinkError, Trouble};
use super::layout::{self, Earlier, MARKER, PLAN};
use super::private::{self, sync_folder};
use super::source::{FoundLeg, FoundMarker, MAX_MARKER_BYTES, MAX_SEGMENT_BYTES, Narrow, Source};
use super::{Backend, Batch, Capabilities, Removed, SinkContext, Takes};

/// The newest records of some hundred files fit; larger markers would make every boundary pay for history that the segments hold.
const MARKER_BYTES: usize = 64 * 1024;

pub struct FileSink {
    url: String,
    /// The folder that the URL names.
    root: PathBuf,
    folder: PathBuf,
    /// An earlier call that its caller has given up. A share that hangs must not collect one stuck thread per try.
    unfinished: Option<JoinHandle<Result<Seq, SinkError>>>,
}

impl FileSink {
    pub fn new(url: &str, context: &SinkContext) -> Result<Self, SinkError> {
        let root = root_of(url)?;
        let folder = layout::epoch_folder(context).iter().fold(root.clone(), |path, part| path.join(part));
        Ok(Self { url: super::printable(url), root, folder, unfinished: None })
    }

    /// Runs file system calls on a thread of their own, so that a share that hangs holds nobody but its own sink.
    async fn blocking(&mut self, work: impl FnOnce(&Place) -> io::Result<Seq> + Send + 'static) -> Result<Seq, SinkError> {
        if self.unfinished.as_ref().is_some_and(|earlier| !earlier.is_finished()) {
            return Err(SinkError::retryable(&self.url, "an earlier write has not come back yet"));
        }
        let place = Place { url: self.url.clone(), root: self.root.clone(), folder: self.folder.clone() };
        let running =
            self.unfinished.insert(tokio::task::spawn_blocking(move || work(&place).map_err(|error| place.explain(&error))));
        let result = running.await;
        self.unfinished = None;
        result.unwrap_or_else(|error| Err(SinkError::retryable(&self.url, error.to_string())))
    }
}

#[async_trait]
impl Backend for FileSink {
    fn url(&self) -> &str {
        &self.url
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { takes: Takes::EventsAndMarker, marker_bytes: MARKER_BYTES, interval: Secs::ZERO, burst: 0 }
    }

    async fn position(&mut self) -> Result<Seq, SinkError> {
        self.blocking(|place| {
            place.make()?;
            place.position()
        })
        .await
    }

    async fn put_plan(&mut self, plan: &[u8]) -> Result<(), SinkError> {
        let plan = plan.to_vec();
        self.blocking(move |place| {
            place.create_once(PLAN, &plan)?;
            sync_folder(&place.folder)?;
            Ok(Seq(0))
        })
        .await
        .map(|_| ())
    }

    async fn send(&mut self, batch: &Batch) -> Result<(), SinkError> {
        let batch = batch.clone();
        self.blocking(move |place| {
            let segment = batch.events.first().map(|first| (layout::segment_name(first.seq), lines_of(&batch.events)));
            let (segment_draft, marker_draft) = place.drafts(segment.as_ref(), &batch.marker);
            if let (Some((name, text)), Some(draft)) = (&segment, segment_draft?) {
                place.publish_once(&draft, name, text)?;
            }
            place.publish(&marker_draft?, MARKER)?;
            // One sync of the folder holds both names.
            sync_folder(&place.folder)?;
            Ok(Seq(0))
        })
        .await
        .map(|_| ())
    }

    async fn remove(&mut self) -> Result<Removed, SinkError> {
        self.blocking(|place| {
            fs::remove_dir_all(&place.folder)?;
            // Folders of run, attempt and leg that hold nothing else; one that does stays.
            for folder in place.folder.ancestors().skip(1).take(3) {
                if fs::remove_dir(folder).is_err() {
                    break;
                }
            }
            Ok(Seq(0))
        })
        .await
        .map(|_| Removed::Gone)
    }
}

fn lines_of(events: &[Stored]) -> Vec<u8> {
    let mut text = Vec::with_capacity(events.iter().map(|event| event.line.len() + 1).sum());
    for event in events {
        text.extend_from_slice(event.line.as_bytes());
        text.push(b'\n');
    }
    text
}

/// The epoch's folder, as the blocking side sees it.
struct Place {
    url: String,
    root: PathBuf,
    folder: PathBuf,
}

/// Says "already there, and different" through an `io::Error`.
#[derive(Debug, thiserror::Error)]
#[error("{} is there already with other content; another writer uses this run, attempt, leg and epoch", .0.display())]
struct FencedFile(PathBuf);

/// Says "nobody has mounted this" through an `io::Error`.
#[derive(Debug, thiserror::Error)]
#[error(
    "there is no folder {}, in which the sink's own would be made; mount what belongs there, correct the path, or make it: mkdir -p '{}'",
    .0.display(), .0.display()
)]
struct NoParent(PathBuf);

#[derive(Deserialize)]
struct Numbered {
    seq: Seq,
}

impl Place {
    /// Makes the sink's own folder and those in it. Never what it lies in: below a share that is not mounted, evidence would be written
    /// where nobody looks for it.
    fn make(&self) -> io::Result<()> {
        if let Some(parent) = self.root.parent().filter(|parent| !parent.is_dir()) {
            return Err(io::Error::other(NoParent(parent.to_owned())));
        }
        make_folders(&self.folder)
    }

    fn position(&self) -> io::Result<Seq> {
        let Some(last) = segment_names(&self.folder)?.pop() else { return Ok(Seq(0)) };
        let path = self.folder.join(last);
        let (text, _) = read_bounded(&path, MAX_SEGMENT_BYTES)?;
        let line = text.strip_suffix(b"\n").unwrap_or(&text).rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
        let newest: Numbered = serde_json::from_slice(line).map_err(|error| {
            io::Error::new(io::ErrorKind::InvalidData, format!("{} does not end with an event: {error}", path.display()))
        })?;
        Ok(newest.seq)
    }

    /// Both contents on disk, at the same time: a disk takes two flushes that are asked for together as one.
    fn drafts(&self, segment: Option<&(String, Vec<u8>)>, marker: &[u8]) -> (io::Result<Option<PathBuf>>, io::Result<PathBuf>) {
        let segment_draft = || segment.map(|(name, text)| self.draft(name, text)).transpose();
        if segment.is_none() {
            return (Ok(None), self.draft(MARKER, marker));
        }
        std::thread::scope(|scope| {
            let other = std::thread::Builder::new().spawn_scoped(scope, || self.draft(MARKER, marker));
            let own = segment_draft();
            let marker_draft = match other {
                Ok(other) => other.join().unwrap_or_else(|_| Err(io::Error::other("the marker was not drafted"))),
                Err(_) => self.draft(MARKER, marker),
            };
            (own, marker_draft)
        })
    }

    /// A file that exists whole or not at all, and never changes.
    fn create_once(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let draft = self.draft(name, content)?;
        self.publish_once(&draft, name, content)
    }

    fn publish_once(&self, draft: &Path, name: &str, content: &[u8]) -> io::Result<()> {
        let path = self.folder.join(name);
        let linked = fs::hard_link(draft, &path);
        let removed = fs::remove_file(draft);
        match linked {
            Ok(()) => removed,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.compare(path, content),
            // File systems without hard links (exFAT, some shares): exclusive creation is the next best, whole but for a crash.
            Err(_) => self.create_exclusively(path, content),
        }
    }

    fn create_exclusively(&self, path: PathBuf, content: &[u8]) -> io::Result<()> {
        match private::create(&path) {
            Ok(file) => write_synced(file, content).inspect_err(|_| {
                let _ = fs::remove_file(&path);
            }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.compare(path, content),
            Err(error) => Err(error),
        }
    }

    fn compare(&self, path: PathBuf, content: &[u8]) -> io::Result<()> {
        match layout::earlier(&read_bounded(&path, MAX_SEGMENT_BYTES)?.0, content) {
            Earlier::Same => Ok(()),
            // The position is asked for again, and what is missing goes out behind it.
            Earlier::OurOwn => Err(io::Error::other(format!("{}: a write that was given up has arrived late", path.display()))),
            Earlier::Foreign => Err(io::Error::other(FencedFile(path))),
        }
    }

    /// The file is the old one or the new one at every moment.
    fn publish(&self, draft: &Path, name: &str) -> io::Result<()> {
        fs::rename(draft, self.folder.join(name)).inspect_err(|_| {
            let _ = fs::remove_file(draft);
        })
    }

    /// The content under a name that no reader looks at, on disk.
    fn draft(&self, name: &str, content: &[u8]) -> io::Result<PathBuf> {
        let draft = self.folder.join(format!(".{name}.{}.draft", std::process::id()));
        let file = match private::create(&draft) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                fs::remove_file(&draft)?;
                private::create(&draft)
            }
            // The folder went away under a living writer (a share that was mounted anew, a cleanup).
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.make()?;
                private::create(&draft)
            }
            other => other,
        };
        write_synced(file?, content).inspect_err(|_| {
            let _ = fs::remove_file(&draft);
        })?;
        Ok(draft)
    }

    fn explain(&self, error: &io::Error) -> SinkError {
        let fenced = error.get_ref().is_some_and(|inner| inner.is::<FencedFile>());
        let trouble = match error.kind() {
            _ if fenced => Trouble::Fenced,
            _ if error.get_ref().is_some_and(|inner| inner.is::<NoParent>()) => Trouble::Refused,
            io::ErrorKind::PermissionDenied
            | io::ErrorKind::ReadOnlyFilesystem
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::InvalidData => Trouble::Refused,
            _ => Trouble::Retryable { after: None },
        };
        SinkError::new(&self.url, trouble, error.to_string())
    }
}

/// The sink as a source.
pub struct FileSource {
    url: String,
    root: PathBuf,
}

impl FileSource {
    pub fn new(url: &str) -> Result<Self, SinkError> {
        Ok(Self { url: super::printable(url), root: root_of(url)? })
    }

    fn explain(&self, error: &io::Error) -> SinkError {
        Place { url: self.url.clone(), root: self.root.clone(), folder: self.root.clone() }.explain(error)
    }

    fn find(&self, narrow: &Narrow, now: Wall) -> io::Result<Vec<FoundLeg>> {
        let mut found = Vec::new();
        let run = narrow.run_id.as_ref().map(|id| layout::component(id.as_str()));
        let attempt = narrow.attempt.as_ref().map(|id| layout::component(id.as_str()));
        for run in folders(&self.root, |name| run.as_ref().is_none_or(|run| run == name))? {
            let fits = |name: &str| attempt.as_ref().is_none_or(|attempt| attempt == name);
            for attempt in self.inside(&run, narrow, &mut found, fits) {
                for leg in self.inside(&attempt, narrow, &mut found, |name| layout::leg_fits(name, narrow)) {
                    for epoch in self.inside(&leg, narrow, &mut found, |_| true) {
                        found.push(self.look_at(&epoch, narrow, now));
                    }
                }
            }
        }
        Ok(found)
    }

    /// The folders inside one. One that cannot be listed costs the legs that are in it, which it stands for from then on.
    fn inside(&self, folder: &Path, narrow: &Narrow, found: &mut Vec<FoundLeg>, wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
        folders(folder, wanted).unwrap_or_else(|error| {
            found.push(FoundLeg { unreadable: vec![error.to_string()], ..self.named(folder, narrow) });
            Vec::new()
        })
    }

    /// A leg of which no more than the name of its folder is known.
    fn named(&self, folder: &Path, narrow: &Narrow) -> FoundLeg {
        let below = folder.strip_prefix(&self.root).unwrap_or(folder);
        let parts: Vec<&str> = below.iter().filter_map(|part| part.to_str()).collect();
        FoundLeg {
            place: folder.to_string_lossy().into_owned(),
            named: layout::name_of(&parts, narrow),
            plan: None,
            marker: None,
            segments: Vec::new(),
            promised: Seq(0),
            unreadable: Vec::new(),
        }
    }

    /// What one epoch's folder holds. A file that cannot be read costs itself.
    fn look_at(&self, epoch: &Path, narrow: &Narrow, now: Wall) -> FoundLeg {
        let mut leg = self.named(epoch, narrow);
        let mut unreadable = Vec::new();
        let mut tell = |error: io::Error| {
            if error.kind() != io::ErrorKind::NotFound {
                unreadable.push(error.to_string());
            }
        };
        leg.marker = read_bounded(&epoch.join(MARKER), MAX_MARKER_BYTES).map_err(&mut tell).ok().map(|(bytes, written)| {
            let since_1970 = written.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
            let written = Wall(i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX));
            FoundMarker { bytes, age: now.since(written) }
        });
        leg.plan = read_bounded(&epoch.join(PLAN), MAX_SEGMENT_BYTES).map_err(&mut tell).ok().map(|(bytes, _)| bytes);
        leg.segments = segment_names(epoch).map_err(&mut tell).unwrap_or_default();
        leg.unreadable = unreadable;
        leg
    }
}

#[async_trait]
impl Source for FileSource {
    fn url(&self) -> &str {
        &self.url
    }

    async fn legs(&self, narrow: &Narrow, now: Wall) -> Result<Vec<FoundLeg>, SinkError> {
        self.find(narrow, now).map_err(|error| self.explain(&error))
    }

    async fn segment(&self, leg: &FoundLeg, name: &str) -> Result<Vec<u8>, SinkError> {
        if layout::segment_first(name).is_none() {
            return Err(SinkError::new(&self.url, Trouble::Usage, format!("'{name}' is no segment")));
        }
        let read = read_bounded(&Path::new(&leg.place).join(name), MAX_SEGMENT_BYTES);
        read.map(|(bytes, _)| bytes).map_err(|error| self.explain(&error))
    }
}

fn root_of(url: &str) -> Result<PathBuf, SinkError> {
    let wrong = |detail: &str| SinkError::new(super::printable(url), Trouble::Usage, format!("{detail}; write file:///path"));
    if !url.starts_with("file:///") {
        return Err(wrong("is no absolute path of this machine"));
    }
    if super::has_query(url) {
        return Err(wrong("holds a query or a fragment, which no folder has; leave it out (in a path ? is %3F and # is %23)"));
    }
    let parsed = url::Url::parse(url).map_err(|error| wrong(&error.to_string()))?;
    parsed.to_file_path().map_err(|()| wrong("is no absolute path of this machine"))
}

fn segment_names(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| at(folder, &error))? {
        if let Ok(name) = entry?.file_name().into_string()
            && layout::segment_first(&name).is_some()
        {
            names.push(name);
        }
    }
    names.sort_by_key(|name| layout::segment_first(name));
    Ok(names)
}

/// The folders inside one whose names are wanted, by name. Links are not followed: the tree is as its writers made it.
fn folders(parent: &Path, wanted: impl Fn(&str) -> bool) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(parent).map_err(|error| at(parent, &error))? {
        let entry = entry?;
        let fits = entry.file_name().to_str().is_some_and(|name| !name.starts_with('.') && wanted(name));
        if fits && entry.file_type()?.is_dir() {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// A regular file of bounded size, and when it was written.
fn read_bounded(path: &Path, most: u64) -> io::Result<(Vec<u8>, SystemTime)> {
    let read = || {
        let (file, metadata) = private::open_regular(path)?;
        let mut bytes = Vec::new();
        if file.take(most + 1).read_to_end(&mut bytes)? as u64 > most {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("is over {most} bytes")));
        }
        Ok((bytes, metadata.modified()?))
    };
    read().map_err(|error| at(path, &error))
}

/// An error that names its file.
fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn write_synced(mut file: File, content: &[u8]) -> io::Result<()> {
    file.write_all(content)?;
    file.sync_data()
}

/// Makes the folders that are missing, each with its name on disk.
fn make_folders(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    if let Some(parent) = folder.parent() {
        make_folders(parent)?;
    }
    match private::make_folder(folder) {
        // Another leg of the same run made it in the meantime.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let detail = format!("{} is there and is no folder; name another path, or move it away", folder.display());
            return Err(io::Error::new(io::ErrorKind::NotADirectory, detail));
        }
        Err(error) => {
            let detail = format!("the folder {} cannot be made: {error}", folder.display());
            return Err(io::Error::new(error.kind(), detail));
        }
        Ok(()) => {}
    }
    folder.parent().map_or(Ok(()), sync_folder)
}
