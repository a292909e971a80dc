//! The end of a file that is to be an audit log: it must be one already, or
//! empty. Meets: a configuration that names a file of another program, which
//! would then read names that callers chose.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};

use serde::Deserialize;
use serde::de::IgnoredAny;

/// Bytes at the end of a file that are looked at. A record has four texts of
/// 1,024 characters, each of 12 bytes at most, and little else.
const TAIL: u64 = 128 << 10;

/// What every record begins with; `0` stands for any digit.
const START: &[u8] = b"{\"time\":\"0000-00-00T00:00:00.000Z\",\"id\":";

/// How a file ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// With a line of a log, or with nothing because it is empty.
    Whole,
    /// In the middle of a record.
    Torn,
    /// With something else.
    Foreign,
}

/// What a record has, besides other things.
#[derive(Deserialize)]
#[allow(dead_code, reason = "only whether they are there is asked")]
struct Record {
    time: String,
    tool: String,
    outcome: String,
}

/// Looks at the end of a file.
pub(super) fn of(file: &mut File) -> io::Result<End> {
    let size = file.metadata()?.len();
    let skipped = size.saturating_sub(TAIL);
    file.seek(SeekFrom::Start(skipped))?;
    let mut tail = Vec::new();
    file.take(TAIL).read_to_end(&mut tail)?;
    Ok(of_tail(&tail, skipped > 0))
}

/// `is_cut` says that more of the file stands before these bytes.
fn of_tail(tail: &[u8], is_cut: bool) -> End {
    let (lines, rest) = match tail.iter().rposition(|byte| *byte == b'\n') {
        Some(at) => (Some(&tail[..at]), &tail[at + 1..]),
        None => (None, tail),
    };
    let last = lines.map(|lines| {
        let start = lines.iter().rposition(|byte| *byte == b'\n');
        is_record(&lines[start.map_or(0, |at| at + 1)..])
    });
    match (last, rest.is_empty()) {
        (Some(true), true) => End::Whole,
        (None, true) if !is_cut => End::Whole,
        // After a record, any part of one; by itself, what shows that it is one.
        (Some(true), false) if begins(rest, START) => End::Torn,
        (None, false) if !is_cut && rest.len() >= START.len() && begins(rest, START) => End::Torn,
        _ => End::Foreign,
    }
}

/// Whether a line is a record, or one that was cut short and closed.
fn is_record(line: &[u8]) -> bool {
    let is_json = serde_json::from_slice::<IgnoredAny>(line).is_ok();
    line.len() >= START.len()
        && begins(line, START)
        && (!is_json || serde_json::from_slice::<Record>(line).is_ok())
}

/// Whether bytes begin as this does, as far as there are any.
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
    fn a_log_ends_in_a_record_or_in_a_torn_one() {
        let record = "{\"time\":\"2026-01-01T00:00:00.000Z\",\"id\":null,\"tool\":\"t\",\
                      \"outcome\":\"output\"}";
        let shell = "{\"time\":\"x\\\", $(id)";
        for (text, expected) in [
            (String::new(), End::Whole),
            (format!("{record}\n"), End::Whole),
            (format!("{record}\n{record}\n"), End::Whole),
            // Whatever stands before: the end counts.
            (format!("# notes\n{record}\n"), End::Whole),
            (record.to_owned(), End::Torn),
            (record[..50].to_owned(), End::Torn),
            (format!("{record}\n{}", &record[..40]), End::Torn),
            (format!("{record}\n{{"), End::Torn),
            // A record after a torn one, as a full disk leaves them.
            (format!("{}{record}\n", &record[..50]), End::Whole),
            (format!("{}\n", &record[..50]), End::Whole),
            (format!("{}\n{{", &record[..50]), End::Torn),
            ("\n".to_owned(), End::Foreign),
            ("{".to_owned(), End::Foreign),
            (record[..10].to_owned(), End::Foreign),
            (shell.to_owned(), End::Foreign),
            (format!("{record}\n{shell}"), End::Foreign),
            (
                "{\"time\":\"2025\",\"theme\":\"dark\"}".to_owned(),
                End::Foreign,
            ),
            ("export PATH=/bin\n".to_owned(), End::Foreign),
            ("export PATH=/bin".to_owned(), End::Foreign),
            (format!("{record}\n\n"), End::Foreign),
            (format!("{record}\nexport"), End::Foreign),
            (format!("export\n{record}"), End::Foreign),
            ("{\"time\":\"now\"}\n".to_owned(), End::Foreign),
            (
                "{\"time\":\"t\",\"tool\":1,\"outcome\":2}\n".to_owned(),
                End::Foreign,
            ),
        ] {
            assert_eq!(of_tail(text.as_bytes(), false), expected, "{text:?}");
        }
        assert_eq!(of_tail(record.as_bytes(), true), End::Foreign);
        assert_eq!(
            of_tail(format!("rest\n{record}\n").as_bytes(), true),
            End::Whole
        );
    }
}
