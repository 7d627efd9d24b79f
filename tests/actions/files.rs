//! This project's YAML: actions, workflows, examples.

use std::path::{Path, PathBuf};

use serde_json::Value;

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub fn yaml(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn in_folder(folder: &str, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join(folder)).unwrap_or_else(|error| panic!("{folder}: {error}"));
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.extension().is_some_and(|found| found == extension));
    found.sort();
    found
}

pub fn workflows() -> Vec<PathBuf> {
    [in_folder(".github/workflows", "yml"), in_folder("ci/examples", "yml")].concat()
}

pub fn actions() -> Vec<PathBuf> {
    vec![root().join("ci/action.yml"), root().join("ci/reconcile/action.yml")]
}

pub fn scripts() -> Vec<PathBuf> {
    in_folder("ci/scripts", "sh")
}

/// A value of `[package]` in Cargo.toml.
pub fn package(key: &str) -> String {
    let text = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let head = format!("{key} = \"");
    let line = text.lines().find_map(|line| line.strip_prefix(head.as_str()));
    line.unwrap_or_else(|| panic!("Cargo.toml has no {key}")).trim_end_matches('"').to_owned()
}
