//! Files that do not name their own leg, JUnit and timing: two of them are one leg only where the asker says so.
//!
//! What nobody said is told by the shortest part of their paths in which they differ: `linux/junit.xml` and `mac/junit.xml` are the
//! platforms `linux` and `mac` of the run `junit`. Nothing is read here.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::{Evidence, count};
use crate::core::ids::{LegId, Platform, Target};
use crate::core::outcome::{Conclusion, Terminal};
use crate::core::row::LegRow;

/// What a leg is called of which neither its file nor the asker says it.
pub const UNKNOWN: &str = "unknown";

/// Gives each of them an identity of its own; those that the asker named whole are put together into that one leg.
pub fn tell_apart(evidence: Vec<Evidence>) -> Vec<Evidence> {
    let (unnamed, mut apart): (Vec<_>, Vec<_>) = evidence.into_iter().partition(|evidence| evidence.unnamed.is_some());
    let mut groups: BTreeMap<LegId, BTreeMap<PathBuf, Evidence>> = BTreeMap::new();
    for evidence in unnamed {
        let path = evidence.unnamed.as_deref().unwrap_or(Path::new(""));
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        // The same file named twice is one file.
        groups.entry(evidence.row.leg()).or_default().entry(path).or_insert(evidence);
    }
    for (leg, files) in groups {
        if files.len() < 2 {
            apart.extend(files.into_values());
        } else if leg.platform.as_str() == UNKNOWN || leg.target.as_str() == UNKNOWN {
            let names = short_names(&files.keys().map(PathBuf::as_path).collect::<Vec<_>>());
            apart.extend(files.into_values().zip(names).map(|(mut evidence, name)| {
                match leg.platform.as_str() {
                    UNKNOWN => evidence.row.platform = Platform::new(name),
                    _ => evidence.row.target = Target::new(name),
                }
                evidence
            }));
        } else {
            apart.extend(files.into_values().reduce(put_together));
        }
    }
    apart
}

/// For each path the shortest run of its parts that no other has, counted back from where they all are the same.
fn short_names(paths: &[&Path]) -> Vec<String> {
    let parts: Vec<Vec<String>> = paths
        .iter()
        .map(|path| {
            let folder =
                path.parent().into_iter().flat_map(Path::components).map(|part| part.as_os_str().to_string_lossy().into_owned());
            folder.chain(path.file_stem().map(|stem| stem.to_string_lossy().into_owned())).collect()
        })
        .collect();
    let longest = parts.iter().map(Vec::len).max().unwrap_or(0);
    let same = (0..longest)
        .take_while(|back| {
            let at: BTreeSet<Option<&String>> = parts.iter().map(|parts| parts.iter().rev().nth(*back)).collect();
            at.len() == 1
        })
        .count();
    let name = |parts: &Vec<String>, wide: usize| {
        let end = parts.len().saturating_sub(same);
        parts[end.saturating_sub(wide)..end].join("/")
    };
    let wide =
        (1..=longest).find(|wide| parts.iter().map(|parts| name(parts, *wide)).collect::<BTreeSet<_>>().len() == parts.len());
    match wide {
        Some(wide) => parts.iter().map(|parts| name(parts, wide)).collect(),
        // Two files whose names differ in their extension only.
        None => paths.iter().map(|path| path.to_string_lossy().into_owned()).collect(),
    }
}

fn put_together(mut leg: Evidence, other: Evidence) -> Evidence {
    let (row, more) = (&mut leg.row, other.row);
    let places = [row.source.take(), more.source].into_iter().flatten().collect::<Vec<_>>();
    row.source = Some(places.join(", "));
    let known = count(row.files.len());
    row.files.extend(more.files.into_iter().map(|mut file| {
        file.index = file.index.saturating_add(known);
        file
    }));
    row.files_reported = row.files_reported.saturating_add(more.files_reported);
    row.files_failed = row.files_failed.saturating_add(more.files_failed);
    row.started_at = [row.started_at, more.started_at].into_iter().flatten().min();
    row.ended_at = row.ended_at.max(more.ended_at);
    row.last_checkpoint_ts = row.last_checkpoint_ts.max(more.last_checkpoint_ts);
    row.duration_s = row.ended_at.zip(row.started_at).map(|(end, start)| end.since(start));
    row.last_file = more.last_file.or(row.last_file.take());
    conclude(row, more.terminal, &more.why);
    leg
}

/// What both came to: nothing that is missing in one is made up for by the other.
fn conclude(row: &mut LegRow, terminal: Terminal, why: &str) {
    let whole = row.terminal == Terminal::Complete && terminal == Terminal::Complete;
    if row.terminal == Terminal::Complete && terminal != Terminal::Complete {
        why.clone_into(&mut row.why);
    }
    row.terminal = if whole { Terminal::Complete } else { Terminal::AttemptedIncomplete };
    row.loop_finished = whole;
    (row.conclusion, row.why) = match (whole, row.files_failed) {
        (false, _) => (Some(Conclusion::Incomplete), std::mem::take(&mut row.why)),
        (true, 0) => (Some(Conclusion::Pass), format!("all {} files passed", row.files_reported)),
        (true, _) => (Some(Conclusion::Fail), format!("{} files did not pass", row.files_failed)),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::assemble::{Question, assemble};
    use crate::source::{Found, Named, timing};

    fn legs(files: &[(&str, &str)], platform: &str, target: &str) -> Vec<String> {
        let mut found = Found::default();
        for (path, text) in files {
            let run = Path::new(path).file_stem().expect("there is one").to_str().expect("it is well formed");
            let leg =
                LegId { run_id: run.into(), attempt: "1".into(), platform: platform.into(), target: target.into(), shard: None };
            timing::read(text.as_bytes(), &Named { leg, written: None }, path, &mut found).expect("it can be read");
        }
        let summary = assemble(found, &Question::everything(crate::core::moment::Wall(0)));
        assert!(summary.warnings.is_empty(), "{:?}", summary.warnings);
        let word = |row: &LegRow| row.conclusion.map_or("none", Conclusion::as_str);
        summary.legs.iter().map(|row| format!("{} {} {} {}", row.run_id, row.leg().key(), row.files.len(), word(row))).collect()
    }

    #[test]
    fn two_files_are_one_leg_only_where_the_asker_says_so() {
        let (good, bad) = ("a 1s pass", "a 1s fail");
        let two = [("m/linux/t.txt", good), ("m/mac/t.txt", bad)];
        let swapped = [two[1], two[0]];
        let expect = ["t linux|unknown 1 pass", "t mac|unknown 1 fail"];
        assert_eq!(legs(&two, UNKNOWN, UNKNOWN), expect);
        assert_eq!(legs(&swapped, UNKNOWN, UNKNOWN), expect, "whatever their order");
        assert_eq!(legs(&two, "p", UNKNOWN), ["t p|linux 1 pass", "t p|mac 1 fail"]);
        assert_eq!(legs(&two, "p", "x"), ["t p|x 2 fail"]);
        assert_eq!(legs(&swapped, "p", "x"), ["t p|x 2 fail"]);
        assert_eq!(legs(&two[..1], UNKNOWN, UNKNOWN), ["t unknown|unknown 1 pass"]);
        assert_eq!(legs(&[two[0], two[0]], UNKNOWN, UNKNOWN), ["t unknown|unknown 1 pass"], "one file named twice");
        let three = [("a/1/t.txt", good), ("b/1/t.txt", good), ("a/2/t.txt", bad)];
        let expect = ["t a/1|unknown 1 pass", "t a/2|unknown 1 fail", "t b/1|unknown 1 pass"];
        assert_eq!(legs(&three, UNKNOWN, UNKNOWN), expect);
        assert_eq!(legs(&[("t.txt", good), ("t.timing", bad)], UNKNOWN, UNKNOWN).len(), 2);
    }
}
