//! `s3://`, `gs://`, `az://`: the whole event stream as immutable segments, each created once, and one small marker that is replaced.
//!
//! Whether a segment is there already is the store's word, and what it holds is compared: an answer that was lost and a second writer
//! look the same until then.
//!
//! `s3://` is tested against moto and seaweedfs, `az://` against azurite. `gs://` is compiled and not tested: the emulators that can be
//! had do not speak the XML API by which the client writes.

mod open;
mod source;
mod token;
mod words;

use async_trait::async_trait;
use object_store::path::Path;
use object_store::{Error, ObjectStoreExt as _, PutMode, PutOptions, PutPayload};
use serde::Deserialize;

use crate::core::ids::Seq;
use crate::core::moment::Secs;

use super::error::{SinkError, Trouble};
use super::layout::{self, Earlier, MARKER, PLAN};
use super::{Backend, Batch, Capabilities, Removed, SinkContext, Takes};
use open::{Side, Store};
pub use source::ObjectSource;
use words::Deed;

/// The newest records of some hundred files fit; a boundary should cost one small object more than its events.
const MARKER_BYTES: usize = 64 * 1024;

pub struct ObjectSink {
    url: String,
    /// The store and the epoch's folder in it, or why there is none; a leg is not the worse for that.
    place: Result<Place, SinkError>,
}

struct Place {
    store: Store,
    folder: Path,
}

impl ObjectSink {
    pub fn new(url: &str, context: &SinkContext) -> Result<Self, SinkError> {
        let place = Store::open(url, &context.variables, Side::Writer).and_then(|store| {
            let folder = store.below(&layout::epoch_folder(context).join("/"))?;
            Ok(Place { store, folder })
        });
        match place {
            Err(error) if error.trouble == Trouble::Usage => Err(error),
            place => Ok(Self { url: super::printable(url), place }),
        }
    }

    fn place(&self) -> Result<&Place, SinkError> {
        self.place.as_ref().map_err(Clone::clone)
    }
}

impl Place {
    fn at(&self, name: &str) -> Path {
        Path::from_iter(self.folder.parts().chain([object_store::path::PathPart::from(name)]))
    }

    /// An object that never changes. One that is there already is as good if it is equal.
    async fn create_once(&self, name: &str, content: Vec<u8>) -> Result<(), SinkError> {
        let path = self.at(name);
        let payload = PutPayload::from(bytes::Bytes::from(content));
        let options = PutOptions::from(PutMode::Create);
        match self.store.objects.put_opts(&path, payload.clone(), options).await {
            Ok(_) => Ok(()),
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => {
                self.compare(&path, &bytes::Bytes::from(payload)).await
            }
            Err(error) => Err(self.store.explain(Deed::Write, &error)),
        }
    }

    async fn compare(&self, path: &Path, content: &[u8]) -> Result<(), SinkError> {
        let there = self.store.get(path).await?;
        let detail = match layout::earlier(&there.bytes, content) {
            Earlier::Same => return Ok(()),
            // The position is asked for again, and what is missing goes out behind it.
            Earlier::OurOwn => {
                return Err(SinkError::retryable(&self.store.url, format!("{path}: a write that was given up has arrived late")));
            }
            Earlier::Foreign => {
                format!("{path} is there already with other content; another writer uses this run, attempt, leg and epoch")
            }
        };
        Err(SinkError::new(&self.store.url, Trouble::Fenced, detail))
    }
}

#[derive(Deserialize)]
struct Numbered {
    seq: Seq,
}

#[async_trait]
impl Backend for ObjectSink {
    fn url(&self) -> &str {
        &self.url
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { takes: Takes::EventsAndMarker, marker_bytes: MARKER_BYTES, interval: Secs::ZERO, burst: 0 }
    }

    async fn position(&mut self) -> Result<Seq, SinkError> {
        let place = self.place()?;
        place.store.renew_token().await?;
        let objects = place.store.list(&place.folder).await?;
        let names = objects.iter().filter_map(|object| object.location.filename());
        let Some((_, last)) = names.filter_map(|name| Some((layout::segment_first(name)?, name))).max() else {
            return Ok(Seq(0));
        };
        let text = place.store.get(&place.at(last)).await?.bytes;
        let line = text.strip_suffix(b"\n").unwrap_or(&text).rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
        let newest: Numbered = serde_json::from_slice(line)
            .map_err(|error| SinkError::new(&self.url, Trouble::Refused, format!("{last} does not end with an event: {error}")))?;
        Ok(newest.seq)
    }

    async fn put_plan(&mut self, plan: &[u8]) -> Result<(), SinkError> {
        self.place()?.create_once(PLAN, plan.to_vec()).await
    }

    async fn send(&mut self, batch: &Batch) -> Result<(), SinkError> {
        let place = self.place()?;
        if let Some(first) = batch.events.first() {
            let mut text = Vec::with_capacity(batch.events.iter().map(|event| event.line.len() + 1).sum());
            for event in &batch.events {
                text.extend_from_slice(event.line.as_bytes());
                text.push(b'\n');
            }
            place.create_once(&layout::segment_name(first.seq), text).await?;
        }
        let marker = PutPayload::from(bytes::Bytes::from(batch.marker.clone()));
        let put = place.store.objects.put(&place.at(MARKER), marker).await;
        put.map(|_| ()).map_err(|error| place.store.explain(Deed::Write, &error))
    }

    async fn remove(&mut self) -> Result<Removed, SinkError> {
        let place = self.place()?;
        for object in place.store.list(&place.folder).await? {
            place.store.objects.delete(&object.location).await.map_err(|error| place.store.explain(Deed::Delete, &error))?;
        }
        Ok(Removed::Gone)
    }
}
