//! The chain of records, which shows whether a record was changed, removed or moved.
//!
//! Each record has its number and the digest of the record before it. These are the last
//! fields of its line; a checkpoint has its signature after them. The writer here and the
//! verifier in the crate `skillhost-audit` share this module.

use std::time::{Duration, SystemTime};

use serde::de::IgnoredAny;
use sha2::{Digest as _, Sha256};

use skillhost_skills::text::digest::hex;

/// The outcome of a record that reports torn bytes before it.
pub const TORN: &str = "torn";
/// The outcome of a record that continues the chain of another file, or begins a chain after
/// records of a version without chains.
pub const CONTINUED: &str = "continued";
/// The outcome of a record of a process that did not find the last record it knew in the file, and
/// names that record.
pub const JOINED: &str = "joined";
/// The outcome of a record with a signature.
pub const CHECKPOINT: &str = "checkpoint";
/// The outcomes of records that belong to no call.
pub const EVENTS: [&str; 4] = [CONTINUED, TORN, JOINED, CHECKPOINT];

/// The maximum size of a record with its line feed, in bytes. A record has at most six texts of
/// 1,024 characters of 12 bytes, and 50 requests with five texts of 512 bytes.
pub const MAX_RECORD_BYTES: usize = 256 << 10;

/// The maximum number of bytes at the beginning or the end of a file in which a host or a reader
/// searches for a record: two records, because one may be torn. Zero bytes do not count. Guards
/// against: reading a file without records twice.
pub const MAX_SEARCH_BYTES: u64 = 2 * MAX_RECORD_BYTES as u64;

/// The maximum number of zero bytes that a host or a reader skips to find a record. A power failure
/// can leave them. Guards against: a sparse file of a terabyte.
pub const MAX_ZERO_BYTES: u64 = 64 << 20;

/// The beginning of a record, up to its time.
const BEFORE_TIME: &[u8] = b"{\"time\":\"";

/// The number of bytes of a record's time.
const TIME_BYTES: usize = 24;

/// The time of a record as text, which sorts like the time.
pub type TimeText = [u8; TIME_BYTES];

/// The beginning of every record; `0` matches any digit.
pub const RECORD_START: &[u8] = b"{\"time\":\"0000-00-00T00:00:00.000Z\",\"id\":";

/// Milliseconds from 1970 to the end of the year 9999, the last year that a record can name.
const MAX_TIME_MILLIS: u64 = 253_402_300_799_999;

/// The size of an Ed25519 signature, in bytes.
pub const SIGNATURE_BYTES: usize = 64;

/// The size of a chain's name, in bytes.
pub const NAME_BYTES: usize = 8;

const CHAIN_KEY: &[u8] = b",\"chain\":\"";
const SEQUENCE_KEY: &[u8] = b"\",\"sequence\":";
const PREVIOUS_KEY: &[u8] = b",\"previous\":\"";
const SIGNATURE_KEY: &[u8] = b",\"signature\":\"";
const RECORD_END: &[u8] = b"\"}";

/// The position of a record in its chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// The name of the chain: the first bytes of SHA-256 of its first record's line, line feed
    /// included. Zeros in the first record.
    pub chain: [u8; NAME_BYTES],
    /// The number of the record, from 0.
    pub sequence: u64,
    /// SHA-256 of the line before it, line feed included. Zeros for the first record.
    pub previous: [u8; 32],
}

impl Link {
    /// The link of the first record.
    pub const FIRST: Self = Self {
        chain: [0; NAME_BYTES],
        sequence: 0,
        previous: [0; 32],
    };

    /// Adds the link to a record, which is a JSON object without a line feed.
    pub fn seal(self, record: &mut Vec<u8>) {
        // The fields go before the object's closing brace.
        record.pop();
        record.extend_from_slice(CHAIN_KEY);
        record.extend_from_slice(hex(&self.chain).as_bytes());
        record.extend_from_slice(SEQUENCE_KEY);
        record.extend_from_slice(self.sequence.to_string().as_bytes());
        record.extend_from_slice(PREVIOUS_KEY);
        record.extend_from_slice(hex(&self.previous).as_bytes());
        record.extend_from_slice(RECORD_END);
    }

    /// Adds the link to a checkpoint, and a signature of all bytes before it.
    pub fn seal_signed(
        self,
        record: &mut Vec<u8>,
        sign: impl FnOnce(&[u8]) -> [u8; SIGNATURE_BYTES],
    ) {
        self.seal(record);
        record.pop();
        let signature = sign(record);
        record.extend_from_slice(SIGNATURE_KEY);
        record.extend_from_slice(hex(&signature).as_bytes());
        record.extend_from_slice(RECORD_END);
    }

    /// Returns the link of the next record. `line` is the record with this link, without its
    /// line feed.
    pub fn next_after(self, line: &[u8]) -> Self {
        let digest = Sha256::new().chain_update(line).chain_update(b"\n");
        let previous: [u8; 32] = digest.finalize().into();
        let mut chain = self.chain;
        if self == Self::FIRST {
            chain.copy_from_slice(&previous[..NAME_BYTES]);
        }
        Self {
            chain,
            // A forged line can have the largest number.
            sequence: self.sequence.saturating_add(1),
            previous,
        }
    }

    /// Reads the link of a line without its line feed. Returns `None` unless the line ends in
    /// exactly the bytes that sealing writes.
    pub fn parse(line: &[u8]) -> Option<Self> {
        match SignedLine::parse(line) {
            Some(SignedLine { link, .. }) => Some(link),
            None => Self::parse_end(line.strip_suffix(RECORD_END)?),
        }
    }

    /// Reads the link at the end of a line. The caller has removed its [`RECORD_END`].
    fn parse_end(line: &[u8]) -> Option<Self> {
        let (rest, previous) = line.split_at_checked(line.len().checked_sub(64)?)?;
        let previous = from_hex(previous)?;
        let rest = rest.strip_suffix(PREVIOUS_KEY)?;
        let digits = rest.iter().rev().take_while(|byte| byte.is_ascii_digit());
        let (rest, digits) = rest.split_at(rest.len() - digits.count());
        if digits.len() > 1 && digits[0] == b'0' {
            return None;
        }
        let rest = rest.strip_suffix(SEQUENCE_KEY)?;
        let (rest, chain) = rest.split_at_checked(rest.len().checked_sub(2 * NAME_BYTES)?)?;
        if !rest.ends_with(CHAIN_KEY) {
            return None;
        }
        Some(Self {
            chain: from_hex(chain)?,
            sequence: str::from_utf8(digits).ok()?.parse().ok()?,
            previous,
        })
    }
}

/// A line that ends in a signature.
pub struct SignedLine<'a> {
    /// The link of the record.
    pub link: Link,
    /// The signed bytes.
    pub message: &'a [u8],
    /// The signature.
    pub signature: [u8; SIGNATURE_BYTES],
}

impl<'a> SignedLine<'a> {
    /// Reads a line without its line feed. Returns `None` if it has no signature.
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        let line = line.strip_suffix(RECORD_END)?;
        let (rest, signature) =
            line.split_at_checked(line.len().checked_sub(2 * SIGNATURE_BYTES)?)?;
        let message = rest.strip_suffix(SIGNATURE_KEY)?;
        Some(Self {
            link: Link::parse_end(message.strip_suffix(b"\"")?)?,
            message,
            signature: from_hex(signature)?,
        })
    }
}

/// Returns whether bytes match a pattern, up to the end of the shorter one. `0` in the
/// pattern matches any digit.
pub fn matches_pattern(bytes: &[u8], pattern: &[u8]) -> bool {
    let matches = |(byte, expected): (&u8, &u8)| match expected {
        b'0' => byte.is_ascii_digit(),
        expected => byte == expected,
    };
    bytes.iter().zip(pattern).all(matches)
}

/// Returns whether a line is the beginning of one record and nothing else. A killed process or a
/// full disk leaves such a line. After a power failure, zero bytes may follow it.
///
/// An empty line has no part of a record, so it is not torn.
pub fn is_torn_record(line: &[u8]) -> bool {
    let (line, whole) = (without_zeros(line), line);
    const BEFORE_TIME: &[u8] = RECORD_START.split_at(9).0;
    let ends_early = || match serde_json::from_slice::<IgnoredAny>(line) {
        // Zero bytes took the place of the line feed.
        Ok(_) => line.len() < whole.len(),
        Err(error) => error.is_eof(),
    };
    let mut later = line.windows(BEFORE_TIME.len()).skip(1);
    !whole.is_empty()
        && matches_pattern(line, RECORD_START)
        && ends_early()
        && later.all(|bytes| bytes != BEFORE_TIME)
}

/// Returns a line without the zero bytes at its end, which a power failure can leave in place of
/// bytes that were not yet on the disk.
pub fn without_zeros(line: &[u8]) -> &[u8] {
    let zeros = line.iter().rev().take_while(|byte| **byte == 0).count();
    &line[..line.len() - zeros]
}

/// Formats a time for a record: in UTC, with milliseconds.
///
/// A time before 1970 or after 9999 becomes the first or the last of these years. A wrong
/// clock must not stop the host.
pub fn format_time(time: SystemTime) -> String {
    let last = SystemTime::UNIX_EPOCH + Duration::from_millis(MAX_TIME_MILLIS);
    let time = time.clamp(SystemTime::UNIX_EPOCH, last);
    humantime::format_rfc3339_millis(time).to_string()
}

/// Parses the time of a record.
pub fn parse_time(time: &TimeText) -> Option<SystemTime> {
    humantime::parse_rfc3339(std::str::from_utf8(time).ok()?).ok()
}

/// Returns the time of a record. Returns `None` for a line that does not begin like a record.
pub fn time_of(line: &[u8]) -> Option<TimeText> {
    line.strip_prefix(BEFORE_TIME)?.first_chunk().copied()
}

/// Reads bytes in hex. Refuses upper-case digits, so that a value has one spelling.
pub fn from_hex<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    if text.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_sealed_link() {
        for sequence in [0, 7, 10, u64::MAX - 1] {
            let link = Link {
                chain: [0x5a; NAME_BYTES],
                sequence,
                previous: [0xa5; 32],
            };
            let mut line = b"{\"time\":\"t\"}".to_vec();
            link.seal(&mut line);
            assert_eq!(Link::parse(&line), Some(link));
            assert!(serde_json::from_slice::<serde_json::Value>(&line).is_ok());
            let mut signed = b"{\"time\":\"t\"}".to_vec();
            link.seal_signed(&mut signed, |message| {
                assert_eq!(message, &line[..line.len() - 1]);
                [0x3c; SIGNATURE_BYTES]
            });
            assert!(serde_json::from_slice::<serde_json::Value>(&signed).is_ok());
            assert_eq!(Link::parse(&signed), Some(link));
            let read = SignedLine::parse(&signed).unwrap();
            assert_eq!((read.link, read.signature), (link, [0x3c; SIGNATURE_BYTES]));
            assert_eq!(read.message, &line[..line.len() - 1]);
            assert!(SignedLine::parse(&line).is_none());
        }
    }

    #[test]
    fn distinguishes_torn_records_from_other_lines() {
        let mut record = b"{\"time\":\"2026-01-01T00:00:00.000Z\",\"id\":\"{\\\"time\\\":\\\"\",\
            \"tool\":\"a{\",\"path\":\"\\u00e9\\\\\",\"outcome\":\"output\",\"reason\":null,\"bytes\":12}"
            .to_vec();
        Link::FIRST.seal_signed(&mut record, |_| [7; SIGNATURE_BYTES]);
        for end in 0..record.len() {
            assert_eq!(is_torn_record(&record[..end]), end > 0, "cut at {end}");
            let with_zeros = [&record[..end], b"\0\0"].concat();
            assert!(is_torn_record(&with_zeros), "cut at {end}, then zeros");
        }
        assert!(is_torn_record(&[&record, &b"\0"[..]].concat()));
        // In the middle of a text.
        let torn = &record[..46];
        for other in [
            &record[..],
            &[&record, &record[..]].concat(),
            &[torn, &record].concat(),
            &[torn, b"\",\"x\":", &record].concat(),
            &[torn, b"\",\"x\":", &record, b","].concat(),
            &[torn, b"\0\""].concat(),
            b"noise\0",
            b"{}\0",
            &[torn, b"\x1b"].concat(),
            b"noise",
            b" ",
            b"{}",
            b"{\"tool\":\"read_skill\",",
        ] {
            assert!(!is_torn_record(other), "{}", String::from_utf8_lossy(other));
        }
    }

    #[test]
    fn formats_times_of_any_clock() {
        let epoch = SystemTime::UNIX_EPOCH;
        let year = Duration::from_secs(365 * 24 * 3600);
        for (time, expected) in [
            (epoch - year * 100, "1970-01-01T00:00:00.000Z"),
            (
                epoch + Duration::from_millis(1_234),
                "1970-01-01T00:00:01.234Z",
            ),
            (epoch + year * 8_000, "9964-09-09T00:00:00.000Z"),
            (epoch + year * 9_000, "9999-12-31T23:59:59.999Z"),
        ] {
            let formatted = format_time(time);
            assert_eq!(formatted, expected);
            assert!(matches_pattern(formatted.as_bytes(), &RECORD_START[9..33]));
        }
    }

    #[test]
    fn names_chain_after_its_first_record() {
        let second = Link::FIRST.next_after(b"first");
        let third = second.next_after(b"second");
        assert_eq!(second.chain, second.previous[..NAME_BYTES]);
        assert_eq!((third.chain, third.sequence), (second.chain, 2));
        assert_ne!(Link::FIRST.next_after(b"other").chain, second.chain);
    }

    #[test]
    fn accepts_only_one_spelling_of_link() {
        let mut line = b"{\"time\":\"t\"}".to_vec();
        Link::FIRST.seal(&mut line);
        let line = String::from_utf8(line).unwrap();
        for wrong in [
            line.replace("\"sequence\":0", "\"sequence\":00"),
            line.replace("\"sequence\":0", "\"sequence\":"),
            line.replace("\"sequence\":0", "\"sequence\":18446744073709551616"),
            line.replace("\"sequence\":0", "\"sequence\": 0"),
            line.replace("\"chain\":\"0", "\"chain\":\"A"),
            line.replace("\"chain\":\"0", "\"chain\":\""),
            line.replace("\"chain\":\"", "\"chain\": \""),
            line.replace("\"previous\":\"0", "\"previous\":\"A"),
            line.replace("\"previous\":\"0", "\"previous\":\""),
            line.replace("\"}", "\" }"),
            line[..line.len() - 1].to_owned(),
            format!("{line} "),
            "{}".to_owned(),
            String::new(),
        ] {
            assert_ne!(wrong, line);
            assert_eq!(Link::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
