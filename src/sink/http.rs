//! One HTTP client for all sinks that speak it: bounded in time, careful with redirects, and with an eye on the service's clock.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, Once, PoisonError};
use std::time::Duration;

use reqwest::header::{DATE, HeaderMap};
use reqwest::redirect::Policy;
use reqwest::{Client, Url};
use tokio::time::Instant;

use crate::core::moment::{Secs, Wall};

use super::Variables;
use super::error::{SinkError, Trouble};

/// A connection that is not made by then will not be made; the flusher gives a whole write 10 s.
const CONNECT_WITHIN: Duration = Duration::from_secs(3);
/// One request, answer included.
const ANSWER_WITHIN: Duration = Duration::from_secs(8);
/// A moved repository answers with one redirect. A loop of them must end.
const MOST_REDIRECTS: usize = 3;
/// An answer over this is not read: honest ones have some hundred KiB.
pub const MAX_ANSWER_BYTES: usize = 64 << 20;

/// Why no client could be made. It names no credential.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    #[error("'{0}' is no address of a service")]
    Address(String),
    #[error(
        "'{0}' is plain http, which would send the token in the clear; only this machine's own addresses may be plain; write https://"
    )]
    Plain(String),
    #[error("no HTTP client: {0}")]
    Client(String),
}

/// How far a client may follow a service that says "elsewhere".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redirects {
    /// Within one host, and never down to plain http.
    SameHost,
    /// Not at all: a signed request is for one address.
    Never,
}

/// The address of a service, if tokens may be sent there.
pub fn address(text: &str, plain_allowed: bool) -> Result<Url, ClientError> {
    let shown = || super::printable(text);
    let url = Url::parse(text).map_err(|_| ClientError::Address(shown()))?;
    match url.scheme() {
        "https" if url.has_host() => Ok(url),
        "http" if is_loopback(&url) || plain_allowed => Ok(url),
        "http" => Err(ClientError::Plain(shown())),
        _ => Err(ClientError::Address(shown())),
    }
}

/// Whether an address is this machine's own.
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

pub fn client(to: &Url, redirects: Redirects) -> Result<Client, ClientError> {
    install_tls();
    let policy = match redirects {
        Redirects::Never => Policy::none(),
        Redirects::SameHost => Policy::custom(|attempt| {
            let same = attempt.previous().first().is_some_and(|first| {
                first.host() == attempt.url().host()
                    && first.port_or_known_default() == attempt.url().port_or_known_default()
                    && first.scheme() == attempt.url().scheme()
            });
            // The other redirects turn a write into a read, and what was to be written would be lost.
            let keeps_method = matches!(attempt.status().as_u16(), 307 | 308);
            if same && keeps_method && attempt.previous().len() <= MOST_REDIRECTS { attempt.follow() } else { attempt.stop() }
        }),
    };
    let builder = Client::builder()
        .user_agent(concat!("ledger/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_WITHIN)
        .timeout(ANSWER_WITHIN)
        .redirect(policy)
        .no_gzip()
        .no_brotli()
        .no_zstd()
        .no_deflate();
    // A proxy of the environment knows nothing of this machine's own ports.
    let builder = if is_loopback(to) { builder.no_proxy() } else { builder };
    builder.build().map_err(|error| ClientError::Client(error.without_url().to_string()))
}

/// One TLS provider for the process, whoever asks first.
fn install_tls() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // It fails only where one is installed already, and that one will do.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

/// What a request that got no answer says, without its URL.
pub fn words(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = match () {
        () if error.is_timeout() => "no answer in time".to_owned(),
        () if error.is_connect() => "no connection (is the service up, and is this its address?)".to_owned(),
        () => error.to_string(),
    };
    let mut inner = std::error::Error::source(&error);
    let mut last = None;
    while let Some(cause) = inner {
        last = Some(cause.to_string());
        inner = cause.source();
    }
    if let Some(last) = last.filter(|last| !text.contains(last.as_str())) {
        text = format!("{text}: {last}");
    }
    super::error::bounded(&text)
}

/// A body of bounded size.
pub async fn body(mut response: reqwest::Response) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(words)? {
        if bytes.len() + chunk.len() > MAX_ANSWER_BYTES {
            return Err(format!("an answer of more than {MAX_ANSWER_BYTES} bytes"));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// The clock of a service, as its answers' `Date` tells it. Between answers it runs on with ours.
#[derive(Debug, Default)]
pub struct ServiceClock(Mutex<Option<(Wall, Instant)>>);

impl ServiceClock {
    pub fn note(&self, headers: &HeaderMap) {
        let date = headers.get(DATE).and_then(|date| date.to_str().ok()).and_then(parse_date);
        if let Some(date) = date {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((date, Instant::now()));
        }
    }

    /// The service's time now. `None` before its first answer.
    pub fn now(&self) -> Option<Wall> {
        let (date, noted) = (*self.0.lock().unwrap_or_else(PoisonError::into_inner))?;
        let since = u64::try_from(noted.elapsed().as_millis()).unwrap_or(u64::MAX);
        Some(date.plus(Secs::from_millis(since)))
    }

    /// How long ago something was written by this clock; never more than it really is, for both times are cut to whole seconds.
    pub fn age(&self, written: Wall, otherwise: Wall) -> Secs {
        match self.now() {
            Some(now) => now.since(written).saturating_sub(Secs::from_secs(1)),
            None => otherwise.since(written),
        }
    }
}

/// The one form of HTTP dates that servers write.
pub fn parse_date(text: &str) -> Option<Wall> {
    chrono::DateTime::parse_from_rfc2822(text).ok().map(|date| Wall(date.timestamp_millis()))
}

/// A reader waits 15 s in all for a service that comes back; whoever writes has the flusher, which asks again by itself.
const READER_RETRIES: u32 = 6;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Who is ordered to wait longer is told so and does not stand still.
const LONGEST_PAUSE: Duration = Duration::from_secs(4);

/// How often a failed read may be repeated: so many times in all, whatever is read. By default never.
#[derive(Debug, Default)]
pub struct Retries {
    left: AtomicU32,
    first_pause: Duration,
}

impl Retries {
    pub fn of_a_reader() -> Self {
        Self { left: AtomicU32::new(READER_RETRIES), first_pause: FIRST_PAUSE }
    }

    /// Asks, and again where the failure may pass by itself.
    pub async fn ask<T, F: Future<Output = Result<T, SinkError>>>(&self, ask: impl Fn() -> F) -> Result<T, SinkError> {
        let mut pause = self.first_pause;
        loop {
            let error = match ask().await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let wait = match error.trouble {
                Trouble::Retryable { after } => after.unwrap_or(pause),
                _ => return Err(error),
            };
            if wait > LONGEST_PAUSE || self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_err() {
                return Err(error);
            }
            tokio::time::sleep(wait).await;
            pause = LONGEST_PAUSE.min(pause * 2);
        }
    }
}

/// The token in a variable, as a header's value.
pub fn bearer(token: &str) -> Option<reqwest::header::HeaderValue> {
    let mut value = reqwest::header::HeaderValue::from_str(&format!("Bearer {token}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Whether plain http to other machines was asked for by name.
pub fn plain_is_allowed(variables: &Variables, name: &str) -> bool {
    variables.get(name).is_some_and(|value| matches!(value, "1" | "true" | "yes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_sent_in_the_clear_only_at_home() {
        for (text, fine) in [
            ("https://api.github.com", true),
            ("http://127.0.0.1:8080/x", true),
            ("http://localhost:8080", true),
            ("http://[::1]:8080", true),
            ("http://localhost.example.org", false),
            ("http://192.168.1.1", false),
            ("ftp://127.0.0.1", false),
            ("nonsense", false),
        ] {
            assert_eq!(address(text, false).is_ok(), fine, "{text}");
        }
        assert!(address("http://minio:9000", true).is_ok());
    }

    #[test]
    fn a_date_header_is_read() {
        assert_eq!(parse_date("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Wall(784_111_777_000)));
        assert_eq!(parse_date("yesterday"), None);
    }

    #[tokio::test]
    async fn a_reader_asks_again_within_a_bound() {
        let asked = AtomicU32::new(0);
        let fails = |times: u32, trouble: Trouble| {
            let asked = &asked;
            move || async move {
                match asked.fetch_add(1, Relaxed) {
                    n if n < times => Err(SinkError::new("x:", trouble, "502")),
                    _ => Ok("read"),
                }
            }
        };
        let soon = Trouble::Retryable { after: None };
        let later = Trouble::Retryable { after: Some(Duration::from_secs(60)) };
        let reader = || Retries { left: AtomicU32::new(READER_RETRIES), first_pause: Duration::from_micros(10) };
        for (retries, times, trouble, expect, requests) in [
            (reader(), 0, soon, true, 1),
            (reader(), 6, soon, true, 7),
            (reader(), 7, soon, false, 7),
            (reader(), 1, later, false, 1),
            (reader(), 1, Trouble::Refused, false, 1),
            (Retries::default(), 1, soon, false, 1),
        ] {
            asked.store(0, Relaxed);
            assert_eq!(retries.ask(fails(times, trouble)).await.is_ok(), expect, "{times} {trouble:?}");
            assert_eq!(asked.load(Relaxed), requests, "{times} {trouble:?}");
        }
    }
}
