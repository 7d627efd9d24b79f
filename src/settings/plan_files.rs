//! Files and globs to the plan's paths. A typo must never be a green run: whatever matches nothing is an error.

use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};

use super::globs::{self, GlobError};
use super::path_bytes::bytes_of;
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

/// What comes of what was written.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Expanded {
    pub files: Vec<FilePath>,
    /// What was named and does not run where it was named.
    pub warnings: Vec<String>,
}

/// Expands what was written into paths relative to `folder`, in order, each once: records are told apart by their file. A file that is
/// named again is said aloud. A glob that matches one again is not: `first.test.ts *.test.ts` means "this one first, then the others".
pub fn expand(written: &[PathBuf], folder: &Path) -> Result<Expanded, PlanError> {
    let mut seen = HashSet::new();
    let mut files = Vec::new();
    let mut warnings = Vec::new();
    for entry in written {
        let found = expand_one(entry, folder)?;
        let is_named = found.as_slice() == [entry.clone()];
        for path in found {
            // `./a` is `a`, and yet it stays as it was written: a command may read the two differently.
            let key: PathBuf = path.components().filter(|part| !matches!(part, Component::CurDir)).collect();
            if seen.insert(key) {
                files.push(FilePath::from_bytes(&bytes_of(&path)));
            } else if is_named {
                let shown = path.display();
                warnings.push(format!(
                    "'{shown}' is named more than once; it runs once, where it comes first (to run files again and again: --repeat N)"
                ));
            }
        }
    }
    warnings.dedup();
    if files.is_empty() { Err(PlanError::Empty) } else { Ok(Expanded { files, warnings }) }
}

fn expand_one(entry: &Path, folder: &Path) -> Result<Vec<PathBuf>, PlanError> {
    match entry.to_str().filter(|text| text.contains(['*', '?', '['])) {
        Some(pattern) if folder.join(entry).symlink_metadata().is_err() => matches_of(pattern, folder),
        _ => check(entry, folder).map(|()| vec![entry.to_owned()]),
    }
}

/// Whether a file of exactly this name is there.
pub fn check(path: &Path, folder: &Path) -> Result<(), PlanError> {
    let full = folder.join(path);
    if full.is_dir() {
        return Err(PlanError::Folder { path: path.to_owned() });
    }
    match full.symlink_metadata() {
        Ok(_) => Ok(()),
        Err(_) => Err(PlanError::Missing { path: path.to_owned(), hint: nearest(path, folder) }),
    }
}

fn matches_of(pattern: &str, folder: &Path) -> Result<Vec<PathBuf>, PlanError> {
    let owned = || pattern.to_owned();
    let mut found = globs::matches(pattern, folder).map_err(|error| match error {
        GlobError::Pattern(error) => PlanError::BadGlob { pattern: owned(), reason: error.msg.to_owned() },
        GlobError::Folder { path, error } => {
            PlanError::UnreadableGlob { pattern: owned(), reason: format!("{}: {error}", path.display()) }
        }
    })?;
    found.retain(|path| !folder.join(path).is_dir());
    if found.is_empty() {
        return Err(PlanError::EmptyGlob { pattern: owned() });
    }
    let here = |path: PathBuf| path.strip_prefix(folder).map(Path::to_owned).unwrap_or(path);
    let mut found: Vec<PathBuf> = found.into_iter().map(here).collect();
    found.sort_by_key(|path| bytes_of(path));
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
        Ok(plan.files.iter().map(|path| path.text().to_owned()).collect())
    }

    #[test]
    fn files_keep_their_order_and_globs_sort() {
        let names = ["b.test.ts", "a.test.ts", "sub/c.test.ts", "odd[1].ts"];
        assert_eq!(
            plan(&names, &["sub/c.test.ts", "*.test.ts"]).expect("it is well formed"),
            ["sub/c.test.ts", "a.test.ts", "b.test.ts"]
        );
        assert_eq!(plan(&names, &["b.test.ts", "*.test.ts"]).expect("it is well formed"), ["b.test.ts", "a.test.ts"]);
        assert_eq!(plan(&names, &["odd[1].ts"]).expect("it is well formed"), ["odd[1].ts"]);
        assert_eq!(plan(&names, &["**/*.test.ts"]).expect("it is well formed"), ["a.test.ts", "b.test.ts", "sub/c.test.ts"]);
    }

    #[test]
    fn a_file_that_is_named_again_runs_once_and_never_silently() {
        let folder = folder(&["a.sh", "b.sh", "sub/c.sh"]);
        let check = |written: &[&str], files: &[&str], warned: &[&str]| {
            let written: Vec<PathBuf> = written.iter().map(PathBuf::from).collect();
            let plan = expand(&written, folder.path()).expect("it is well formed");
            assert_eq!(plan.files.iter().map(FilePath::text).collect::<Vec<_>>(), files, "{written:?}");
            let of: Vec<&str> = plan.warnings.iter().filter_map(|warning| warning.split('\'').nth(1)).collect();
            assert_eq!(of, warned, "{written:?}");
        };
        check(&["a.sh", "b.sh", "a.sh"], &["a.sh", "b.sh"], &["a.sh"]);
        check(&["a.sh", "./a.sh"], &["a.sh"], &["./a.sh"]);
        check(&["./a.sh", "b.sh", "a.sh", "a.sh"], &["./a.sh", "b.sh"], &["a.sh"]);
        check(&["sub/c.sh", "sub//c.sh", "sub/./c.sh"], &["sub/c.sh"], &["sub//c.sh", "sub/./c.sh"]);
        check(&["*.sh", "a.sh"], &["a.sh", "b.sh"], &["a.sh"]);
        // This one first, then the others.
        check(&["b.sh", "*.sh", "./*.sh"], &["b.sh", "a.sh"], &[]);
    }

    #[test]
    fn globs_see_what_a_shell_sees() {
        let names = ["a.sh", ".hidden.sh", "-dash.sh", "sub/b.sh", "sub/deep/c.sh", ".git/d.sh", "sub/x.txt"];
        let table: Vec<(&str, &[&str])> = vec![
            ("*.sh", &["-dash.sh", "a.sh"]),
            ("./*.sh", &["-dash.sh", "a.sh"]),
            ("sub/*.sh", &["sub/b.sh"]),
            ("*/*.sh", &["sub/b.sh"]),
            ("**/*.sh", &["-dash.sh", "a.sh", "sub/b.sh", "sub/deep/c.sh"]),
            ("sub/**", &["sub/b.sh", "sub/deep/c.sh", "sub/x.txt"]),
            ("sub/**/c.sh", &["sub/deep/c.sh"]),
            ("[ab].sh", &["a.sh"]),
            (".*.sh", &[".hidden.sh"]),
            ("sub/../*.sh", &["sub/../-dash.sh", "sub/../a.sh"]),
        ];
        for (pattern, expect) in table {
            assert_eq!(plan(&names, &[pattern]).expect("it is well formed"), expect, "{pattern}");
        }
        for nothing in ["a.sh/*.sh", "nowhere/*.sh", "*"] {
            let found = plan(&["sub/x"], &[nothing]);
            assert!(found.clone().is_err_and(|error| error.contains("matches no file")), "{nothing}: {found:?}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_name_that_is_not_utf8_is_a_file_like_any_other() {
        use std::os::unix::ffi::OsStringExt as _;
        let folder = folder(&["a.sh"]);
        let odd = std::ffi::OsString::from_vec(b"bad\xff.sh".to_vec());
        std::fs::write(folder.path().join(&odd), "").expect("a file");
        let plan = expand(&["*.sh".into()], folder.path()).expect("it is well formed").files;
        assert_eq!(plan.iter().map(FilePath::bytes).collect::<Vec<_>>(), [&b"a.sh"[..], &b"bad\xff.sh"[..]]);
    }

    #[test]
    fn a_typo_is_an_error_with_a_hint() {
        let names = ["exec.test.ts", "sub/x"];
        assert_eq!(
            plan(&names, &["exce.test.ts"]).expect_err("it is refused"),
            "no such test file: 'exce.test.ts'; did you mean 'exec.test.ts'?"
        );
        assert!(plan(&names, &["*.test.py"]).expect_err("it is refused").contains("matches no file"));
        assert!(plan(&names, &["sub"]).expect_err("it is refused").contains("is a folder"));
        assert!(plan(&names, &["a[.ts"]).expect_err("it is refused").contains("no valid glob"));
        assert!(plan(&names, &[]).expect_err("it is refused").contains("the plan is empty"));
    }
}
