//! Checkpoints that were kept elsewhere than in the log: they show that a log was cut,
//! which a log itself cannot.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use skillhost::internal::chain::Signed;

use crate::key::PublicKey;
use crate::lines::{Piece, Pieces};

/// The most checkpoints that are kept elsewhere. Guards against: a file that fills the
/// memory.
const MOST_KEPT: usize = 1_000_000;

/// Checkpoints that were kept elsewhere than in the log.
#[derive(Debug, Clone, Default)]
pub struct KeptCheckpoints(BTreeMap<u64, Vec<Vec<u8>>>);

impl KeptCheckpoints {
    /// Reads a file with a checkpoint on each line, as they were sent. Each must be
    /// signed with one of the keys.
    pub fn read(path: &Path, keys: &[PublicKey]) -> anyhow::Result<Self> {
        let mut kept = Self::default();
        let cannot = || format!("cannot use the checkpoints in `{}`", path.display());
        let file = File::open(path).with_context(cannot)?;
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
        let with_number = self.0.entry(signed.link.sequence).or_default();
        with_number.push(line.to_vec());
        Ok(())
    }

    /// Returns whether a record is the checkpoint with its number that was kept. None if
    /// none was kept.
    pub(crate) fn has(&self, sequence: u64, line: &[u8]) -> Option<bool> {
        let kept = self.0.get(&sequence)?;
        Some(kept.iter().any(|kept| kept == line))
    }

    /// Returns the number of the last checkpoint.
    pub(crate) fn last(&self) -> Option<u64> {
        self.0.last_key_value().map(|(sequence, _)| *sequence)
    }
}
