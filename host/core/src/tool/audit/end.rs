//! The end of a file that is to be an audit log: it must be one already, or
//! empty. Guards against: a configuration that names a file of another program,
//! which would then read names that callers chose.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};

use serde::Deserialize;
use serde::de::IgnoredAny;

/// The bytes at the end of a file that the check reads. A record has five texts of
/// 1,024 characters, each of 12 bytes at most, and little else.
const TAIL: u64 = 128 << 10;

/// The beginning of every record; `0` stands for any digit.
const START: &[u8] = b"{\"time\":\"0000-00-00T00:00:00.000Z\",\"id\":";

/// The end of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LogEnd {
    /// A line of a log, or nothing because the file is empty.
    Whole,
    /// The middle of a record.
    Torn,
    /// Something else.
    Foreign,
}

/// The fields that every record has, besides others.
#[derive(Deserialize)]
#[allow(dead_code, reason = "parsing checks that they are there")]
struct RequiredFields {
    time: String,
    tool: String,
    outcome: String,
}

/// Reads the end of a file.
pub(super) fn read(file: &mut File) -> io::Result<LogEnd> {
    let size = file.metadata()?.len();
    let skipped = size.saturating_sub(TAIL);
    file.seek(SeekFrom::Start(skipped))?;
    let mut tail = Vec::new();
    file.take(TAIL).read_to_end(&mut tail)?;
    Ok(classify(&tail, skipped > 0))
}

/// Returns how bytes end. `is_cut` says that more of the file stands before them.
fn classify(tail: &[u8], is_cut: bool) -> LogEnd {
    let (lines, rest) = match tail.iter().rposition(|byte| *byte == b'\n') {
        Some(at) => (Some(&tail[..at]), &tail[at + 1..]),
        None => (None, tail),
    };
    let last = lines.map(|lines| {
        let start = lines.iter().rposition(|byte| *byte == b'\n');
        is_record(&lines[start.map_or(0, |at| at + 1)..])
    });
    match (last, rest.is_empty()) {
        (Some(true), true) => LogEnd::Whole,
        (None, true) if !is_cut => LogEnd::Whole,
        // After a record, any part of one; by itself, what shows that it is one.
        (Some(true), false) if begins(rest, START) => LogEnd::Torn,
        (None, false) if !is_cut && rest.len() >= START.len() && begins(rest, START) => {
            LogEnd::Torn
        }
        _ => LogEnd::Foreign,
    }
}

/// Checks that a line is a record, or one that was cut short and closed.
fn is_record(line: &[u8]) -> bool {
    let is_json = serde_json::from_slice::<IgnoredAny>(line).is_ok();
    line.len() >= START.len()
        && begins(line, START)
        && (!is_json || serde_json::from_slice::<RequiredFields>(line).is_ok())
}

/// Checks that bytes begin as `start` does, as far as they go.
fn begins(bytes: &[u8], start: &[u8]) -> bool {
    bytes
        .iter()
        .zip(start)
        .all(|(byte, expected)| match expected {
            b'0' => byte.is_ascii_digit(),
            expected => byte == expected,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_logs_that_end_in_a_whole_or_a_torn_record() {
        let record = "{\"time\":\"2026-01-01T00:00:00.000Z\",\"id\":null,\"tool\":\"t\",\
                      \"outcome\":\"output\"}";
        let shell = "{\"time\":\"x\\\", $(id)";
        for (text, expected) in [
            (String::new(), LogEnd::Whole),
            (format!("{record}\n"), LogEnd::Whole),
            (format!("{record}\n{record}\n"), LogEnd::Whole),
            // Only the end counts.
            (format!("# notes\n{record}\n"), LogEnd::Whole),
            (record.to_owned(), LogEnd::Torn),
            (record[..50].to_owned(), LogEnd::Torn),
            (format!("{record}\n{}", &record[..40]), LogEnd::Torn),
            (format!("{record}\n{{"), LogEnd::Torn),
            // A record after a torn one, as a full disk leaves them.
            (format!("{}{record}\n", &record[..50]), LogEnd::Whole),
            (format!("{}\n", &record[..50]), LogEnd::Whole),
            (format!("{}\n{{", &record[..50]), LogEnd::Torn),
            ("\n".to_owned(), LogEnd::Foreign),
            ("{".to_owned(), LogEnd::Foreign),
            (record[..10].to_owned(), LogEnd::Foreign),
            (shell.to_owned(), LogEnd::Foreign),
            (format!("{record}\n{shell}"), LogEnd::Foreign),
            (
                "{\"time\":\"2025\",\"theme\":\"dark\"}".to_owned(),
                LogEnd::Foreign,
            ),
            ("export PATH=/bin\n".to_owned(), LogEnd::Foreign),
            ("export PATH=/bin".to_owned(), LogEnd::Foreign),
            (format!("{record}\n\n"), LogEnd::Foreign),
            (format!("{record}\nexport"), LogEnd::Foreign),
            (format!("export\n{record}"), LogEnd::Foreign),
            ("{\"time\":\"now\"}\n".to_owned(), LogEnd::Foreign),
            (
                "{\"time\":\"t\",\"tool\":1,\"outcome\":2}\n".to_owned(),
                LogEnd::Foreign,
            ),
        ] {
            assert_eq!(classify(text.as_bytes(), false), expected, "{text:?}");
        }
        assert_eq!(classify(record.as_bytes(), true), LogEnd::Foreign);
        assert_eq!(
            classify(format!("rest\n{record}\n").as_bytes(), true),
            LogEnd::Whole
        );
    }
}
