//! Reads messages from a stream of bytes: one message over several lines, or one per line.
//!
//! The first line decides: if a JSON value begins in it and ends in a later line, the whole input
//! is one message. Otherwise each line is a message, and an invalid line does not affect other
//! lines.

use std::io::{self, BufRead, Read as _};

use serde::de::IgnoredAny;
use skillhost::exchange::{MAX_MESSAGE, MessageError};

/// A reader of the messages of a stream.
pub(super) struct MessageReader<R> {
    input: R,
    /// The number of lines read.
    lines_read: usize,
    /// True once a line that is not blank was read.
    started: bool,
}

impl<R: BufRead> MessageReader<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            input,
            lines_read: 0,
            started: false,
        }
    }

    /// Returns the next message with the number of its first line, or `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<(usize, Result<String, MessageError>)>> {
        loop {
            let Some(line) = self.line()? else {
                return Ok(None);
            };
            let number = self.lines_read;
            let Some(mut text) = line else {
                self.started = true;
                return Ok(Some((number, Err(MessageError::TooLarge))));
            };
            if number == 1 && text.starts_with("\u{feff}".as_bytes()) {
                text.drain(..3);
            }
            if text.trim_ascii().is_empty() {
                continue;
            }
            if !std::mem::replace(&mut self.started, true) && is_incomplete_json(&text) {
                let remaining = (MAX_MESSAGE + 1).saturating_sub(text.len()) as u64;
                self.input.by_ref().take(remaining).read_to_end(&mut text)?;
                if text.len() > MAX_MESSAGE {
                    // The rest belongs to this message.
                    io::copy(&mut self.input, &mut io::sink())?;
                    return Ok(Some((number, Err(MessageError::TooLarge))));
                }
            }
            let message = String::from_utf8(text)
                .map_err(|_| MessageError::NotJson("it is not UTF-8".to_owned()));
            return Ok(Some((number, message)));
        }
    }

    /// Returns the next line, or `Some(None)` if it is larger than `MAX_MESSAGE`. Returns `None` at
    /// the end.
    fn line(&mut self) -> io::Result<Option<Option<Vec<u8>>>> {
        let mut line = Vec::new();
        let mut limited = self.input.by_ref().take(MAX_MESSAGE as u64 + 1);
        if limited.read_until(b'\n', &mut line)? == 0 {
            return Ok(None);
        }
        self.lines_read += 1;
        if line.len() > MAX_MESSAGE && line.last() != Some(&b'\n') {
            self.input.skip_until(b'\n')?;
            return Ok(Some(None));
        }
        Ok(Some(Some(line)))
    }
}

/// Checks whether a line is the start of a JSON value that ends in a later line. A JSON string
/// cannot continue on the next line.
fn is_incomplete_json(line: &[u8]) -> bool {
    let mut in_string = false;
    let mut bytes = line.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => in_string = !in_string,
            b'\\' if in_string => {
                bytes.next();
            }
            _ => {}
        }
    }
    let parsed = serde_json::from_slice::<IgnoredAny>(line);
    !in_string && parsed.is_err_and(|error| error.is_eof())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(input: &[u8]) -> Vec<(usize, Result<String, MessageError>)> {
        let mut messages = MessageReader::new(input);
        std::iter::from_fn(|| messages.next().unwrap()).collect()
    }

    fn texts(input: &[u8]) -> Vec<(usize, String)> {
        read(input)
            .into_iter()
            .map(|(line, text)| (line, text.unwrap().trim_end().to_owned()))
            .collect()
    }

    #[test]
    fn first_line_decides_whether_each_line_is_a_message() {
        for (input, messages) in [
            ("", vec![]),
            ("\n \r\n", vec![]),
            ("{}", vec![(1, "{}")]),
            ("\u{feff}{}\n", vec![(1, "{}")]),
            ("\n{}\r\n\n[1]\n", vec![(2, "{}"), (4, "[1]")]),
            ("{\n \"a\": 1\n}\n", vec![(1, "{\n \"a\": 1\n}")]),
            ("{\"a\": [\n{}\n{}\n", vec![(1, "{\"a\": [\n{}\n{}")]),
            // An invalid line affects no other line.
            ("x\n{}\n", vec![(1, "x"), (2, "{}")]),
            ("{\"a\": \"b\n{}\n", vec![(1, "{\"a\": \"b"), (2, "{}")]),
            ("{\"a\\\"\": \"\n{}", vec![(1, "{\"a\\\"\": \""), (2, "{}")]),
            ("{}\n{\n{}\n", vec![(1, "{}"), (2, "{"), (3, "{}")]),
        ] {
            let messages: Vec<_> = messages
                .into_iter()
                .map(|(n, t)| (n, t.to_owned()))
                .collect();
            assert_eq!(texts(input.as_bytes()), messages, "{input:?}");
        }
    }

    #[test]
    fn continues_after_largest_message() {
        for end in ["\n", "\r\n"] {
            let mut input = b"1".to_vec();
            input.resize(MAX_MESSAGE + 1 - end.len(), b' ');
            input.extend(format!("{end}{{}}\n").bytes());
            let read = read(&input);
            assert!(read.len() == 2 && read.iter().all(|(_, text)| text.is_ok()));
        }
    }

    #[test]
    fn skips_too_long_lines() {
        let mut input = vec![b' '; MAX_MESSAGE + 10];
        input.extend(b"\n{}\n");
        assert_eq!(
            read(&input),
            [(1, Err(MessageError::TooLarge)), (2, Ok("{}\n".to_owned()))]
        );
        let mut input = b"{\n".to_vec();
        input.resize(MAX_MESSAGE + 10, b' ');
        assert_eq!(read(&input), [(1, Err(MessageError::TooLarge))]);
    }

    #[test]
    fn reports_lines_that_are_not_utf8() {
        let read = read(b"{}\n\"\xff\"\n{}");
        assert!(matches!(&read[1], (2, Err(MessageError::NotJson(_)))));
        assert_eq!(read[2], (3, Ok("{}".to_owned())));
    }
}
