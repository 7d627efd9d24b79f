//! `https://…`: any collector that follows schema/collector.md. NDJSON batches with an idempotency key; the answer says what is durable.
//!
//! The token comes from `LEDGER_HTTPS_TOKEN` and goes to the one host that the URL names, nowhere else.

use async_trait::async_trait;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Method, StatusCode, Url};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::HashSet;
use std::time::Duration;

use crate::core::ids::{Attempt, Digest, Epoch, LegId, Platform, RunId, Seq, Shard, Target};
use crate::core::moment::{Secs, Wall};

use super::error::{SinkError, Trouble, bounded};
use super::http::{self, Redirects, Retries};
use super::source::{FoundLeg, FoundMarker, LegName, MAX_MARKER_BYTES, Narrow, Source};
use super::{Backend, Batch, Capabilities, Removed, SinkContext, Takes, Variables};

/// As for files and objects: the newest records of some hundred files.
const MARKER_BYTES: usize = 64 * 1024;
pub const TOKEN: &str = "LEDGER_HTTPS_TOKEN";
const LONGEST_WAIT: Duration = Duration::from_secs(3600);
/// A listing that never ends must not hold a reader for ever.
const MOST_PAGES: usize = 10_000;
/// Nor must one that goes on and says nothing new: a collector may filter page by page, and one that filters this many away is broken.
const PAGES_WITHOUT_NEWS: usize = 32;

pub struct HttpsSink {
    collector: Collector,
    context: SinkContext,
    sent: Seq,
}

pub struct HttpsSource {
    collector: Collector,
    retries: Retries,
}

/// The two sides share how a collector is asked.
struct Collector {
    /// As it may be printed.
    url: String,
    base: Url,
    client: Client,
    token: Option<HeaderValue>,
    variables: Variables,
}

/// An answer, whatever it says.
struct Answered {
    status: StatusCode,
    headers: HeaderMap,
    bytes: Vec<u8>,
}

/// What a collector says about an epoch.
#[derive(Debug, Deserialize)]
struct Durable {
    seq: Seq,
}

/// One page of a listing.
#[derive(Deserialize)]
struct Listed {
    /// The collector's clock.
    now: Wall,
    /// Each by itself: one that is malformed costs itself.
    legs: Vec<Box<RawValue>>,
    #[serde(default)]
    next: Option<String>,
}

#[derive(Deserialize)]
struct ListedLeg {
    run_id: RunId,
    attempt: Attempt,
    platform: Platform,
    target: Target,
    #[serde(default)]
    shard: Option<Shard>,
    epoch: Epoch,
    seq: Seq,
    #[serde(default)]
    marker: Option<Box<RawValue>>,
    #[serde(default)]
    marker_at: Option<Wall>,
}

impl Collector {
    fn new(url: &str, variables: &Variables) -> Result<Self, SinkError> {
        let printable = super::printable(url);
        let wrong = |detail: String| SinkError::new(&printable, Trouble::Usage, detail);
        if super::has_query(url) {
            return Err(wrong(format!(
                "holds a query or a fragment, which no collector is given; leave it out: a token belongs into {TOKEN}, the rest into the path"
            )));
        }
        let base = http::address(url, false).map_err(|error| wrong(error.to_string()))?;
        if !base.username().is_empty() || base.password().is_some() {
            return Err(wrong(format!("holds a user or a password; the token belongs into {TOKEN}")));
        }
        let token = match variables.get(TOKEN) {
            Some(token) => Some(http::bearer(token).ok_or_else(|| wrong(format!("{TOKEN} holds characters that no token has")))?),
            None => None,
        };
        let client = http::client(&base, Redirects::SameHost).map_err(|error| wrong(error.to_string()))?;
        Ok(Self { url: printable, base, client, token, variables: variables.clone() })
    }

    /// A resource below the sink's URL, for one epoch or for what is asked.
    fn at(&self, resource: &str, query: &[(&str, String)]) -> Result<Url, SinkError> {
        let mut url = self.base.clone();
        match url.path_segments_mut() {
            Ok(mut path) => {
                path.pop_if_empty().push(resource);
            }
            Err(()) => return Err(SinkError::new(&self.url, Trouble::Usage, "is no address below which anything can be")),
        }
        url.query_pairs_mut().extend_pairs(query);
        Ok(url)
    }

    async fn ask(&self, method: Method, url: Url, body: Option<(Vec<u8>, String)>) -> Result<Vec<u8>, SinkError> {
        let Answered { status, headers, bytes } = self.answer(method, url, body).await?;
        if status.is_success() { Ok(bytes) } else { Err(self.explain(status, &headers, &bytes)) }
    }

    async fn answer(&self, method: Method, url: Url, body: Option<(Vec<u8>, String)>) -> Result<Answered, SinkError> {
        let mut request = self.client.request(method, url);
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, token.clone());
        }
        if let Some((bytes, key)) = body {
            request = request.header(CONTENT_TYPE, "application/x-ndjson").header("idempotency-key", key).body(bytes);
        }
        let failed = |detail: String| SinkError::retryable(&self.url, self.variables.scrub(&detail));
        let response = request.send().await.map_err(|error| failed(http::words(error)))?;
        let (status, headers) = (response.status(), response.headers().clone());
        let bytes = http::body(response).await.map_err(|why| failed(format!("half an answer ({status}): {why}")))?;
        Ok(Answered { status, headers, bytes })
    }

    fn explain(&self, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> SinkError {
        let said = self.variables.scrub(&bounded(&String::from_utf8_lossy(&body[..body.len().min(1000)])));
        let refused = |detail: String| SinkError::new(&self.url, Trouble::Refused, detail);
        let retry_after = headers.get(RETRY_AFTER).and_then(|text| text.to_str().ok()).and_then(|text| text.trim().parse().ok());
        if let Some(after) = retry_after {
            let after = Duration::from_secs(after).min(LONGEST_WAIT);
            let detail = format!("{status}: {said}; it is asked again in {} s", after.as_secs());
            return SinkError::new(&self.url, Trouble::Retryable { after: Some(after) }, detail);
        }
        match status.as_u16() {
            401 if self.token.is_none() => refused(format!("wants a token (401: {said}); set {TOKEN}")),
            401 => refused(format!("refuses the token of {TOKEN} (401: {said})")),
            403 => refused(format!("the token of {TOKEN} may not do this (403: {said})")),
            404 | 405 => refused(format!("is no collector ({status}: {said}); schema/collector.md says what one answers")),
            409 => SinkError::new(&self.url, Trouble::Fenced, format!("holds other events of this epoch (409: {said})")),
            300..=399 => refused(format!("points elsewhere ({status}); write the address to which it points")),
            413 | 422 | 400 => refused(format!("{status}: {said}")),
            _ => SinkError::retryable(&self.url, format!("{status}: {said}")),
        }
    }

    fn read<T: for<'de> Deserialize<'de>>(&self, bytes: &[u8]) -> Result<T, SinkError> {
        serde_json::from_slice(bytes).map_err(|error| SinkError::retryable(&self.url, format!("an answer that is none: {error}")))
    }
}

/// How a leg and epoch are named in a query.
fn epoch_query(leg: &LegId, epoch: &Epoch) -> Vec<(&'static str, String)> {
    let mut query = vec![
        ("run_id", leg.run_id.to_string()),
        ("attempt", leg.attempt.to_string()),
        ("platform", leg.platform.to_string()),
        ("target", leg.target.to_string()),
    ];
    query.extend(leg.shard.map(|shard| ("shard", shard.to_string())));
    query.push(("epoch", epoch.to_string()));
    query
}

impl HttpsSink {
    pub fn new(url: &str, context: &SinkContext) -> Result<Self, SinkError> {
        Ok(Self { collector: Collector::new(url, &context.variables)?, context: context.clone(), sent: Seq(0) })
    }

    fn query(&self) -> Vec<(&'static str, String)> {
        epoch_query(&self.context.leg, &self.context.epoch)
    }
}

#[async_trait]
impl Backend for HttpsSink {
    fn url(&self) -> &str {
        &self.collector.url
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { takes: Takes::EventsAndMarker, marker_bytes: MARKER_BYTES, interval: Secs::ZERO, burst: 0 }
    }

    async fn position(&mut self) -> Result<Seq, SinkError> {
        let url = self.collector.at("position", &self.query())?;
        let durable: Durable = self.collector.read(&self.collector.ask(Method::GET, url, None).await?)?;
        self.sent = durable.seq;
        Ok(durable.seq)
    }

    /// The plan is the first event; a collector needs it only once.
    async fn put_plan(&mut self, _: &[u8]) -> Result<(), SinkError> {
        Ok(())
    }

    async fn send(&mut self, batch: &Batch) -> Result<(), SinkError> {
        let mut body =
            Vec::with_capacity(batch.marker.len() + batch.events.iter().map(|event| event.line.len() + 1).sum::<usize>());
        for event in &batch.events {
            body.extend_from_slice(event.line.as_bytes());
            body.push(b'\n');
        }
        body.extend_from_slice(&batch.marker);
        body.push(b'\n');
        let last = batch.events.last().map_or(self.sent, |event| event.seq);
        let key = format!("{}-{last}-{}", self.context.epoch, &Digest::of(&body).0[..16]);
        let url = self.collector.at("events", &self.query())?;
        let answer = self.collector.ask(Method::POST, url, Some((body, key))).await?;
        let durable: Durable = self.collector.read(&answer)?;
        if durable.seq < last {
            let detail = format!("has event {} and not yet {last}", durable.seq);
            return Err(SinkError::retryable(&self.collector.url, detail));
        }
        if durable.seq > last {
            // Its position is asked next, and that tells a slip of the tongue from another writer.
            let detail = format!("answers for event {}, which was never sent; the newest was {last}", durable.seq);
            return Err(SinkError::retryable(&self.collector.url, detail));
        }
        self.sent = last;
        Ok(())
    }

    async fn remove(&mut self) -> Result<Removed, SinkError> {
        let url = self.collector.at("events", &self.query())?;
        let Answered { status, headers, bytes } = self.collector.answer(Method::DELETE, url, None).await?;
        match status {
            status if status.is_success() => Ok(Removed::Gone),
            // A collector may do without; schema/collector.md says so.
            StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => {
                Ok(Removed::Kept("this collector deletes nothing; no report, gate or pull counts what a check leaves"))
            }
            status => Err(self.collector.explain(status, &headers, &bytes)),
        }
    }
}

impl HttpsSource {
    pub fn new(url: &str, variables: &Variables) -> Result<Self, SinkError> {
        Ok(Self { collector: Collector::new(url, variables)?, retries: Retries::of_a_reader() })
    }

    fn found(&self, listed: &RawValue, collector_now: Wall, narrow: &Narrow) -> FoundLeg {
        let leg = match serde_json::from_str::<ListedLeg>(listed.get()) {
            Ok(leg) => leg,
            Err(error) => return malformed(listed, &error.to_string(), narrow),
        };
        let id = LegId { run_id: leg.run_id, attempt: leg.attempt, platform: leg.platform, target: leg.target, shard: leg.shard };
        let query = epoch_query(&id, &leg.epoch);
        let place = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(&query).finish();
        let written = leg.marker_at.unwrap_or(collector_now);
        let age = narrow.set_clock.unwrap_or(collector_now).since(written);
        let mut unreadable = Vec::new();
        let marker = leg.marker.map(|marker| marker.get().as_bytes().to_vec());
        let marker = match marker {
            Some(bytes) if bytes.len() as u64 > MAX_MARKER_BYTES => {
                unreadable.push(format!("its marker is over {MAX_MARKER_BYTES} bytes"));
                None
            }
            marker => marker.map(|bytes| FoundMarker { bytes, age }),
        };
        // The collector gives events in pieces of its own; a piece is named by the event before it.
        let segments = if leg.seq > Seq(0) { vec![format!("after-0-to-{}", leg.seq)] } else { Vec::new() };
        let named = LegName { leg: id, epoch: Some(leg.epoch) };
        FoundLeg { place, named, plan: None, marker, segments, promised: leg.seq, unreadable }
    }

    async fn get(&self, url: &Url) -> Result<Vec<u8>, SinkError> {
        self.retries.ask(|| self.collector.ask(Method::GET, url.clone(), None)).await
    }

    fn endless(&self, detail: &str) -> SinkError {
        let detail = format!("its listing does not end: {detail}; narrow it with --run-id, and see schema/collector.md");
        SinkError::new(&self.collector.url, Trouble::Refused, detail)
    }
}

/// A leg that is listed in a form that cannot be read: by what of its name there is.
fn malformed(listed: &RawValue, why: &str, narrow: &Narrow) -> FoundLeg {
    let listed: Value = serde_json::from_str(listed.get()).unwrap_or_default();
    let said = |key: &str, asked: Option<&str>| match listed.get(key) {
        Some(Value::String(text)) => said_of(text),
        Some(Value::Number(number)) => number.to_string(),
        _ => asked.unwrap_or("unknown").to_owned(),
    };
    let leg = LegId {
        run_id: RunId::new(said("run_id", narrow.run_id.as_ref().map(RunId::as_str))),
        attempt: Attempt::new(said("attempt", narrow.attempt.as_ref().map(Attempt::as_str))),
        platform: Platform::new(said("platform", narrow.platform.as_ref().map(Platform::as_str))),
        target: Target::new(said("target", narrow.target.as_ref().map(Target::as_str))),
        shard: listed.get("shard").and_then(Value::as_str).and_then(|shard| shard.parse().ok()),
    };
    let epoch = listed.get("epoch").and_then(Value::as_str).map(Epoch::tamed);
    FoundLeg {
        place: leg.to_string(),
        named: LegName { leg, epoch },
        plan: None,
        marker: None,
        segments: Vec::new(),
        promised: Seq(0),
        unreadable: vec![format!("the collector lists it in a form that cannot be read: {why}")],
    }
}

/// As long as schema/collector.md lets a name be.
const NAME_CHARS: usize = 200;

fn said_of(text: &str) -> String {
    text.chars().take(NAME_CHARS).collect()
}

#[async_trait]
impl Source for HttpsSource {
    fn url(&self) -> &str {
        &self.collector.url
    }

    async fn legs(&self, narrow: &Narrow, _: Wall) -> Result<Vec<FoundLeg>, SinkError> {
        let mut asked: Vec<(&str, String)> = Vec::new();
        asked.extend(narrow.run_id.as_ref().map(|id| ("run_id", id.to_string())));
        asked.extend(narrow.attempt.as_ref().map(|id| ("attempt", id.to_string())));
        asked.extend(narrow.platform.as_ref().map(|id| ("platform", id.to_string())));
        asked.extend(narrow.target.as_ref().map(|id| ("target", id.to_string())));
        let (mut found, mut places, mut cursors) = (Vec::new(), HashSet::new(), HashSet::new());
        let (mut next, mut without_news) = (None::<String>, 0);
        for _ in 0..MOST_PAGES {
            let mut query = asked.clone();
            query.extend(next.take().map(|next| ("cursor", next)));
            let url = self.collector.at("legs", &query)?;
            let page: Listed = self.collector.read(&self.get(&url).await?)?;
            let known = found.len();
            for leg in page.legs {
                let leg = self.found(&leg, page.now, narrow);
                // A listing that moves while it is read shows one twice. What cannot be read has no name to be known by.
                if places.insert(leg.place.clone()) || !leg.unreadable.is_empty() {
                    found.push(leg);
                }
            }
            let Some(cursor) = page.next else { return Ok(found) };
            if !cursors.insert(cursor.clone()) {
                return Err(self.endless("it gives a cursor that it has given before"));
            }
            without_news = if found.len() > known { 0 } else { without_news + 1 };
            if without_news >= PAGES_WITHOUT_NEWS {
                return Err(self.endless(&format!("{PAGES_WITHOUT_NEWS} pages have nothing new in them")));
            }
            next = Some(cursor);
        }
        Err(self.endless(&format!("it has over {MOST_PAGES} pages")))
    }

    async fn segment(&self, leg: &FoundLeg, name: &str) -> Result<Vec<u8>, SinkError> {
        let last = name.strip_prefix("after-0-to-").and_then(|last| last.parse().ok()).map(Seq);
        let last = last.ok_or_else(|| SinkError::new(&self.collector.url, Trouble::Usage, format!("'{name}' is no segment")))?;
        let query: Vec<(String, String)> = url::form_urlencoded::parse(leg.place.as_bytes()).into_owned().collect();
        let (mut all, mut after) = (Vec::new(), Seq(0));
        while after < last {
            let mut asked: Vec<(&str, String)> = query.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
            asked.push(("after", after.to_string()));
            let url = self.collector.at("events", &asked)?;
            let piece = self.get(&url).await?;
            let Some(line) = piece.split(|byte| *byte == b'\n').rfind(|line| !line.is_empty()) else { break };
            let newest: Durable = self.collector.read(line)?;
            if newest.seq <= after {
                break;
            }
            after = newest.seq;
            all.extend_from_slice(&piece);
            if all.last() != Some(&b'\n') {
                all.push(b'\n');
            }
        }
        Ok(all)
    }
}
