//! Reads the end of a log file, where its chain of records continues.
//!
//! The file must be empty or already a log. Guards against: a configuration that names another
//! program's file. That program would then read names that callers chose.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::ops::Range;

use serde::Deserialize;
use serde::de::IgnoredAny;
use sha2::{Digest as _, Sha256};

use super::chain::{
    Link, MAX_RECORD_BYTES, MAX_SEARCH_BYTES, MAX_ZERO_BYTES, RECORD_START, is_torn_record,
    matches_pattern, without_zeros,
};
use skillhost_skills::text::digest::DigestWriter;

/// The number of bytes that are read first from the end of a file: the longest record, and the
/// line feed before it.
const TAIL_BYTES: u64 = MAX_RECORD_BYTES as u64 + 1;

/// The kind of a file's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LogEnd {
    /// A complete line of a log, or an empty file.
    Whole,
    /// A torn record, or a record without its line feed.
    Torn,
    /// Bytes that do not belong to a log.
    Foreign,
}

/// The end of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FileEnd {
    /// The size of the file.
    pub(super) size: u64,
    pub(super) kind: LogEnd,
    /// The last record of a chain. [`read`] finds it only if it is near the end.
    pub(super) last: Option<LastRecord>,
}

/// The last record of a chain in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LastRecord {
    /// The link of the record after it.
    pub(super) next: Link,
    /// The byte range of its line in the file, without the line feed, which can be missing.
    pub(super) line: Range<u64>,
}

/// The part of a chain that is in a file.
pub(super) struct FoundChain {
    /// Its last record.
    pub(super) last: Option<LastRecord>,
    /// True if the file has later records that do not belong to the chain.
    pub(super) has_others: bool,
}

/// The fields that every record has.
#[derive(Deserialize)]
#[allow(dead_code, reason = "parsing checks that they exist")]
struct RequiredFields {
    time: String,
    tool: String,
    outcome: String,
}

/// Reads the end of a file of this size.
pub(super) fn read(file: &File, size: u64) -> io::Result<FileEnd> {
    let (tail, skipped) = read_tail(file, size, MAX_ZERO_BYTES)?;
    Ok(FileEnd {
        size,
        kind: classify(&tail, skipped > 0),
        last: last_record(&tail, skipped),
    })
}

impl FileEnd {
    /// Returns the last record of a chain. Searches the whole file if its end has only foreign
    /// bytes, or records of a version without chains.
    pub(super) fn find_last(&mut self, file: &File) -> io::Result<Option<&LastRecord>> {
        if self.last.is_none() {
            self.last = find_last_record(file, self.size)?;
        }
        Ok(self.last.as_ref())
    }
}

/// Reads the last bytes of a file of this size. Returns them and the number of bytes before
/// them.
///
/// If these bytes hold no whole record, reads more. The last record may be in front of a torn one,
/// or of zeros that a power failure left.
fn read_tail(mut file: &File, size: u64, max_zeros: u64) -> io::Result<(Vec<u8>, u64)> {
    let max_bytes = MAX_SEARCH_BYTES + max_zeros;
    let mut bytes = TAIL_BYTES;
    loop {
        let skipped = size.saturating_sub(bytes);
        file.seek(SeekFrom::Start(skipped))?;
        let mut tail = Vec::new();
        file.take(size - skipped).read_to_end(&mut tail)?;
        let others = tail.iter().filter(|byte| **byte != 0).count() as u64;
        let is_enough = has_whole_record(&tail, skipped) || others >= MAX_SEARCH_BYTES;
        if skipped == 0 || is_enough || bytes == max_bytes {
            return Ok((tail, skipped));
        }
        // Twice as many, so that all reads together take at most three times as long as the last.
        bytes = (2 * bytes).min(max_bytes);
    }
}

/// Returns whether the tail of a file, which starts at byte `start`, has a record of a chain with
/// its line feed.
fn has_whole_record(tail: &[u8], start: u64) -> bool {
    let line_feed = tail.iter().rposition(|byte| *byte == b'\n');
    line_feed.is_some_and(|at| last_record(&tail[..=at], start).is_some())
}

/// Follows a chain through a file of this size. Begins after `start`, or at the first record
/// that `is_start` accepts if `start` is `None`.
///
/// `is_start` gets a record, its link, and whether it is the first record of the file. `other` gets
/// each record that does not belong to the chain, its link, and whether the chain has begun.
pub(super) fn follow_chain(
    file: &File,
    size: u64,
    start: Option<LastRecord>,
    mut is_start: impl FnMut(&[u8], Link, bool) -> bool,
    mut other: impl FnMut(&[u8], Link, bool),
) -> io::Result<FoundChain> {
    let from = start.as_ref().map_or(0, |start| start.line.end);
    let mut found = FoundChain {
        last: start,
        has_others: false,
    };
    let mut is_first = true;
    for_each_record(file, from..size, |record, line| {
        let Some(link) = Link::parse(record) else {
            return;
        };
        let follows = match &found.last {
            Some(last) => last.next == link,
            None => is_start(record, link, is_first),
        };
        is_first = false;
        if follows {
            found.last = Some(LastRecord {
                next: link.next_after(record),
                line,
            });
        } else {
            let has_begun = found.last.is_some();
            found.has_others |= has_begun;
            other(record, link, has_begun);
        }
    })?;
    Ok(found)
}

/// Returns SHA-256 of a part of a file followed by `suffix`.
pub(super) fn digest(mut file: &File, from: u64, to: u64, suffix: &[u8]) -> io::Result<[u8; 32]> {
    file.seek(SeekFrom::Start(from))?;
    let mut digest = DigestWriter(Sha256::new());
    let copied = io::copy(&mut file.take(to - from), &mut digest)?;
    if copied < to - from {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(digest.0.chain_update(suffix).finalize().into())
}

/// Finds the last record of a chain in the tail of a file, which starts at byte `start`.
fn last_record(tail: &[u8], start: u64) -> Option<LastRecord> {
    let mut end = tail.len();
    let mut rest = tail;
    loop {
        let line_feed = rest.iter().rposition(|byte| *byte == b'\n');
        let line = &rest[line_feed.map_or(0, |at| at + 1)..];
        let is_whole = start == 0 || line_feed.is_some();
        if let Some(link) =
            Link::parse(line).filter(|_| is_whole && matches_pattern(line, RECORD_START))
        {
            let lacks_line_feed = end == tail.len();
            let first = start + (end - line.len()) as u64;
            let last = LastRecord {
                next: link.next_after(line),
                line: first..start + end as u64,
            };
            if !lacks_line_feed {
                return Some(last);
            }
            // The end of the file is a record without its line feed, or a part of a longer
            // record that looks like one.
            let earlier = line_feed.and_then(|at| last_record(&tail[..=at], start));
            return match earlier {
                Some(earlier) if earlier.next != link => Some(earlier),
                _ => Some(last),
            };
        }
        end = line_feed?;
        rest = &tail[..end];
    }
}

/// Finds the last record of a chain in a whole file.
fn find_last_record(file: &File, size: u64) -> io::Result<Option<LastRecord>> {
    let mut last = None;
    for_each_record(file, 0..size, |record, line| {
        // A record without its line feed may be a part of a longer line.
        if let Some(link) = Link::parse(record).filter(|_| line.end < size) {
            let next = link.next_after(record);
            last = Some(LastRecord { next, line });
        }
    })?;
    Ok(last)
}

/// Calls `each` with each line that begins like a record, in a part of a file.
///
/// `each` gets the bytes without the line feed, and their range in the file.
fn for_each_record(
    mut file: &File,
    part: Range<u64>,
    mut each: impl FnMut(&[u8], Range<u64>),
) -> io::Result<()> {
    file.seek(SeekFrom::Start(part.start))?;
    let size = part.end.saturating_sub(part.start);
    let mut reader = BufReader::new(file.take(size));
    // A part in the middle of a file begins with the end of a line.
    let (mut at, mut line, mut begins_line) = (part.start, Vec::new(), part.start == 0);
    loop {
        line.clear();
        let read = (&mut reader)
            .take(TAIL_BYTES)
            .read_until(b'\n', &mut line)? as u64;
        if read == 0 {
            return Ok(());
        }
        let has_line_feed = line.pop_if(|byte| *byte == b'\n').is_some();
        if begins_line
            && matches_pattern(&line, RECORD_START)
            && (has_line_feed || read < TAIL_BYTES)
        {
            each(&line, at..at + line.len() as u64);
        }
        begins_line = has_line_feed;
        at += read;
    }
}

/// Returns the kind of the end of a file. `is_cut` is true if the file has more bytes before
/// the tail.
fn classify(tail: &[u8], is_cut: bool) -> LogEnd {
    let (lines, rest) = match tail.iter().rposition(|byte| *byte == b'\n') {
        Some(at) => (Some(&tail[..at]), &tail[at + 1..]),
        None => (None, tail),
    };
    // A line that is torn early is too short to recognize, so an earlier line decides.
    let last_is_record = lines.map(|lines| {
        let mut lines = lines.rsplit(|byte| *byte == b'\n');
        let is_torn_early =
            |line: &[u8]| without_zeros(line).len() < RECORD_START.len() && is_torn_record(line);
        let last = lines.find(|line| !is_torn_early(line));
        last.map_or(!is_cut, is_record)
    });
    match (last_is_record, rest.is_empty()) {
        (Some(true) | None, true) => LogEnd::Whole,
        // The first record of a file may be torn too.
        (Some(true) | None, false)
            if (last_is_record.is_some() || !is_cut)
                && (is_torn_record(rest) || is_record(rest)) =>
        {
            LogEnd::Torn
        }
        _ => LogEnd::Foreign,
    }
}

/// Returns whether a line begins like a record and is not other JSON. It may be torn or damaged.
fn is_record(line: &[u8]) -> bool {
    let is_json = serde_json::from_slice::<IgnoredAny>(line).is_ok();
    line.len() >= RECORD_START.len()
        && matches_pattern(line, RECORD_START)
        && (!is_json || serde_json::from_slice::<RequiredFields>(line).is_ok())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// Returns the lines of a chain of records, each with this many extra characters.
    fn chain(extra: &[usize]) -> Vec<String> {
        let mut link = Link::FIRST;
        let line = |extra: &usize| {
            let record = format!(
                "{{\"time\":\"2026-01-01T00:00:00.000Z\",\"id\":null,\"tool\":\"{}\",\
                 \"outcome\":\"output\"}}",
                "x".repeat(*extra)
            );
            let mut record = record.into_bytes();
            link.seal(&mut record);
            link = link.next_after(&record);
            String::from_utf8(record).unwrap() + "\n"
        };
        extra.iter().map(line).collect()
    }

    fn file(text: &str) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    #[test]
    fn finds_the_last_record_before_other_bytes() {
        let text = chain(&[0, 0]).concat();
        let last = text.lines().last().unwrap().as_bytes();
        let next = Link::parse(last).unwrap().next_after(last);
        let old = "{\"time\":\"2026-01-01T00:00:00.000Z\",\"id\":null,\"tool\":\"t\",\
                   \"outcome\":\"output\"}\n";
        // This line has the next link, but is not a record.
        let mut forged = b"{\"x\":1}".to_vec();
        next.seal(&mut forged);
        let forged = String::from_utf8(forged).unwrap() + "\n";
        let beyond_tail = 2 * TAIL_BYTES as usize;
        for (others, end) in [
            (String::new(), LogEnd::Whole),
            (old.to_owned(), LogEnd::Whole),
            (old.repeat(beyond_tail / old.len() + 1), LogEnd::Whole),
            ("noise\n".to_owned(), LogEnd::Foreign),
            (forged, LogEnd::Foreign),
            ("noise\n".repeat(beyond_tail / 6 + 1), LogEnd::Foreign),
            ("x".repeat(beyond_tail), LogEnd::Foreign),
        ] {
            let (others_size, size) = (others.len(), (text.len() + others.len()) as u64);
            let file = file(&[&*text, &others].concat());
            let mut found = read(&file, size).unwrap();
            found.find_last(&file).unwrap();
            let expected = FileEnd {
                size,
                kind: end,
                last: Some(LastRecord {
                    next,
                    line: (text.len() - last.len() - 1) as u64..text.len() as u64 - 1,
                }),
            };
            assert_eq!(found, expected, "{others_size}");
        }
    }

    #[test]
    fn accepts_longest_record_before_torn_one() {
        let extra = MAX_RECORD_BYTES - chain(&[0])[0].len();
        let lines = chain(&[0, extra, extra]);
        let whole = lines[..2].concat();
        assert_eq!(whole.len(), lines[0].len() + MAX_RECORD_BYTES);
        for torn in [0, 1, MAX_RECORD_BYTES / 2, MAX_RECORD_BYTES - 2] {
            let text = [&*whole, &lines[2][..torn]].concat();
            let end = read(&file(&text), text.len() as u64).unwrap();
            let kind = if torn == 0 {
                LogEnd::Whole
            } else {
                LogEnd::Torn
            };
            assert_eq!(end.kind, kind, "{torn}");
            let line = lines[0].len() as u64..whole.len() as u64 - 1;
            assert_eq!(end.last.map(|last| last.line), Some(line), "{torn}");
        }
    }

    #[test]
    fn accepts_a_record_without_its_line_feed() {
        let text = chain(&[0, 0]).concat();
        let text = text.trim_end();
        let last = text.lines().last().unwrap().as_bytes();
        let size = text.len() as u64;
        let expected = FileEnd {
            size,
            kind: LogEnd::Torn,
            last: Some(LastRecord {
                next: Link::parse(last).unwrap().next_after(last),
                line: size - last.len() as u64..size,
            }),
        };
        assert_eq!(read(&file(text), size).unwrap(), expected);
    }

    #[test]
    fn rejects_record_within_line() {
        let tail = 2 * TAIL_BYTES as usize;
        let record = &chain(&[tail])[0];
        // The tail begins like a record.
        let text = format!("x{}", &record[..tail]);
        let file = file(&text);
        let mut end = read(&file, text.len() as u64).unwrap();
        assert_eq!(end.find_last(&file).unwrap(), None);
        assert_eq!(end.kind, LogEnd::Foreign);
    }

    #[test]
    fn accepts_zeros_longer_than_a_record() {
        let text = chain(&[0, 0]).concat();
        let last = text.lines().last().unwrap();
        let first_size = text.len() - last.len() - 1;
        let zeros = "\0".repeat(3 * TAIL_BYTES as usize);
        for (end, kind, has_last) in [
            (format!("{last}\n{zeros}"), LogEnd::Torn, true),
            (format!("{last}\n{zeros}\n"), LogEnd::Whole, true),
            (
                format!("{last}\n{}{zeros}\n{{\"ti", &last[..60]),
                LogEnd::Torn,
                true,
            ),
            (format!("{last}\n{zeros}\n{zeros}"), LogEnd::Torn, true),
            // The zeros took the place of the record's end, or of its line feed.
            (format!("{}{zeros}", &last[..60]), LogEnd::Torn, false),
            (format!("{last}{zeros}"), LogEnd::Torn, false),
            (format!("{last}\nnoise{zeros}"), LogEnd::Foreign, true),
            (format!("{last}\n{zeros}noise"), LogEnd::Foreign, true),
            (format!("{last}\n{zeros}{last}"), LogEnd::Foreign, true),
        ] {
            let about = end.replace(&zeros, "ZEROS");
            let (file, size) = (file(&[&text[..first_size], &end].concat()), end.len());
            let found = read(&file, (first_size + size) as u64).unwrap();
            let line = if has_last {
                first_size..first_size + last.len()
            } else {
                0..first_size - 1
            };
            let line = line.start as u64..line.end as u64;
            assert_eq!(found.kind, kind, "{about}");
            assert_eq!(found.last.map(|last| last.line), Some(line), "{about}");
        }
        // Without a record before them, too.
        let end = read(&file(&zeros), zeros.len() as u64).unwrap();
        assert_eq!(end.kind, LogEnd::Torn);
    }

    #[test]
    fn reads_bounded_number_of_zeros() {
        let file = tempfile::tempfile().unwrap();
        let size = 8 << 40;
        file.set_len(size).unwrap();
        let max_zeros = 5 * TAIL_BYTES;
        let (tail, skipped) = read_tail(&file, size, max_zeros).unwrap();
        assert_eq!(tail.len() as u64, MAX_SEARCH_BYTES + max_zeros);
        assert_eq!(skipped, size - tail.len() as u64);
    }

    #[test]
    fn reads_no_zeros_before_whole_record() {
        let record = &chain(&[0])[0];
        let zeros = "\0".repeat(2 * TAIL_BYTES as usize);
        let unended = record.trim_end();
        for (end, is_short) in [
            (format!("\n{record}"), true),
            (format!("\n{record}{}", &record[..60]), true),
            (format!("\n{record}\0\0\n"), true),
            // These ends contain no whole record.
            (format!("\n{unended}"), false),
            (record.clone(), false),
        ] {
            let text = [record.as_str(), &zeros, &end].concat();
            let size = text.len() as u64;
            let (tail, _) = read_tail(&file(&text), size, MAX_ZERO_BYTES).unwrap();
            let expected = if is_short { TAIL_BYTES } else { size };
            assert_eq!(tail.len() as u64, expected, "{end:?}");
        }
    }

    #[test]
    fn follows_a_chain_past_torn_and_misplaced_records() {
        // The last two are longer than the reader's buffer, and together longer than a tail.
        let long = TAIL_BYTES as usize / 4 * 3;
        let lines = chain(&[10, long, long]);
        let other = &chain(&[11])[0];
        let link = |number: usize| Link::parse(lines[number].trim_end().as_bytes()).unwrap();
        let torn = &lines[1][..long];
        for (between, has_others) in [(torn, false), (other, true), (&lines[0], true)] {
            let text = [&*lines[0], between, "\n", &lines[1], &lines[2]].concat();
            let (file, size) = (file(&text), text.len() as u64);
            let first = LastRecord {
                next: link(1),
                line: 0..lines[0].len() as u64 - 1,
            };
            let found =
                follow_chain(&file, size, Some(first), |_, _, _| false, |_, _, _| ()).unwrap();
            let last = found.last.unwrap();
            assert_eq!(last.line, size - lines[2].len() as u64..size - 1);
            assert_eq!(found.has_others, has_others);
            // Begins at the first accepted record. Finds no chain if none is accepted.
            let found = follow_chain(
                &file,
                size,
                None,
                |_, candidate, _| candidate == link(1),
                |_, _, _| (),
            )
            .unwrap();
            assert_eq!(found.last.as_ref(), Some(&last));
            let found = follow_chain(
                &file,
                size,
                None,
                |_, candidate, _| candidate == last.next,
                |_, _, _| (),
            )
            .unwrap();
            assert_eq!(found.last, None);
        }
    }

    #[test]
    fn rejects_record_at_end_of_long_line() {
        let record = &chain(&[0])[0];
        let text = ["x".repeat(TAIL_BYTES as usize), record.clone()].concat();
        let (file, size) = (file(&text), text.len() as u64);
        assert_eq!(
            follow_chain(&file, size, None, |_, _, _| true, |_, _, _| ())
                .unwrap()
                .last,
            None
        );
    }

    #[test]
    fn accepts_logs_that_end_in_a_record() {
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
            (
                format!("{}\n", &record[..RECORD_START.len()]),
                LogEnd::Whole,
            ),
            // Torn early, ended by a line feed, and perhaps torn again.
            (format!("{record}\n{{\"ti\n"), LogEnd::Whole),
            (format!("{record}\n{{\"ti\n{{\n{{\"time"), LogEnd::Torn),
            (format!("{{\"ti\n{record}\n"), LogEnd::Whole),
            ("{\"ti\n".to_owned(), LogEnd::Whole),
            ("export\n{\"ti\n".to_owned(), LogEnd::Foreign),
            (format!("{record}\n\n{{\"ti\n"), LogEnd::Foreign),
            ("\n".to_owned(), LogEnd::Foreign),
            (record[..1].to_owned(), LogEnd::Torn),
            (record[..10].to_owned(), LogEnd::Torn),
            (format!("{}\0\0", &record[..10]), LogEnd::Torn),
            ("\0".repeat(4096), LogEnd::Torn),
            (format!("\0{record}"), LogEnd::Foreign),
            ("[".to_owned(), LogEnd::Foreign),
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
            // JSON that begins like a record, but has no tool.
            (format!("{}null}}", &record[..40]), LogEnd::Foreign),
            (format!("{}null}}\n", &record[..40]), LogEnd::Foreign),
        ] {
            let end = read(&file(&text), text.len() as u64).unwrap();
            assert_eq!(end.kind, expected, "{text:?}");
        }
        assert_eq!(classify(record.as_bytes(), true), LogEnd::Foreign);
        assert_eq!(
            classify(format!("rest\n{record}\n").as_bytes(), true),
            LogEnd::Whole
        );
    }
}
