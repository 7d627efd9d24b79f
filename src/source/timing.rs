//! A timing file: lines `<file> <n>s <outcome>`. It says nothing of run or platform; the asker does.

use std::io::{self, BufRead};

use super::lines::{Read, for_each_line};
use super::{Evidence, Found, Named};
use crate::core::cidata::{MAX_LINE_BYTES, parse_timing};
use crate::core::classify::{Trace, Writer};
use crate::core::outcome::{Conclusion, Outcome, Terminal};
use crate::core::row::{FileRow, LegRow};

pub fn read(stream: impl BufRead, named: &Named, shown: &str, found: &mut Found) -> io::Result<()> {
    let mut files = Vec::new();
    let mut bad = 0u64;
    for_each_line(stream, MAX_LINE_BYTES, |read| {
        let text = match read {
            Read::Line(line) => String::from_utf8_lossy(line),
            Read::TooLong => {
                bad += 1;
                return;
            }
        };
        match parse_timing(&text) {
            Ok(Some(timing)) => {
                let mut row = FileRow::not_run(super::count(files.len()) + 1, 1, timing.file, None);
                row.status = Some(timing.outcome.status());
                // Zero seconds of a file that never ran would be a wedge that never happened.
                row.duration_s = Some(timing.duration).filter(|_| timing.outcome != Outcome::NotRun);
                row.outcome = Some(timing.outcome);
                files.push(row);
            }
            Ok(None) => {}
            Err(_) => bad += 1,
        }
    })?;
    if bad > 0 {
        found.warn(format!("{shown}: {bad} lines were not read; a line is `<file> <n>s <outcome>`"));
    }
    found.evidence.push(evidence(named, files, shown, true));
    Ok(())
}

/// A leg out of files whose instrument says nothing of the leg itself. `whole` is whether the instrument reached its own end.
pub(super) fn evidence(named: &Named, files: Vec<FileRow>, shown: &str, whole: bool) -> Evidence {
    let mut row = LegRow::named(named.leg.clone());
    row.files_reported = super::count(files.iter().filter(|file| file.reported()).count());
    row.files_failed = super::count(files.iter().filter(|file| file.reported() && file.outcome != Some(Outcome::Pass)).count());
    row.last_file = files.iter().rev().find(|file| file.reported()).map(|file| file.file.clone());
    row.started_at = named.written;
    row.ended_at = named.written;
    row.last_checkpoint_ts = named.written;
    row.source = Some(shown.to_owned());
    let missing = files.iter().filter(|file| !file.reported()).count();
    (row.terminal, row.conclusion, row.why) = match (whole, row.files_failed) {
        (false, _) => (Terminal::AttemptedIncomplete, Some(Conclusion::Incomplete), "its record is cut short".to_owned()),
        (true, 1..) => (Terminal::Complete, Some(Conclusion::Fail), format!("{} files did not pass", row.files_failed)),
        // Nothing that is missing can pass.
        (true, 0) if files.is_empty() => {
            (Terminal::AttemptedIncomplete, Some(Conclusion::Incomplete), "its record holds no test at all".to_owned())
        }
        (true, 0) if missing > 0 => {
            (Terminal::AttemptedIncomplete, Some(Conclusion::Incomplete), format!("{missing} of its files have no result"))
        }
        (true, 0) => (Terminal::Complete, Some(Conclusion::Pass), format!("all {} files passed", row.files_reported)),
    };
    row.loop_finished = row.terminal == Terminal::Complete;
    row.files = files;
    Evidence { row, trace: Trace::Ledger, writer: Writer::Unknown, resumes: None, unnamed: Some(shown.into()) }
}
