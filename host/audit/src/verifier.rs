//! The check of a chain, record by record: each must have the next number and the
//! digest of the one before, and what stands between records must be what a record
//! says of it. Not here: files and their order.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use skillhost::internal::chain::{CHECKPOINT, CONTINUED, Link, NAME, Signed, from_hex};

use crate::kept::KeptCheckpoints;
use crate::key::PublicKey;
use crate::report::{Problem, Report};

/// The most problems of a report. Guards against: a file of nothing else, which would
/// fill the memory.
const MOST_PROBLEMS: usize = 100;

/// The beginning of a record that belongs to no call; `0` stands for any digit.
const EVENT: &[u8] =
    b"{\"time\":\"0000-00-00T00:00:00.000Z\",\"id\":null,\"tool\":\"\",\"outcome\":\"";

/// Checks a chain.
#[derive(Clone)]
pub struct Verifier {
    keys: Arc<[PublicKey]>,
    kept: KeptCheckpoints,
    /// The link of the next record. None before the first.
    next: Option<Link>,
    file: Arc<str>,
    line: u64,
    gap: Gap,
    report: Report,
    /// The records of earlier chains that nothing proves.
    unproven_before: u64,
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

impl Verifier {
    /// Starts a check with the keys that may have signed.
    pub fn new(keys: &[PublicKey], kept: KeptCheckpoints) -> Self {
        Self {
            keys: keys.into(),
            kept,
            next: None,
            file: Arc::from(""),
            line: 0,
            gap: Gap::default(),
            report: Report::default(),
            unproven_before: 0,
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
        let after = link.after(line);
        if !self.follows(link, &after.chain, event.as_ref()) {
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
        self.next = Some(after);
        let signed = Signed::of(line);
        let key = event.filter(|event| event.outcome == CHECKPOINT);
        let key = key.map(|event| event.key.unwrap_or_default());
        if signed.is_some() || key.is_some() {
            self.check_signature(link, &after.chain, key.unwrap_or_default(), signed);
        }
        if let Some(found) = self.kept.meet(link.sequence, &after) {
            self.report.kept += u64::from(found.is_met);
            if found.has_others {
                let problem = "it is not the checkpoint with this number that was kept";
                self.add(Some(link.sequence), problem.to_owned());
            }
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
        let kept = std::mem::take(&mut self.kept);
        let (is_empty, is_proven) = (self.next.is_none(), self.report.proven.is_some());
        kept.report_unmet(is_empty, is_proven, |sequence, problem| {
            self.add(Some(sequence), problem);
        });
        self.report
    }

    /// Checks that a record of a chain has the place that it says, and reports what is
    /// wrong. Returns false if the record has no place here.
    fn follows(&mut self, link: Link, chain: &[u8; NAME], event: Option<&Event<'_>>) -> bool {
        let sequence = link.sequence;
        let begins = link == Link::FIRST || event.is_some_and(|event| event.outcome == CONTINUED);
        let Some(next) = self.next else {
            if !begins {
                self.add(
                    Some(sequence),
                    format!("the log begins with record {sequence}: its beginning is missing"),
                );
            }
            self.begin_chain(sequence);
            return true;
        };
        if link == next {
            return true;
        }
        // Nothing ties a chain to another one but that both are known elsewhere.
        let is_kept = self.kept.has(&next.chain) && self.kept.has(chain);
        if begins && is_kept && !self.kept.has_met(chain) {
            self.begin_chain(sequence);
            return true;
        }
        let problem = if link == Link::FIRST && self.report.last.is_some() {
            "a new chain begins: nothing ties it to the records before".to_owned()
        } else if sequence == next.sequence {
            "it does not follow the record before it: one of the two was changed".to_owned()
        } else if link.chain != next.chain {
            "it is of another chain: nothing ties it to the records before".to_owned()
        } else if let Some(missing) = sequence.checked_sub(next.sequence) {
            let missing = match missing {
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

    fn begin_chain(&mut self, first: u64) {
        self.report.chains += 1;
        self.report.missing_before += first;
        self.unproven_before = self.report.unproven;
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

    fn check_signature(
        &mut self,
        link: Link,
        chain: &[u8; NAME],
        key: &str,
        signed: Option<Signed<'_>>,
    ) {
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
        self.report.unproven = self.unproven_before;
        self.kept.prove(chain);
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
