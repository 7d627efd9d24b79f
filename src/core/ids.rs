//! Names of things: runs, legs, epochs, files. No layer below or beside this one invents another spelling.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(pub String);

        impl $name {
            pub fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.to_owned())
            }
        }
    };
}

text_id!(
    /// A CI run id, or `local-<uuid>`.
    RunId
);
text_id!(
    /// The attempt number of a run, kept as text because services print it so.
    Attempt
);
text_id!(
    /// What the leg runs on, such as `macos-x86`.
    Platform
);
text_id!(
    /// What the leg tests, such as `stable` or `7.20.8`.
    Target
);
text_id!(
    /// The random 128-bit value, in hex, that marks the processes of one file (`LEDGER_TOKEN`).
    Token
);

/// One writer's life on a leg. A UUID v7, so that epochs sort by birth.
///
/// It names a folder of logs, so it is checked wherever it is read: one plain part of a path, whoever wrote it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Epoch(String);

/// As long as schema/collector.md lets a name be.
const EPOCH_BYTES: usize = 200;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no epoch: one is 1 to {EPOCH_BYTES} letters, digits and -_.~ of ASCII, with no dot first or last")]
pub struct EpochError(String);

impl Epoch {
    pub fn parse(text: impl Into<String>) -> Result<Self, EpochError> {
        let text = text.into();
        let sized = (1..=EPOCH_BYTES).contains(&text.len()) && !text.starts_with('.') && !text.ends_with('.');
        match sized && text.chars().all(Self::is_plain) {
            true => Ok(Self(text)),
            false => Err(EpochError(text.chars().take(40).collect())),
        }
    }

    /// The epoch that a name is nearest to: the same where it is one. For a place whose own word about itself cannot be read.
    pub fn tamed(name: &str) -> Self {
        let plain = |c: char| if Self::is_plain(c) { c } else { '_' };
        let tamed: String = name.chars().map(plain).take(EPOCH_BYTES).collect();
        Self::parse(tamed).unwrap_or_else(|EpochError(other)| Self(format!("_{}_", other.trim_matches('.'))))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn is_plain(c: char) -> bool {
        c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '~')
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Epoch {
    type Error = EpochError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(text)
    }
}

impl From<Epoch> for String {
    fn from(epoch: Epoch) -> Self {
        epoch.0
    }
}

impl JsonSchema for Epoch {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Epoch".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "One writer's life on a leg. A UUID v7, so that epochs sort by birth.",
            "type": "string",
            "maxLength": EPOCH_BYTES,
            "pattern": "^[0-9A-Za-z_~-]([0-9A-Za-z._~-]*[0-9A-Za-z_~-])?$"
        })
    }
}

impl Attempt {
    /// Attempts order by number; text that is no number orders before every number.
    pub fn ordinal(&self) -> u64 {
        self.0.parse().unwrap_or(0)
    }
}

/// The position of an event in its epoch. The first is 1; there are no gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Seq(pub u64);

impl Seq {
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The SHA-256 of a stored event line, in lower-case hex.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Digest(pub String);

impl Digest {
    /// What the first event of an epoch carries as `prev`: 64 zeros.
    pub fn genesis() -> Self {
        Self("0".repeat(64))
    }

    pub fn of(bytes: &[u8]) -> Self {
        use sha2::Digest as _;
        let hash = sha2::Sha256::digest(bytes);
        let mut hex = String::with_capacity(64);
        for byte in hash {
            hex.push(char::from(HEX[usize::from(byte >> 4)]));
            hex.push(char::from(HEX[usize::from(byte & 15)]));
        }
        Self(hex)
    }
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Share `index` of `count`, written `i/n`, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard {
    pub index: u32,
    pub count: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a shard: write i/n with 1 <= i <= n, such as 2/3")]
pub struct ShardError(pub String);

impl FromStr for Shard {
    type Err = ShardError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || ShardError(text.chars().take(40).collect());
        let (index, count) = text.split_once('/').ok_or_else(wrong)?;
        let index = index.trim().parse().map_err(|_| wrong())?;
        let count = count.trim().parse().map_err(|_| wrong())?;
        if index == 0 || index > count || count > 10_000 {
            return Err(wrong());
        }
        Ok(Self { index, count })
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl Serialize for Shard {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Shard {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Shard {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Shard".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": "^[0-9]+/[0-9]+$" })
    }
}

/// Which leg an event, a marker or a row belongs to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct LegId {
    pub run_id: RunId,
    pub attempt: Attempt,
    pub platform: Platform,
    pub target: Target,
    #[serde(default)]
    pub shard: Option<Shard>,
}

impl LegId {
    /// `platform|target` or `platform|target|i/n`: the leg's key inside its run.
    pub fn key(&self) -> String {
        leg_key(&self.platform, &self.target, self.shard)
    }
}

/// The key of a leg whose run nobody has named yet.
pub fn leg_key(platform: &Platform, target: &Target, shard: Option<Shard>) -> String {
    match shard {
        None => format!("{platform}|{target}"),
        Some(shard) => format!("{platform}|{target}|{shard}"),
    }
}

impl fmt::Display for LegId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "run {} attempt {} {}", self.run_id, self.attempt, self.key())
    }
}

/// A file of the plan. `text` is what people and JSON see; `raw` holds the exact bytes where the path is not UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FilePath {
    text: String,
    raw: Option<Vec<u8>>,
}

impl FilePath {
    pub fn from_bytes(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self { text: text.to_owned(), raw: None },
            Err(_) => Self { text: String::from_utf8_lossy(bytes).into_owned(), raw: Some(bytes.to_vec()) },
        }
    }

    /// Rebuilds a path from the two fields of a stored record. Base64 that does not decode costs only the raw form.
    pub fn from_record(text: String, b64: Option<&str>) -> Self {
        let raw = b64.and_then(|b64| base64::engine::general_purpose::STANDARD.decode(b64).ok());
        Self { text, raw }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn bytes(&self) -> &[u8] {
        self.raw.as_deref().unwrap_or(self.text.as_bytes())
    }

    pub fn b64(&self) -> Option<String> {
        self.raw.as_ref().map(|raw| base64::engine::general_purpose::STANDARD.encode(raw))
    }

    /// The part after the last slash.
    pub fn base_name(&self) -> &str {
        base_name(&self.text)
    }
}

impl From<&str> for FilePath {
    fn from(text: &str) -> Self {
        Self { text: text.to_owned(), raw: None }
    }
}

impl fmt::Display for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The part of a path after its last separator; a backslash separates too, because Windows legs write it.
pub fn base_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::Epoch;

    #[test]
    fn an_epoch_is_one_plain_part_of_a_path_wherever_it_is_read() {
        for text in ["e", "01990000-0000-7000-8000-000000000001", "a.b_c~d", &"x".repeat(200)] {
            assert_eq!(Epoch::parse(text).map(String::from), Ok(text.to_owned()));
            assert_eq!(Epoch::tamed(text).as_str(), text);
        }
        for text in ["", ".", "..", "../x", "/tmp/x", "a/b", "a\\b", "C:x", "a b", "é", "a\0", ".hidden", "dot.", &"x".repeat(201)]
        {
            assert!(Epoch::parse(text).is_err(), "{text}");
            assert!(serde_json::from_value::<Epoch>(text.into()).is_err(), "{text}");
            let tamed = Epoch::tamed(text);
            assert_eq!(Epoch::parse(tamed.as_str()).as_ref(), Ok(&tamed), "{text}");
        }
    }
}
