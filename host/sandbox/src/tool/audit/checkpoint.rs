//! Checkpoints: records with a signature, which covers all records before. Keys and
//! places to keep checkpoints at are the signer's, which is the crate `skillhost-audit`
//! or an embedder's own.

use std::time::Duration;

/// Signs the checkpoints of an audit log, and hands them on. See
/// `HostBuilder::audit_signer`.
pub trait CheckpointSigner: Send + Sync {
    /// Returns the name of the key, which stands in each checkpoint.
    fn key_id(&self) -> &str;

    /// Returns the Ed25519 signature of bytes.
    fn sign(&self, message: &[u8]) -> [u8; 64];

    /// Returns the key of the digests of arguments and answers. It must not be known to
    /// those who read the log.
    fn digest_key(&self) -> [u8; 32];

    /// Returns the number of records after which there is a checkpoint.
    fn records(&self) -> u64;

    /// Returns the longest time from a record to a checkpoint.
    fn time(&self) -> Duration;

    /// Takes the line of a checkpoint that has been written. It is called on a call's
    /// own path, so it must not wait for anything.
    fn publish(&self, checkpoint: &[u8]);

    /// Sends what still waits for a reader, when the log has ended. It may take seconds.
    fn finish(&self) {}
}
