//! A store's refusals in words that say what to do: which permission, which variable.

use object_store::Error;

use super::super::Variables;
use super::super::error::{SinkError, Trouble, bounded};
use super::open::Kind;

/// What was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    List,
    Read,
    Write,
    Delete,
}

pub fn endpoint(kind: Kind, variables: &Variables) -> Option<&str> {
    match kind {
        Kind::S3 => variables.first(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"]),
        Kind::Gcs => variables.first(&["GOOGLE_BASE_URL"]),
        Kind::Azure => variables.first(&["AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"]),
    }
}

fn kind_of(url: &str) -> Kind {
    match url.split(':').next() {
        Some("gs") => Kind::Gcs,
        Some("az") => Kind::Azure,
        _ => Kind::S3,
    }
}

pub fn explain(url: &str, deed: Deed, error: &Error, variables: &Variables) -> SinkError {
    let kind = kind_of(url);
    let said = variables.scrub(&short(error));
    let refused = |what: String| SinkError::new(url, Trouble::Refused, format!("{what} ({said})"));
    if matches!(error, Error::NotSupported { .. } | Error::NotImplemented { .. }) {
        return refused("the store cannot create an object only once, which a ledger needs".to_owned());
    }
    match status(error) {
        // A busy store and a broken one get over it.
        Some(408 | 409 | 429 | 500..) => SinkError::retryable(url, said),
        Some(401) => refused(format!("the credentials are refused; {}", credentials(kind, variables))),
        Some(403) if CREDENTIAL_CODES.iter().any(|code| said.contains(code)) => {
            refused(format!("the credentials are refused; {}", credentials(kind, variables)))
        }
        Some(403) => refused(format!("{} is not permitted; grant {}", deed.name(), permission(kind, deed))),
        Some(404) if deed == Deed::Read && !said.contains("Bucket") => refused("an object is gone".to_owned()),
        Some(404) => refused("there is no such bucket, or these credentials may not see it".to_owned()),
        Some(301 | 307 | 308) => refused("the bucket lives in another region: set AWS_REGION".to_owned()),
        Some(_) => SinkError::new(url, Trouble::Refused, said),
        None if said.contains("redirect") => refused("the bucket lives in another region: set AWS_REGION".to_owned()),
        None if !has_credentials(kind, variables) => {
            SinkError::retryable(url, format!("no credentials; {} ({said})", credentials(kind, variables)))
        }
        None => SinkError::retryable(url, said),
    }
}

/// A store's client that cannot be made of these variables.
pub fn no_client(url: &str, kind: Kind, error: &Error, variables: &Variables) -> SinkError {
    let said = variables.scrub(&short(error));
    let detail = format!("no credentials; {} ({said})", credentials(kind, variables));
    SinkError::new(super::super::printable(url), Trouble::Refused, detail)
}

/// Codes of a 403 that speak of the key and not of what it may do.
const CREDENTIAL_CODES: [&str; 5] =
    ["InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "AuthenticationFailed"];

fn has_credentials(kind: Kind, variables: &Variables) -> bool {
    let names: &[&str] = match kind {
        Kind::S3 => &[
            "AWS_ACCESS_KEY_ID",
            "AWS_WEB_IDENTITY_TOKEN_FILE",
            "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
            "AWS_CONTAINER_CREDENTIALS_FULL_URI",
            "AWS_SKIP_SIGNATURE",
        ],
        Kind::Gcs => {
            &["GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_KEY", "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_BEARER_TOKEN"]
        }
        Kind::Azure => &[
            "AZURE_STORAGE_ACCOUNT_KEY",
            "AZURE_STORAGE_SAS_TOKEN",
            "AZURE_FEDERATED_TOKEN_FILE",
            "AZURE_STORAGE_CLIENT_SECRET",
            "AZURE_CLIENT_SECRET",
        ],
    };
    variables.first(names).is_some()
}

fn credentials(kind: Kind, variables: &Variables) -> String {
    let names = match kind {
        Kind::S3 if variables.get("AWS_PROFILE").is_some() => {
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY: the files behind AWS_PROFILE are not read"
        }
        Kind::S3 if variables.get("AWS_SESSION_TOKEN").is_some() => {
            "AWS_SESSION_TOKEN may have run out: for a long leg set AWS_ROLE_ARN and AWS_WEB_IDENTITY_TOKEN_FILE instead"
        }
        Kind::S3 => "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_ROLE_ARN and AWS_WEB_IDENTITY_TOKEN_FILE",
        Kind::Gcs => {
            "set GOOGLE_APPLICATION_CREDENTIALS or GOOGLE_SERVICE_ACCOUNT_KEY to a service account's key: an external account \
             (workload identity federation) is not read"
        }
        Kind::Azure => "set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY, or AZURE_FEDERATED_TOKEN_FILE",
    };
    names.to_owned()
}

fn permission(kind: Kind, deed: Deed) -> &'static str {
    match (kind, deed) {
        (Kind::S3, Deed::List) => "s3:ListBucket on the bucket",
        (Kind::S3, Deed::Read) => "s3:GetObject on the prefix",
        (Kind::S3, Deed::Write) => "s3:PutObject on the prefix",
        (Kind::S3, Deed::Delete) => "s3:DeleteObject on the prefix (only a check needs it)",
        (Kind::Gcs, Deed::List) => "storage.objects.list",
        (Kind::Gcs, Deed::Read) => "storage.objects.get",
        (Kind::Gcs, Deed::Write) => "storage.objects.create and storage.objects.delete, which replacing the marker needs",
        (Kind::Gcs, Deed::Delete) => "storage.objects.delete",
        (Kind::Azure, _) => "the role Storage Blob Data Contributor",
    }
}

impl Deed {
    fn name(self) -> &'static str {
        match self {
            Deed::List => "listing",
            Deed::Read => "reading",
            Deed::Write => "writing",
            Deed::Delete => "deleting",
        }
    }
}

/// The service's status, as the client's own words have it: its error type is not public.
fn status(error: &Error) -> Option<u16> {
    let text = innermost(error);
    let digits = text.get(text.find(STATUS_CODE)? + STATUS_CODE.len()..)?.get(..3)?;
    digits.parse().ok()
}

const STATUS_CODE: &str = "status code: ";

fn innermost(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = cause.to_string();
        source = cause.source();
    }
    text
}

/// What the store said, as one line: its own code and message where it sent them.
pub fn short(error: &Error) -> String {
    let text = innermost(error);
    let Some(code) = between(&text, "<Code>", "</Code>") else { return bounded(&text) };
    let message = between(&text, "<Message>", "</Message>").map(|text| format!(", {text}")).unwrap_or_default();
    let status = status(error).map_or(String::new(), |status| format!("{status}: "));
    bounded(&format!("{status}{code}{message}"))
}

fn between<'t>(text: &'t str, from: &str, to: &str) -> Option<&'t str> {
    let rest = &text[text.find(from)? + from.len()..];
    Some(&rest[..rest.find(to)?])
}
