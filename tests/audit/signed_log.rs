//! A folder with a signed log, and hosts that write to it.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use skillhost::{AuditMode, Config, Host, HostBuilder, Trust};
use skillhost_audit::{
    ExternalCheckpoints, LogSigner, PrivateKey, PublicKey, VerifyReport, verify,
};
use tempfile::TempDir;

use crate::support::{build, call};

/// A folder with a log, its key, and hosts that write to it.
pub(super) struct SignedLog {
    pub(super) folder: TempDir,
    pub(super) path: PathBuf,
    pub(super) public: PublicKey,
    /// The settings of `[audit]`, besides the key.
    pub(super) settings: String,
}

impl SignedLog {
    pub(super) fn new(settings: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = PrivateKey::generate().unwrap();
        key.write(&folder.path().join("key")).unwrap();
        Self {
            path: folder.path().join("audit.jsonl"),
            public: key.public(),
            settings: settings.to_owned(),
            folder,
        }
    }

    pub(super) fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns a host without tools, which records refused calls.
    pub(super) fn host(&self) -> Host {
        build(self.builder())
    }

    pub(super) fn builder(&self) -> HostBuilder {
        self.signed_by(&self.signer())
    }

    pub(super) fn signed_by(&self, signer: &Arc<LogSigner>) -> HostBuilder {
        let builder = Host::builder().without_embedded_tools();
        let builder = builder.audit(&self.path, AuditMode::Required);
        builder.audit_signer(Arc::clone(signer) as _)
    }

    pub(super) fn signer(&self) -> Arc<LogSigner> {
        let text = format!("[audit]\nkey_file = \"key\"\n{}", self.settings);
        let config = Config::parse(&text, "skillhost.toml", self.folder.path()).unwrap();
        let signer = LogSigner::start(&config.checkpoints, &Trust::new(), &[]);
        Arc::new(signer.unwrap().unwrap())
    }

    /// Verifies files in the log's folder, in reverse order because their order must not matter.
    pub(super) fn verify(&self, files: &[&str]) -> VerifyReport {
        let files: Vec<PathBuf> = files.iter().rev().map(|name| self.beside(name)).collect();
        let keys = [self.public.clone()];
        verify(&files, &keys, ExternalCheckpoints::default()).unwrap()
    }

    /// Asserts that the log is proven to its end, and has this number of calls.
    #[track_caller]
    pub(super) fn assert_proven(&self, files: &[&str], calls: usize) -> VerifyReport {
        let report = self.verify(files);
        assert_eq!(report.problems, []);
        assert_eq!(
            (report.unproven_records, report.torn_bytes),
            (0, 0),
            "{report:?}"
        );
        let found = files.iter().flat_map(|file| self.records(file));
        let found = found.filter(|record| record["tool"] == "none").count();
        assert_eq!(found, calls);
        report
    }

    pub(super) fn records(&self, file: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.beside(file)).unwrap();
        let lines = text.lines();
        lines
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }
}

#[track_caller]
pub(super) fn record(host: &Host, calls: usize) {
    for _ in 0..calls {
        call(host, "none", json!({})).unwrap_err();
    }
}

/// Settings with which a host writes checkpoints only when it starts and ends.
pub(super) const FEW_CHECKPOINTS: &str =
    "checkpoint_records = 1000000\ncheckpoint_time = \"3600s\"\n";
