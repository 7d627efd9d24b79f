//! What files cost when they passed: the only input of a cap.
//!
//! A history is made of legs that have ended. It never holds a file that was killed (that one reports its cap, not its cost), never
//! one that was suspended, and never a leg of the run that asks. It reads nothing; sources make the legs.

use std::collections::BTreeMap;

use super::ids::{FilePath, Platform, RunId, base_name};
use super::moment::{Secs, Wall};
use super::outcome::{Outcome, Terminal};
use super::row::{FileRow, LegRow};

/// A leg that has ended, with what its healthy files cost.
#[derive(Debug, Clone, PartialEq)]
pub struct PastLeg {
    pub run_id: RunId,
    pub platform: Platform,
    pub started: Wall,
    pub ended: Wall,
    pub passes: Vec<(String, Secs)>,
}

impl PastLeg {
    /// The healthy passes of a leg that is over, or `None` where it runs, has none, or nothing says when it was.
    pub fn of(row: &LegRow) -> Option<Self> {
        if row.terminal == Terminal::Running {
            return None;
        }
        let ended = row.ended_at.or(row.last_checkpoint_ts)?;
        let passes: Vec<(String, Secs)> = row.files.iter().filter_map(healthy).collect();
        let started = row.started_at.unwrap_or(ended).min(ended);
        (!passes.is_empty()).then(|| Self { run_id: row.run_id.clone(), platform: row.platform.clone(), started, ended, passes })
    }
}

fn healthy(file: &FileRow) -> Option<(String, Secs)> {
    let awake = file.suspended_s.is_none_or(|suspended| suspended == Secs::ZERO);
    let pass = file.outcome == Some(Outcome::Pass) && awake;
    pass.then_some(file.duration_s).flatten().map(|duration| (file.file.clone(), duration))
}

/// One healthy pass of one file.
#[derive(Debug, Clone, PartialEq)]
pub struct Pass {
    pub platform: Platform,
    pub run_id: RunId,
    /// When the leg ended, and with it the pass became history.
    pub known_since: Wall,
    pub duration: Secs,
}

/// The passes of every file, oldest first.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct History {
    files: BTreeMap<String, Vec<Pass>>,
}

impl History {
    /// A history of all `legs`, whatever their order.
    pub fn of<'a>(legs: impl IntoIterator<Item = &'a PastLeg>) -> Self {
        let mut legs: Vec<&PastLeg> = legs.into_iter().collect();
        legs.sort_by(|a, b| (a.ended, &a.run_id, &a.platform).cmp(&(b.ended, &b.run_id, &b.platform)));
        let mut history = Self::default();
        for leg in legs {
            history.learn(leg);
        }
        history
    }

    /// Adds a leg that ended later than all that are in.
    pub fn learn(&mut self, leg: &PastLeg) {
        for (file, duration) in &leg.passes {
            let pass =
                Pass { platform: leg.platform.clone(), run_id: leg.run_id.clone(), known_since: leg.ended, duration: *duration };
            self.files.entry(normal(file).into_owned()).or_default().push(pass);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// How many passes are in.
    pub fn records(&self) -> usize {
        self.files.values().map(Vec::len).sum()
    }

    /// Every file by the name under which it was recorded.
    pub fn files(&self) -> impl Iterator<Item = (&str, &[Pass])> {
        self.files.iter().map(|(file, passes)| (file.as_str(), passes.as_slice()))
    }

    /// The passes that speak for a planned file: none is an empty slice.
    pub fn passes(&self, file: &FilePath) -> &[Pass] {
        find(&self.files, file.text()).map_or(&[], Vec::as_slice)
    }
}

/// Looks a planned path up among keys that are paths relative to the project or base names.
///
/// In this order: the path itself; a key that is its base name; the one key that ends with the path or that the path ends with, at
/// a folder boundary (the plan may have been made in another folder). `a/x.test.ts` never answers for `b/x.test.ts`.
pub fn find<'m, V>(keys: &'m BTreeMap<String, V>, path: &str) -> Option<&'m V> {
    let path = normal(path);
    let name = base_name(&path);
    if let Some(value) = keys.get(path.as_ref()).or_else(|| keys.get(name)) {
        return Some(value);
    }
    let mut fitting = keys.iter().filter(|(key, _)| base_name(key) == name && (under(key, &path) || under(&path, key)));
    match (fitting.next(), fitting.next()) {
        (Some((_, value)), None) => Some(value),
        _ => None,
    }
}

/// Whether `long` is `short` below some folder.
fn under(long: &str, short: &str) -> bool {
    long.strip_suffix(short).is_some_and(|folder| folder.ends_with('/'))
}

/// One spelling of a path: no leading `./`, and slashes where a Windows leg wrote backslashes.
pub fn normal(path: &str) -> std::borrow::Cow<'_, str> {
    let mut rest = path;
    while let Some(stripped) = rest.strip_prefix("./").or_else(|| rest.strip_prefix(".\\")) {
        rest = stripped;
    }
    // A backslash may be part of a name on Unix; only a path without any slash can be a Windows one.
    if rest.contains('\\') && !rest.contains('/') { rest.replace('\\', "/").into() } else { rest.into() }
}

/// The middle of some durations, the lower one of two.
pub fn median(durations: &mut [Secs]) -> Option<Secs> {
    durations.sort_unstable();
    durations.get(durations.len().checked_sub(1)? / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(names: &[&str]) -> BTreeMap<String, String> {
        names.iter().map(|name| ((*name).to_owned(), (*name).to_owned())).collect()
    }

    #[test]
    fn a_key_is_a_path_or_else_a_base_name() {
        let table: &[(&[&str], &str, Option<&str>)] = &[
            (&["test/a.test.ts", "a.test.ts"], "test/a.test.ts", Some("test/a.test.ts")),
            (&["test/a.test.ts", "a.test.ts"], "./test/a.test.ts", Some("test/a.test.ts")),
            (&["test/a.test.ts", "a.test.ts"], "other/a.test.ts", Some("a.test.ts")),
            (&["a.test.ts"], "test\\integration\\a.test.ts", Some("a.test.ts")),
            (&["one/a.test.ts", "two/a.test.ts"], "two/a.test.ts", Some("two/a.test.ts")),
            (&["one/a.test.ts", "two/a.test.ts"], "three/a.test.ts", None),
            (&["one/a.test.ts", "two/a.test.ts"], "a.test.ts", None),
            (&["one/a.test.ts"], "a.test.ts", Some("one/a.test.ts")),
            (&["one/a.test.ts"], "/home/me/project/one/a.test.ts", Some("one/a.test.ts")),
            (&["bone/a.test.ts"], "one/a.test.ts", None),
            (&["a.test.ts"], "b.test.ts", None),
            (&["__proto__", "constructor"], "constructor", Some("constructor")),
            (&[""], "", Some("")),
        ];
        for (names, path, expect) in table {
            assert_eq!(find(&keys(names), path).map(String::as_str), *expect, "{path} among {names:?}");
        }
    }

    #[test]
    fn history_is_in_the_order_in_which_legs_ended() {
        let leg = |run: &str, ended, seconds| PastLeg {
            run_id: run.into(),
            platform: "p".into(),
            started: Wall(0),
            ended: Wall(ended),
            passes: vec![("./a".into(), Secs::from_secs(seconds))],
        };
        let history = History::of(&[leg("2", 20, 2), leg("1", 10, 1)]);
        let seconds: Vec<u64> = history.passes(&"a".into()).iter().map(|pass| pass.duration.millis() / 1000).collect();
        assert_eq!(seconds, [1, 2]);
        assert_eq!(history.records(), 2);
    }

    #[test]
    fn the_median_is_one_of_the_values() {
        let mut some = [3, 1, 2, 9].map(Secs::from_secs);
        assert_eq!(median(&mut some), Some(Secs::from_secs(2)));
        assert_eq!(median(&mut []), None);
    }
}
