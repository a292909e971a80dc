//! Reads a log line by line in bounded memory.

use std::io::{self, BufRead};

use skillhost_sandbox::tool::audit::chain::MAX_RECORD_BYTES;

/// The maximum number of bytes of a line that are read at once. Guards against: a large file that
/// is a single line, which would fill the memory.
pub(crate) const MAX_LINE_BYTES: usize = MAX_RECORD_BYTES;

/// A piece of a log.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    /// A line without its line feed.
    Line(&'a [u8]),
    /// A part of a line that is too long, or the last line of a file if it has no line feed.
    Part {
        /// The bytes, with the line feed if there is one.
        bytes: &'a [u8],
        /// True if the bytes end in a line feed.
        ends_line: bool,
    },
}

/// Reads the pieces of a log.
pub(crate) struct PieceReader<R> {
    reader: R,
    line: Vec<u8>,
    /// True in the middle of a line that is too long.
    is_in_long_line: bool,
    /// True once the end of the file was reached. Lines that a host appends later are not read.
    is_at_end: bool,
}

impl<R: BufRead> PieceReader<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self {
            reader,
            line: Vec::new(),
            is_in_long_line: false,
            is_at_end: false,
        }
    }

    /// Returns the next piece, or `None` at the end.
    pub(crate) fn next(&mut self) -> io::Result<Option<Piece<'_>>> {
        self.line.clear();
        if self.is_at_end {
            return Ok(None);
        }
        let mut bounded = io::Read::take(&mut self.reader, MAX_LINE_BYTES as u64);
        if bounded.read_until(b'\n', &mut self.line)? == 0 {
            return Ok(None);
        }
        let continues_long_line = self.is_in_long_line;
        let line = self.line.strip_suffix(b"\n");
        self.is_in_long_line = line.is_none();
        self.is_at_end = line.is_none() && self.line.len() < MAX_LINE_BYTES;
        Ok(Some(match line {
            Some(line) if !continues_long_line => Piece::Line(line),
            line => Piece::Part {
                ends_line: line.is_some(),
                bytes: &self.line,
            },
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(bytes: &[u8], ends_line: bool) -> Piece<'_> {
        Piece::Part { bytes, ends_line }
    }

    #[test]
    fn returns_lines_and_parts_of_long_ones() {
        let long = "x".repeat(MAX_LINE_BYTES);
        let text = format!("a\n\n{long}y\nb\nend");
        let mut pieces = PieceReader::new(text.as_bytes());
        for expected in [
            Piece::Line(b"a"),
            Piece::Line(b""),
            part(long.as_bytes(), false),
            part(b"y\n", true),
            Piece::Line(b"b"),
            part(b"end", false),
        ] {
            assert_eq!(pieces.next().unwrap(), Some(expected));
        }
        assert_eq!(pieces.next().unwrap(), None);
    }

    /// A file whose writer appends each time that the reader has reached the end.
    struct GrowingFile(Vec<&'static [u8]>);

    impl io::Read for GrowingFile {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let bytes = self.0.pop().unwrap_or_default();
            buffer[..bytes.len()].copy_from_slice(bytes);
            Ok(bytes.len())
        }
    }

    #[test]
    fn stops_at_first_end_of_growing_file() {
        let file = GrowingFile(vec![b"d\n", b"c\n", b"", b"b", b"a\n"]);
        let mut pieces = PieceReader::new(io::BufReader::new(file));
        assert_eq!(pieces.next().unwrap(), Some(Piece::Line(b"a")));
        assert_eq!(pieces.next().unwrap(), Some(part(b"b", false)));
        assert_eq!(pieces.next().unwrap(), None);
    }
}
