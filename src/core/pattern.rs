//! Patterns that name programs: `--reap-match` and `--allow-leftover`. A name alone never makes a process ours.

use serde::{Deserialize, Serialize};

use super::ids::base_name;

/// What is known of a program's name. The kernel's `comm` is not in it, because that is cut at 15 bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProgramName<'a> {
    /// The path or base name of the executable.
    pub exe: Option<&'a str>,
    pub argv: Option<&'a [String]>,
}

/// Shell patterns, checked when they are made.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct Patterns(Vec<glob::Pattern>);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{pattern}' is not a pattern: {why}")]
pub struct PatternError {
    pub pattern: String,
    pub why: String,
}

impl Patterns {
    pub fn new<S: AsRef<str>>(patterns: impl IntoIterator<Item = S>) -> Result<Self, PatternError> {
        let compile = |pattern: S| {
            let pattern = pattern.as_ref();
            glob::Pattern::new(pattern).map_err(|error| PatternError { pattern: pattern.to_owned(), why: error.msg.to_owned() })
        };
        patterns.into_iter().map(compile).collect::<Result<_, _>>().map(Self)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What either of the two matches.
    pub fn or(&self, other: &Patterns) -> Patterns {
        Self(self.0.iter().chain(&other.0).cloned().collect())
    }

    /// `--reap-match`: the base name of the executable, or of argv[0] only where the executable is unknown. An editor with
    /// `qemu-system` among its arguments is no virtual machine.
    pub fn match_program(&self, name: ProgramName<'_>) -> bool {
        let word = name.exe.or_else(|| name.argv.and_then(|argv| argv.first()).map(String::as_str));
        word.is_some_and(|word| self.any(base_name(word)))
    }

    /// `--allow-leftover`: the base name of the executable or of argv[0], or the whole command line, because a build server is often
    /// `java` or `node` with its name among the arguments.
    pub fn match_leftover(&self, name: ProgramName<'_>) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let first = name.argv.and_then(|argv| argv.first()).map(String::as_str);
        let by_name = [name.exe, first].into_iter().flatten().any(|word| self.any(base_name(word)));
        by_name || name.argv.is_some_and(|argv| self.any(&argv.join(" ")))
    }

    fn any(&self, text: &str) -> bool {
        self.0.iter().any(|pattern| pattern.matches(text))
    }
}

impl TryFrom<Vec<String>> for Patterns {
    type Error = PatternError;

    fn try_from(patterns: Vec<String>) -> Result<Self, PatternError> {
        Self::new(patterns)
    }
}

impl From<Patterns> for Vec<String> {
    fn from(patterns: Patterns) -> Self {
        patterns.0.iter().map(|pattern| pattern.as_str().to_owned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, exe: Option<&str>, argv: &[&str], program: bool, leftover: bool) {
        let patterns = Patterns::new([pattern]).expect("a valid pattern");
        let argv: Vec<String> = argv.iter().map(|&word| word.to_owned()).collect();
        let name = ProgramName { exe, argv: Some(&argv) };
        assert_eq!(patterns.match_program(name), program, "{pattern} {exe:?} {argv:?} as a program");
        assert_eq!(patterns.match_leftover(name), leftover, "{pattern} {exe:?} {argv:?} as a leftover");
    }

    #[test]
    fn names_are_matched_whole() {
        check("qemu-system-*", Some("/usr/bin/qemu-system-x86_64"), &["qemu"], true, true);
        check("qemu-system-*", Some("qemu-system-x86_64"), &[], true, true);
        check("qemu-system-*", Some("/usr/bin/vim"), &["vim", "qemu-system-x86_64"], false, false);
        check("qemu-system-*", Some("/usr/bin/vim"), &["qemu-system-x86_64"], false, true);
        check("qemu-system-*", None, &["/opt/qemu-system-arm", "-daemonize"], true, true);
        check("qemu-system-*", None, &[], false, false);
        check("*GradleDaemon*", Some("/usr/bin/java"), &["java", "org.gradle.GradleDaemon", "8"], false, true);
    }

    #[test]
    fn a_broken_pattern_is_named() {
        let error = Patterns::new(["ok", "a***b"]).expect_err("three stars");
        assert_eq!(error.pattern, "a***b");
    }
}
