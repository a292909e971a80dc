//! A log, read line by line in bounded memory.

use std::io::{self, BufRead};

/// The most bytes of a line that are kept. A record has fewer. Guards against: a file
/// that is one line.
pub(crate) const LINE_BYTES: usize = 256 << 10;

/// A piece of a log.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    /// A line without its line feed.
    Line(&'a [u8]),
    /// A part of a line that is too long, or the end of a file without a line feed. True
    /// if it ends in a line feed.
    Part(&'a [u8], bool),
}

/// Reads the pieces of a log.
pub(crate) struct Pieces<R> {
    reader: R,
    line: Vec<u8>,
    /// True in the middle of a line that is too long.
    is_long: bool,
    /// True at the end, where it was met first. A host may append meanwhile.
    is_ended: bool,
}

impl<R: BufRead> Pieces<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self {
            reader,
            line: Vec::new(),
            is_long: false,
            is_ended: false,
        }
    }

    /// Returns the next piece.
    pub(crate) fn next(&mut self) -> io::Result<Option<Piece<'_>>> {
        self.line.clear();
        if self.is_ended {
            return Ok(None);
        }
        let mut bounded = io::Read::take(&mut self.reader, LINE_BYTES as u64);
        if bounded.read_until(b'\n', &mut self.line)? == 0 {
            return Ok(None);
        }
        let was_long = self.is_long;
        let ended = self.line.strip_suffix(b"\n");
        self.is_long = ended.is_none();
        self.is_ended = ended.is_none() && self.line.len() < LINE_BYTES;
        Ok(Some(match ended {
            Some(line) if !was_long => Piece::Line(line),
            ended => Piece::Part(&self.line, ended.is_some()),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_lines_and_parts_of_long_ones() {
        let long = "x".repeat(LINE_BYTES);
        let text = format!("a\n\n{long}y\nb\nend");
        let mut pieces = Pieces::new(text.as_bytes());
        for expected in [
            Piece::Line(b"a"),
            Piece::Line(b""),
            Piece::Part(long.as_bytes(), false),
            Piece::Part(b"y\n", true),
            Piece::Line(b"b"),
            Piece::Part(b"end", false),
        ] {
            assert_eq!(pieces.next().unwrap(), Some(expected));
        }
        assert_eq!(pieces.next().unwrap(), None);
    }

    /// A file to which its writer appends each time that its end was met.
    struct GrowingFile(Vec<&'static [u8]>);

    impl io::Read for GrowingFile {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let bytes = self.0.pop().unwrap_or_default();
            into[..bytes.len()].copy_from_slice(bytes);
            Ok(bytes.len())
        }
    }

    #[test]
    fn ends_where_the_end_was_first_met() {
        let file = GrowingFile(vec![b"d\n", b"c\n", b"", b"b", b"a\n"]);
        let mut pieces = Pieces::new(io::BufReader::new(file));
        assert_eq!(pieces.next().unwrap(), Some(Piece::Line(b"a")));
        assert_eq!(pieces.next().unwrap(), Some(Piece::Part(b"b", false)));
        assert_eq!(pieces.next().unwrap(), None);
    }
}
