//! Checkpoints that were kept elsewhere than in the log: they show that a log was cut, or
//! that another one is in its place, which a log itself cannot.

use std::collections::BTreeMap;
use std::io::BufReader;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use skillhost::internal::chain::{Link, NAME, START, Signed, begins, is_torn};
use skillhost::internal::hex;
use skillhost::named_file;

use crate::key::PublicKey;
use crate::lines::{Piece, Pieces};

/// The most checkpoints that are kept elsewhere. Guards against: a file that fills the
/// memory.
const MOST_KEPT: usize = 1_000_000;

/// Checkpoints that were kept elsewhere than in the log.
#[derive(Debug, Clone, Default)]
pub struct KeptCheckpoints {
    chains: BTreeMap<[u8; NAME], KeptChain>,
    /// The bytes of torn checkpoints in the file.
    torn_bytes: u64,
}

/// The checkpoints of one chain, and what of the chain is in the log.
#[derive(Debug, Clone, Default)]
struct KeptChain {
    /// The digests of the lines that are not met in the log yet, by number. There may be
    /// two of a number: a log that was put back from a copy went on in another way.
    unmet: BTreeMap<u64, Vec<[u8; 32]>>,
    /// The number of the last checkpoint.
    last: u64,
    /// The numbers of the first record in the log, and of the last.
    found: Option<(u64, u64)>,
    /// True if a checkpoint of it is in the log, and its signature is right.
    is_proven: bool,
}

/// What was kept with the number of a record.
pub(crate) struct KeptMatch {
    /// The record itself.
    pub(crate) is_met: bool,
    /// Another one.
    pub(crate) has_others: bool,
}

impl KeptCheckpoints {
    /// Reads a file with a checkpoint on each line, as they were sent. Each must be
    /// signed with one of the keys.
    pub fn read(path: &Path, keys: &[PublicKey]) -> anyhow::Result<Self> {
        let mut kept = Self::default();
        let cannot = || format!("cannot use the checkpoints in `{}`", path.display());
        let file = named_file::open(path).with_context(cannot)?;
        let mut pieces = Pieces::new(BufReader::new(file));
        let mut number = 0;
        while let Some(piece) = pieces.next().with_context(cannot)? {
            number += 1;
            ensure!(
                number <= MOST_KEPT,
                "{}: there are more than {MOST_KEPT}; give the later ones",
                cannot()
            );
            let (Piece::Line(line) | Piece::Part(line, _)) = piece;
            let torn = torn_length(line);
            kept.torn_bytes += torn as u64;
            if torn > 0 && torn == line.len() {
                continue;
            }
            let line = &line[torn..];
            let added = kept.add(line, keys);
            added
                .with_context(|| format!("line {number}"))
                .with_context(cannot)?;
        }
        Ok(kept)
    }

    /// Adds the line of a checkpoint, without its line feed.
    pub fn add(&mut self, line: &[u8], keys: &[PublicKey]) -> anyhow::Result<()> {
        let Some(signed) = Signed::of(line) else {
            bail!("it is no checkpoint");
        };
        let is_signed = |key: &PublicKey| key.verifies(signed.message, &signed.signature);
        ensure!(
            keys.iter().any(is_signed),
            "it is signed with none of the keys that are given"
        );
        let Link {
            chain, previous, ..
        } = signed.link.after(line);
        let kept = self.chains.entry(chain).or_default();
        kept.last = kept.last.max(signed.link.sequence);
        let with_number = kept.unmet.entry(signed.link.sequence).or_default();
        if !with_number.contains(&previous) {
            with_number.push(previous);
        }
        Ok(())
    }

    /// Returns the bytes of torn checkpoints, which the file has beside whole ones.
    pub(crate) fn torn_bytes(&self) -> u64 {
        self.torn_bytes
    }

    /// Returns whether a checkpoint of a chain was kept.
    pub(crate) fn has(&self, chain: &[u8; NAME]) -> bool {
        self.chains.contains_key(chain)
    }

    /// Returns whether a record of a chain was met that has kept checkpoints.
    pub(crate) fn has_met(&self, chain: &[u8; NAME]) -> bool {
        self.chains
            .get(chain)
            .is_some_and(|kept| kept.found.is_some())
    }

    /// Takes a record with this number, by the link after it. Returns what was kept with
    /// the number. None if nothing was.
    pub(crate) fn meet(&mut self, sequence: u64, after: &Link) -> Option<KeptMatch> {
        let kept = self.chains.get_mut(&after.chain)?;
        let (first, last) = kept.found.get_or_insert((sequence, sequence));
        (*first, *last) = (sequence.min(*first), sequence.max(*last));
        let digests = kept.unmet.remove(&sequence)?;
        Some(KeptMatch {
            is_met: digests.contains(&after.previous),
            has_others: digests.iter().any(|digest| *digest != after.previous),
        })
    }

    /// Takes note of a checkpoint in the log whose signature is right.
    pub(crate) fn prove(&mut self, chain: &[u8; NAME]) {
        if let Some(kept) = self.chains.get_mut(chain) {
            kept.is_proven = true;
        }
    }

    /// Calls a function with the number of each checkpoint that a log should have and has
    /// not, and with what is wrong, in words. Those that are older than the first record of
    /// their chain need not be there. The log may be empty, and other chains proven.
    pub(crate) fn report_unmet(
        self,
        is_empty: bool,
        is_other_proven: bool,
        mut each: impl FnMut(u64, String),
    ) {
        for (chain, kept) in self.chains {
            let KeptChain { last: newest, .. } = kept;
            let Some((first, last)) = kept.found else {
                let which = if is_empty { "the" } else { "another" };
                let chain = hex(&chain);
                let words = format!(
                    "no record of {which} chain, `{chain}`, is here: its checkpoint {newest} was kept"
                );
                each(newest, words);
                continue;
            };
            for (sequence, _) in kept.unmet.range(first..=last) {
                let words = format!("the checkpoint {sequence} was kept, and is not in the log");
                each(*sequence, words);
            }
            if newest > last {
                let words =
                    format!("the log is cut after record {last}: the checkpoint {newest} was kept");
                each(newest, words);
            } else if !kept.is_proven && is_other_proven {
                // Anybody can write records that claim to be later ones.
                let words = format!(
                    "nothing proves the records {first} to {last}: the checkpoint {newest} of their \
                     chain was kept"
                );
                each(newest, words);
            }
        }
    }
}

/// Returns the length of the torn checkpoints that a line begins with. A reader that is
/// killed leaves one, and the next reader appends to its line.
fn torn_length(line: &[u8]) -> usize {
    let starts = line.windows(START.len()).enumerate().skip(1);
    let starts = starts.filter(|(_, bytes)| begins(bytes, START));
    let mut last = 0;
    for (start, _) in starts {
        if !is_torn(&line[last..start]) {
            return 0;
        }
        last = start;
    }
    if is_torn(&line[last..]) {
        line.len()
    } else {
        last
    }
}
