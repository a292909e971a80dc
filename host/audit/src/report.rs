//! The result of verifying a log.

use std::sync::Arc;

use serde::Serialize;

/// The result of verifying a log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct VerifyReport {
    /// The number of records that belong to a chain.
    pub records: u64,
    /// The number of chains. More than one is a problem, unless each has external checkpoints.
    pub chains: u64,
    /// The sequence number of the first record.
    pub first: Option<u64>,
    /// The sequence number of the last record.
    pub last: Option<u64>,
    /// The number of records that precede the first record and are in no given file, and of those
    /// in other chains that hosts knew before they joined this log.
    ///
    /// The log does not show whether their file was removed because of its age or by an attacker.
    pub missing_before: u64,
    /// The number of calls before the first checkpoint of their chain.
    ///
    /// It is not proven who wrote the records of these calls, because the first checkpoint of a
    /// host also covers records that were already in the log.
    pub before_checkpoint: u64,
    /// The number of checkpoints with a valid signature.
    pub checkpoints: u64,
    /// The number of checkpoints whose signature was not checked, because no key was given.
    pub unchecked_checkpoints: u64,
    /// The sequence number of the last valid checkpoint. If there are no problems, this checkpoint
    /// and the records before it are proven.
    #[serde(rename = "proven")]
    pub last_proven: Option<u64>,
    /// The number of records after the last valid checkpoint of their chain.
    #[serde(rename = "unproven")]
    pub unproven_records: u64,
    /// The number of external checkpoints that were found in the log.
    #[serde(rename = "kept")]
    pub external_checkpoints: u64,
    /// The number of bytes outside all chains that the next record covers with a digest.
    ///
    /// These bytes are torn records, or lines before the first record of a chain.
    #[serde(rename = "vouched_bytes")]
    pub unchanged_gap_bytes: u64,
    /// The number of lines before the first record of a chain, or in a file without a chain.
    ///
    /// A version of skillhost without chains may have written these lines, or anybody else.
    pub unchained: u64,
    /// The number of bytes of torn records at the ends of files. No record has their digest.
    pub torn_bytes: u64,
    /// The number of bytes of torn checkpoints in the files of external checkpoints. A killed
    /// process or a power failure leaves them.
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
    /// Returns whether the log has a valid checkpoint, and no problems: all records up to the
    /// checkpoint are then as they were written.
    pub fn is_proven(&self) -> bool {
        self.problems.is_empty() && self.last_proven.is_some()
    }

    /// Returns whether the log has a record, and its chain has no problems: each record has the
    /// next number and the digest of the record before it.
    ///
    /// This needs no key and proves nothing: anybody who can write the file can write such records.
    pub fn is_intact(&self) -> bool {
        self.problems.is_empty() && self.records > 0
    }
}
