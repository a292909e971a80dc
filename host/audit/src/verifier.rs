//! The check of a chain, record by record: each must have the next number and the
//! digest of the one before. Between them may only stand records that are torn, which the
//! next record vouches for. Not here: files and their order.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use skillhost::internal::chain::{
    CHECKPOINT, CONTINUED, Link, NAME, Signed, TORN, begins, from_hex, is_torn,
};

use crate::kept::KeptCheckpoints;
use crate::key::PublicKey;
use crate::lines::LINE_BYTES;
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
    /// The keys that may have signed. None if signatures are not checked.
    keys: Option<Arc<[PublicKey]>>,
    kept: KeptCheckpoints,
    /// The link of the next record. None before the first.
    next: Option<Link>,
    file: Arc<str>,
    line: u64,
    /// True once a record of this file is in the chain.
    has_chain: bool,
    /// True if a record of this file does not follow the one before it.
    is_broken: bool,
    gap: Gap,
    /// The end of this file, if it is a record that only lacks its line feed.
    unended: Option<Vec<u8>>,
    report: Report,
    /// The records of earlier chains that nothing proves.
    unproven_before: u64,
    /// The calls of this chain before its first checkpoint. `None` after it.
    before_checkpoint: Option<u64>,
}

/// The bytes after the last record of the chain in a file.
#[derive(Clone, Default)]
struct Gap {
    bytes: u64,
    digest: Sha256,
    /// The worst of it.
    content: GapContent,
    /// The place of that: a problem, unless a record vouches for it.
    problem: Option<Problem>,
    /// The number of lines that are not torn records, and the last of them.
    unchained: u64,
    last_unchained: u64,
}

/// The kinds of bytes that may stand between records of a chain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum GapContent {
    /// Parts of records, as a process that was killed or a full disk leaves them.
    #[default]
    Torn,
    /// Other lines. Before a chain begins, a version without a chain may have written them.
    Unchained,
    /// A record of a chain that has no place here.
    Misplaced,
}

/// The place of a record of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// It follows the record before it.
    Follows,
    /// It begins a chain, or a file.
    Begins,
    /// A record before it is missing or was changed.
    Broken,
    /// It is of another place or of another chain.
    Misplaced,
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
            keys: Some(keys.into()),
            ..Self::without_keys(kept)
        }
    }

    /// Starts a check of the chain alone, without signatures.
    pub(crate) fn without_keys(kept: KeptCheckpoints) -> Self {
        Self {
            keys: None,
            kept,
            next: None,
            file: Arc::from(""),
            line: 0,
            has_chain: false,
            is_broken: false,
            gap: Gap::default(),
            unended: None,
            report: Report::default(),
            unproven_before: 0,
            before_checkpoint: None,
        }
    }

    /// Goes on with a file.
    pub fn file(&mut self, name: &str) {
        // The chain goes on behind it, in the next file.
        if let Some(line) = self.unended.take() {
            self.line(&line);
        }
        self.end_file();
        self.file = name.into();
        self.line = 0;
        (self.has_chain, self.is_broken) = (false, false);
    }

    /// Checks a line, which is given without its line feed.
    pub fn line(&mut self, line: &[u8]) {
        self.check(line);
    }

    /// Checks a line, and returns whether it is a record that follows the one before it in
    /// its file.
    pub(crate) fn check(&mut self, line: &[u8]) -> bool {
        self.line += 1;
        let event = match line.len() >= EVENT.len() && begins(line, EVENT) {
            true => serde_json::from_slice::<Event<'_>>(line).ok(),
            false => None,
        };
        let link = Link::of(line).filter(|_| line.starts_with(b"{\"time\":\""));
        let Some(link) = link else {
            let content = match is_torn(line) {
                true => GapContent::Torn,
                false => GapContent::Unchained,
            };
            let problem = "it is no record of the chain: changed, or written by others";
            self.add_to_gap(&[line, b"\n"], content, None, problem);
            return false;
        };
        let after = link.after(line);
        let (place, problem) = self.place(link, &after.chain, event.as_ref());
        if place == Place::Misplaced {
            let (content, sequence) = (GapContent::Misplaced, Some(link.sequence));
            self.add_to_gap(
                &[line, b"\n"],
                content,
                sequence,
                &problem.unwrap_or_default(),
            );
            return false;
        }
        if let Some(problem) = problem {
            self.add(Some(link.sequence), problem);
        }
        self.is_broken |= place == Place::Broken;
        self.close_gap(link, event.as_ref());
        self.has_chain = true;
        let report = &mut self.report;
        report.records += 1;
        report.unproven += 1;
        report.first.get_or_insert(link.sequence);
        report.last = Some(link.sequence);
        if let Some(calls) = &mut self.before_checkpoint {
            let is_call = event
                .as_ref()
                .is_none_or(|event| ![CONTINUED, TORN, CHECKPOINT].contains(&event.outcome));
            *calls += u64::from(is_call);
        }
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
        !self.is_broken
    }

    /// Takes a part of a line that is too long to be a record, or that has no line feed
    /// because it is the end of a file. `ends` says that a line feed is its end.
    pub fn part(&mut self, part: &[u8], ends: bool) {
        self.line += 1;
        let link = Link::of(part).filter(|_| part.len() < LINE_BYTES);
        match link {
            Some(link) if self.next.is_none_or(|next| link == next) => {
                self.unended = Some(part.to_owned());
            }
            link => {
                let content = match link {
                    Some(_) => GapContent::Misplaced,
                    None if part.len() < LINE_BYTES && is_torn(part) => GapContent::Torn,
                    None => GapContent::Unchained,
                };
                let sequence = link.map(|link| link.sequence);
                self.add_to_gap(&[part], content, sequence, "it is no record of the chain");
            }
        }
        // A further part is of the same line.
        self.line -= u64::from(!ends);
    }

    /// Ends the check.
    pub fn finish(mut self) -> Report {
        self.end_file();
        let kept = std::mem::take(&mut self.kept);
        self.report.torn_checkpoint_bytes = kept.torn_bytes();
        let (is_empty, is_proven) = (self.next.is_none(), self.report.proven.is_some());
        kept.report_unmet(is_empty, is_proven, |sequence, problem| {
            self.add(Some(sequence), problem);
        });
        self.report
    }

    /// Returns the place of a record of a chain, and what is wrong with it.
    fn place(
        &mut self,
        link: Link,
        chain: &[u8; NAME],
        event: Option<&Event<'_>>,
    ) -> (Place, Option<String>) {
        let sequence = link.sequence;
        let begins = link == Link::FIRST || event.is_some_and(|event| event.outcome == CONTINUED);
        let Some(next) = self.next else {
            self.begin_chain();
            self.report.missing_before += sequence;
            let problem =
                || format!("the log begins with record {sequence}: its beginning is missing");
            return (Place::Begins, (!begins).then(problem));
        };
        if link == next {
            return (Place::Follows, None);
        }
        // Nothing ties a chain to another one but that both are known elsewhere.
        let is_kept = self.kept.has(&next.chain) && self.kept.has(chain);
        if begins && is_kept && !self.kept.has_met(chain) {
            self.begin_chain();
            // Old files are removed from the beginning of a log, and not between two others.
            let problem = (link != Link::FIRST).then(|| {
                let missing = missing(0, sequence);
                format!("a new chain begins, and {missing} before it")
            });
            return (Place::Begins, problem);
        }
        let begins_file = !self.has_chain && begins;
        let is_other = *chain != next.chain;
        let (place, problem) = if is_other && (begins_file || sequence != next.sequence) {
            // Within a file a host never begins another chain.
            let place = if begins_file {
                Place::Begins
            } else {
                Place::Misplaced
            };
            let problem = match link == Link::FIRST {
                true => "a new chain begins: nothing ties it to the records before",
                false => "it is of another chain: nothing ties it to the records before",
            };
            (place, problem.to_owned())
        } else if sequence == next.sequence {
            let problem = "it does not follow the record before it: one of the two was changed";
            (Place::Broken, problem.to_owned())
        } else if sequence > next.sequence {
            let missing = missing(next.sequence, sequence);
            // The files between may only not be given.
            let place = if begins_file {
                Place::Begins
            } else {
                Place::Broken
            };
            (place, format!("{missing} before it"))
        } else {
            let problem = format!("record {sequence} is repeated or out of order");
            (Place::Misplaced, problem)
        };
        (place, Some(problem))
    }

    fn begin_chain(&mut self) {
        self.report.chains += 1;
        self.unproven_before = self.report.unproven;
        self.before_checkpoint = Some(0);
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
        let may_be = match gap.content {
            GapContent::Torn => true,
            GapContent::Unchained => link == Link::FIRST && !self.has_chain,
            GapContent::Misplaced => false,
        };
        if may_be && bytes == gap.bytes && digest == Some(found) {
            self.report.vouched_bytes += bytes;
            self.report.unchained += gap.unchained;
            return;
        }
        match gap.problem {
            Some(problem) => self.push(problem),
            None => self.add(
                Some(link.sequence),
                format!("this record reports {bytes} torn bytes before it, but they are missing"),
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
        let Some(keys) = &self.keys else {
            return;
        };
        let Some(known) = keys.iter().find(|known| known.id() == key) else {
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
        self.report.before_checkpoint += self.before_checkpoint.take().unwrap_or_default();
        self.kept.prove(chain);
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
        // Parts of a line count once.
        if content > GapContent::Torn && gap.last_unchained != problem.line {
            gap.unchained += 1;
            gap.last_unchained = problem.line;
        }
        if content > gap.content || gap.problem.is_none() {
            (gap.content, gap.problem) = (content, Some(problem));
        }
    }

    /// Ends a file. The last record may be torn, and a version without a chain may have
    /// written all of the file.
    fn end_file(&mut self) {
        let gap = std::mem::take(&mut self.gap);
        let unended = self.unended.take().map_or(0, |line| line.len() as u64);
        match (gap.content, gap.problem) {
            (GapContent::Torn, _) => self.report.torn_bytes += gap.bytes + unended,
            (GapContent::Unchained, _) if !self.has_chain => {
                self.report.unchained += gap.unchained;
            }
            (_, Some(problem)) => self.push(problem),
            (_, None) => {}
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

/// Says which records are missing: those from `first` on that are before `next`.
fn missing(first: u64, next: u64) -> String {
    match next.saturating_sub(first) {
        1 => format!("record {first} is missing"),
        _ => format!("records {first} to {} are missing", next.saturating_sub(1)),
    }
}
