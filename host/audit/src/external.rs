//! External checkpoints: checkpoints that are stored outside of the log.
//!
//! They show that a log was cut, or replaced by another log. The log itself cannot show this.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufReader, Read};
use std::iter;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use skillhost_sandbox::tool::audit::chain::{
    Link, MAX_ZERO_BYTES, NAME_BYTES, RECORD_START, SignedLine, is_torn_record, without_zeros,
};
use skillhost_skills::named_file;
use skillhost_skills::text::count::count;
use skillhost_skills::text::digest::hex;

use crate::key::PublicKey;
use crate::lines::{Piece, PieceReader};

/// The maximum number of checkpoints in all files of external checkpoints together, with torn ones.
/// Guards against: files that fill the memory.
const MAX_CHECKPOINTS: usize = 1_000_000;

/// Checkpoints that are stored outside of the log.
#[derive(Debug, Clone, Default)]
pub struct ExternalCheckpoints {
    chains: BTreeMap<[u8; NAME_BYTES], ExternalChain>,
    /// The number of checkpoints in the files, with torn ones. A line that is too long counts at
    /// least once for each of its parts.
    count: usize,
    /// The number of bytes of torn checkpoints in the files.
    torn_bytes: u64,
}

/// The external checkpoints of one chain, and the part of the chain that is in the log.
#[derive(Debug, Clone, Default)]
struct ExternalChain {
    /// The numbers and digests of the checkpoints that are not yet found in the log.
    ///
    /// A number may have two digests if the log was restored from a copy and then continued
    /// differently.
    missing: BTreeSet<(u64, [u8; 32])>,
    /// The number of the newest checkpoint.
    newest: u64,
    /// The numbers of the first and the last record in the log.
    in_log: Option<(u64, u64)>,
    /// True if the log has a checkpoint with a valid signature for this chain.
    is_proven: bool,
}

/// The comparison of a record with the external checkpoints that have its number.
pub(crate) struct CheckpointMatch {
    /// True if the record is one of these checkpoints.
    pub(crate) is_found: bool,
    /// True if one of these checkpoints differs from the record.
    pub(crate) has_others: bool,
}

impl ExternalCheckpoints {
    /// Reads files with a checkpoint on each line, as hosts sent them.
    ///
    /// Fails if a checkpoint is not signed with one of the keys. Skips torn checkpoints, and counts
    /// their bytes.
    pub fn read(files: &[PathBuf], keys: &[PublicKey]) -> anyhow::Result<Self> {
        let mut checkpoints = Self::default();
        for path in files {
            let context = || format!("cannot use the checkpoints in `{}`", path.display());
            checkpoints.add_file(path, keys).with_context(context)?;
        }
        Ok(checkpoints)
    }

    /// Adds the checkpoints in a file.
    fn add_file(&mut self, path: &Path, keys: &[PublicKey]) -> anyhow::Result<()> {
        let mut file = ZeroShortener::new(named_file::open(path)?);
        let mut pieces = PieceReader::new(BufReader::new(&mut file));
        let mut number = 1;
        while let Some(piece) = pieces.next()? {
            let (bytes, ends_line) = match piece {
                Piece::Line(bytes) => (bytes, true),
                Piece::Part { bytes, ends_line } => (bytes, ends_line),
            };
            // The last part of a line that is too long has its line feed.
            let line = bytes.strip_suffix(b"\n").unwrap_or(bytes);
            for record in split_records(line) {
                self.count += 1;
                ensure!(
                    self.count <= MAX_CHECKPOINTS,
                    "there are more than {MAX_CHECKPOINTS}; use only the later ones"
                );
                self.add_record(record, keys)
                    .with_context(|| format!("line {number}"))?;
            }
            number += usize::from(ends_line);
        }
        self.torn_bytes += file.left_out;
        Ok(())
    }

    /// Adds a checkpoint, or counts the bytes of a torn one. Zero bytes can be in place of a line
    /// feed.
    fn add_record(&mut self, record: &[u8], keys: &[PublicKey]) -> anyhow::Result<()> {
        let line = without_zeros(record);
        if SignedLine::parse(line).is_none() && is_torn_record(record) {
            self.torn_bytes += record.len() as u64;
            return Ok(());
        }
        self.torn_bytes += (record.len() - line.len()) as u64;
        self.add(line, keys)
    }

    /// Adds the line of a checkpoint, without its line feed.
    pub fn add(&mut self, line: &[u8], keys: &[PublicKey]) -> anyhow::Result<()> {
        let Some(signed) = SignedLine::parse(line) else {
            bail!("not a checkpoint");
        };
        let is_signed = |key: &PublicKey| key.verifies(signed.message, &signed.signature);
        ensure!(
            keys.iter().any(is_signed),
            "not signed with any of the given keys"
        );
        let next = signed.link.next_after(line);
        let chain = self.chains.entry(next.chain).or_default();
        chain.newest = chain.newest.max(signed.link.sequence);
        chain.missing.insert((signed.link.sequence, next.previous));
        Ok(())
    }

    /// Returns the number of bytes of torn checkpoints in the files.
    pub(crate) fn torn_bytes(&self) -> u64 {
        self.torn_bytes
    }

    /// Returns whether a chain has external checkpoints.
    pub(crate) fn has_chain(&self, chain: &[u8; NAME_BYTES]) -> bool {
        self.chains.contains_key(chain)
    }

    /// Returns whether the chain has external checkpoints and a record in the log so far.
    pub(crate) fn has_noted_record(&self, chain: &[u8; NAME_BYTES]) -> bool {
        let chain = self.chains.get(chain);
        chain.is_some_and(|chain| chain.in_log.is_some())
    }

    /// Notes that the log has the record with the number `sequence`, and compares the record with
    /// the external checkpoints of this number. Returns `None` if there are no such checkpoints.
    ///
    /// `next` is the link of the record after it.
    pub(crate) fn note_record(&mut self, sequence: u64, next: &Link) -> Option<CheckpointMatch> {
        let chain = self.chains.get_mut(&next.chain)?;
        let (first, last) = chain.in_log.get_or_insert((sequence, sequence));
        (*first, *last) = (sequence.min(*first), sequence.max(*last));
        let range = range_of(sequence..=sequence);
        let found: Vec<_> = chain.missing.extract_if(range, |_| true).collect();
        (!found.is_empty()).then(|| CheckpointMatch {
            is_found: found.iter().any(|(_, digest)| *digest == next.previous),
            has_others: found.iter().any(|(_, digest)| *digest != next.previous),
        })
    }

    /// Notes that the log has a checkpoint with a valid signature for this chain.
    pub(crate) fn note_proof(&mut self, chain: &[u8; NAME_BYTES]) {
        if let Some(chain) = self.chains.get_mut(chain) {
            chain.is_proven = true;
        }
    }

    /// Reports chains with external checkpoints that are missing in the log, and chains without a
    /// valid checkpoint in the log. Passes the number of a checkpoint and the problem in words to
    /// `report`.
    ///
    /// Does not report checkpoints that are older than the log's first record of their chain.
    ///
    /// `is_empty` means that the log has no records. `is_any_proven` means that at least one chain
    /// in the log is proven. `has_problems` means that other problems were already reported, which
    /// may explain why checkpoints between two records are missing.
    pub(crate) fn report_missing(
        self,
        is_empty: bool,
        is_any_proven: bool,
        has_problems: bool,
        mut report: impl FnMut(u64, String),
    ) {
        for (name, chain) in self.chains {
            let newest = chain.newest;
            let Some((first, last)) = chain.in_log else {
                let which = if is_empty { "the" } else { "another" };
                let name = hex(&name);
                let problem = format!(
                    "there is an external checkpoint {newest} of {which} chain, `{name}`, but no \
                     record of that chain"
                );
                report(newest, problem);
                continue;
            };
            let missing = chain.missing.range(range_of(first..=last));
            let mut missing: Vec<u64> = missing.map(|(number, _)| *number).collect();
            missing.dedup();
            if let (Some(sequence), false) = (missing.first(), has_problems) {
                let others = match missing.len() {
                    1 => String::new(),
                    more => format!(", and {} later", count(more - 1, "checkpoint")),
                };
                let problem =
                    format!("the external checkpoint {sequence} is not in the log{others}");
                report(*sequence, problem);
            }
            if newest > last {
                let problem = format!(
                    "the log is cut after record {last}: there is an external checkpoint {newest}"
                );
                report(newest, problem);
            } else if !chain.is_proven && is_any_proven {
                // Without a key, anyone can add records until their numbers exceed `newest`.
                let problem = format!(
                    "nothing proves the records {first} to {last}: their chain has an external \
                     checkpoint {newest}, but the log has no valid checkpoint of it"
                );
                report(newest, problem);
            }
        }
    }
}

/// Returns the range of all checkpoints that have these numbers.
fn range_of(numbers: RangeInclusive<u64>) -> RangeInclusive<(u64, [u8; 32])> {
    let (first, last) = numbers.into_inner();
    (first, [0; 32])..=(last, [u8::MAX; 32])
}

/// A reader that shortens each run of zero bytes to a single zero byte.
///
/// A power failure can leave zero bytes before a checkpoint on the same line. Without this reader,
/// they could make the line longer than [`MAX_LINE_BYTES`](crate::lines::MAX_LINE_BYTES).
struct ZeroShortener<R> {
    reader: R,
    is_after_zero: bool,
    /// The number of zero bytes left out.
    left_out: u64,
    /// The maximum value of `left_out` until the next line. A line leaves out at most
    /// [`MAX_ZERO_BYTES`].
    max_left_out: u64,
}

impl<R> ZeroShortener<R> {
    fn new(reader: R) -> Self {
        Self {
            reader,
            is_after_zero: false,
            left_out: 0,
            max_left_out: MAX_ZERO_BYTES,
        }
    }

    /// Returns whether the next byte is part of the result. Counts the byte as left out if not.
    fn keeps(&mut self, byte: u8) -> bool {
        if byte == b'\n' {
            self.max_left_out = self.left_out + MAX_ZERO_BYTES;
        }
        let is_left_out = byte == 0 && self.is_after_zero && self.left_out < self.max_left_out;
        self.is_after_zero = byte == 0;
        self.left_out += u64::from(is_left_out);
        !is_left_out
    }
}

impl<R: Read> Read for ZeroShortener<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.reader.read(buffer)?;
            let mut kept = 0;
            for at in 0..read {
                let byte = buffer[at];
                if self.keeps(byte) {
                    buffer[kept] = byte;
                    kept += 1;
                }
            }
            // A result of 0 would mean the end of the file, so read again if all bytes are left
            // out.
            if kept > 0 || read == 0 {
                return Ok(kept);
            }
        }
    }
}

/// Splits a line before each record in it.
///
/// A process that is killed while it stores a checkpoint leaves a torn one, or a whole one without
/// its line feed. The next process appends to the same line.
fn split_records(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = line;
    iter::from_fn(move || {
        let mut starts = 1..rest.len();
        let next = starts.find(|at| starts_record(&rest[*at..]));
        let (record, after) = rest.split_at(next.unwrap_or(rest.len()));
        rest = after;
        (!record.is_empty()).then_some(record)
    })
}

/// Returns whether a part of a line starts with a record: with its first nine bytes, which no JSON
/// text contains, or with some of them before the next record or the end of the line. There, one
/// zero byte is left of those of a power failure.
fn starts_record(part: &[u8]) -> bool {
    const START: &[u8] = RECORD_START.split_at(9).0;
    (1..=START.len()).any(|count| {
        let rest = part.strip_prefix(&START[..count]);
        let rest = rest.map(|rest| rest.strip_prefix(b"\0").unwrap_or(rest));
        rest.is_some_and(|rest| count == START.len() || rest.is_empty() || rest.starts_with(START))
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::lines::MAX_LINE_BYTES;

    #[test]
    fn limits_lines_of_all_files_together() {
        let folder = tempfile::tempdir().unwrap();
        let files = ["one", "two"].map(|name| folder.path().join(name));
        // Torn checkpoints need no key.
        fs::write(&files[0], "{\n".repeat(MAX_CHECKPOINTS)).unwrap();
        fs::write(&files[1], "{\n").unwrap();
        let read = ExternalCheckpoints::read(&files[..1], &[]).unwrap();
        assert_eq!(read.torn_bytes(), MAX_CHECKPOINTS as u64);
        let error = ExternalCheckpoints::read(&files, &[]).unwrap_err();
        let said = format!(
            "cannot use the checkpoints in `{}`: there are more than 1000000; use only the later \
             ones",
            files[1].display()
        );
        assert_eq!(format!("{error:#}"), said);
    }

    #[test]
    fn error_names_number_of_line_and_not_of_part() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("checkpoints");
        // The first part looks like a torn checkpoint, but the second part does not.
        let start = "{\"time\":\"2026-01-01T00:00:00.000Z\",\"id\":\"";
        let long = "x".repeat(MAX_LINE_BYTES);
        for (before, number) in [("", 1), ("{\n\n", 3)] {
            fs::write(&path, format!("{before}{start}{long}\n")).unwrap();
            let error = ExternalCheckpoints::read(std::slice::from_ref(&path), &[]).unwrap_err();
            let said = format!("line {number}: not a checkpoint");
            assert!(format!("{error:#}").ends_with(&said), "{error:#}");
        }
    }

    #[test]
    fn finds_one_of_two_checkpoints_with_same_number() {
        let chain = [1; NAME_BYTES];
        let mut external = ExternalCheckpoints::default();
        let known = external.chains.entry(chain).or_default();
        known.missing = BTreeSet::from([
            (1, [u8::MAX; 32]),
            (2, [0; 32]),
            (2, [u8::MAX; 32]),
            (3, [0; 32]),
            (3, [1; 32]),
        ]);
        (known.in_log, known.newest, known.is_proven) = (Some((1, 4)), 4, true);
        let next = Link {
            chain,
            sequence: 3,
            previous: [0; 32],
        };
        let found = external.note_record(2, &next).unwrap();
        assert!(found.is_found && found.has_others);
        assert!(external.note_record(2, &next).is_none());
        let mut problems = Vec::new();
        external.report_missing(false, true, false, |number, problem| {
            problems.push((number, problem));
        });
        let said = "the external checkpoint 1 is not in the log, and 1 checkpoint later";
        assert_eq!(problems, [(1, said.to_owned())]);
    }

    #[test]
    fn leaves_out_bounded_number_of_zeros_per_line() {
        for (before, expected) in [
            (0, &b"a\0b\0\nc\0"[..]),
            (MAX_ZERO_BYTES - 3, &b"a\0b\0\0\nc\0"[..]),
        ] {
            let text = b"a\0\0\0b\0\0\0\nc\0\0".as_slice();
            // A run of zero bytes spans three reads, and the second read has nothing else.
            let [first, second, third] = [&text[..2], &text[2..3], &text[3..]];
            let mut reader = ZeroShortener::new(first.chain(second).chain(third));
            reader.left_out = before;
            let mut read = Vec::new();
            reader.read_to_end(&mut read).unwrap();
            assert_eq!(read, expected, "{before}");
            let left_out = (text.len() - expected.len()) as u64;
            assert_eq!(reader.left_out, before + left_out);
        }
    }
}
