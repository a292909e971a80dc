//! Signs checkpoints with the configured key, and sends them to the configured sinks.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use anyhow::Context as _;
use skillhost::config::{CheckpointLimits, Checkpoints};
use skillhost::{CheckpointSigner, Trust};

use crate::key::PrivateKey;
use crate::sink::CheckpointSink;

/// A signer of checkpoints: a private key, and the sinks to which checkpoints are sent.
pub struct LogSigner {
    key: PrivateKey,
    id: String,
    limits: CheckpointLimits,
    sinks: Mutex<Vec<CheckpointSink>>,
}

impl LogSigner {
    /// Reads the configured key and opens the configured sinks. Returns `None` if no key is
    /// configured.
    ///
    /// Starts the sink that is a program, and connects to the sink that is a socket. Fails if a
    /// user outside `trust` could replace the key or the program. Removes `removed_variables` from
    /// the program's environment.
    pub fn start(
        configured: &Checkpoints,
        trust: &Trust,
        removed_variables: &[&str],
    ) -> anyhow::Result<Option<Self>> {
        let Some(file) = &configured.key_file else {
            return Ok(None);
        };
        let key = PrivateKey::read(&file.path, trust).with_context(|| file.place.clone())?;
        let mut sinks = Vec::new();
        if let Some(command) = &configured.command {
            let sink = CheckpointSink::start(command, trust, removed_variables);
            sinks.push(sink.with_context(|| command.program.place.clone())?);
        }
        if let Some(socket) = &configured.socket {
            let sink = CheckpointSink::connect(&socket.path);
            sinks.push(sink.with_context(|| socket.place.clone())?);
        }
        Ok(Some(Self {
            id: key.public().id().to_owned(),
            key,
            limits: configured.limits.clone(),
            sinks: Mutex::new(sinks),
        }))
    }

    fn sinks(&self) -> MutexGuard<'_, Vec<CheckpointSink>> {
        let sinks = self.sinks.lock();
        sinks.unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl CheckpointSigner for LogSigner {
    fn key_id(&self) -> &str {
        &self.id
    }

    fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.key.sign(message)
    }

    fn digest_key(&self) -> [u8; 32] {
        self.key.digest_key()
    }

    fn records(&self) -> u64 {
        self.limits.checkpoint_records as u64
    }

    fn time(&self) -> Duration {
        self.limits.checkpoint_time
    }

    fn publish(&self, checkpoint: &[u8]) {
        for sink in self.sinks().iter_mut() {
            sink.send(checkpoint);
        }
    }

    fn finish(&self) {
        for sink in self.sinks().iter_mut() {
            sink.finish();
        }
    }
}
