//! The environment, read once.

use std::collections::BTreeMap;
use std::ffi::OsString;

/// A copy of the environment. Tests make their own.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    variables: BTreeMap<OsString, OsString>,
}

/// Parts of a variable's name that mark its value as a secret.
const SECRET_WORDS: &[&str] = &[
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "APIKEY",
    "API_KEY",
    "ACCESS_KEY",
    "PRIVATE_KEY",
    "CREDENTIAL",
    "AUTHORIZATION",
    "SIGNING_KEY",
    "ACCOUNT_KEY",
    "SAS_KEY",
    "COOKIE",
];
/// Names that look like secrets and hold none.
const NOT_SECRET: &[&str] = &["LEDGER_TOKEN", "LEDGER_MASK", "AWS_WEB_IDENTITY_TOKEN_FILE", "GOOGLE_APPLICATION_CREDENTIALS"];

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

    pub fn is_true(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| !matches!(value, "0" | "false" | "no" | "off"))
    }

    pub fn is_ci(&self) -> bool {
        self.is_true("CI") || self.is_true("GITHUB_ACTIONS")
    }

    /// Every value that must not leave the machine: what LEDGER_MASK names, and what is named like a secret.
    pub fn secrets(&self) -> Vec<String> {
        let named = self.get("LEDGER_MASK").unwrap_or_default();
        let named: Vec<&str> = named.split([',', ' ', '\n']).map(str::trim).filter(|name| !name.is_empty()).collect();
        let mut values = Vec::new();
        for (name, value) in &self.variables {
            let Some(name) = name.to_str() else { continue };
            let upper = name.to_ascii_uppercase();
            let looks_secret = SECRET_WORDS.iter().any(|word| upper.contains(word)) && !NOT_SECRET.contains(&upper.as_str());
            if named.contains(&name) || looks_secret {
                values.push(value.to_string_lossy().into_owned());
            }
        }
        values
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
            ("GITHUB_TOKEN", "two"),
            ("my_api_key", "three"),
            ("PATH", "/bin"),
            ("LEDGER_TOKEN", "not this"),
        ]);
        let mut secrets = environment.secrets();
        secrets.sort();
        assert_eq!(secrets, ["one", "three", "two"]);
    }
}
