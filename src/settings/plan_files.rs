//! Files and globs to the plan's paths. A typo must never be a green run: whatever matches nothing is an error.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::core::ids::FilePath;

#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error("no such test file: '{}'{}", path.display(), hint.as_deref().map(|name| format!("; did you mean '{name}'?")).unwrap_or_default())]
    Missing { path: PathBuf, hint: Option<String> },
    #[error("'{}' is a folder: name its files, for example '{}/*'", path.display(), path.display())]
    Folder { path: PathBuf },
    #[error("the glob '{pattern}' matches no file; try `ledger run --dry-run` with another pattern")]
    EmptyGlob { pattern: String },
    #[error("'{pattern}' is no valid glob: {reason}")]
    BadGlob { pattern: String, reason: String },
    #[error("the glob '{pattern}' met a folder that cannot be read: {reason}")]
    UnreadableGlob { pattern: String, reason: String },
    #[error("the plan is empty: name test files or globs, or set [run] files in ledger.toml")]
    Empty,
}

/// Expands what was written into paths relative to `folder`, in order, each once.
pub fn expand(written: &[PathBuf], folder: &Path) -> Result<Vec<FilePath>, PlanError> {
    let mut seen = HashSet::new();
    let mut plan = Vec::new();
    for entry in written {
        for path in expand_one(entry, folder)? {
            let path = FilePath::from_bytes(&path_bytes(&path));
            if seen.insert(path.clone()) {
                plan.push(path);
            }
        }
    }
    if plan.is_empty() { Err(PlanError::Empty) } else { Ok(plan) }
}

fn expand_one(entry: &Path, folder: &Path) -> Result<Vec<PathBuf>, PlanError> {
    let full = folder.join(entry);
    if full.is_dir() {
        return Err(PlanError::Folder { path: entry.to_owned() });
    }
    if full.symlink_metadata().is_ok() {
        return Ok(vec![entry.to_owned()]);
    }
    match entry.to_str().filter(|text| text.contains(['*', '?', '['])) {
        Some(pattern) => matches_of(pattern, folder),
        None => Err(PlanError::Missing { path: entry.to_owned(), hint: nearest(entry, folder) }),
    }
}

fn matches_of(pattern: &str, folder: &Path) -> Result<Vec<PathBuf>, PlanError> {
    let escaped = glob::Pattern::escape(&folder.to_string_lossy());
    let absolute = if Path::new(pattern).is_absolute() { pattern.to_owned() } else { format!("{escaped}/{pattern}") };
    let bad = |reason: String| PlanError::BadGlob { pattern: pattern.to_owned(), reason };
    let options = glob::MatchOptions { require_literal_leading_dot: true, ..glob::MatchOptions::default() };
    let mut found = Vec::new();
    for path in glob::glob_with(&absolute, options).map_err(|error| bad(error.msg.to_owned()))? {
        let path = path.map_err(|error| PlanError::UnreadableGlob { pattern: pattern.to_owned(), reason: error.to_string() })?;
        if !path.is_dir() {
            found.push(path.strip_prefix(folder).map(Path::to_owned).unwrap_or(path));
        }
    }
    if found.is_empty() {
        return Err(PlanError::EmptyGlob { pattern: pattern.to_owned() });
    }
    found.sort_by_key(|path| path_bytes(path));
    Ok(found)
}

/// The file of the same folder whose name is closest, when it is close.
fn nearest(missing: &Path, folder: &Path) -> Option<String> {
    let name = missing.file_name()?.to_string_lossy().into_owned();
    let parent = missing.parent().unwrap_or(Path::new(""));
    let entries = std::fs::read_dir(folder.join(parent)).ok()?;
    let names = entries.filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned())).take(5_000);
    let best = names.map(|other| (strsim::damerau_levenshtein(&name, &other), other)).min()?;
    let close = best.0 <= (name.chars().count() / 3).max(1);
    close.then(|| parent.join(best.1).to_string_lossy().into_owned())
}

#[cfg(unix)]
fn path_bytes(path: &Path) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt as _;
    path.as_os_str().as_bytes().to_vec()
}

#[cfg(not(unix))]
fn path_bytes(path: &Path) -> Vec<u8> {
    path.to_string_lossy().into_owned().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(names: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a temp folder");
        for name in names {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            std::fs::write(path, "").expect("a file");
        }
        folder
    }

    fn plan(names: &[&str], written: &[&str]) -> Result<Vec<String>, String> {
        let folder = folder(names);
        let written: Vec<PathBuf> = written.iter().map(PathBuf::from).collect();
        let plan = expand(&written, folder.path()).map_err(|error| error.to_string())?;
        Ok(plan.iter().map(|path| path.text().to_owned()).collect())
    }

    #[test]
    fn files_keep_their_order_and_globs_sort() {
        let names = ["b.test.ts", "a.test.ts", "sub/c.test.ts", "odd[1].ts"];
        assert_eq!(plan(&names, &["sub/c.test.ts", "*.test.ts"]).unwrap(), ["sub/c.test.ts", "a.test.ts", "b.test.ts"]);
        assert_eq!(plan(&names, &["b.test.ts", "*.test.ts"]).unwrap(), ["b.test.ts", "a.test.ts"]);
        assert_eq!(plan(&names, &["odd[1].ts"]).unwrap(), ["odd[1].ts"]);
        assert_eq!(plan(&names, &["**/*.test.ts"]).unwrap(), ["a.test.ts", "b.test.ts", "sub/c.test.ts"]);
    }

    #[test]
    fn a_typo_is_an_error_with_a_hint() {
        let names = ["exec.test.ts", "sub/x"];
        assert_eq!(plan(&names, &["exce.test.ts"]).unwrap_err(), "no such test file: 'exce.test.ts'; did you mean 'exec.test.ts'?");
        assert!(plan(&names, &["*.test.py"]).unwrap_err().contains("matches no file"));
        assert!(plan(&names, &["sub"]).unwrap_err().contains("is a folder"));
        assert!(plan(&names, &["a[.ts"]).unwrap_err().contains("no valid glob"));
        assert!(plan(&names, &[]).unwrap_err().contains("the plan is empty"));
    }
}
