//! Lines of a file: which ones a call asks for, and reading those only.

use alloc::vec::Vec;

use skillhost_guest::{File, ReadError};

/// Lines to read: `start` and `end` count from 0, `end` is not included.
pub(crate) struct Range {
    start: u64,
    end: u64,
}

/// The selection of a range.
pub(crate) enum Selected {
    /// The lines' bytes, without the line feed after the last.
    Lines(Vec<u8>),
    /// The range starts after the last line.
    PastEnd { total_lines: u64 },
}

/// The bytes that are read at a time. The whole file is never in memory, so a
/// part of a file can be read even if the file exceeds the memory limit.
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

/// Reads the lines of a range, holding no more than those.
pub(crate) fn read(file: &File, range: Range) -> Result<Selected, ReadError> {
    let mut cut = Cut::new(range);
    let mut at = 0_u64;
    loop {
        let (chunk, end_of_file) = file.read_at(at, CHUNK)?;
        at += chunk.len() as u64;
        if cut.feed(&chunk) || end_of_file {
            return Ok(cut.finish());
        }
    }
}

/// The lines of a range, of a file that is here as a whole.
pub(crate) fn select(bytes: &[u8], range: Range) -> Selected {
    let mut cut = Cut::new(range);
    cut.feed(bytes);
    cut.finish()
}

/// Cuts lines out of bytes as they come. Lines end at a line feed; after a last
/// one comes one more, empty line.
struct Cut {
    range: Range,
    taken: Vec<u8>,
    /// The line that the next byte is in.
    line: u64,
}

impl Cut {
    fn new(range: Range) -> Self {
        Self {
            range,
            taken: Vec::new(),
            line: 0,
        }
    }

    /// Takes more bytes, and says whether the range is complete.
    fn feed(&mut self, mut rest: &[u8]) -> bool {
        while !rest.is_empty() {
            let length = memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
            let (piece, after) = rest.split_at(length);
            if (self.range.start..self.range.end).contains(&self.line) {
                self.taken.extend_from_slice(piece);
            }
            if piece.ends_with(b"\n") {
                self.line += 1;
                if self.line >= self.range.end && self.line > self.range.start {
                    return true;
                }
            }
            rest = after;
        }
        false
    }

    fn finish(self) -> Selected {
        let total_lines = self.line + 1;
        if self.range.start >= total_lines {
            return Selected::PastEnd { total_lines };
        }
        // The last line has no line feed of its own to leave out, unless the
        // range ended before it.
        Selected::Lines(if self.range.end < total_lines {
            without_last_feed(self.taken)
        } else {
            self.taken
        })
    }
}

fn without_last_feed(mut lines: Vec<u8>) -> Vec<u8> {
    if lines.last() == Some(&b'\n') {
        lines.pop();
    }
    lines
}
