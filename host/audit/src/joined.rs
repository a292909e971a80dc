//! Checks that the records that hosts knew before they joined a chain are in the log.
//!
//! Several hosts with one key may append to a log. A host that does not find the last record it
//! knew, for example because it missed a rotation, continues after another host's signed records
//! and names the record that it knew. A log without that record was changed.

use std::collections::BTreeMap;

use skillhost_sandbox::tool::audit::chain::{Link, NAME_BYTES};

use crate::report::LogProblem;

/// The records of a log, and those that hosts knew before they joined it.
#[derive(Clone, Default)]
pub(crate) struct KnownRecords {
    /// The first half of the digest of each record in the log. Halves take less memory, and 128 bits
    /// are enough: no other record can be made to have the same ones.
    digests: Vec<u128>,
    /// The number of the first record of each chain.
    first: BTreeMap<[u8; NAME_BYTES], u64>,
    /// Each record that a host knew: the link after it, whether it was in the same file, and the
    /// problem to report if it is missing, still without its text.
    known: Vec<(Link, bool, LogProblem)>,
}

impl KnownRecords {
    /// Notes a record of the log. `next` is the link after it.
    pub(crate) fn note(&mut self, next: &Link) {
        self.digests.push(first_half(&next.previous));
        let number = next.sequence.saturating_sub(1);
        self.first.entry(next.chain).or_insert(number);
    }

    /// Notes a record that a host knew. `next` is the link after it. `place` is a problem without a
    /// text at the record in which the host says so. `was_here` means that the known record was in the
    /// same file.
    pub(crate) fn require(&mut self, next: Link, was_here: bool, place: LogProblem) {
        self.known.push((next, was_here, place));
    }

    /// Reports the records that are missing. A record of an earlier file may be missing if it is older
    /// than the first one of its chain: that file was removed. Returns the number of known records in chains of which
    /// the log has no record.
    pub(crate) fn report_missing(mut self, mut report: impl FnMut(LogProblem)) -> u64 {
        self.digests.sort_unstable();
        let mut other_chains = BTreeMap::new();
        for (next, was_here, place) in self.known {
            match self.first.get(&next.chain) {
                Some(first) if next.sequence <= *first && !was_here => {}
                None if !was_here => {
                    let records = other_chains.entry(next.chain).or_insert(0);
                    *records = next.sequence.max(*records);
                }
                _ => {
                    let digest = first_half(&next.previous);
                    if self.digests.binary_search(&digest).is_err() {
                        let record = next.sequence.saturating_sub(1);
                        let problem = format!(
                            "the host that wrote this record knew another record {record}: it was \
                             removed, or its file is missing"
                        );
                        report(LogProblem { problem, ..place });
                    }
                }
            }
        }
        other_chains.into_values().fold(0, u64::saturating_add)
    }
}

fn first_half(digest: &[u8; 32]) -> u128 {
    let mut half = [0; 16];
    half.copy_from_slice(&digest[..16]);
    u128::from_be_bytes(half)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(chain: u8, sequence: u64, digest: u8) -> Link {
        Link {
            chain: [chain; NAME_BYTES],
            sequence,
            previous: [digest; 32],
        }
    }

    #[test]
    fn requires_records_from_the_first_of_their_chain() {
        for (known, expected) in [
            // The record before the first one, the first one, and one later.
            (link(1, 3, 9), (0, 0)),
            (link(1, 4, 1), (0, 0)),
            (link(1, 4, 9), (1, 0)),
            (link(1, 5, 2), (0, 0)),
            (link(1, 5, 9), (1, 0)),
            (link(1, 6, 9), (1, 0)),
            (link(1, u64::MAX, 9), (1, 0)),
            // The log has no record of this chain.
            (link(2, 7, 9), (0, 7)),
            (link(2, u64::MAX, 9), (0, u64::MAX)),
        ] {
            let mut records = KnownRecords::default();
            let problem = LogProblem {
                file: "log".into(),
                line: 1,
                sequence: None,
                problem: String::new(),
            };
            records.require(known, false, problem.clone());
            records.require(known, false, problem.clone());
            records.note(&link(1, 4, 1));
            records.note(&link(1, 5, 2));
            let mut problems = 0;
            let other_chains = records.report_missing(|_| problems += 1);
            let found = (problems / 2, other_chains);
            assert_eq!(found, expected, "{known:?}");
            // A record of the same file is in the log, or was removed.
            let mut records = KnownRecords::default();
            records.require(known, true, problem);
            records.note(&link(1, 4, 1));
            records.note(&link(1, 5, 2));
            let mut problems = 0;
            assert_eq!(records.report_missing(|_| problems += 1), 0);
            let is_there = [link(1, 4, 1), link(1, 5, 2)].contains(&known);
            assert_eq!(problems, usize::from(!is_there), "{known:?}");
        }
    }
}
