//! Checkpoints: records with a signature, which covers all records before them.
//!
//! Keys and checkpoint sinks belong to the signer. The crate `skillhost-audit` has a signer; an
//! embedder may use another.

use std::time::Duration;

/// A signer of the checkpoints of an audit log, which also sends them to sinks.
///
/// See `HostBuilder::audit_signer`.
pub trait CheckpointSigner: Send + Sync {
    /// Returns the key id that each checkpoint names.
    fn key_id(&self) -> &str;

    /// Returns the Ed25519 signature of a message.
    fn sign(&self, message: &[u8]) -> [u8; 64];

    /// Returns the key of the digests of arguments and answers. Readers of the log must not
    /// know this key.
    fn digest_key(&self) -> [u8; 32];

    /// Returns the number of records after which a checkpoint is due.
    fn records(&self) -> u64;

    /// Returns the longest time from a record to the checkpoint that covers it.
    fn time(&self) -> Duration;

    /// Sends the line of a checkpoint to the sinks, after the line is written to the log. The
    /// host calls this while a tool call waits, so it must not block.
    fn publish(&self, checkpoint: &[u8]);

    /// Sends the buffered checkpoints, after the log has ended. This may take seconds.
    fn finish(&self) {}
}
