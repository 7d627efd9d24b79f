//! `github:` — the marker as a check run per leg and epoch, inside the service's budget of requests.
//!
//! A check run is found again by name, external id and epoch. Its payload stands in `output.text` and survives any number of closings.

mod api;
mod payload;
mod source;

use async_trait::async_trait;
use serde_json::{Value, json};

use crate::core::ids::{Epoch, LegId, Seq};
use crate::core::marker::Marker;
use crate::core::moment::{Secs, Wall};
use crate::core::outcome::Conclusion;

use super::error::{SinkError, Trouble};
use super::{Backend, Batch, Capabilities, Describe, Described, Removed, SinkContext, Takes};
use api::{Answer, Api, Place};
use payload::{SERVICE_BYTES, cut, payload_of, text_of};
pub use source::{GithubSource, service_jobs};

/// Heartbeats of all legs of a run together: 300 of the 1,000 requests that a repository has in an hour.
const HEARTBEATS_PER_HOUR: u64 = 300;
/// Boundaries of all legs ahead of that pace. With the heartbeats they stay within the 500 content-creating requests of an hour.
const AHEAD_PER_HOUR: u32 = 200;
/// One leg's share of the 80 content-creating requests of a minute, with room for what else the job writes.
const MOST_AHEAD: u32 = 40;
const SHORTEST_INTERVAL: Secs = Secs::from_secs(12);
const LONGEST_INTERVAL: Secs = Secs::from_secs(3600);
/// How much of what the rate headers leave is used.
const SHARE_PERCENT: u64 = 80;
/// A text that the service still finds too long is halved down to this.
const SMALLEST_TEXT: usize = 4 * 1024;

/// Whether a check run that is not closed yet shows as open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// Completed and neutral from the first write, so that a lost leg blocks nobody.
    Neutral,
    InProgress,
}

pub struct GithubSink {
    url: String,
    /// `Err` says why nothing can be written, in words; a leg is not the worse for it.
    api: Result<Api, SinkError>,
    sha: Option<String>,
    leg: LegId,
    epoch: Epoch,
    legs: u64,
    shown: Shown,
    describe: Describe,
    check: Option<u64>,
    acked: Seq,
    text_bytes: usize,
}

impl GithubSink {
    pub fn new(url: &str, context: &SinkContext) -> Result<Self, SinkError> {
        let place = Place::of(url, &context.variables)?;
        let shown = match place.state.as_deref() {
            None | Some("neutral") => Shown::Neutral,
            Some("in-progress") => Shown::InProgress,
            Some(other) => {
                let detail = format!("state={other} is unknown; write state=in-progress, or leave it out");
                return Err(SinkError::new("github:", Trouble::Usage, detail));
            }
        };
        Ok(Self {
            url: "github:".to_owned(),
            sha: place.sha.clone().or_else(|| context.sha.clone()),
            api: Api::new(&place, &context.variables),
            leg: context.leg.clone(),
            epoch: context.epoch.clone(),
            legs: u64::from(context.legs.max(1)),
            shown,
            describe: context.describe,
            check: None,
            acked: Seq(0),
            text_bytes: SERVICE_BYTES,
        })
    }

    fn api(&self) -> Result<&Api, SinkError> {
        self.api.as_ref().map_err(Clone::clone)
    }

    fn sha(&self) -> Result<&str, SinkError> {
        self.sha.as_deref().ok_or_else(|| api::refused("no commit to hang a check run on: set GITHUB_SHA, --sha or github:?sha="))
    }

    /// The check run of this leg and epoch, where an earlier answer was lost.
    async fn find(&self) -> Result<Option<(u64, Seq)>, SinkError> {
        let (api, name) = (self.api()?, check_name(&self.leg));
        let mut found = None;
        for run in api.check_runs(self.sha()?, Some(&name)).await? {
            let ours = run.get("external_id").and_then(Value::as_str) == Some(external_id(&self.leg).as_str());
            let marker = payload_of(&run).and_then(|text| serde_json::from_str::<Marker>(text).ok());
            if let (true, Some(id), Some(marker)) = (ours, run.get("id").and_then(Value::as_u64), marker)
                && marker.row.epoch.as_ref() == Some(&self.epoch)
            {
                found = Some((id, marker.row.head.map_or(Seq(0), |head| head.seq)));
            }
        }
        Ok(found)
    }

    async fn put(&mut self, marker: &Marker, text: &[u8]) -> Result<(), SinkError> {
        let api = self.api()?;
        let body = self.body(api, marker, text)?;
        let answer = match self.check {
            Some(id) => api.patch(&format!("check-runs/{id}"), &body).await,
            None => {
                let mut body = body;
                body["head_sha"] = json!(self.sha()?);
                api.post("check-runs", &body).await
            }
        };
        match answer {
            Ok(Answer { body, .. }) => {
                self.check = self.check.or_else(|| body.get("id").and_then(Value::as_u64));
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// A check run that stays open has no time of the service's own on it, so its marker carries one: a reader counts the lease from there,
    /// and a runner whose clock is slow must not look silent.
    fn dates_itself(&self, marker: &Marker) -> Option<Wall> {
        let stays_open = self.shown == Shown::InProgress && !marker.closed;
        self.api.as_ref().ok().filter(|_| stays_open)?.clock.now()
    }

    fn body(&self, api: &Api, marker: &Marker, text: &[u8]) -> Result<Value, SinkError> {
        let Described { title, summary } = (self.describe)(marker);
        let text = std::str::from_utf8(text).map_err(|error| api::refused(format!("a marker that is no text: {error}")))?;
        let mut body = json!({
            "name": check_name(&self.leg),
            "external_id": external_id(&self.leg),
            "output": { "title": cut(&title, 200), "summary": cut(&summary, self.text_bytes), "text": text_of(text) },
        });
        // By the service's own clock, where it is known: a reader counts the lease from there.
        let now = api.clock.now().unwrap_or(marker.written_at);
        if let Some(started) = marker.row.started_at {
            // A writer whose clock is fast would have begun after its own end.
            body["started_at"] = json!(started.min(now));
        }
        let passed = marker.row.conclusion == Some(Conclusion::Pass);
        if !marker.closed && self.shown == Shown::InProgress {
            body["status"] = json!("in_progress");
        } else {
            body["status"] = json!("completed");
            body["conclusion"] = json!(if marker.closed && passed { "success" } else { "neutral" });
            body["completed_at"] = json!(now);
        }
        Ok(body)
    }
}

/// How a leg's check run is named.
pub(super) fn check_name(leg: &LegId) -> String {
    let shard = leg.shard.map(|shard| format!(" · {shard}")).unwrap_or_default();
    format!("{NAME_PREFIX}{} · {}{shard}", leg.platform, leg.target)
}

const NAME_PREFIX: &str = "leg: ";

pub(super) fn external_id(leg: &LegId) -> String {
    let shard = leg.shard.map(|shard| format!("/{shard}")).unwrap_or_default();
    format!("{}/{}/{}/{}{shard}", leg.run_id, leg.attempt, leg.platform, leg.target)
}

#[async_trait]
impl Backend for GithubSink {
    fn url(&self) -> &str {
        &self.url
    }

    fn capabilities(&self) -> Capabilities {
        let base = Secs::from_secs(self.legs.saturating_mul(3600) / HEARTBEATS_PER_HOUR).max(SHORTEST_INTERVAL);
        let stretched = self.api.as_ref().ok().and_then(|api| api.rate()).map(|rate| {
            let share = rate.remaining * SHARE_PERCENT / 100;
            Secs::from_millis(rate.until_reset.millis().saturating_mul(self.legs) / share.max(1))
        });
        let legs = u32::try_from(self.legs).unwrap_or(u32::MAX);
        Capabilities {
            takes: Takes::MarkerOnly,
            marker_bytes: self.text_bytes - payload::FENCE_BYTES,
            interval: stretched.map_or(base, |stretched| stretched.clamp(base, LONGEST_INTERVAL.max(base))),
            burst: (AHEAD_PER_HOUR / legs).clamp(1, MOST_AHEAD),
        }
    }

    async fn position(&mut self) -> Result<Seq, SinkError> {
        if self.check.is_none()
            && let Some((id, seq)) = self.find().await?
        {
            self.check = Some(id);
            self.acked = seq;
        }
        Ok(self.acked)
    }

    /// The marker carries the plan.
    async fn put_plan(&mut self, _: &[u8]) -> Result<(), SinkError> {
        Ok(())
    }

    async fn send(&mut self, batch: &Batch) -> Result<(), SinkError> {
        let mut marker: Marker =
            serde_json::from_slice(&batch.marker).map_err(|error| api::refused(format!("no marker: {error}")))?;
        let mut text = batch.marker.clone();
        if let Some(now) = self.dates_itself(&marker) {
            marker.written_at = now;
            text = marker.render(self.text_bytes - payload::FENCE_BYTES);
        }
        loop {
            match self.put(&marker, &text).await {
                Ok(()) => break,
                // The service counts its own way. The newest of half as much is better than nothing.
                Err(error) if api::is_too_long(&error) && self.text_bytes / 2 >= SMALLEST_TEXT => {
                    self.text_bytes /= 2;
                    text = marker.render(self.text_bytes - payload::FENCE_BYTES);
                }
                Err(error) if api::is_gone(&error) && self.check.is_some() => {
                    // Somebody removed it, or it never was of this repository: look again, and make it anew.
                    self.check = None;
                    return Err(error);
                }
                Err(error) => return Err(error),
            }
        }
        self.acked = marker.row.head.map_or(self.acked, |head| head.seq);
        Ok(())
    }

    async fn remove(&mut self) -> Result<Removed, SinkError> {
        Ok(Removed::Kept("the service deletes no check run; this one is neutral, and the next check uses it again"))
    }
}
