//! The check of a chain, record by record: each must have the next number and the
//! digest of the one before, and what stands between records must be what a record
//! says of it. Not here: files and their order.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use skillhost::internal::chain::{CHECKPOINT, CONTINUED, Link, Signed, from_hex};

use crate::kept::KeptCheckpoints;
use crate::key::PublicKey;

/// The most problems of a report. Guards against: a file of nothing else, which would
/// fill the memory.
const MOST_PROBLEMS: usize = 100;

/// The beginning of a record that belongs to no call; `0` stands for any digit.
const EVENT: &[u8] =
    b"{\"time\":\"0000-00-00T00:00:00.000Z\",\"id\":null,\"tool\":\"\",\"outcome\":\"";

/// The result of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// The number of records of the chain.
    pub records: u64,
    /// The numbers of the first record and of the last.
    pub first: Option<u64>,
    /// See [`Report::first`].
    pub last: Option<u64>,
    /// The number of checkpoints whose signature is right.
    pub checkpoints: u64,
    /// The number of the last of them: records up to it are proven, if there is no
    /// problem.
    pub proven: Option<u64>,
    /// The number of records after it.
    pub unproven: u64,
    /// The number of checkpoints that were kept elsewhere and found in the log.
    pub kept: u64,
    /// The bytes that are no records of the chain, and that a record vouches for: parts
    /// of records, and records of versions without a chain.
    pub vouched_bytes: u64,
    /// The bytes at the ends of files that are no whole record. Nothing is known of them.
    pub torn_bytes: u64,
    /// The problems, the first hundred.
    pub problems: Vec<Problem>,
    /// The number of further problems.
    pub problems_left_out: u64,
}

/// A place where the log is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Problem {
    /// The name of the file.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: u64,
    /// The number of the record.
    pub sequence: Option<u64>,
    /// The problem, in words.
    pub problem: String,
}

/// Checks a chain.
#[derive(Clone)]
pub struct Verifier {
    keys: Arc<[PublicKey]>,
    kept: Arc<KeptCheckpoints>,
    /// The link of the next record. None before the first.
    next: Option<Link>,
    file: Arc<str>,
    line: u64,
    gap: Gap,
    report: Report,
}

/// What stands after the last record of the chain.
#[derive(Clone, Default)]
struct Gap {
    bytes: u64,
    digest: Sha256,
    /// The problem that it is, unless a record vouches for it.
    problem: Option<Problem>,
}

/// The fields of a record that belongs to no call.
#[derive(Deserialize)]
struct Event<'a> {
    outcome: &'a str,
    #[serde(default)]
    gap_bytes: u64,
    gap_sha256: Option<&'a str>,
    key: Option<&'a str>,
}

impl Report {
    /// Returns whether every record up to the last checkpoint is as it was written, and
    /// there is a checkpoint.
    pub fn is_proven(&self) -> bool {
        self.problems.is_empty() && self.proven.is_some()
    }
}

impl Verifier {
    /// Starts a check with the keys that may have signed.
    pub fn new(keys: &[PublicKey], kept: KeptCheckpoints) -> Self {
        Self {
            keys: keys.into(),
            kept: Arc::new(kept),
            next: None,
            file: Arc::from(""),
            line: 0,
            gap: Gap::default(),
            report: Report::default(),
        }
    }

    /// Goes on with a file.
    pub fn file(&mut self, name: &str) {
        self.end_file();
        self.file = name.into();
        self.line = 0;
    }

    /// Checks a line, which is given without its line feed.
    pub fn line(&mut self, line: &[u8]) {
        self.line += 1;
        let event = match begins_as(line, EVENT) {
            true => serde_json::from_slice::<Event<'_>>(line).ok(),
            false => None,
        };
        let link = Link::of(line).filter(|_| line.starts_with(b"{\"time\":\""));
        let Some(link) = link else {
            let problem = || "it is no record of the chain: changed, or written by others".into();
            self.add_to_gap(&[line, b"\n"], None, problem);
            return;
        };
        if !self.follows(link, event.as_ref()) {
            let problem = || format!("record {} is repeated or out of order", link.sequence);
            self.add_to_gap(&[line, b"\n"], Some(link.sequence), problem);
            return;
        }
        self.close_gap(link, event.as_ref());
        let report = &mut self.report;
        report.records += 1;
        report.unproven += 1;
        report.first.get_or_insert(link.sequence);
        report.last = Some(link.sequence);
        self.next = Some(link.after(line));
        let signed = Signed::of(line);
        let key = event.filter(|event| event.outcome == CHECKPOINT);
        let key = key.map(|event| event.key.unwrap_or_default());
        if signed.is_some() || key.is_some() {
            self.check_signature(link, key.unwrap_or_default(), signed);
        }
        match self.kept.has(link.sequence, line) {
            Some(true) => self.report.kept += 1,
            Some(false) => {
                let problem = "it is not the checkpoint with this number that was kept";
                self.add(Some(link.sequence), problem.to_owned());
            }
            None => {}
        }
    }

    /// Takes a part of a line that is too long to be a record, or that has no line feed
    /// because it is the end of a file. `ends` says that a line feed is its end.
    pub fn part(&mut self, part: &[u8], ends: bool) {
        self.line += 1;
        self.add_to_gap(&[part], None, || "it is no record of the chain".into());
        // A further part is of the same line.
        self.line -= u64::from(!ends);
    }

    /// Ends the check.
    pub fn finish(mut self) -> Report {
        self.end_file();
        let last = self.report.last;
        let kept = self.kept.last();
        if let Some(kept) = kept.filter(|kept| last.is_none_or(|last| last < *kept)) {
            let end = match last {
                Some(last) => format!("after record {last}"),
                None => "before its first record".to_owned(),
            };
            let problem = format!("the log is cut {end}: the checkpoint {kept} was kept");
            self.add(last, problem);
        }
        self.report
    }

    /// Checks that a record has the place that it says, and reports what is wrong.
    /// Returns false if the record has no place here.
    fn follows(&mut self, link: Link, event: Option<&Event<'_>>) -> bool {
        let sequence = link.sequence;
        let Some(next) = self.next else {
            let begins = event.is_some_and(|event| event.outcome == CONTINUED);
            if link != Link::FIRST && !begins {
                self.add(
                    Some(sequence),
                    format!("the log begins with record {sequence}: its beginning is missing"),
                );
            }
            return true;
        };
        if link == next {
            return true;
        }
        let problem = if link == Link::FIRST && self.report.last.is_some() {
            "a new chain begins: nothing ties it to the records before".to_owned()
        } else if sequence == next.sequence {
            "it does not follow the record before it: one of the two was changed".to_owned()
        } else if sequence > next.sequence {
            let missing = match sequence - next.sequence {
                1 => format!("record {} is missing", next.sequence),
                _ => format!("records {} to {} are missing", next.sequence, sequence - 1),
            };
            format!("{missing} before it")
        } else {
            return false;
        };
        self.add(Some(sequence), problem);
        true
    }

    /// Compares what is before a record with what the record says of it.
    fn close_gap(&mut self, link: Link, event: Option<&Event<'_>>) {
        let (bytes, digest) = match event {
            Some(event) => (event.gap_bytes, event.gap_sha256),
            None => (0, None),
        };
        if bytes == 0 && self.gap.bytes == 0 {
            return;
        }
        let gap = std::mem::take(&mut self.gap);
        let found: [u8; 32] = gap.digest.finalize().into();
        let digest = digest.and_then(|digest| from_hex::<32>(digest.as_bytes()));
        if bytes == gap.bytes && digest == Some(found) {
            self.report.vouched_bytes += bytes;
            return;
        }
        match gap.problem {
            Some(problem) => self.push(problem),
            None => self.add(
                Some(link.sequence),
                format!("{bytes} bytes before it are missing, of which it says that they are torn"),
            ),
        }
    }

    fn check_signature(&mut self, link: Link, key: &str, signed: Option<Signed<'_>>) {
        let sequence = Some(link.sequence);
        let Some(signed) = signed else {
            self.add(sequence, "the checkpoint has no signature".to_owned());
            return;
        };
        let Some(known) = self.keys.iter().find(|known| known.id() == key) else {
            let key: String = key.chars().take(64).collect();
            self.add(
                sequence,
                format!("the checkpoint is signed with another key, `{key}`"),
            );
            return;
        };
        if !known.verifies(signed.message, &signed.signature) {
            self.add(sequence, "the signature is wrong".to_owned());
            return;
        }
        self.report.checkpoints += 1;
        self.report.proven = sequence;
        self.report.unproven = 0;
    }

    fn add_to_gap(
        &mut self,
        parts: &[&[u8]],
        sequence: Option<u64>,
        problem: impl FnOnce() -> String,
    ) {
        for part in parts {
            self.gap.digest.update(part);
            self.gap.bytes += part.len() as u64;
        }
        if self.gap.problem.is_none() {
            let problem = problem();
            self.gap.problem = Some(self.problem(sequence, problem));
        }
    }

    /// Ends a file. The last record may be cut short; a record of the chain is no such
    /// part.
    fn end_file(&mut self) {
        let gap = std::mem::take(&mut self.gap);
        match gap.problem {
            Some(problem) if problem.sequence.is_some() => self.push(problem),
            _ => self.report.torn_bytes += gap.bytes,
        }
    }

    fn problem(&self, sequence: Option<u64>, problem: String) -> Problem {
        Problem {
            file: Arc::clone(&self.file),
            line: self.line,
            sequence,
            problem,
        }
    }

    fn add(&mut self, sequence: Option<u64>, problem: String) {
        let problem = self.problem(sequence, problem);
        self.push(problem);
    }

    fn push(&mut self, problem: Problem) {
        match self.report.problems.len() < MOST_PROBLEMS {
            true => self.report.problems.push(problem),
            false => self.report.problems_left_out += 1,
        }
    }
}

/// Checks that a line begins as `start` does.
fn begins_as(line: &[u8], start: &[u8]) -> bool {
    let matches = |(byte, expected): (&u8, &u8)| match expected {
        b'0' => byte.is_ascii_digit(),
        expected => byte == expected,
    };
    line.len() >= start.len() && line.iter().zip(start).all(matches)
}
