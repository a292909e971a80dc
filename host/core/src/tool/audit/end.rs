//! The end of a file that is to be an audit log: it must be one already, or
//! empty. Guards against: a configuration that names a file of another program,
//! which would then read names that callers chose. The end also says where the chain
//! of its records goes on.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};

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

/// The end of a file, and what is in its chain.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ChainEnd {
    pub(super) end: LogEnd,
    /// The link of the next record. None if no record of the file is in a chain.
    pub(super) next: Option<Link>,
    /// The bytes up to the end of the last such record.
    pub(super) chained: u64,
    /// True if that record only lacks its line feed.
    pub(super) is_unended: bool,
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
pub(super) fn read(file: &File, size: u64) -> io::Result<ChainEnd> {
    let (tail, skipped) = read_tail(file, size)?;
    let last = match last_link(&tail, skipped) {
        Some(last) => last,
        // Records of a version without a chain, or nothing else for long.
        None => find_last_link(file, size)?,
    };
    Ok(ChainEnd {
        end: classify(&tail, skipped > 0),
        next: last.next,
        chained: last.end,
        is_unended: last.is_unended,
    })
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

/// Returns whether a record with this link is at this place of a file, perhaps behind
/// one that is torn.
pub(super) fn has_link(mut file: &File, at: u64, link: Link) -> io::Result<bool> {
    file.seek(SeekFrom::Start(at))?;
    let mut part = Vec::new();
    file.take(2 * TAIL).read_to_end(&mut part)?;
    let mut lines = part.split(|byte| *byte == b'\n');
    Ok(lines.any(|line| Link::of(line) == Some(link)))
}

/// Returns SHA-256 of a part of a file, and of bytes after it.
pub(super) fn digest(mut file: &File, from: u64, to: u64, then: &[u8]) -> io::Result<[u8; 32]> {
    file.seek(SeekFrom::Start(from))?;
    let mut digest = Sha256::new();
    let copied = io::copy(&mut file.take(to - from), &mut DigestWriter(&mut digest))?;
    match copied == to - from {
        true => Ok(digest.chain_update(then).finalize().into()),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
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

/// The last record of a chain in bytes.
#[derive(Default)]
struct LastLink {
    next: Option<Link>,
    end: u64,
    is_unended: bool,
}

/// Finds the last record of a chain in the end of a file, which starts at this byte.
fn last_link(tail: &[u8], start: u64) -> Option<LastLink> {
    let mut end = tail.len();
    let mut rest = tail;
    loop {
        let (before, line) = match rest.iter().rposition(|byte| *byte == b'\n') {
            Some(at) => (Some(at), &rest[at + 1..]),
            None => (None, rest),
        };
        let is_whole = start == 0 || before.is_some();
        if let Some(link) = Link::of(line).filter(|_| is_whole && begins(line, START)) {
            let last = LastLink {
                next: Some(link.after(line)),
                // With its line feed.
                end: start + end as u64 + 1,
                is_unended: false,
            };
            if end < tail.len() {
                return Some(last);
            }
            // The end of the file: a record without its line feed, or a part of a longer
            // one that only looks like it.
            let earlier = before.and_then(|at| last_link(&tail[..=at], start));
            return match earlier {
                Some(earlier) if earlier.next != Some(link) => Some(earlier),
                _ => Some(LastLink {
                    end: last.end - 1,
                    is_unended: true,
                    ..last
                }),
            };
        }
        end = before?;
        rest = &tail[..end];
    }
}

/// Finds the last record of a chain in a whole file.
fn find_last_link(mut file: &File, size: u64) -> io::Result<LastLink> {
    file.seek(SeekFrom::Start(0))?;
    let mut reader = BufReader::new(file.take(size));
    let (mut last, mut at, mut line) = (LastLink::default(), 0, Vec::new());
    loop {
        line.clear();
        let read = (&mut reader).take(TAIL).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(last);
        }
        at += read as u64;
        if let Some(record) = line.strip_suffix(b"\n")
            && let Some(link) = Link::of(record).filter(|_| begins(record, START))
        {
            last = LastLink {
                next: Some(link.after(record)),
                end: at,
                is_unended: false,
            };
        }
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
            let expected = ChainEnd {
                end,
                next: Some(next),
                chained: text.len() as u64,
                is_unended: false,
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
        let expected = ChainEnd {
            end: LogEnd::Torn,
            next: Some(Link::of(last).unwrap().after(last)),
            chained: size,
            is_unended: true,
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
        assert_eq!((end.end, end.next), (LogEnd::Foreign, None));
    }

    #[test]
    fn finds_a_record_behind_one_that_is_torn() {
        // As long as records can be.
        let lines = chain(&[10, 75_000, 75_000]);
        let torn = &lines[1][..70_000];
        let text = [&*lines[0], torn, "\n", &lines[1], &lines[2]].concat();
        let file = file(&text);
        let at = lines[0].len() as u64;
        let link = |of: usize| Link::of(lines[of].trim_end().as_bytes()).unwrap();
        assert!(has_link(&file, at, link(1)).unwrap());
        assert!(!has_link(&file, at, link(0)).unwrap());
        assert!(has_link(&file, 0, link(0)).unwrap());
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
            assert_eq!(read(&file, size).unwrap().end, expected, "{text:?}");
            assert_eq!(kind(&file, size).unwrap(), expected, "{text:?}");
        }
        assert_eq!(classify(record.as_bytes(), true), LogEnd::Foreign);
        assert_eq!(
            classify(format!("rest\n{record}\n").as_bytes(), true),
            LogEnd::Whole
        );
    }
}
