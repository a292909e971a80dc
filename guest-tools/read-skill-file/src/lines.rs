//! Reads a range of lines of a file.

use alloc::vec::Vec;

use skillhost_guest::{File, ReadError};

/// The lines to read. `start` and `end` count from 0; `end` is exclusive.
pub(crate) struct Range {
    start: u64,
    end: u64,
}

/// The result of selecting a range.
pub(crate) enum Selected {
    /// The bytes of the lines, without the line feed after the last line.
    Lines(Vec<u8>),
    /// The range starts after the last line.
    PastEnd { total_lines: u64 },
}

/// The maximum number of bytes in one read. The whole file is never in memory, so a call can
/// read a part of a file that exceeds the memory limit.
const MAX_CHUNK_BYTES: u64 = 1 << 20;

impl Range {
    /// Returns the range of a 1-indexed line and a number of lines, or `None` if both are
    /// missing. As in the contract, a start before the first line makes the range shorter.
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

/// Returns the last line of a call's range, or `None` where the contract reports none.
pub(crate) fn last_line(offset: Option<i64>, limit: Option<i64>) -> Option<i64> {
    match (offset, limit) {
        (Some(offset), Some(limit)) if offset != 0 && limit != 0 => {
            Some(offset.saturating_add(limit).saturating_sub(1))
        }
        _ => None,
    }
}

/// Reads the lines of a range from a file. Keeps only these lines in memory.
pub(crate) fn read(file: &File, range: Range) -> Result<Selected, ReadError> {
    let mut selector = Selector::new(range);
    let mut offset = 0_u64;
    loop {
        let (chunk, is_last) = file.read_at(offset, MAX_CHUNK_BYTES)?;
        offset += chunk.len() as u64;
        if selector.feed(&chunk) || is_last {
            return Ok(selector.finish());
        }
    }
}

/// Selects the lines of a range from the bytes of a whole file.
pub(crate) fn select(bytes: &[u8], range: Range) -> Selected {
    let mut selector = Selector::new(range);
    selector.feed(bytes);
    selector.finish()
}

/// Selects lines from the chunks of a file. A line ends at a line feed, so a file that ends
/// with one has an empty last line.
struct Selector {
    range: Range,
    selected: Vec<u8>,
    /// The number, from 0, of the line that has the next byte.
    line: u64,
}

impl Selector {
    fn new(range: Range) -> Self {
        Self {
            range,
            selected: Vec::new(),
            line: 0,
        }
    }

    /// Reads more bytes. Returns whether the range is complete.
    fn feed(&mut self, mut rest: &[u8]) -> bool {
        while !rest.is_empty() {
            let length = memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
            let (line, next) = rest.split_at(length);
            if (self.range.start..self.range.end).contains(&self.line) {
                self.selected.extend_from_slice(line);
            }
            if line.ends_with(b"\n") {
                self.line += 1;
                if self.line >= self.range.end && self.line > self.range.start {
                    return true;
                }
            }
            rest = next;
        }
        false
    }

    fn finish(self) -> Selected {
        let total_lines = self.line + 1;
        if self.range.start >= total_lines {
            return Selected::PastEnd { total_lines };
        }
        // The file's last line has no line feed. Drop the last line feed of the selection only
        // if the range ends before the file's last line.
        Selected::Lines(if self.range.end < total_lines {
            without_last_line_feed(self.selected)
        } else {
            self.selected
        })
    }
}

fn without_last_line_feed(mut lines: Vec<u8>) -> Vec<u8> {
    if lines.last() == Some(&b'\n') {
        lines.pop();
    }
    lines
}
