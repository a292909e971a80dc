//! The builder's settings for the audit log.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::bail;

use super::HostBuilder;
use skillhost_sandbox::tool::audit::{Audit, AuditMode, CheckpointSigner, STDERR};
use skillhost_skills::broker::Opener;
use skillhost_skills::trust::Trust;

/// The settings of the audit log.
#[derive(Clone, Default)]
pub(super) struct AuditSettings {
    pub(super) file: Option<(PathBuf, AuditMode)>,
    /// The place where settings of the log were configured.
    pub(super) place: Option<String>,
    /// The place where a key for checkpoints was configured.
    pub(super) key_place: Option<String>,
    pub(super) signer: Option<Arc<dyn CheckpointSigner>>,
}

impl HostBuilder {
    /// Records every call in a file, one line of JSON each; `-` is standard error. Default:
    /// none.
    ///
    /// A new file is readable by its owner only. An existing file must be empty or end in a
    /// record.
    pub fn audit(mut self, file: impl Into<PathBuf>, mode: AuditMode) -> Self {
        self.audit.file = Some((file.into(), mode));
        self
    }

    /// Sets the signer of checkpoints in the [audit](HostBuilder::audit) log. Default:
    /// none, and no checkpoints. Required if the configuration names a key.
    pub fn audit_signer(mut self, signer: Arc<dyn CheckpointSigner>) -> Self {
        self.audit.signer = Some(signer);
        self
    }
}

impl AuditSettings {
    /// Opens the log.
    pub(super) fn open(
        &self,
        trust: &Trust,
        opener: &Opener,
    ) -> anyhow::Result<Option<Arc<Audit>>> {
        let Some((path, mode)) = &self.file else {
            // Settings of a log without a log are a mistake.
            if let Some(place) = &self.place {
                bail!("{place}: there is no audit log: name one by `audit_file` or `--audit`");
            }
            if self.signer.is_some() {
                bail!("`HostBuilder::audit_signer`: there is no audit log to sign");
            }
            return Ok(None);
        };
        if let (Some(place), None) = (&self.key_place, &self.signer) {
            bail!(
                "{place}: this program does not sign the audit log (`HostBuilder::audit_signer`)"
            );
        }
        if self.signer.is_some() && path == Path::new(STDERR) {
            let place = self.key_place.as_deref();
            bail!(
                "{}: the audit log is `{STDERR}`, standard error, which has no chain: nothing \
                 would be signed; name a file, or remove the key",
                place.unwrap_or("`HostBuilder::audit_signer`")
            );
        }
        let signer = self.signer.clone();
        let audit = Arc::new(Audit::open(path, *mode, trust, signer, opener)?);
        audit.follow_renames();
        Ok(Some(audit))
    }
}
