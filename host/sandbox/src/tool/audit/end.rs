//! The end of a file that is to be an audit log: it must be one already, or
//! empty. Guards against: a configuration that names a file of another program,
//! which would then read names that callers chose. The end also says where the chain
//! of its records goes on.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::ops::Range;

use serde::Deserialize;
use serde::de::IgnoredAny;
use sha2::{Digest as _, Sha256};

use super::chain::{Link, START, begins};

/// The bytes at the end of a file that the check reads. A record has six texts of
/// 1,024 characters, each of 12 bytes at most, and little else.
const TAIL: u64 = 128 << 10;

/// The kinds of ends that a file can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LogEnd {
    /// A line of a log, or nothing because the file is empty.
    Whole,
    /// The middle of a record.
    Torn,
    /// Something else.
    Foreign,
}

/// The end of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FileEnd {
    pub(super) kind: LogEnd,
    /// The last record of a chain in the file.
    pub(super) last: Option<LastRecord>,
}

/// The last record of a chain in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LastRecord {
    /// The link of the record after it.
    pub(super) next: Link,
    /// The bytes of its line in the file, without the line feed, which may be missing.
    pub(super) line: Range<u64>,
}

/// The part of a chain that was found in a file.
pub(super) struct Walk {
    /// The last record of it.
    pub(super) last: Option<LastRecord>,
    /// True if there are records behind its start that do not follow.
    pub(super) has_others: bool,
}

/// The fields that every record has, besides others.
#[derive(Deserialize)]
#[allow(dead_code, reason = "parsing checks that they are there")]
struct RequiredFields {
    time: String,
    tool: String,
    outcome: String,
}

/// Reads the end of a file of this size.
pub(super) fn read(file: &File, size: u64) -> io::Result<FileEnd> {
    let (tail, skipped) = read_tail(file, size)?;
    let last = match last_record(&tail, skipped) {
        Some(last) => Some(last),
        // Records of a version without a chain, or nothing else for long.
        None => find_last_record(file, size)?,
    };
    let kind = classify(&tail, skipped > 0);
    Ok(FileEnd { kind, last })
}

/// Returns how a file of this size ends.
pub(super) fn kind(file: &File, size: u64) -> io::Result<LogEnd> {
    let (tail, skipped) = read_tail(file, size)?;
    Ok(classify(&tail, skipped > 0))
}

/// Reads the last bytes of a file of this size. Returns the number of bytes before them.
fn read_tail(mut file: &File, size: u64) -> io::Result<(Vec<u8>, u64)> {
    let skipped = size.saturating_sub(TAIL);
    file.seek(SeekFrom::Start(skipped))?;
    let mut tail = Vec::new();
    file.take(size - skipped).read_to_end(&mut tail)?;
    Ok((tail, skipped))
}

/// Follows a chain through a file of this size, from the end of `start` on, or else from
/// the first record that `is_start` accepts. It gets each record and its link, and whether
/// that is the first of the file.
pub(super) fn walk(
    file: &File,
    size: u64,
    start: Option<LastRecord>,
    mut is_start: impl FnMut(&[u8], Link, bool) -> bool,
) -> io::Result<Walk> {
    let from = start.as_ref().map_or(0, |start| start.line.end);
    let mut walk = Walk {
        last: start,
        has_others: false,
    };
    let mut is_first = true;
    for_each_record(file, from..size, |record, line| {
        let Some(link) = Link::of(record) else {
            return;
        };
        let follows = match &walk.last {
            Some(last) => last.next == link,
            None => is_start(record, link, is_first),
        };
        is_first = false;
        if follows {
            walk.last = Some(LastRecord {
                next: link.after(record),
                line,
            });
        } else if walk.last.is_some() {
            walk.has_others = true;
        }
    })?;
    Ok(walk)
}

/// Returns SHA-256 of a part of a file, and of bytes after it.
pub(super) fn digest(mut file: &File, from: u64, to: u64, then: &[u8]) -> io::Result<[u8; 32]> {
    file.seek(SeekFrom::Start(from))?;
    let mut digest = Sha256::new();
    let copied = io::copy(&mut file.take(to - from), &mut DigestWriter(&mut digest))?;
    if copied == to - from {
        Ok(digest.chain_update(then).finalize().into())
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

struct DigestWriter<'a>(&'a mut Sha256);

impl io::Write for DigestWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Finds the last record of a chain in the end of a file, which starts at this byte.
fn last_record(tail: &[u8], start: u64) -> Option<LastRecord> {
    let mut end = tail.len();
    let mut rest = tail;
    loop {
        let (before, line) = match rest.iter().rposition(|byte| *byte == b'\n') {
            Some(at) => (Some(at), &rest[at + 1..]),
            None => (None, rest),
        };
        let is_whole = start == 0 || before.is_some();
        if let Some(link) = Link::of(line).filter(|_| is_whole && begins(line, START)) {
            let is_unended = end == tail.len();
            let first = start + (end - line.len()) as u64;
            let last = LastRecord {
                next: link.after(line),
                line: first..start + end as u64,
            };
            if !is_unended {
                return Some(last);
            }
            // The end of the file: a record without its line feed, or a part of a longer
            // one that only looks like it.
            let earlier = before.and_then(|at| last_record(&tail[..=at], start));
            return match earlier {
                Some(earlier) if earlier.next != link => Some(earlier),
                _ => Some(last),
            };
        }
        end = before?;
        rest = &tail[..end];
    }
}

/// Finds the last record of a chain in a whole file.
fn find_last_record(file: &File, size: u64) -> io::Result<Option<LastRecord>> {
    let mut last = None;
    for_each_record(file, 0..size, |record, line| {
        // Without its line feed it may be a part of a longer line.
        if let Some(link) = Link::of(record).filter(|_| line.end < size) {
            let next = link.after(record);
            last = Some(LastRecord { next, line });
        }
    })?;
    Ok(last)
}

/// Calls a function with each line of a part of a file that begins as a record does: its
/// bytes without the line feed, and their place.
fn for_each_record(
    mut file: &File,
    part: Range<u64>,
    mut each: impl FnMut(&[u8], Range<u64>),
) -> io::Result<()> {
    file.seek(SeekFrom::Start(part.start))?;
    let size = part.end.saturating_sub(part.start);
    let mut reader = BufReader::new(file.take(size));
    // A part in the middle of a file begins at the end of a line.
    let (mut at, mut line, mut begins_line) = (part.start, Vec::new(), part.start == 0);
    loop {
        line.clear();
        let read = (&mut reader).take(TAIL).read_until(b'\n', &mut line)? as u64;
        if read == 0 {
            return Ok(());
        }
        let is_ended = line.pop_if(|byte| *byte == b'\n').is_some();
        if begins_line && begins(&line, START) && (is_ended || read < TAIL) {
            each(&line, at..at + line.len() as u64);
        }
        begins_line = is_ended;
        at += read;
    }
}

/// Returns how bytes end. `is_cut` says that more of the file stands before them.
fn classify(tail: &[u8], is_cut: bool) -> LogEnd {
    let (lines, rest) = match tail.iter().rposition(|byte| *byte == b'\n') {
        Some(at) => (Some(&tail[..at]), &tail[at + 1..]),
        None => (None, tail),
    };
    // A record that was torn early and closed says little. What is before it says more.
    let last = lines.map(|lines| {
        let mut lines = lines.rsplit(|byte| *byte == b'\n');
        let is_part =
            |line: &[u8]| !line.is_empty() && line.len() < START.len() && begins(line, START);
        lines.find(|line| !is_part(line)).is_some_and(is_record)
    });
    match (last, rest.is_empty()) {
        (Some(true) | None, true) => LogEnd::Whole,
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

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// Returns the lines of a chain of records, each with so many characters more.
    fn chain(more: &[usize]) -> Vec<String> {
        let mut link = Link::FIRST;
        let line = |more: &usize| {
            let record = format!(
                "{{\"time\":\"2026-01-01T00:00:00.000Z\",\"id\":null,\"tool\":\"{}\",\
                 \"outcome\":\"output\"}}",
                "x".repeat(*more)
            );
            let mut record = record.into_bytes();
            link.seal(&mut record);
            link = link.after(&record);
            String::from_utf8(record).unwrap() + "\n"
        };
        more.iter().map(line).collect()
    }

    fn file(text: &str) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    #[test]
    fn finds_the_last_record_of_the_chain_before_any_number_of_other_bytes() {
        let text = chain(&[0, 0]).concat();
        let last = text.lines().last().unwrap().as_bytes();
        let next = Link::of(last).unwrap().after(last);
        let old = "{\"time\":\"2026-01-01T00:00:00.000Z\",\"id\":null,\"tool\":\"t\",\
                   \"outcome\":\"output\"}\n";
        // A line with the next link that is no record.
        let mut made_up = b"{\"x\":1}".to_vec();
        next.seal(&mut made_up);
        let made_up = String::from_utf8(made_up).unwrap() + "\n";
        let much = TAIL as usize + 1;
        for (others, end) in [
            (String::new(), LogEnd::Whole),
            (old.to_owned(), LogEnd::Whole),
            (old.repeat(much / old.len() + 1), LogEnd::Whole),
            ("noise\n".to_owned(), LogEnd::Foreign),
            (made_up, LogEnd::Foreign),
            ("noise\n".repeat(much / 6 + 1), LogEnd::Foreign),
            ("x".repeat(much), LogEnd::Foreign),
        ] {
            let (about, size) = (others.len(), text.len() + others.len());
            let file = file(&[&*text, &others].concat());
            let found = read(&file, size as u64).unwrap();
            let expected = FileEnd {
                kind: end,
                last: Some(LastRecord {
                    next,
                    line: (text.len() - last.len() - 1) as u64..text.len() as u64 - 1,
                }),
            };
            assert_eq!(found, expected, "{about}");
            assert_eq!(kind(&file, size as u64).unwrap(), end, "{about}");
        }
    }

    #[test]
    fn a_record_without_its_line_feed_is_a_record() {
        let text = chain(&[0, 0]).concat();
        let text = text.trim_end();
        let last = text.lines().last().unwrap().as_bytes();
        let size = text.len() as u64;
        let expected = FileEnd {
            kind: LogEnd::Torn,
            last: Some(LastRecord {
                next: Link::of(last).unwrap().after(last),
                line: size - last.len() as u64..size,
            }),
        };
        assert_eq!(read(&file(text), size).unwrap(), expected);
    }

    #[test]
    fn the_middle_of_a_line_is_no_beginning_of_one() {
        let record = &chain(&[TAIL as usize])[0];
        // What is read begins as a record does.
        let text = format!("x{}", &record[..TAIL as usize]);
        let file = file(&text);
        assert_eq!(kind(&file, text.len() as u64).unwrap(), LogEnd::Foreign);
        let end = read(&file, text.len() as u64).unwrap();
        assert_eq!((end.kind, end.last), (LogEnd::Foreign, None));
    }

    #[test]
    fn follows_a_chain_behind_torn_and_misplaced_records() {
        // As long as records can be.
        let lines = chain(&[10, 75_000, 75_000]);
        let other = &chain(&[11])[0];
        let link = |of: usize| Link::of(lines[of].trim_end().as_bytes()).unwrap();
        let torn = &lines[1][..70_000];
        for (between, has_others) in [(torn, false), (other, true), (&lines[0], true)] {
            let text = [&*lines[0], between, "\n", &lines[1], &lines[2]].concat();
            let (file, size) = (file(&text), text.len() as u64);
            let first = LastRecord {
                next: link(1),
                line: 0..lines[0].len() as u64 - 1,
            };
            let found = walk(&file, size, Some(first), |_, _, _| false).unwrap();
            let last = found.last.unwrap();
            assert_eq!(last.line, size - lines[2].len() as u64..size - 1);
            assert_eq!(found.has_others, has_others);
            // From the first record that is accepted, and from none.
            let found = walk(&file, size, None, |_, found, _| found == link(1)).unwrap();
            assert_eq!(found.last.as_ref(), Some(&last));
            let found = walk(&file, size, None, |_, found, _| found == last.next).unwrap();
            assert_eq!(found.last, None);
        }
    }

    #[test]
    fn the_rest_of_a_long_line_is_no_record() {
        let record = &chain(&[0])[0];
        let text = ["x".repeat(TAIL as usize), record.clone()].concat();
        let (file, size) = (file(&text), text.len() as u64);
        assert_eq!(walk(&file, size, None, |_, _, _| true).unwrap().last, None);
    }

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
            (format!("{}\n", &record[..START.len()]), LogEnd::Whole),
            // Torn early, closed, and perhaps torn again.
            (format!("{record}\n{{\"ti\n"), LogEnd::Whole),
            (format!("{record}\n{{\"ti\n{{\n{{\"time"), LogEnd::Torn),
            (format!("{{\"ti\n{record}\n"), LogEnd::Whole),
            ("{\"ti\n".to_owned(), LogEnd::Foreign),
            ("export\n{\"ti\n".to_owned(), LogEnd::Foreign),
            (format!("{record}\n\n{{\"ti\n"), LogEnd::Foreign),
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
            let (file, size) = (file(&text), text.len() as u64);
            assert_eq!(read(&file, size).unwrap().kind, expected, "{text:?}");
            assert_eq!(kind(&file, size).unwrap(), expected, "{text:?}");
        }
        assert_eq!(classify(record.as_bytes(), true), LogEnd::Foreign);
        assert_eq!(
            classify(format!("rest\n{record}\n").as_bytes(), true),
            LogEnd::Whole
        );
    }
}
