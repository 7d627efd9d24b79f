//! The two files that runs share are written so that equal data gives equal bytes: keys sorted, tab indent, final newline.

use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::ser::{PrettyFormatter, Serializer};
use serde_json::{Map, Value};

use super::escape;

/// An older shared file that cannot be read is never written over.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OlderFileError {
    #[error("it has more than {MAX_SHARED_BYTES} bytes")]
    TooLarge,
    #[error("it is not the JSON that was expected: {0}")]
    Shape(String),
}

/// A rollup of ten thousand rows is about 2 MB.
pub const MAX_SHARED_BYTES: usize = 64 << 20;

/// Renders a value with its keys sorted at every level.
pub fn render(value: &Value) -> String {
    let mut out = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut out, PrettyFormatter::with_indent(b"\t"));
    value.serialize(&mut serializer).expect("a JSON value can be written to memory");
    out.push(b'\n');
    escape::json(String::from_utf8(out).expect("serde_json writes UTF-8"))
}

/// The older file, `None` where there is none yet. An empty file is none: a first run creates it so.
pub fn parse_older(bytes: Option<&[u8]>) -> Result<Map<String, Value>, OlderFileError> {
    // An editor of Windows puts a mark before the text.
    let bytes = bytes.map(|bytes| bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes));
    let Some(bytes) = bytes.filter(|bytes| !bytes.trim_ascii().is_empty()) else {
        return Ok(Map::new());
    };
    if bytes.len() > MAX_SHARED_BYTES {
        return Err(OlderFileError::TooLarge);
    }
    let entries = serde_json::from_slice::<Entries>(bytes);
    entries.map(|Entries(map)| map).map_err(|error| OlderFileError::Shape(error.to_string().chars().take(200).collect()))
}

/// An object in which a key may stand twice, as a careless merge leaves it: what both of them hold is kept.
struct Entries(Map<String, Value>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reading;
        impl<'de> Visitor<'de> for Reading {
            type Value = Entries;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Entries, A::Error> {
                let mut map = Map::new();
                while let Some((key, value)) = access.next_entry::<String, Value>()? {
                    match (map.get_mut(&key), value) {
                        (Some(Value::Object(first)), Value::Object(second)) => first.extend(second),
                        (_, value) => drop(map.insert(key, value)),
                    }
                }
                Ok(Entries(map))
            }
        }
        deserializer.deserialize_map(Reading)
    }
}

/// A field of a row that another program may have written.
pub fn text<'v>(row: &'v Value, key: &str) -> Option<&'v str> {
    row.get(key).and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_sorted_and_tabs_indent() {
        let value = serde_json::json!({"b": 1, "a": {"z": [], "y": "ä\u{1}"}});
        assert_eq!(render(&value), "{\n\t\"a\": {\n\t\t\"y\": \"ä\\u0001\",\n\t\t\"z\": []\n\t},\n\t\"b\": 1\n}\n");
    }

    #[test]
    fn an_older_file_that_cannot_be_read_is_an_error() {
        assert_eq!(parse_older(None), Ok(Map::new()));
        assert_eq!(parse_older(Some(b"  \n")), Ok(Map::new()));
        let twice = parse_older(Some(br#"{"7.1":{"a":1},"7.1":{"b":2},"x":[]}"#)).expect("it is well formed");
        assert_eq!(Value::Object(twice), serde_json::json!({"7.1": {"a": 1, "b": 2}, "x": []}));
        for text in ["[]", "{", "3", "<<<<<<< ours"] {
            assert!(parse_older(Some(text.as_bytes())).is_err(), "{text}");
        }
    }
}
