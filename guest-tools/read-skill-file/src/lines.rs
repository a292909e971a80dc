//! Lines of a file: which ones a call asks for, and reading those only.

use skillhost_guest::{File, ReadError};

/// Lines to read: `start` and `end` count from 0, `end` is not included.
pub(crate) struct Range {
    start: u64,
    end: u64,
}

/// What a range selects.
pub(crate) enum Selected {
    /// The lines' bytes, without the line feed after the last.
    Lines(Vec<u8>),
    /// The range starts after the last line.
    PastEnd { total_lines: u64 },
}

/// How much is read at a time. The file is not held as a whole: a part of a
/// file larger than the memory limit can be read.
const CHUNK: u64 = 1 << 20;

impl Range {
    /// The range of a 1-indexed line and a number of lines, if any is given.
    /// A start before the first line takes from the lines asked for, as the
    /// contract's arithmetic does.
    pub(crate) fn of(offset: Option<i64>, limit: Option<i64>) -> Option<Self> {
        if offset.is_none() && limit.is_none() {
            return None;
        }
        let start = offset.map_or(0, |line| line.saturating_sub(1));
        let end = limit.map_or(i64::MAX, |lines| start.saturating_add(lines));
        Some(Self {
            start: u64::try_from(start).unwrap_or(0),
            end: u64::try_from(end).unwrap_or(0),
        })
    }
}

/// The last line that was asked for, where the contract says that it is known.
pub(crate) fn last_line(offset: Option<i64>, limit: Option<i64>) -> Option<i64> {
    match (offset, limit) {
        (Some(offset), Some(limit)) if offset != 0 && limit != 0 => {
            Some(offset.saturating_add(limit).saturating_sub(1))
        }
        _ => None,
    }
}

/// Reads the lines of a range. Lines end at a line feed; after a last one
/// comes one more, empty line.
pub(crate) fn read(file: &File, range: &Range) -> Result<Selected, ReadError> {
    let mut taken = Vec::new();
    // Of the byte that comes next: its offset and its line.
    let (mut at, mut line) = (0_u64, 0_u64);
    loop {
        let (chunk, end_of_file) = file.read_at(at, CHUNK)?;
        at += chunk.len() as u64;
        let mut rest = chunk.as_slice();
        while !rest.is_empty() {
            let length = memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
            let (piece, after) = rest.split_at(length);
            if (range.start..range.end).contains(&line) {
                taken.extend_from_slice(piece);
            }
            if piece.ends_with(b"\n") {
                line += 1;
                if line >= range.end && line > range.start {
                    return Ok(Selected::Lines(without_last_feed(taken)));
                }
            }
            rest = after;
        }
        if end_of_file {
            break;
        }
    }
    let total_lines = line + 1;
    if range.start >= total_lines {
        return Ok(Selected::PastEnd { total_lines });
    }
    // The last line has no line feed of its own to leave out, unless the range
    // ended before it.
    if range.end < total_lines {
        taken = without_last_feed(taken);
    }
    Ok(Selected::Lines(taken))
}

fn without_last_feed(mut lines: Vec<u8>) -> Vec<u8> {
    if lines.last() == Some(&b'\n') {
        lines.pop();
    }
    lines
}
