//! Verifies a chain record by record.
//!
//! Each record must have the next number and the digest of the record before it. Only torn records
//! are allowed between two records, and the next record must vouch for them.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use skillhost_sandbox::tool::audit::chain::{
    CHECKPOINT, CONTINUED, EVENTS, JOINED, Link, NAME_BYTES, SignedLine, TimeText, from_hex,
    is_torn_record, matches_pattern, time_of,
};

use crate::external::ExternalCheckpoints;
use crate::joined::KnownRecords;
use crate::key::PublicKey;
use crate::lines::{MAX_LINE_BYTES, Piece};
use crate::report::{LogProblem, VerifyReport};

/// The maximum number of problems in a report. Guards against: a log with so many problems that
/// they fill the memory.
const MAX_PROBLEMS: usize = 100;

/// The maximum number of characters of a key's id in a message.
const MAX_KEY_ID_CHARACTERS: usize = 64;

/// The beginning of a record that belongs to no call. `0` matches any digit.
const EVENT_START: &[u8] =
    b"{\"time\":\"0000-00-00T00:00:00.000Z\",\"id\":null,\"tool\":\"\",\"outcome\":\"";

/// The time of a line that is not a record: later than the time of any record.
const NO_TIME: TimeText = [0xff; size_of::<TimeText>()];

/// A verifier of a log's chain.
#[derive(Clone)]
pub struct Verifier {
    /// The keys that may have signed checkpoints. `None` if signatures are not checked.
    keys: Option<Arc<[PublicKey]>>,
    external: ExternalCheckpoints,
    /// `None` to read a log without an end in bounded memory.
    known: Option<KnownRecords>,
    /// The link of the next record. `None` before the first.
    next: Option<Link>,
    file: Arc<str>,
    line: u64,
    /// True once a record of a chain was found in this file.
    has_chain: bool,
    /// The time of the first record of a chain.
    first_time: Option<TimeText>,
    /// The gap of each earlier file that has unchained lines and no record of a chain.
    unchained_files: Vec<Gap>,
    /// True if a record of this file does not follow the one before it.
    is_broken: bool,
    gap: Gap,
    /// 1 if lines after the last record of the file before this one were reported, otherwise 0.
    reported_lines_before: u64,
    /// The content of the parts of this line so far. `None` at the beginning of a line.
    long_line: Option<GapContent>,
    /// The end of this file, if it is a record without its line feed.
    unended_record: Option<Vec<u8>>,
    report: VerifyReport,
    /// The number of unproven records in earlier chains.
    unproven_before: u64,
    /// The number of calls of this chain before its first checkpoint. `None` after it.
    before_checkpoint: Option<u64>,
    /// True if a problem of the last record was reported. A wrong digest in the next record is then
    /// the same problem, and is not reported again.
    is_last_reported: bool,
    /// The ids of unknown keys that were reported.
    other_keys: BTreeSet<String>,
}

/// The bytes after the last record of the chain in a file.
#[derive(Clone, Default)]
struct Gap {
    bytes: u64,
    digest: Sha256,
    /// The worst kind of content.
    content: GapContent,
    /// The problem to report for the first line with this content, unless the record after the gap
    /// vouches for the gap: it has the digest of the gap's bytes.
    problem: Option<LogProblem>,
    /// The number of lines in the gap.
    lines: u64,
    /// The line number in the file of the gap's last line.
    last_line: u64,
    /// The number of lines in the gap that are not torn records.
    unchained: u64,
    /// The line number in the file of the last line that is not a torn record.
    last_unchained: u64,
    /// The latest time of the lines that are not torn records.
    latest: TimeText,
}

/// The kinds of bytes between records of a chain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum GapContent {
    /// Torn records, as a killed process or a full disk leaves them.
    #[default]
    Torn,
    /// Other lines. Before a chain begins, a version without chains may have written them.
    Unchained,
    /// A record of a chain at a place where it does not belong.
    Misplaced,
}

/// The position of a record relative to the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    /// The record follows the record before it.
    Follows,
    /// The record begins a chain, or continues one at the beginning of a file.
    Begins,
    /// The record before this one is missing or was changed, or this one was changed.
    Broken,
    /// The record belongs to another place in the log, or to another chain.
    Misplaced,
}

/// The fields of a record that belongs to no call.
#[derive(Deserialize)]
struct Event<'a> {
    outcome: &'a str,
    #[serde(default)]
    gap_bytes: u64,
    gap_sha256: Option<&'a str>,
    known_chain: Option<&'a str>,
    #[serde(default)]
    known_sequence: u64,
    known_sha256: Option<&'a str>,
    #[serde(default)]
    known_here: bool,
    key: Option<&'a str>,
}

/// A problem with the signature of a checkpoint.
#[derive(Debug)]
enum SignatureProblem {
    Missing,
    /// The checkpoint names a key that was not given. The text is this key's id.
    OtherKey(String),
    Wrong,
}

impl fmt::Display for SignatureProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("the checkpoint has no signature"),
            Self::OtherKey(key) => {
                write!(f, "the checkpoint is signed with another key, `{key}`")
            }
            Self::Wrong => f.write_str("the signature is wrong"),
        }
    }
}

impl Event<'_> {
    /// Reads the event in a line. Returns `None` for the record of a call.
    fn parse(line: &[u8]) -> Option<Event<'_>> {
        let is_event = line.len() >= EVENT_START.len() && matches_pattern(line, EVENT_START);
        is_event
            .then(|| serde_json::from_slice(line).ok())
            .flatten()
    }

    /// Returns whether the outcome is one that hosts write for records without a call.
    fn is_known(&self) -> bool {
        EVENTS.contains(&self.outcome)
    }

    /// Returns the link after the last record that a host knew before it joined this chain.
    fn known(&self) -> Option<Link> {
        let known = self.known_chain.zip(self.known_sha256);
        let (chain, previous) = known.filter(|_| self.outcome == JOINED)?;
        Some(Link {
            chain: from_hex(chain.as_bytes())?,
            sequence: self.known_sequence.checked_add(1)?,
            previous: from_hex(previous.as_bytes())?,
        })
    }
}

impl Verifier {
    /// Creates a verifier with the keys that may have signed checkpoints.
    pub fn new(keys: &[PublicKey], external: ExternalCheckpoints) -> Self {
        Self {
            keys: Some(keys.into()),
            external,
            ..Self::without_keys()
        }
    }

    /// Creates a verifier of the chain alone, without signatures.
    pub(crate) fn without_keys() -> Self {
        Self {
            known: Some(KnownRecords::default()),
            ..Self::unended()
        }
    }

    /// Creates a verifier of a chain without an end. Its memory is bounded, so it does not find
    /// removed records that only the host knew that wrote them.
    pub(crate) fn unended() -> Self {
        Self {
            keys: None,
            external: ExternalCheckpoints::default(),
            known: None,
            next: None,
            file: Arc::from(""),
            line: 0,
            has_chain: false,
            first_time: None,
            unchained_files: Vec::new(),
            is_broken: false,
            gap: Gap::default(),
            reported_lines_before: 0,
            long_line: None,
            unended_record: None,
            report: VerifyReport::default(),
            unproven_before: 0,
            before_checkpoint: None,
            is_last_reported: false,
            other_keys: BTreeSet::new(),
        }
    }

    /// Continues with another file.
    pub fn start_file(&mut self, name: &str) {
        // The log continues, so the record was not torn. Only its line feed is missing.
        if let Some(record) = self.unended_record.take() {
            self.check_line(&record);
        }
        self.end_file();
        self.file = name.into();
        self.line = 0;
        self.long_line = None;
        (self.has_chain, self.is_broken) = (false, false);
    }

    /// Takes the end of this file, if it is a record without its line feed.
    pub(crate) fn take_unended_record(&mut self) -> Option<Vec<u8>> {
        self.unended_record.take()
    }

    /// Returns the link of the record with which the next file begins. `None` before the first
    /// record.
    pub(crate) fn next_link(&self) -> Option<Link> {
        match &self.unended_record {
            Some(record) => Link::parse(record).map(|link| link.next_after(record)),
            None => self.next,
        }
    }

    /// Returns whether the next part continues a line that is too long.
    pub(crate) fn is_in_long_line(&self) -> bool {
        self.long_line.is_some()
    }

    /// Checks a piece of the file.
    pub(crate) fn check_piece(&mut self, piece: Piece<'_>) {
        match piece {
            Piece::Line(line) => {
                self.check_line(line);
            }
            Piece::Part { bytes, ends_line } => self.check_part(bytes, ends_line),
        }
    }

    /// Checks a line without its line feed. Returns whether it is a record that follows the one
    /// before it in its file.
    pub fn check_line(&mut self, line: &[u8]) -> bool {
        self.line += 1;
        let link = Link::parse(line).filter(|_| time_of(line).is_some());
        let Some(link) = link else {
            let content = if is_torn_record(line) {
                GapContent::Torn
            } else {
                GapContent::Unchained
            };
            let problem = "not a record of the chain: it was changed or added by another program";
            self.add_to_gap(&[line, b"\n"], content, None, problem);
            return false;
        };
        let event = Event::parse(line);
        let reported_before = self.problem_count();
        let (link, is_renumbered) = self.with_right_number(link);
        let next = link.next_after(line);
        let (position, problem) = if is_renumbered {
            let problem =
                "only the record's `sequence` was changed: its `previous` is right".to_owned();
            (Position::Broken, Some(problem))
        } else {
            self.classify(link, &next.chain, event.as_ref())
        };
        if position == Position::Misplaced {
            let problem = problem.unwrap_or_default();
            let (content, sequence) = (GapContent::Misplaced, Some(link.sequence));
            self.add_to_gap(&[line, b"\n"], content, sequence, &problem);
            return false;
        }
        self.first_time = self.first_time.or_else(|| time_of(line));
        let gap_lines = self.gap.lines;
        let has_bad_gap = self.close_gap(link, event.as_ref());
        let mut reported_gap_lines = std::mem::take(&mut self.reported_lines_before);
        if has_bad_gap {
            reported_gap_lines += gap_lines;
        }
        if let Some(problem) = problem
            && !self.is_explained(link, position, reported_gap_lines)
        {
            self.add_problem(Some(link.sequence), problem);
        }
        self.is_broken |= position == Position::Broken;
        self.count_record(link, event.as_ref());
        self.note_known(link, &next, event.as_ref());
        self.next = Some(next);
        let is_reported = self.problem_count() > reported_before;
        self.check_checkpoint(link, &next, event, line, is_reported);
        let is_reported = self.problem_count() > reported_before;
        self.compare_with_external(link, &next, is_reported);
        self.is_last_reported = self.problem_count() > reported_before;
        !self.is_broken
    }

    /// Corrects the sequence number of a link if everything else in the link is right. Also returns
    /// whether the number was corrected.
    ///
    /// Without this correction, all later records would be out of order.
    fn with_right_number(&self, link: Link) -> (Link, bool) {
        let next = self.next.unwrap_or(Link::FIRST);
        let renumbered = Link {
            sequence: next.sequence,
            ..link
        };
        if link.sequence != next.sequence && renumbered == next {
            (renumbered, true)
        } else {
            (link, false)
        }
    }

    /// Returns whether a reported problem already explains why a record does not follow the one
    /// before it: a problem of that earlier record was reported, or at most `gap_lines` records are
    /// missing, and a gap with this number of lines was reported.
    fn is_explained(&self, link: Link, position: Position, gap_lines: u64) -> bool {
        let is_same_chain = self.next.is_none_or(|next| next.chain == link.chain);
        let expected = self.next.map_or(0, |next| next.sequence);
        match link.sequence.checked_sub(expected) {
            Some(0) => position == Position::Broken && self.is_last_reported,
            Some(missing) => is_same_chain && missing <= gap_lines,
            None => false,
        }
    }

    /// Returns the number of problems.
    fn problem_count(&self) -> u64 {
        self.report.problems.len() as u64 + self.report.problems_left_out
    }

    /// Checks a part of a line that is too long to be a record, or the end of a file without
    /// a line feed. `ends_line` means that the part ends in a line feed.
    pub fn check_part(&mut self, part: &[u8], ends_line: bool) {
        self.line += 1;
        let is_short = part.len() < MAX_LINE_BYTES;
        let line_content = self.long_line.take();
        let link = Link::parse(part).filter(|_| is_short && line_content.is_none());
        match link {
            Some(link) if self.next.is_none_or(|next| link == next) => {
                self.unended_record = Some(part.to_owned());
            }
            link => {
                let is_torn = match line_content {
                    // A part of the maximum size is longer than any torn record, so it must end in
                    // zero bytes.
                    None => is_torn_record(part) && (is_short || part.ends_with(b"\0")),
                    // A power failure leaves any number of zero bytes after a torn record.
                    Some(content) => content == GapContent::Torn && has_only_zeros(part),
                };
                let content = match link {
                    Some(_) => GapContent::Misplaced,
                    None if is_torn => GapContent::Torn,
                    None => GapContent::Unchained,
                };
                let sequence = link.map(|link| link.sequence);
                let problem = "not a record of the chain";
                self.add_to_gap(&[part], content, sequence, problem);
                self.long_line = (!ends_line).then_some(content);
            }
        }
        // The next part belongs to the same line.
        self.line -= u64::from(!ends_line);
    }

    /// Ends the verification, and returns the report.
    pub fn finish(mut self) -> VerifyReport {
        self.end_file();
        self.end_unchained_files();
        if let Some(known) = self.known.take() {
            let other_chains = known.report_missing(|problem| self.push(problem));
            let missing = &mut self.report.missing_before;
            *missing = missing.saturating_add(other_chains);
        }
        let external = std::mem::take(&mut self.external);
        self.report.torn_checkpoint_bytes = external.torn_bytes();
        let (is_empty, is_proven) = (self.next.is_none(), self.report.last_proven.is_some());
        let has_problems = self.problem_count() > 0;
        external.report_missing(is_empty, is_proven, has_problems, |sequence, problem| {
            self.add_problem(Some(sequence), problem);
        });
        self.report
    }

    /// Returns the position of a record of a chain, and the problem with its position, if any.
    fn classify(
        &mut self,
        link: Link,
        chain: &[u8; NAME_BYTES],
        event: Option<&Event<'_>>,
    ) -> (Position, Option<String>) {
        let sequence = link.sequence;
        let begins = link == Link::FIRST || event.is_some_and(|event| event.outcome == CONTINUED);
        let Some(next) = self.next else {
            self.begin_chain();
            self.report.missing_before += sequence;
            let problem =
                || format!("the log begins with record {sequence}: its beginning is missing");
            return (Position::Begins, (!begins).then(problem));
        };
        if link == next {
            return (Position::Follows, None);
        }
        // Two chains belong to one log only if both have external checkpoints. A chain never
        // returns after another one.
        let is_external = self.external.has_chain(&next.chain) && self.external.has_chain(chain);
        if begins && is_external && !self.external.has_noted_record(chain) {
            self.begin_chain();
            // Hosts' old files are removed only from the beginning of a log, never between others.
            let problem = (link != Link::FIRST).then(|| {
                let missing = missing_records(0, sequence);
                format!("a new chain begins, and {missing} before it")
            });
            return (Position::Begins, problem);
        }
        let (position, problem) = self.classify_out_of_order(link, next, chain, begins);
        (position, Some(problem))
    }

    /// Returns the position of a record that does not follow the one before it, and the problem
    /// with its position.
    fn classify_out_of_order(
        &self,
        link: Link,
        next: Link,
        chain: &[u8; NAME_BYTES],
        begins: bool,
    ) -> (Position, String) {
        let sequence = link.sequence;
        let begins_file = !self.has_chain && begins;
        let is_other = *chain != next.chain;
        if is_other && (begins_file || sequence != next.sequence) {
            // A host never begins another chain within a file.
            let position = if begins_file {
                Position::Begins
            } else {
                Position::Misplaced
            };
            let problem = if link == Link::FIRST {
                "a new chain begins: nothing links it to the records before it"
            } else {
                "this record belongs to another chain: nothing links it to the records before it"
            };
            (position, problem.to_owned())
        } else if sequence == next.sequence {
            let problem =
                "this record does not follow the one before it: one of the two was changed";
            (Position::Broken, problem.to_owned())
        } else if sequence > next.sequence {
            // Perhaps the files in between were not given.
            let position = if begins_file {
                Position::Begins
            } else {
                Position::Broken
            };
            let missing = missing_records(next.sequence, sequence);
            (position, format!("{missing} before it"))
        } else {
            let problem = format!("record {sequence} is repeated or out of order");
            (Position::Misplaced, problem)
        }
    }

    fn begin_chain(&mut self) {
        self.report.chains += 1;
        self.unproven_before = self.report.unproven_records;
        self.before_checkpoint = Some(0);
    }

    fn count_record(&mut self, link: Link, event: Option<&Event<'_>>) {
        self.has_chain = true;
        self.report.records += 1;
        self.report.unproven_records += 1;
        self.report.first.get_or_insert(link.sequence);
        self.report.last = Some(link.sequence);
        if let Some(calls) = &mut self.before_checkpoint {
            let is_call = event.is_none_or(|event| !event.is_known());
            *calls += u64::from(is_call);
        }
    }

    /// Notes a record, and the one that a host knew before it wrote this record.
    fn note_known(&mut self, link: Link, next: &Link, event: Option<&Event<'_>>) {
        let known = event.and_then(|event| Some((event.known()?, event.known_here)));
        let known = known.map(|(known, was_here)| {
            (
                known,
                was_here,
                self.problem(Some(link.sequence), String::new()),
            )
        });
        if let Some(records) = &mut self.known {
            records.note(next);
            if let Some((known, was_here, place)) = known {
                records.require(known, was_here, place);
            }
        }
    }

    /// Compares the gap before a record with the number of bytes and the digest in the record.
    /// Returns whether a problem was reported.
    fn close_gap(&mut self, link: Link, event: Option<&Event<'_>>) -> bool {
        let (bytes, digest) = match event {
            Some(event) => (event.gap_bytes, event.gap_sha256),
            None => (0, None),
        };
        if bytes == 0 && self.gap.bytes == 0 {
            return false;
        }
        let gap = std::mem::take(&mut self.gap);
        let actual: [u8; 32] = gap.digest.finalize().into();
        let reported = digest.and_then(|digest| from_hex::<32>(digest.as_bytes()));
        let is_allowed = match gap.content {
            GapContent::Torn => true,
            GapContent::Unchained => link == Link::FIRST && !self.has_chain,
            GapContent::Misplaced => false,
        };
        if is_allowed && bytes == gap.bytes && reported == Some(actual) {
            self.report.unchanged_gap_bytes += bytes;
            self.report.unchained += gap.unchained;
            return false;
        }
        match gap.problem {
            Some(problem) => self.push(problem),
            None => self.add_problem(
                Some(link.sequence),
                format!("this record reports {bytes} torn bytes before it, but they are missing"),
            ),
        }
        true
    }

    /// Checks the signature of a record that has one, or should have one. Reports at most one
    /// problem per record.
    fn check_checkpoint(
        &mut self,
        link: Link,
        next: &Link,
        event: Option<Event<'_>>,
        line: &[u8],
        is_reported: bool,
    ) {
        let checkpoint = event.filter(|event| event.outcome == CHECKPOINT);
        let signed = SignedLine::parse(line);
        if checkpoint.is_none() && signed.is_none() {
            return;
        }
        let key = checkpoint.and_then(|event| event.key).unwrap_or_default();
        match self.check_signature(key, signed) {
            Ok(true) => {
                self.report.checkpoints += 1;
                self.report.last_proven = Some(link.sequence);
                self.report.unproven_records = self.unproven_before;
                self.report.before_checkpoint += self.before_checkpoint.take().unwrap_or_default();
                self.external.note_proof(&next.chain);
            }
            Ok(false) => self.report.unchecked_checkpoints += 1,
            // An unknown key may have signed many checkpoints, and is reported once.
            Err(SignatureProblem::OtherKey(key)) if self.other_keys.contains(&key) => {}
            Err(_) if is_reported => {}
            Err(problem) => {
                self.add_problem(Some(link.sequence), problem.to_string());
                if let SignatureProblem::OtherKey(key) = problem
                    && self.other_keys.len() < MAX_PROBLEMS
                {
                    self.other_keys.insert(key);
                }
            }
        }
    }

    /// Returns whether a checkpoint's signature was checked and is valid. Returns `false` if the
    /// verifier has no keys, and an error if the signature is missing or not valid.
    fn check_signature(
        &self,
        key: &str,
        signed: Option<SignedLine<'_>>,
    ) -> Result<bool, SignatureProblem> {
        let signed = signed.ok_or(SignatureProblem::Missing)?;
        let Some(keys) = &self.keys else {
            return Ok(false);
        };
        let known = keys.iter().find(|known| known.id() == key).ok_or_else(|| {
            SignatureProblem::OtherKey(key.chars().take(MAX_KEY_ID_CHARACTERS).collect())
        })?;
        if !known.verifies(signed.message, &signed.signature) {
            return Err(SignatureProblem::Wrong);
        }
        Ok(true)
    }

    fn compare_with_external(&mut self, link: Link, next: &Link, is_reported: bool) {
        if let Some(checkpoints) = self.external.note_record(link.sequence, next) {
            self.report.external_checkpoints += u64::from(checkpoints.is_found);
            if checkpoints.has_others && !is_reported {
                let problem = "this record differs from the external checkpoint of its number";
                self.add_problem(Some(link.sequence), problem.to_owned());
            }
        }
    }

    fn add_to_gap(
        &mut self,
        parts: &[&[u8]],
        content: GapContent,
        sequence: Option<u64>,
        problem: &str,
    ) {
        let problem = self.problem(sequence, problem.to_owned());
        let gap = &mut self.gap;
        for part in parts {
            gap.digest.update(part);
            gap.bytes += part.len() as u64;
        }
        // Count a line once, even if it has several parts.
        if gap.last_line != problem.line {
            gap.lines += 1;
            gap.last_line = problem.line;
        }
        if content > GapContent::Torn && gap.last_unchained != problem.line {
            gap.unchained += 1;
            gap.last_unchained = problem.line;
            gap.latest = gap.latest.max(time_of(parts[0]).unwrap_or(NO_TIME));
        }
        if content > gap.content || gap.problem.is_none() {
            (gap.content, gap.problem) = (content, Some(problem));
        }
    }

    /// Ends a file, and counts or reports the lines after its last record. The last record may be
    /// torn, and a version of skillhost without chains may have written the whole file.
    fn end_file(&mut self) {
        let gap = std::mem::take(&mut self.gap);
        let unended = self.unended_record.take();
        let unended_bytes = unended.map_or(0, |record| record.len() as u64);
        match (gap.content, gap.problem.clone()) {
            (GapContent::Torn, _) => self.report.torn_bytes += gap.bytes + unended_bytes,
            (GapContent::Unchained, _) if !self.has_chain => self.unchained_files.push(gap),
            (_, Some(problem)) => {
                // Only the last record may be such a line. Others could hide records of a removed file.
                self.reported_lines_before = gap.lines.min(1);
                self.push(problem);
            }
            (_, None) => {}
        }
    }

    /// Counts the lines of files without a chain. Reports a file as a problem if a line in it is
    /// not older than the first record of a chain.
    fn end_unchained_files(&mut self) {
        for gap in std::mem::take(&mut self.unchained_files) {
            match gap.problem {
                Some(problem) if self.first_time.is_some_and(|first| first < gap.latest) => {
                    self.push(problem);
                }
                _ => self.report.unchained += gap.unchained,
            }
        }
    }

    fn problem(&self, sequence: Option<u64>, problem: String) -> LogProblem {
        LogProblem {
            file: Arc::clone(&self.file),
            line: self.line,
            sequence,
            problem,
        }
    }

    fn add_problem(&mut self, sequence: Option<u64>, problem: String) {
        let problem = self.problem(sequence, problem);
        self.push(problem);
    }

    fn push(&mut self, problem: LogProblem) {
        if self.report.problems.len() < MAX_PROBLEMS {
            self.report.problems.push(problem);
        } else {
            self.report.problems_left_out += 1;
        }
    }
}

/// Returns whether a part of a line has only zero bytes, apart from a line feed at its end.
fn has_only_zeros(part: &[u8]) -> bool {
    let bytes = part.strip_suffix(b"\n").unwrap_or(part);
    bytes.iter().all(|byte| *byte == 0)
}

/// Returns a message saying that the records from number `first` to the one before `next` are
/// missing.
fn missing_records(first: u64, next: u64) -> String {
    match next.saturating_sub(first) {
        1 => format!("record {first} is missing"),
        _ => format!("records {first} to {} are missing", next.saturating_sub(1)),
    }
}
