//! The environment as the sinks may see it: a copy that is handed in. Nothing here reads the process's own.

use std::collections::BTreeMap;
use std::fmt;

/// Names and values. Values never show in debug output, and `scrub` takes the secret ones out of a text.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Variables(BTreeMap<String, String>);

/// Parts of names whose values are credentials, for the services that are known here.
const SECRET: [&str; 7] = ["TOKEN", "SECRET", "ACCESS_KEY", "PASSWORD", "SAS", "ACCOUNT_KEY", "SERVICE_ACCOUNT_KEY"];
/// A shorter value is no credential; replacing it would only spoil a text.
const SHORTEST_SECRET: usize = 8;

impl Variables {
    pub fn of<N: Into<String>, V: Into<String>>(pairs: impl IntoIterator<Item = (N, V)>) -> Self {
        Self(pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }

    /// The value, where it is set and not empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The first of several names that is set.
    pub fn first(&self, names: &[&str]) -> Option<&str> {
        names.iter().find_map(|name| self.get(name))
    }

    /// Says otherwise than the environment: what a flag does.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    pub fn starting_with<'v>(&'v self, prefix: &'v str) -> impl Iterator<Item = (&'v str, &'v str)> {
        self.0.iter().filter(move |(name, _)| name.starts_with(prefix)).map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The text without any credential of these variables.
    pub fn scrub(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, value) in &self.0 {
            let secret = SECRET.iter().any(|part| name.contains(part)) && value.len() >= SHORTEST_SECRET;
            if secret && text.contains(value.as_str()) {
                text = text.replace(value.as_str(), "***");
            }
        }
        text
    }
}

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_credential_shows() {
        let variables = Variables::of([("GITHUB_TOKEN", "ghs_0123456789"), ("AWS_REGION", "eu-west-1"), ("LEDGER_TOKEN", "short")]);
        assert_eq!(variables.scrub("403 for ghs_0123456789 in eu-west-1, short"), "403 for *** in eu-west-1, short");
        assert!(!format!("{variables:?}").contains("ghs_"));
        assert_eq!(variables.get("LEDGER"), None);
    }
}
