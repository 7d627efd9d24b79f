//! The service's REST paths that a leg uses, its limits obeyed, its refusals in words.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use reqwest::header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Method, Url};
use serde_json::Value;
use tokio::time::Instant;

use crate::core::moment::Secs;

use super::super::Variables;
use super::super::error::{SinkError, Trouble, bounded};
use super::super::http::{self, Redirects, Retries, ServiceClock};

pub const URL: &str = "github:";
const DEFAULT_API: &str = "https://api.github.com";
/// The most that the service gives on one page.
const PER_PAGE: usize = 100;
/// The least that it gives, where there is more.
const DEFAULT_PAGE: usize = 30;
/// Check runs of one commit and jobs of one run; a service that never ends its pages must not hold a reader for ever.
const MOST_PAGES: usize = 200;
/// A limit that names no time: the service asks for a minute.
const LIMITED: Duration = Duration::from_secs(60);
/// A token that may not write will hardly learn it; asking costs the requests of the other legs.
const REFUSED: Duration = Duration::from_secs(900);
/// No order to wait longer is taken: a broken clock must not silence a sink for a day.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// What the URL and the environment say of the place.
#[derive(Debug, Clone)]
pub struct Place {
    pub repository: Option<String>,
    pub sha: Option<String>,
    pub state: Option<String>,
}

impl Place {
    /// `github:[owner/repository][?sha=…&state=…]`
    pub fn of(url: &str, variables: &Variables) -> Result<Self, SinkError> {
        let rest = url.strip_prefix(URL).unwrap_or_default();
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let path = path.trim_matches('/');
        let repository = if path.is_empty() { variables.get("GITHUB_REPOSITORY") } else { Some(path) };
        let mut place = Self { repository: repository.map(str::to_owned), sha: None, state: None };
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "sha" => place.sha = Some(value.into_owned()).filter(|sha| !sha.is_empty()),
                "state" => place.state = Some(value.into_owned()),
                other => {
                    let detail = format!("'{}' is unknown; github: takes sha= and state=", bounded(other));
                    return Err(SinkError::new(URL, Trouble::Usage, detail));
                }
            }
        }
        Ok(place)
    }
}

/// What the service says is left of the hour.
#[derive(Debug, Clone, Copy)]
pub struct Rate {
    pub remaining: u64,
    pub until_reset: Secs,
}

pub struct Answer {
    pub body: Value,
}

pub struct Api {
    client: Client,
    /// `…/repos/OWNER/NAME/`
    repository: Url,
    bearer: HeaderValue,
    pub clock: ServiceClock,
    rate: Mutex<Option<(u64, Instant)>>,
    retries: Retries,
    variables: Variables,
}

pub fn refused(detail: impl Into<String>) -> SinkError {
    SinkError::new(URL, Trouble::Retryable { after: Some(REFUSED) }, detail)
}

const TOO_LONG: &str = "the text is too long for the service (422)";
const GONE: &str = "not found (404)";

pub fn is_too_long(error: &SinkError) -> bool {
    error.detail.starts_with(TOO_LONG)
}

/// Where the token is; the first of these is kept from the test files.
pub const TOKENS: [&str; 3] = ["LEDGER_GITHUB_TOKEN", "GITHUB_TOKEN", "GH_TOKEN"];

pub fn is_gone(error: &SinkError) -> bool {
    error.detail.starts_with(GONE)
}

impl Api {
    pub fn new(place: &Place, variables: &Variables) -> Result<Self, SinkError> {
        let token = variables.first(&TOKENS).ok_or_else(|| {
            refused(
                "GITHUB_TOKEN is not set; in a workflow, `env: GITHUB_TOKEN: ${{ github.token }}` and `permissions: checks: write`",
            )
        })?;
        let repository =
            place.repository.as_deref().ok_or_else(|| refused("no repository: set GITHUB_REPOSITORY to owner/name"))?;
        let (owner, name) = repository.split_once('/').ok_or_else(|| refused(format!("'{repository}' is not owner/name")))?;
        let base = variables.get("GITHUB_API_URL").unwrap_or(DEFAULT_API);
        let mut url = http::address(base, false).map_err(|error| refused(format!("GITHUB_API_URL: {error}")))?;
        let client = http::client(&url, Redirects::SameHost).map_err(|error| refused(error.to_string()))?;
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(["repos", owner, name, ""]);
        }
        let bearer = http::bearer(token).ok_or_else(|| refused("GITHUB_TOKEN holds characters that no token has"))?;
        Ok(Self {
            client,
            repository: url,
            bearer,
            clock: ServiceClock::default(),
            rate: Mutex::default(),
            retries: Retries::default(),
            variables: variables.clone(),
        })
    }

    /// One that repeats what it could not read.
    pub fn for_a_reader(self) -> Self {
        Self { retries: Retries::of_a_reader(), ..self }
    }

    pub async fn post(&self, path: &str, body: &Value) -> Result<Answer, SinkError> {
        self.send(Method::POST, path, &[], Some(body)).await
    }

    pub async fn patch(&self, path: &str, body: &Value) -> Result<Answer, SinkError> {
        self.send(Method::PATCH, path, &[], Some(body)).await
    }

    pub async fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<Answer, SinkError> {
        self.retries.ask(|| self.send(Method::GET, path, query, None)).await
    }

    /// Every page of a listing. `key` names the list in its envelope; a bare array has none.
    pub async fn pages(&self, path: &str, query: &[(&str, &str)], key: Option<&str>) -> Result<Vec<Value>, SinkError> {
        let mut all = Vec::new();
        let mut whole_page = None;
        let per_page = PER_PAGE.to_string();
        for page in 1..=MOST_PAGES {
            let number = page.to_string();
            let query: Vec<(&str, &str)> =
                query.iter().copied().chain([("per_page", per_page.as_str()), ("page", number.as_str())]).collect();
            let answer = self.get(path, &query).await?;
            let list = key.map_or(Some(&answer.body), |key| answer.body.get(key)).and_then(Value::as_array);
            let list = list.ok_or_else(|| SinkError::retryable(URL, format!("an answer of {path} is no list")))?;
            let total = answer.body.get("total_count").and_then(Value::as_u64);
            all.extend(list.iter().cloned());
            // Some servers give fewer on a page than were asked for: an end is the count, an empty page, or one shorter than the first.
            let whole = *whole_page.get_or_insert(list.len().max(DEFAULT_PAGE));
            if list.is_empty() || total.map_or(list.len() < whole, |total| all.len() as u64 >= total) {
                break;
            }
        }
        Ok(all)
    }

    /// Check runs of a commit, older ones of the same name too.
    pub async fn check_runs(&self, sha: &str, name: Option<&str>) -> Result<Vec<Value>, SinkError> {
        let mut query = vec![("filter", "all")];
        query.extend(name.map(|name| ("check_name", name)));
        self.pages(&format!("commits/{sha}/check-runs"), &query, Some("check_runs")).await
    }

    async fn send(&self, method: Method, path: &str, query: &[(&str, &str)], body: Option<&Value>) -> Result<Answer, SinkError> {
        let writes = method != Method::GET;
        let mut url = self.repository.join(path).map_err(|error| refused(format!("no address: {error}")))?;
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let mut request = self
            .client
            .request(method, url)
            .header(AUTHORIZATION, self.bearer.clone())
            .header(ACCEPT, "application/vnd.github+json")
            .header("x-github-api-version", "2022-11-28");
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await.map_err(|error| self.failed(http::words(error)))?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        self.clock.note(&headers);
        self.note_rate(&headers);
        let bytes = http::body(response).await.map_err(|why| self.failed(format!("half an answer ({status}): {why}")))?;
        if !(200..300).contains(&status) {
            return Err(self.explain(status, &headers, &bytes, writes));
        }
        let body = serde_json::from_slice(&bytes).map_err(|error| self.failed(format!("half an answer ({status}): {error}")))?;
        Ok(Answer { body })
    }

    fn failed(&self, detail: String) -> SinkError {
        SinkError::retryable(URL, self.variables.scrub(&detail))
    }

    fn note_rate(&self, headers: &HeaderMap) {
        let Some(remaining) = number(headers, "x-ratelimit-remaining") else { return };
        let Some(wait) = self.until_reset(headers) else { return };
        *self.rate.lock().unwrap_or_else(PoisonError::into_inner) = Some((remaining, Instant::now() + wait));
    }

    /// Until the hour of the limit ends, by the service's own clock.
    fn until_reset(&self, headers: &HeaderMap) -> Option<Duration> {
        let reset = i64::try_from(number(headers, "x-ratelimit-reset")?).ok()?;
        let now = self.clock.now()?;
        let seconds = u64::try_from(reset.saturating_sub(now.0 / 1000)).unwrap_or(0);
        Some(Duration::from_secs(seconds).min(LONGEST_WAIT))
    }

    /// `None` where the service has not said, or its hour is over.
    pub fn rate(&self) -> Option<Rate> {
        let (remaining, reset) = (*self.rate.lock().unwrap_or_else(PoisonError::into_inner))?;
        let left = reset.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
        Some(Rate { remaining, until_reset: Secs::from_millis(u64::try_from(left.as_millis()).unwrap_or(u64::MAX)) })
    }

    fn explain(&self, status: u16, headers: &HeaderMap, body: &[u8], writes: bool) -> SinkError {
        let said = serde_json::from_slice::<Value>(body).ok().and_then(|body| Some(body.get("message")?.as_str()?.to_owned()));
        let said = said.unwrap_or_else(|| String::from_utf8_lossy(body).chars().take(200).collect());
        let said = self.variables.scrub(&bounded(&said));
        if let Some(after) = self.ordered_wait(status, headers, &said) {
            let detail = format!("the service limits requests ({status}: {said}); it is asked again in {} s", after.as_secs());
            return SinkError::new(URL, Trouble::Retryable { after: Some(after) }, detail);
        }
        match status {
            401 => refused(format!("the token is refused (401: {said}); GITHUB_TOKEN is wrong or has run out")),
            403 if writes => refused(format!(
                "the token may read and not write (403: {said}); a pull request from a fork gets no other; \
                 elsewhere the job needs `permissions: checks: write`"
            )),
            403 => refused(format!(
                "the token may not read this (403: {said}); the job needs `permissions: checks: read, actions: read`"
            )),
            404 => refused(format!("{GONE}: {said}; the token sees no such repository or commit (GITHUB_REPOSITORY, GITHUB_SHA)")),
            422 if said.contains("65535") || said.contains("too long") || said.contains("too large") => {
                SinkError::retryable(URL, format!("{TOO_LONG}: {said}"))
            }
            422 => refused(format!("refused (422: {said}); for a pull request give the head commit as github:?sha=")),
            300..=399 => {
                refused(format!("the service points elsewhere ({status}); set GITHUB_API_URL or GITHUB_REPOSITORY to where it is"))
            }
            _ => SinkError::retryable(URL, format!("{status}: {said}")),
        }
    }

    /// How long the service wants to be left alone: what it orders, else until its hour ends, else a minute.
    fn ordered_wait(&self, status: u16, headers: &HeaderMap, said: &str) -> Option<Duration> {
        if !matches!(status, 403 | 429 | 500..) {
            return None;
        }
        if let Some(after) = number(headers, RETRY_AFTER.as_str()) {
            return Some(Duration::from_secs(after).min(LONGEST_WAIT));
        }
        let spent = number(headers, "x-ratelimit-remaining") == Some(0);
        let limited = status == 429 || said.to_ascii_lowercase().contains("rate limit") || said.contains("abuse");
        match () {
            () if spent && status != 500 => Some(self.until_reset(headers).unwrap_or(LIMITED).max(Duration::from_secs(1))),
            () if limited => Some(LIMITED),
            () => None,
        }
    }
}

fn number(headers: &HeaderMap, name: &str) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.trim().parse().ok()
}
