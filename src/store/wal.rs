//! Damage in a write-ahead log that SQLite passes over in silence.
//!
//! SQLite reads a log up to the first frame that does not fit and takes the rest for leftovers of an earlier use. That is right for a
//! write that a power cut tore, and wrong for a flipped byte in the middle: everything after it is lost without a word. Frames of the
//! same use of the log (they carry its salt) that hold a commit after the first misfit show the difference.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

/// What a look at a log gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LogState {
    /// There is none: the ledger was closed, or the log was lost.
    Absent,
    /// Every frame of its present use fits.
    Sound,
    /// A part of its last write is there: the writer or the power died in it. Nothing acknowledged is lost by that.
    TornEnd,
    /// Commits stand behind a frame that does not fit.
    Damaged { frame: u64 },
    /// It could not be read.
    Unreadable { why: String },
}

const HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;
const MAGIC: u32 = 0x377f_0682;

pub(super) fn log_path(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push("-wal");
    PathBuf::from(name)
}

pub(super) fn inspect(database: &Path) -> LogState {
    let file = match File::open(log_path(database)) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return LogState::Absent,
        Err(error) => return LogState::Unreadable { why: error.to_string() },
    };
    scan(BufReader::new(file)).unwrap_or_else(|error| LogState::Unreadable { why: error.to_string() })
}

fn scan(mut log: impl Read) -> std::io::Result<LogState> {
    let mut header = [0; HEADER_BYTES];
    match read_whole(&mut log, &mut header)? {
        0 => return Ok(LogState::Absent),
        HEADER_BYTES => {}
        _ => return Ok(LogState::Damaged { frame: 0 }),
    }
    let big_endian = match word(&header, 0) {
        MAGIC => false,
        magic if magic == MAGIC + 1 => true,
        _ => return Ok(LogState::Damaged { frame: 0 }),
    };
    let page_bytes = word(&header, 8) as usize;
    let mut sum = checksum((0, 0), &header[..24], big_endian);
    let whole = sum == (word(&header, 24), word(&header, 28));
    if !whole || !page_bytes.is_power_of_two() || !(512..=65536).contains(&page_bytes) {
        return Ok(LogState::Damaged { frame: 0 });
    }
    let salt = &header[16..24];
    let mut frame = vec![0; FRAME_HEADER_BYTES + page_bytes];
    let mut misfit = None;
    let mut number = 0;
    while read_whole(&mut log, &mut frame)? == frame.len() {
        number += 1;
        let of_this_use = frame[8..16] == *salt;
        if let Some(frame_number) = misfit {
            let commits = word(&frame, 4) != 0;
            if of_this_use && commits {
                return Ok(LogState::Damaged { frame: frame_number });
            }
            continue;
        }
        let next = checksum(checksum(sum, &frame[..8], big_endian), &frame[FRAME_HEADER_BYTES..], big_endian);
        if of_this_use && next == (word(&frame, 16), word(&frame, 20)) {
            sum = next;
        } else {
            misfit = Some(number);
        }
    }
    let torn = misfit.is_some_and(|first| first == number) && frame[8..16] == *salt;
    Ok(if torn { LogState::TornEnd } else { LogState::Sound })
}

/// The log's own checksum: two sums over pairs of words.
fn checksum(start: (u32, u32), bytes: &[u8], big_endian: bool) -> (u32, u32) {
    let (mut first, mut second) = start;
    for pair in bytes.chunks_exact(8) {
        let read = |at: usize| {
            let raw = [pair[at], pair[at + 1], pair[at + 2], pair[at + 3]];
            if big_endian { u32::from_be_bytes(raw) } else { u32::from_le_bytes(raw) }
        };
        first = first.wrapping_add(read(0)).wrapping_add(second);
        second = second.wrapping_add(read(4)).wrapping_add(first);
    }
    (first, second)
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Fills the buffer as far as the log goes.
fn read_whole(log: &mut impl Read, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match log.read(&mut buffer[filled..])? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}
