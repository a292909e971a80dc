//! Signs checkpoints with the key of a configuration, and sends them to its places.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use anyhow::Context as _;
use skillhost::CheckpointSigner;
use skillhost::config::{CheckpointLimits, Checkpoints};

use crate::key::PrivateKey;
use crate::outlet::Outlet;

/// The signer of a configuration.
pub struct LogSigner {
    key: PrivateKey,
    id: String,
    limits: CheckpointLimits,
    outlets: Mutex<Vec<Outlet>>,
}

impl LogSigner {
    /// Reads the key, starts the program and connects to the socket of a configuration.
    /// The program does not get these variables of the environment. None if the
    /// configuration has no key.
    pub fn start(configured: &Checkpoints, without: &[&str]) -> anyhow::Result<Option<Self>> {
        let Some(file) = &configured.key_file else {
            return Ok(None);
        };
        let key = PrivateKey::read(&file.path).with_context(|| file.place.clone())?;
        let mut outlets = Vec::new();
        if !configured.command.is_empty() {
            let outlet = Outlet::start(&configured.command, without);
            outlets.push(outlet.context("`checkpoint_command`")?);
        }
        if let Some(socket) = &configured.socket {
            let outlet = Outlet::connect(&socket.path);
            outlets.push(outlet.with_context(|| socket.place.clone())?);
        }
        Ok(Some(Self {
            id: key.public().id().to_owned(),
            key,
            limits: configured.limits.clone(),
            outlets: Mutex::new(outlets),
        }))
    }

    fn outlets(&self) -> MutexGuard<'_, Vec<Outlet>> {
        let outlets = self.outlets.lock();
        outlets.unwrap_or_else(|broken| broken.into_inner())
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
        for outlet in self.outlets().iter_mut() {
            outlet.send(checkpoint);
        }
    }

    fn finish(&self) {
        for outlet in self.outlets().iter_mut() {
            outlet.finish();
        }
    }
}
