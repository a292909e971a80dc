//! The result of verifying a log.

use std::sync::Arc;

use serde::Serialize;

/// The result of verifying a log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct VerifyReport {
    /// The number of records in chains.
    pub records: u64,
    /// The number of chains. More than one is a problem, unless each has external checkpoints.
    pub chains: u64,
    /// The sequence number of the first record.
    pub first: Option<u64>,
    /// The sequence number of the last record.
    pub last: Option<u64>,
    /// The number of records that precede the first one and are in no given file.
    ///
    /// Nobody can tell whether their file was removed because it was old, or by an attacker.
    pub missing_before: u64,
    /// The number of calls before the first checkpoint of their chain.
    ///
    /// Nothing proves who wrote them: the first checkpoint of a host also signs the records that it
    /// found in the log.
    pub before_checkpoint: u64,
    /// The number of checkpoints with a valid signature.
    pub checkpoints: u64,
    /// The number of checkpoints whose signature was not checked, because no key was given.
    pub unchecked_checkpoints: u64,
    /// The sequence number of the last valid checkpoint. Without problems, the
    /// records up to it are proven.
    pub proven: Option<u64>,
    /// The number of records after the last checkpoint of their chain.
    pub unproven: u64,
    /// The number of external checkpoints that are in the log.
    #[serde(rename = "kept")]
    pub external_checkpoints: u64,
    /// The number of bytes that are in no chain, but match the digest in the record after them.
    ///
    /// They are torn records, or lines before the first record of a chain.
    pub vouched_bytes: u64,
    /// The number of lines before the first record of a chain, or in a file without a chain.
    ///
    /// A version without chains wrote them, or somebody else: nothing proves them.
    pub unchained: u64,
    /// The bytes of torn records at the ends of files. Nothing vouches for them.
    pub torn_bytes: u64,
    /// The bytes of torn checkpoints in the files of external checkpoints. The process that
    /// stored them was killed.
    pub torn_checkpoint_bytes: u64,
    /// The first hundred problems.
    pub problems: Vec<LogProblem>,
    /// The number of problems beyond those in `problems`.
    pub problems_left_out: u64,
}

/// A place where the log is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LogProblem {
    /// The name of the file.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: u64,
    /// The sequence number of the record.
    pub sequence: Option<u64>,
    /// The problem, in words.
    pub problem: String,
}

impl VerifyReport {
    /// Returns whether a checkpoint proves that the records up to it are as they were written.
    pub fn is_proven(&self) -> bool {
        self.problems.is_empty() && self.proven.is_some()
    }

    /// Returns whether there is a record, and each record follows the one before it.
    ///
    /// This needs no key and proves nothing: anybody who can write the file can write such records.
    pub fn is_whole(&self) -> bool {
        self.problems.is_empty() && self.records > 0
    }
}
