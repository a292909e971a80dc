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

/// What every record begins with.
const START: &[u8] = b"{\"time\":\"";

/// How a file ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// With a record, or with nothing because it is empty.
    Whole,
    /// In the middle of a record.
    Torn,
    /// In something else.
    Foreign,
}

/// What a record has, besides other things.
#[derive(Deserialize)]
#[allow(dead_code, reason = "only whether they are there is asked")]
struct Record {
    time: IgnoredAny,
    tool: IgnoredAny,
    outcome: IgnoredAny,
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
    let (lines, torn) = match tail.iter().rposition(|byte| *byte == b'\n') {
        Some(at) => (Some(&tail[..at]), &tail[at + 1..]),
        None => (None, tail),
    };
    let last = lines.map(|lines| {
        let start = lines.iter().rposition(|byte| *byte == b'\n');
        &lines[start.map_or(0, |at| at + 1)..]
    });
    // A file without a line feed is all one line, if all of it was read.
    let follows_record = match last {
        Some(last) => is_record(last),
        None => !is_cut,
    };
    match (follows_record, torn.is_empty()) {
        (false, _) => End::Foreign,
        (true, true) => End::Whole,
        (true, false) if begins_record(torn) => End::Torn,
        (true, false) => End::Foreign,
    }
}

fn is_record(line: &[u8]) -> bool {
    line.starts_with(START) && serde_json::from_slice::<Record>(line).is_ok()
}

/// Whether these bytes can be the start of a record.
fn begins_record(bytes: &[u8]) -> bool {
    let known = bytes.len().min(START.len());
    bytes[..known] == START[..known]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_ends_in_a_record_or_in_a_torn_one() {
        let record = "{\"time\":\"2026-01-01T00:00:00.000Z\",\"id\":null,\"tool\":\"t\",\
                      \"outcome\":\"output\"}";
        for (text, expected) in [
            (String::new(), End::Whole),
            (format!("{record}\n"), End::Whole),
            (format!("{record}\n{record}\n"), End::Whole),
            // Whatever stands before: the end counts.
            (format!("# notes\n{record}\n"), End::Whole),
            (record.to_owned(), End::Torn),
            (record[..40].to_owned(), End::Torn),
            (record[..4].to_owned(), End::Torn),
            (format!("{record}\n{}", &record[..40]), End::Torn),
            ("\n".to_owned(), End::Foreign),
            ("export PATH=/bin\n".to_owned(), End::Foreign),
            ("export PATH=/bin".to_owned(), End::Foreign),
            (format!("{record}\n\n"), End::Foreign),
            (format!("{record}\nexport"), End::Foreign),
            (format!("export\n{record}"), End::Foreign),
            ("{\"time\":\"now\"}\n".to_owned(), End::Foreign),
            (format!("{}\n", &record[..40]), End::Foreign),
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
