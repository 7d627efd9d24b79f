//! The file that proves to a store who this job is, kept fresh: the CI's token lives five minutes, a leg for hours.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::super::Variables;
use super::super::http::{self, Redirects};
use super::super::private;

/// A token that lives five minutes must still be good when a request that begins now reads it.
const RENEW_AFTER: Duration = Duration::from_secs(200);

/// Where the CI gives tokens, and the file from which the store's client takes them.
#[derive(Debug)]
pub struct TokenFile {
    path: PathBuf,
    request_url: String,
    request_token: String,
    audience: String,
    renewed: Mutex<Option<Instant>>,
}

#[derive(Deserialize)]
struct Issued {
    value: String,
}

impl TokenFile {
    /// `None` where no such file is named, or the CI gives no tokens: then whoever wrote the file keeps it fresh.
    pub fn of(variables: &Variables) -> Option<Self> {
        let (path, audience) = match variables.get("AWS_WEB_IDENTITY_TOKEN_FILE") {
            Some(path) => (path, "sts.amazonaws.com"),
            None => (variables.get("AZURE_FEDERATED_TOKEN_FILE")?, "api://AzureADTokenExchange"),
        };
        Some(Self {
            path: path.into(),
            request_url: variables.get("ACTIONS_ID_TOKEN_REQUEST_URL")?.to_owned(),
            request_token: variables.get("ACTIONS_ID_TOKEN_REQUEST_TOKEN")?.to_owned(),
            audience: audience.to_owned(),
            renewed: Mutex::new(None),
        })
    }

    /// Writes a fresh token where the last one has grown old. What goes wrong is told in words without a token.
    pub async fn renew(&self) -> Result<(), String> {
        let mut renewed = self.renewed.lock().await;
        if renewed.is_some_and(|at| at.elapsed() < RENEW_AFTER) {
            return Ok(());
        }
        let token = self.fetch().await.map_err(|why| format!("no identity token from ACTIONS_ID_TOKEN_REQUEST_URL: {why}"))?;
        replace(&self.path, token.as_bytes())
            .map_err(|error| format!("the token file '{}' cannot be written: {error}", self.path.display()))?;
        *renewed = Some(Instant::now());
        Ok(())
    }

    async fn fetch(&self) -> Result<String, String> {
        let mut url = http::address(&self.request_url, false).map_err(|error| error.to_string())?;
        url.query_pairs_mut().append_pair("audience", &self.audience);
        let client = http::client(&url, Redirects::Never).map_err(|error| error.to_string())?;
        let bearer = http::bearer(&self.request_token).ok_or("the request token is no header value")?;
        let answer = client.get(url).header(reqwest::header::AUTHORIZATION, bearer).send().await.map_err(http::words)?;
        if !answer.status().is_success() {
            return Err(format!("{}; the job needs `permissions: id-token: write`", answer.status()));
        }
        let issued: Issued = serde_json::from_slice(&http::body(answer).await?).map_err(|error| error.to_string())?;
        Ok(issued.value)
    }
}

/// A reader finds the old token or the new one, never half of one.
fn replace(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let draft = path.with_extension(format!("{}.draft", std::process::id()));
    private::overwrite(&draft)?.write_all(content)?;
    fs::rename(&draft, path).inspect_err(|_| {
        let _ = fs::remove_file(&draft);
    })
}
