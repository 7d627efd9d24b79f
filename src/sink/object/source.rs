//! A store as a source: one listing of what is asked for, then each marker once, a bounded number at a time.

use std::collections::BTreeMap;

use async_trait::async_trait;
use futures_util::{StreamExt as _, stream};
use object_store::path::Path;

use crate::core::ids::Seq;
use crate::core::moment::Wall;

use super::super::Variables;
use super::super::error::{SinkError, Trouble};
use super::super::layout::{self, MARKER, PLAN};
use super::super::source::{FoundLeg, FoundMarker, MAX_MARKER_BYTES, Narrow, Source};
use super::open::{Got, Side, Store};

/// Requests that are under way together: hides the distance to a far store, and stays far below any service's limit.
const TOGETHER: usize = 32;

pub struct ObjectSource {
    store: Store,
}

impl ObjectSource {
    pub fn new(url: &str, variables: &Variables) -> Result<Self, SinkError> {
        Ok(Self { store: Store::open(url, variables, Side::Reader)? })
    }

    /// The deepest folder that holds everything which is asked for.
    fn root(&self, narrow: &Narrow) -> Result<Path, SinkError> {
        let mut parts = Vec::new();
        if let Some(run) = &narrow.run_id {
            parts.push(layout::component(run.as_str()));
            parts.extend(narrow.attempt.as_ref().map(|attempt| layout::component(attempt.as_str())));
        }
        self.store.below(&parts.join("/"))
    }

    /// An object that cannot be read costs itself; a store that does not answer costs everything.
    async fn look_at(&self, place: String, listed: Listed, narrow: &Narrow, now: Wall) -> Result<FoundLeg, SinkError> {
        let mut unreadable = Vec::new();
        let mut segments = listed.segments;
        segments.sort_by_key(|name| layout::segment_first(name));
        let mut marker = None;
        if listed.marker_bytes.is_some_and(|bytes| bytes > MAX_MARKER_BYTES) {
            unreadable.push(format!("{MARKER} is over {MAX_MARKER_BYTES} bytes"));
        } else if listed.marker_bytes.is_some()
            && let Some(got) = self.get(&place, MARKER, &mut unreadable).await?
        {
            let age = match narrow.set_clock {
                Some(set) => set.since(got.written),
                None => self.store.clock.age(got.written, now),
            };
            marker = Some(FoundMarker { bytes: got.bytes, age });
        }
        // The plan is the first event; it says something of its own only where the rest never came.
        let alone = listed.has_plan && (marker.is_none() || segments.is_empty());
        let plan = if alone { self.get(&place, PLAN, &mut unreadable).await?.map(|got| got.bytes) } else { None };
        let depth = self.store.below("")?.parts().count();
        let parts: Vec<&str> = place.split('/').skip(depth).collect();
        let named = layout::name_of(&parts, narrow);
        Ok(FoundLeg { place, named, plan, marker, segments, promised: Seq(0), unreadable })
    }

    async fn get(&self, place: &str, name: &str, unreadable: &mut Vec<String>) -> Result<Option<Got>, SinkError> {
        match self.store.get(&self.at(place, name)?).await {
            Ok(got) => Ok(Some(got)),
            Err(error) if error.trouble == Trouble::Refused => {
                unreadable.push(format!("{name}: {}", error.detail));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn at(&self, place: &str, name: &str) -> Result<Path, SinkError> {
        Path::parse(format!("{place}/{name}")).map_err(|error| SinkError::new(&self.store.url, Trouble::Usage, error.to_string()))
    }
}

/// What a listing says of one epoch.
#[derive(Default)]
struct Listed {
    segments: Vec<String>,
    marker_bytes: Option<u64>,
    has_plan: bool,
}

#[async_trait]
impl Source for ObjectSource {
    fn url(&self) -> &str {
        &self.store.url
    }

    async fn plan(&self, leg: &FoundLeg) -> Result<Option<Vec<u8>>, SinkError> {
        match &leg.plan {
            Some(plan) => Ok(Some(plan.clone())),
            None => self.get(&leg.place, PLAN, &mut Vec::new()).await.map(|got| got.map(|got| got.bytes)),
        }
    }

    async fn legs(&self, narrow: &Narrow, now: Wall) -> Result<Vec<FoundLeg>, SinkError> {
        self.store.renew_token().await?;
        let mut epochs: BTreeMap<String, Listed> = BTreeMap::new();
        let depth = self.store.below("")?.parts().count();
        for object in self.store.list(&self.root(narrow)?).await? {
            let parts: Vec<String> = object.location.parts().skip(depth).map(|part| part.as_ref().to_owned()).collect();
            // Whatever else lies in the bucket is not ours.
            let [_, attempt, leg, _, name] = parts.as_slice() else { continue };
            let attempt_fits = narrow.attempt.as_ref().is_none_or(|wanted| layout::component(wanted.as_str()) == *attempt);
            if !attempt_fits || !layout::leg_fits(leg, narrow) {
                continue;
            }
            let location = object.location.as_ref();
            let place = location[..location.len() - name.len() - 1].to_owned();
            match name.as_str() {
                MARKER => epochs.entry(place).or_default().marker_bytes = Some(object.size),
                PLAN => epochs.entry(place).or_default().has_plan = true,
                name if layout::segment_first(name).is_some() => {
                    epochs.entry(place).or_default().segments.push(name.to_owned());
                }
                _ => {}
            }
        }
        let looks = epochs.into_iter().map(|(place, listed)| self.look_at(place, listed, narrow, now));
        let found: Vec<Result<FoundLeg, SinkError>> = stream::iter(looks).buffered(TOGETHER).collect().await;
        found.into_iter().collect()
    }

    async fn segment(&self, leg: &FoundLeg, name: &str) -> Result<Vec<u8>, SinkError> {
        if layout::segment_first(name).is_none() {
            return Err(SinkError::new(&self.store.url, Trouble::Usage, format!("'{name}' is no segment")));
        }
        let got = self.store.get(&self.at(&leg.place, name)?).await;
        got.map(|got| got.bytes).map_err(|error| SinkError { detail: format!("{}/{name}: {}", leg.place, error.detail), ..error })
    }
}
