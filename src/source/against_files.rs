//! A leg's own word held against the records of its own files. It never makes a leg better than it says, only worse.

use std::collections::HashMap;

use super::count;
use crate::core::outcome::{Conclusion, Outcome, Terminal};
use crate::core::row::{FileRow, LegRow};

/// A leg that says `pass` while a file of it did not is a `fail`; one with a file that has no end is `incomplete`. Says what was wrong.
pub fn hold(row: &mut LegRow) -> Option<String> {
    if row.conclusion != Some(Conclusion::Pass) {
        return None;
    }
    let (failed, missing) = newest_of_each(&row.files);
    let failed = count(failed).max(row.files_failed);
    if failed > 0 {
        row.conclusion = Some(Conclusion::Fail);
        row.files_failed = failed;
        row.why = format!("its own record says pass, and {failed} of its files did not pass");
    } else if missing > 0 {
        row.conclusion = Some(Conclusion::Incomplete);
        (row.terminal, row.loop_finished) = (Terminal::AttemptedIncomplete, false);
        row.why = format!("its own record says pass, and {missing} of its files have no result");
    } else {
        return None;
    }
    Some(format!("{}: {}", row.leg(), row.why))
}

/// Files that did not pass, and files without a result. A file that was tried again within its leg is what it was at last.
fn newest_of_each(files: &[FileRow]) -> (usize, usize) {
    if files.iter().all(|file| file.outcome == Some(Outcome::Pass)) {
        return (0, 0);
    }
    let mut newest: HashMap<(&str, Option<&str>), &FileRow> = HashMap::new();
    for file in files {
        let known = newest.entry((&file.file, file.file_b64.as_deref())).or_insert(file);
        if file.reported() {
            *known = file;
        }
    }
    let missing = newest.values().filter(|file| !file.reported()).count();
    (newest.values().filter(|file| file.reported() && file.outcome != Some(Outcome::Pass)).count(), missing)
}
