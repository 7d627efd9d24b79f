//! Globs over real folders: names are bytes, so a name that is not UTF-8 is a file like any other.
//!
//! The `glob` crate's own walk panics on such names; only its patterns are used here.

use std::io;
use std::path::{Component, Path, PathBuf};

use glob::{MatchOptions, Pattern, PatternError};

/// A folder that is deeper than this has a loop in it.
const DEEPEST: usize = 64;
/// `*` does not see hidden files, as in a shell.
const OPTIONS: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };

#[derive(Debug)]
pub enum GlobError {
    Pattern(PatternError),
    Folder { path: PathBuf, error: io::Error },
}

/// Everything under `folder` that the pattern names, as it would be written from there. In no order.
pub fn matches(pattern: &str, folder: &Path) -> Result<Vec<PathBuf>, GlobError> {
    // What is wrong with the whole is found before any folder is read.
    Pattern::new(pattern).map_err(GlobError::Pattern)?;
    let mut steps = Vec::new();
    let mut shown = PathBuf::new();
    for component in Path::new(pattern).components() {
        match component {
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir => shown.push(component),
            Component::ParentDir => steps.push(Step::Literal("..".to_owned())),
            Component::Normal(name) => steps.push(Step::of(&name.to_string_lossy())?),
        }
    }
    let mut found = Vec::new();
    walk(&steps, folder, &shown, 0, &mut found)?;
    found.sort();
    found.dedup();
    Ok(found)
}

enum Step {
    Literal(String),
    Pattern(Pattern),
    /// `**`: any number of folders.
    Folders,
}

impl Step {
    fn of(text: &str) -> Result<Self, GlobError> {
        if text == "**" {
            return Ok(Step::Folders);
        }
        if text.contains(['*', '?', '[']) {
            Pattern::new(text).map(Step::Pattern).map_err(GlobError::Pattern)
        } else {
            Ok(Step::Literal(text.to_owned()))
        }
    }
}

fn walk(steps: &[Step], folder: &Path, shown: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<(), GlobError> {
    let Some((step, rest)) = steps.split_first() else {
        found.push(shown.to_owned());
        return Ok(());
    };
    match step {
        Step::Literal(name) => {
            let next = shown.join(name);
            if folder.join(&next).symlink_metadata().is_ok() { walk(rest, folder, &next, depth, found) } else { Ok(()) }
        }
        Step::Pattern(pattern) => {
            for name in names(folder, shown)? {
                if pattern.matches_with(&name.to_string_lossy(), OPTIONS) {
                    let next = shown.join(&name);
                    if rest.is_empty() || folder.join(&next).is_dir() {
                        walk(rest, folder, &next, depth, found)?;
                    }
                }
            }
            Ok(())
        }
        Step::Folders => {
            if !rest.is_empty() {
                walk(rest, folder, shown, depth, found)?;
            }
            for name in names(folder, shown)? {
                let next = shown.join(&name);
                let is_hidden = name.to_string_lossy().starts_with('.');
                // A link to a folder is not followed: it may lead back here.
                let metadata = folder.join(&next).symlink_metadata();
                let is_folder = metadata.is_ok_and(|metadata| metadata.is_dir());
                if is_folder && !is_hidden && depth < DEEPEST {
                    walk(steps, folder, &next, depth + 1, found)?;
                } else if !is_folder && !is_hidden && rest.is_empty() {
                    found.push(next);
                }
            }
            Ok(())
        }
    }
}

fn names(folder: &Path, shown: &Path) -> Result<Vec<std::ffi::OsString>, GlobError> {
    let path = folder.join(shown);
    let failed = |error| GlobError::Folder { path: path.clone(), error };
    let entries = match std::fs::read_dir(&path) {
        // What a pattern passes through need not be a folder.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Ok(Vec::new()),
        other => other.map_err(failed)?,
    };
    entries.map(|entry| entry.map(|entry| entry.file_name()).map_err(failed)).collect()
}
