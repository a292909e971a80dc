//! Reads lines of limited length.

use std::io;

use skillhost::MAX_ARGUMENTS;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};

use super::stream::InputStream;

/// The maximum number of bytes of a line. Guards against: a line without end. The largest arguments
/// fit, with every second character escaped.
pub(crate) const MAX_LINE: usize = 4 * MAX_ARGUMENTS;

/// The number of bytes that are read at a time, and that the buffer keeps between lines.
const BUFFER_BYTES: usize = 64 << 10;

/// A reader of a stream's lines.
pub(crate) struct LineReader {
    input: BufReader<InputStream>,
    line: Vec<u8>,
    /// True if the stream is within a line that is too long.
    is_in_long_line: bool,
}

/// The result of reading a line.
#[derive(Debug, PartialEq)]
pub(crate) enum NextLine<'l> {
    /// A line without white space around it.
    Text(&'l [u8]),
    /// A line longer than [`MAX_LINE`], whose rest the next call skips.
    TooLong,
    /// The stream has ended or failed.
    End,
}

impl LineReader {
    pub(crate) fn new(input: InputStream) -> Self {
        Self {
            input: BufReader::with_capacity(BUFFER_BYTES, input),
            line: Vec::new(),
            is_in_long_line: false,
        }
    }

    /// Reads the next line that is not empty. The last line needs no line feed.
    pub(crate) async fn next(&mut self) -> NextLine<'_> {
        match self.read_line().await {
            Ok(true) if self.is_in_long_line => NextLine::TooLong,
            Ok(true) => NextLine::Text(self.line.trim_ascii()),
            Ok(false) => NextLine::End,
            Err(error) => {
                tracing::error!("cannot read the input: {error}");
                NextLine::End
            }
        }
    }

    /// Reads a line that is not empty, or the beginning of one that is too long. Returns
    /// false at the end of the stream.
    async fn read_line(&mut self) -> io::Result<bool> {
        if self.is_in_long_line {
            self.skip_line().await?;
            self.is_in_long_line = false;
        }
        loop {
            self.line.clear();
            self.line.shrink_to(BUFFER_BYTES);
            let mut limited = (&mut self.input).take(MAX_LINE as u64 + 1);
            let read = limited.read_until(b'\n', &mut self.line).await?;
            self.is_in_long_line = read > MAX_LINE && !self.line.ends_with(b"\n");
            if self.is_in_long_line || !self.line.trim_ascii().is_empty() {
                return Ok(true);
            }
            if read == 0 {
                return Ok(false);
            }
        }
    }

    /// Skips the rest of a line.
    async fn skip_line(&mut self) -> io::Result<()> {
        loop {
            let bytes = self.input.fill_buf().await?;
            let line_feed = bytes.iter().position(|byte| *byte == b'\n');
            let skipped = line_feed.map_or(bytes.len(), |index| index + 1);
            self.input.consume(skipped);
            if line_feed.is_some() || skipped == 0 {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::thread;

    use super::*;

    /// Returns the length of each line of a stream that arrives in parts. It is `None` for a line
    /// that is too long.
    async fn line_lengths(parts: Vec<Vec<u8>>) -> Vec<Option<usize>> {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let writing = thread::spawn(move || {
            for part in parts {
                writer.write_all(&part).unwrap();
            }
        });
        let mut lines = LineReader::new(InputStream::new(reader).unwrap());
        let mut lengths = Vec::new();
        loop {
            match lines.next().await {
                NextLine::Text(line) => lengths.push(Some(line.len())),
                NextLine::TooLong => lengths.push(None),
                NextLine::End => break,
            }
        }
        writing.join().unwrap();
        lengths
    }

    #[tokio::test]
    async fn returns_or_skips_whole_lines() {
        let long = vec![b'x'; MAX_LINE];
        let longer = vec![b'x'; MAX_LINE + 1];
        let parts = [
            b"a\n\n \r\nbc\r\n".as_slice(),
            &longer,
            &longer,
            b"\nd\n",
            &long,
            b"\n",
            &longer,
            b"\nlast",
        ];
        let lengths = [
            Some(1),
            Some(2),
            None,
            Some(1),
            Some(MAX_LINE),
            None,
            Some(4),
        ];
        assert_eq!(
            line_lengths(parts.map(<[u8]>::to_vec).to_vec()).await,
            lengths
        );
        assert_eq!(line_lengths(vec![longer]).await, [None]);
    }
}
