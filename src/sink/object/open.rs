//! From a URL and the usual variables to a store: the services' own names, nothing of ours.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::TryStreamExt as _;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::client::{HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService};
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::path::Path;
use object_store::{BackoffConfig, ClientOptions, Error, ObjectMeta, ObjectStore, ObjectStoreExt as _, RetryConfig};

use crate::core::moment::Wall;

use super::super::error::{SinkError, Trouble};
use super::super::http::{self, Redirects, ServiceClock};
use super::super::source::MAX_SEGMENT_BYTES;
use super::super::{Variables, printable};
use super::token::TokenFile;
use super::words::{self, Deed};

/// A bucket, and the place in it that the URL names.
pub struct Store {
    pub url: String,
    pub objects: Arc<dyn ObjectStore>,
    pub clock: Arc<ServiceClock>,
    prefix: String,
    variables: Variables,
    token: Option<Arc<TokenFile>>,
}

/// One object.
pub struct Got {
    pub bytes: Vec<u8>,
    pub written: Wall,
}

/// The three kinds of stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    S3,
    Gcs,
    Azure,
}

impl Store {
    pub fn open(url: &str, variables: &Variables, side: Side) -> Result<Self, SinkError> {
        let wrong = |detail: String| SinkError::new(printable(url), Trouble::Usage, variables.scrub(&detail));
        let (scheme, rest) = url.split_once(':').unwrap_or((url, ""));
        let rest = rest.trim_start_matches('/');
        let kind = match scheme {
            "gs" => Kind::Gcs,
            "az" => Kind::Azure,
            _ => Kind::S3,
        };
        if super::super::has_query(url) {
            return Err(wrong(format!("holds a query or a fragment, which no bucket has; write {scheme}://bucket/prefix")));
        }
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() || bucket.contains('@') {
            return Err(wrong(format!("names no bucket; write {scheme}://bucket/prefix")));
        }
        let prefix = prefix.trim_matches('/').to_owned();
        Path::parse(&prefix).map_err(|error| wrong(error.to_string()))?;
        let clock = Arc::new(ServiceClock::default());
        let token = TokenFile::of(variables).map(Arc::new);
        let endpoint = words::endpoint(kind, variables);
        let plain = http::plain_is_allowed(variables, "AWS_ALLOW_HTTP");
        if let Some(endpoint) = endpoint {
            http::address(endpoint, plain).map_err(|error| wrong(error.to_string()))?;
        }
        let connector = Wire { clock: Arc::clone(&clock), token: token.clone(), loopback: endpoint.map(str::to_owned) };
        // Half a credential is a fork's job without secrets: no reason to refuse the run.
        let objects =
            build(kind, bucket, variables, connector, side).map_err(|error| words::no_client(url, kind, &error, variables))?;
        Ok(Self { url: printable(url), objects, clock, prefix, variables: variables.clone(), token })
    }

    /// A path under the URL's own.
    pub fn below(&self, path: &str) -> Result<Path, SinkError> {
        let whole = if self.prefix.is_empty() { path.to_owned() } else { format!("{}/{path}", self.prefix) };
        Path::parse(&whole).map_err(|error| SinkError::new(&self.url, Trouble::Usage, error.to_string()))
    }

    /// Everything below a path, all pages, in no order.
    pub async fn list(&self, below: &Path) -> Result<Vec<ObjectMeta>, SinkError> {
        let listed = self.objects.list(Some(below)).try_collect().await;
        listed.map_err(|error| self.explain(Deed::List, &error))
    }

    pub async fn get(&self, path: &Path) -> Result<Got, SinkError> {
        let failed = |error: Error| self.explain(Deed::Read, &error);
        let answer = self.objects.get(path).await.map_err(failed)?;
        if answer.meta.size > MAX_SEGMENT_BYTES {
            let detail = format!("{path} is over {MAX_SEGMENT_BYTES} bytes");
            return Err(SinkError::new(&self.url, Trouble::Refused, detail));
        }
        let written = Wall(answer.meta.last_modified.timestamp_millis());
        let bytes = answer.bytes().await.map_err(failed)?.to_vec();
        Ok(Got { bytes, written })
    }

    pub fn explain(&self, deed: Deed, error: &Error) -> SinkError {
        words::explain(&self.url, deed, error, &self.variables)
    }

    /// The file that proves who this job is must be fresh when the store's own session ends.
    pub async fn renew_token(&self) -> Result<(), SinkError> {
        let Some(token) = &self.token else { return Ok(()) };
        token.renew().await.map_err(|detail| SinkError::retryable(&self.url, self.variables.scrub(&detail)))
    }
}

/// Who asks a store, and so how patiently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// A lost packet is mended inside one call; everything longer is the flusher's business, which knows about the rest.
    Writer,
    /// Nobody stands behind a reader: one object of ten thousand that came late must not cost the whole report.
    Reader,
}

impl Side {
    fn retries(self) -> RetryConfig {
        let (most_ms, max_retries, seconds) = match self {
            Side::Writer => (500, 2, 4),
            Side::Reader => (5_000, 10, 90),
        };
        let (init_backoff, max_backoff) = (Duration::from_millis(50), Duration::from_millis(most_ms));
        let backoff = BackoffConfig { init_backoff, max_backoff, base: 2.0 };
        RetryConfig { backoff, max_retries, retry_timeout: Duration::from_secs(seconds) }
    }
}

fn build(kind: Kind, bucket: &str, variables: &Variables, connector: Wire, side: Side) -> Result<Arc<dyn ObjectStore>, Error> {
    // The connector decides what may be plain http.
    let options = ClientOptions::new().with_allow_http(true);
    Ok(match kind {
        Kind::S3 => {
            let mut builder = AmazonS3Builder::new().with_client_options(options.clone());
            for (name, value) in variables.starting_with("AWS_") {
                if let (false, Ok(key)) = (value.is_empty(), name.to_ascii_lowercase().parse()) {
                    builder = builder.with_config(key, value);
                }
            }
            let builder = builder.with_bucket_name(bucket).with_client_options(options);
            Arc::new(builder.with_retry(side.retries()).with_http_connector(connector).build()?)
        }
        Kind::Gcs => {
            let mut builder = GoogleCloudStorageBuilder::new();
            for (name, value) in variables.starting_with("GOOGLE_") {
                if let (false, Ok(key)) = (value.is_empty(), name.to_ascii_lowercase().parse()) {
                    builder = builder.with_config(key, value);
                }
            }
            let builder = builder.with_bucket_name(bucket).with_client_options(options);
            Arc::new(builder.with_retry(side.retries()).with_http_connector(connector).build()?)
        }
        Kind::Azure => {
            let mut builder = MicrosoftAzureBuilder::new();
            for (name, value) in variables.starting_with("AZURE_") {
                if let (false, Ok(key)) = (value.is_empty(), name.to_ascii_lowercase().parse()) {
                    builder = builder.with_config(key, value);
                }
            }
            let builder = builder.with_container_name(bucket).with_client_options(options);
            Arc::new(builder.with_retry(side.retries()).with_http_connector(connector).build()?)
        }
    })
}

/// How the store's requests travel: with our time limits, an eye on the service's clock, and a fresh token beside them.
#[derive(Debug)]
struct Wire {
    clock: Arc<ServiceClock>,
    token: Option<Arc<TokenFile>>,
    /// An endpoint that was named, for it may be this machine.
    loopback: Option<String>,
}

impl HttpConnector for Wire {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        let failed = |error: http::ClientError| Error::Generic { store: "http", source: Box::new(error) };
        let to = self.loopback.as_deref().unwrap_or("https://localhost.invalid");
        let to = http::address(to, true).map_err(failed)?;
        let client = http::client(&to, Redirects::Never).map_err(failed)?;
        Ok(HttpClient::new(Travel { client, clock: Arc::clone(&self.clock), token: self.token.clone() }))
    }
}

#[derive(Debug)]
struct Travel {
    client: reqwest::Client,
    clock: Arc<ServiceClock>,
    token: Option<Arc<TokenFile>>,
}

#[async_trait]
impl HttpService for Travel {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        if let Some(token) = &self.token {
            // A renewal that fails shows in the answer to the request that needed it.
            if let Err(error) = token.renew().await {
                tracing::debug!(%error, "the identity token was not renewed");
            }
        }
        let response = self.client.call(request).await?;
        self.clock.note(response.headers());
        Ok(response)
    }
}
