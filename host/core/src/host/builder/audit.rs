//! The builder's settings for the audit log.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::bail;

use super::HostBuilder;
use crate::config::ConfiguredPath;
use skillhost_sandbox::tool::audit::{Audit, AuditMode, CheckpointSigner, STDERR};

impl HostBuilder {
    /// Records every call as a line of JSON in a file, or on standard error if `file` is `-`.
    /// Default: calls are not recorded.
    ///
    /// Only the owner of a new file can read it. An existing file must be empty or end in a record.
    pub fn audit(mut self, file: impl Into<PathBuf>, mode: AuditMode) -> Self {
        self.config.audit_file = Some(ConfiguredPath::new(file, "`HostBuilder::audit`"));
        self.config.audit = mode;
        self
    }

    /// Sets the signer of checkpoints in the [audit](HostBuilder::audit) log. Default: none;
    /// there are no checkpoints. Required if the configuration names a key.
    pub fn audit_signer(mut self, signer: Arc<dyn CheckpointSigner>) -> Self {
        self.audit_signer = Some(signer);
        self
    }

    /// Opens the audit log.
    pub(super) fn open_audit(&self) -> anyhow::Result<Option<Arc<Audit>>> {
        let config = &self.config;
        let Some(ConfiguredPath { path, .. }) = &config.audit_file else {
            // Settings without a log must be a mistake.
            if let Some(place) = &config.audit_place {
                bail!("{place}: no audit log is configured; set `audit_file`, or pass `--audit`");
            }
            if self.audit_signer.is_some() {
                bail!("`HostBuilder::audit_signer`: there is no audit log to sign");
            }
            return Ok(None);
        };
        let key_file = config.checkpoints.key_file.as_ref();
        let key_place = key_file.map(|file| file.place.as_str());
        if let (Some(place), None) = (key_place, &self.audit_signer) {
            bail!(
                "{place}: this program does not sign the audit log (`HostBuilder::audit_signer`)"
            );
        }
        if self.audit_signer.is_some() && path == Path::new(STDERR) {
            bail!(
                "{}: the audit log is `{STDERR}`, standard error, which has no chain: nothing \
                 would be signed; name a file, or remove the key",
                key_place.unwrap_or("`HostBuilder::audit_signer`")
            );
        }
        let signer = self.audit_signer.clone();
        let audit = Audit::open(path, config.audit, &self.trust, signer, &self.opener)?;
        let audit = Arc::new(audit);
        audit.follow();
        Ok(Some(audit))
    }
}
