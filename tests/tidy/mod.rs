//! Rules of the house as tests.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else { return found };
    for entry in entries {
        let path = entry.expect("a readable folder").path();
        if path.is_dir() {
            found.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The code of a file without comments and without its test modules. What comes after one, and a module of tests that is a file of its
/// own, is code like the rest.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).expect("a readable source file");
    let mut parts = text.split("#[cfg(test)]\nmod ");
    let mut body = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_block = part.lines().next().is_some_and(|line| line.ends_with('{'));
        body.push_str(if is_block { part.split_once("\n}\n").map_or("", |(_, rest)| rest) } else { part });
    }
    body.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

fn paths_named_in(text: &str) -> Vec<String> {
    let is_of_path = |c: &char| c.is_alphanumeric() || ['_', ':'].contains(c);
    text.split("crate::").skip(1).map(|part| part.chars().take_while(is_of_path).collect()).collect()
}

#[test]
fn layers_import_only_what_they_may() {
    // Whatever puts the others together is known by nobody below it: `run` knows no subcommand, `source` no run.
    let rules: [(&str, &[&str]); 9] = [
        ("core", &["core"]),
        ("host", &["core", "host"]),
        ("store", &["core", "store"]),
        ("sink", &["core", "sink"]),
        ("report", &["core", "report"]),
        // What sinks are configured by is handed on, and nothing else of a sink is known.
        ("settings", &["core", "settings", "host::bounded", "sink::Variables"]),
        ("source", &["core", "host", "report", "sink", "source", "store"]),
        ("run", &["core", "host", "report", "run", "settings", "sink", "source", "store"]),
        ("cli", &["cli", "core", "host", "report", "run", "settings", "sink", "source", "store"]),
    ];
    let layer_of = |path: &Path| {
        let inside = path.strip_prefix(root().join("src")).expect("a file of src").with_extension("");
        inside.iter().next().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    };
    let mut wrong = Vec::new();
    let mut seen = 0;
    for path in rust_files(&root().join("src")) {
        let own = layer_of(&path);
        if ["lib", "main"].contains(&own.as_str()) {
            continue;
        }
        let Some((layer, may)) = rules.iter().find(|(layer, _)| *layer == own) else {
            wrong.push(format!("{}: no rule says what it may import", path.display()));
            continue;
        };
        seen += 1;
        for named in paths_named_in(&code(&path)) {
            let is_in = |room: &&&str| named.strip_prefix(**room).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
            if !may.iter().any(|room| is_in(&room)) {
                wrong.push(format!("{}: {layer} may not name crate::{named}", path.display()));
            }
        }
    }
    assert!(seen > 20, "the layers have moved: only {seen} files were seen");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn core_is_pure() {
    let never = [
        "tokio::",
        "rusqlite::",
        "std::fs",
        "std::env",
        "std::net",
        "std::process",
        "std::thread",
        "SystemTime",
        "Instant",
        "object_store",
    ];
    let mut wrong = Vec::new();
    for path in rust_files(&root().join("src/core")) {
        let text = code(&path);
        for word in never {
            if text.contains(word) {
                wrong.push(format!("{} names {word}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn unsafe_stays_in_host() {
    for path in rust_files(&root().join("src")) {
        if !path.starts_with(root().join("src/host")) {
            let text = code(&path);
            assert!(!text.contains("unsafe {") && !text.contains("unsafe fn"), "{} has unsafe code", path.display());
        }
    }
}

#[test]
fn source_files_stay_readable_in_size() {
    let mut long = Vec::new();
    for path in rust_files(&root().join("src")) {
        let lines = fs::read_to_string(&path).expect("a readable source file").lines().count();
        if lines > 600 {
            long.push(format!("{} has {lines} lines", path.display()));
        }
    }
    assert!(long.is_empty(), "{long:#?}");
}

#[test]
fn every_module_says_what_it_is() {
    let silent: Vec<_> = rust_files(&root().join("src"))
        .into_iter()
        .filter(|path| !fs::read_to_string(path).expect("a readable source file").starts_with("//!"))
        .collect();
    assert!(silent.is_empty(), "{silent:#?}");
}

#[test]
fn the_top_level_holds_only_what_it_should() {
    let expected = [
        ".cargo",
        ".ci",
        ".git",
        ".github",
        ".gitignore",
        ".gitattributes",
        ".ledger",
        "CHANGELOG.md",
        "Cargo.lock",
        "Cargo.toml",
        "LICENSE-APACHE",
        "LICENSE-MIT",
        "README.md",
        "SECURITY.md",
        "ci",
        "clippy.toml",
        "deny.toml",
        "rust-toolchain.toml",
        "rustfmt.toml",
        "schema",
        "src",
        "target",
        "tests",
    ];
    for entry in fs::read_dir(root()).expect("the project's folder") {
        let name = entry.expect("a readable folder").file_name().to_string_lossy().into_owned();
        assert!(expected.contains(&name.as_str()), "'{name}' does not belong to the top level");
    }
}

#[test]
fn each_dependency_has_its_reason_beside_it() {
    let text = fs::read_to_string(root().join("Cargo.toml")).expect("Cargo.toml");
    let mut section = "";
    let mut reason_above = false;
    let mut bare = Vec::new();
    for line in text.lines() {
        if line.starts_with('[') {
            section = line;
            reason_above = false;
        } else if line.starts_with('#') {
            reason_above = true;
        } else if line.trim().is_empty() {
            reason_above = false;
        } else if section.ends_with("dependencies]") && !reason_above && !line.starts_with(' ') && line.contains(" = ") {
            bare.push(line.to_owned());
        }
    }
    assert!(bare.is_empty(), "no reason beside: {bare:#?}");
}

#[test]
fn no_registry_host_is_written_down() {
    let hosts = ["crates.io/api", "pypi.org", "registry.npmjs", "deb.debian"];
    for folder in ["src", "tests", "ci", ".ci", ".github"] {
        for path in all_files(&root().join(folder)) {
            if path.ends_with("tests/tidy/mod.rs") {
                continue;
            }
            let text = fs::read(&path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
            for host in hosts {
                assert!(!text.contains(host), "{} names {host}", path.display());
            }
        }
    }
}

fn all_files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() { found.extend(all_files(&path)) } else { found.push(path) }
    }
    found
}
