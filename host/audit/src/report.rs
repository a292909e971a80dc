//! What a check of a log says.

use std::sync::Arc;

use serde::Serialize;

/// The result of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// The number of records of chains.
    pub records: u64,
    /// The number of chains. There is one, unless checkpoints of each were kept.
    pub chains: u64,
    /// The numbers of the first record and of the last.
    pub first: Option<u64>,
    /// See [`Report::first`].
    pub last: Option<u64>,
    /// The number of records before the first of their chain: no file that is given has
    /// them. Nobody can tell an old file that was removed from one that an attacker removed.
    pub missing_before: u64,
    /// The number of calls before the first checkpoint of their chain. A host signs the
    /// records that it finds at its start, so their writer is unknown.
    pub before_checkpoint: u64,
    /// The number of checkpoints whose signature is right.
    pub checkpoints: u64,
    /// The number of the last of them: records up to it are proven, if there is no
    /// problem.
    pub proven: Option<u64>,
    /// The number of records after the last one of their chain.
    pub unproven: u64,
    /// The number of checkpoints that were kept elsewhere and found in the log.
    pub kept: u64,
    /// The bytes that are no records of the chain, and that a record vouches for: parts
    /// of records, and what is before the first record of a chain.
    pub vouched_bytes: u64,
    /// The number of lines before the first record of a chain, or in a file without one.
    /// A version without a chain wrote them, or somebody else: nothing proves them.
    pub unchained: u64,
    /// The bytes of torn records at the ends of files. Nothing is known of them.
    pub torn_bytes: u64,
    /// The bytes of torn checkpoints in the file of those that were kept elsewhere. Its
    /// writer was killed meanwhile: the rest counts.
    pub torn_checkpoint_bytes: u64,
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

impl Report {
    /// Returns whether every record up to the last checkpoint is as it was written, and
    /// there is a checkpoint.
    pub fn is_proven(&self) -> bool {
        self.problems.is_empty() && self.proven.is_some()
    }
}
