//! The environment, read once.

use std::collections::BTreeMap;
use std::ffi::OsString;

use crate::core::redact;

/// A copy of the environment. Tests make their own.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    variables: BTreeMap<OsString, OsString>,
}

impl Environment {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the environment")]
    pub fn of_process() -> Self {
        Self { variables: std::env::vars_os().collect() }
    }

    pub fn of<const N: usize>(pairs: [(&str, &str); N]) -> Self {
        Self { variables: pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect() }
    }

    /// The value, where it is set, not empty and UTF-8.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(&OsString::from(name))?.to_str().filter(|value| !value.is_empty())
    }

    pub fn path(&self, name: &str) -> Option<std::path::PathBuf> {
        self.variables.get(&OsString::from(name)).filter(|value| !value.is_empty()).map(Into::into)
    }

    /// The first of several names that is set.
    pub fn first(&self, names: &[&str]) -> Option<&str> {
        names.iter().find_map(|name| self.get(name))
    }

    /// A copy for the sinks.
    pub fn variables(&self) -> Vec<(String, String)> {
        let text = |(name, value): (&OsString, &OsString)| Some((name.to_str()?.to_owned(), value.to_str()?.to_owned()));
        self.variables.iter().filter_map(text).collect()
    }

    pub fn is_true(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| !matches!(value, "0" | "false" | "no" | "off"))
    }

    pub fn is_ci(&self) -> bool {
        self.is_true("CI") || self.is_true("GITHUB_ACTIONS")
    }

    /// Every value that must not leave the machine: what LEDGER_MASK names, and what is named like a secret.
    pub fn secrets(&self) -> Vec<Vec<u8>> {
        let text =
            |(name, value): (&OsString, &OsString)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned());
        let variables: Vec<(String, String)> = self.variables.iter().map(text).collect();
        redact::masks_of(&variables)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_what_is_named_and_what_is_named_like_one() {
        let environment = Environment::of([
            ("LEDGER_MASK", "PLAIN, OTHER"),
            ("PLAIN", "one"),
            ("GITHUB_TOKEN", "two!!"),
            ("my_api_key", "three!"),
            ("PATH", "/bin"),
            ("LEDGER_TOKEN", "not this"),
        ]);
        let secrets = environment.secrets();
        for (value, secret) in [("one", true), ("two!!", true), ("three!", true), ("/bin", false), ("not this", false)] {
            assert_eq!(secrets.contains(&value.as_bytes().to_vec()), secret, "{value}");
        }
    }
}
