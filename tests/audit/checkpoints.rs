//! The times when a host writes checkpoints.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::json;
use skillhost::{AuditMode, CheckpointSigner, Host};
use skillhost_audit::LogSigner;
use tokio::runtime::Runtime;

use super::signed_log::{FEW_CHECKPOINTS, SignedLog, record};
use super::{redirect_descriptor, redirect_file};
use crate::support::watchdog::{until, wait_until};
use crate::support::{block_on, build};

#[test]
fn signs_after_n_records_and_at_end() {
    let log = SignedLog::new("checkpoint_records = 10\ncheckpoint_time = \"3600s\"\n");
    let host = log.host();
    record(&host, 25);
    let report = log.verify(&["audit.jsonl"]);
    // The first checkpoint is record 0, and the third is record 22.
    assert_eq!(
        (
            report.last_proven,
            report.unproven_records,
            report.checkpoints
        ),
        (Some(22), 5, 3)
    );
    drop(host);
    let report = log.assert_proven(&["audit.jsonl"], 25);
    assert_eq!(
        (report.first, report.last, report.checkpoints),
        (Some(0), Some(28), 4)
    );
}

#[test]
fn signs_after_checkpoint_time() {
    let log = SignedLog::new("checkpoint_time = \"100ms\"\n");
    let host = log.host();
    block_on(async {
        host.call("none", json!({})).await.unwrap_err();
        until("a checkpoint is missing", || {
            log.verify(&["audit.jsonl"]).checkpoints > 1
        })
        .await;
    });
    assert_eq!(log.assert_proven(&["audit.jsonl"], 1).checkpoints, 2);
}

#[test]
fn signs_overdue_checkpoint_with_next_record() {
    let log = SignedLog::new("checkpoint_time = \"100ms\"\n");
    let host = log.host();
    // Each call has its own runtime, whose timer ends with it, so nothing happens when the
    // checkpoint is due.
    record(&host, 1);
    thread::sleep(Duration::from_millis(101));
    record(&host, 1);
    let report = log.verify(&["audit.jsonl"]);
    assert_eq!(
        (report.checkpoints, report.unproven_records),
        (2, 0),
        "{report:?}"
    );
}

#[test]
fn signs_at_end_after_full_disk() {
    let log = SignedLog::new(FEW_CHECKPOINTS);
    let host = log.host();
    record(&host, 2);
    // Writes to the log fail from now on.
    let number = redirect_file(&log.path, Path::new("/dev/full"));
    host.sign_audit_log();
    redirect_descriptor(number, &log.path);
    assert_eq!(log.verify(&["audit.jsonl"]).checkpoints, 1);
    drop(host);
    log.assert_proven(&["audit.jsonl"], 2);
}

/// A signer that counts its signatures.
struct CountingSigner(Arc<LogSigner>, AtomicUsize);

impl CheckpointSigner for CountingSigner {
    fn key_id(&self) -> &str {
        self.0.key_id()
    }

    fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.sign(message)
    }

    fn digest_key(&self) -> [u8; 32] {
        self.0.digest_key()
    }

    fn records(&self) -> u64 {
        self.0.records()
    }

    fn time(&self) -> Duration {
        self.0.time()
    }

    fn publish(&self, checkpoint: &[u8]) {
        self.0.publish(checkpoint);
    }
}

#[test]
fn retries_failed_checkpoint_while_host_is_idle() {
    let log = SignedLog::new("checkpoint_time = \"100ms\"\n");
    let signer = Arc::new(CountingSigner(log.signer(), AtomicUsize::new(0)));
    let builder = Host::builder().without_embedded_tools();
    let builder = builder.audit(&log.path, AuditMode::Required);
    let host = build(builder.audit_signer(Arc::clone(&signer) as _));
    let runtime = Runtime::new().unwrap();
    let error = runtime.block_on(host.call("none", json!({})));
    error.unwrap_err();
    // Writes to the log fail from now on.
    let number = redirect_file(&log.path, Path::new("/dev/full"));
    let signatures = || signer.1.load(Ordering::SeqCst);
    let before = signatures();
    // An attempt makes two signatures: for the file that seems new, and for the checkpoint.
    wait_until("the checkpoint is not retried", || {
        signatures() > before + 4
    });
    redirect_descriptor(number, &log.path);
    wait_until("a checkpoint is missing", || {
        log.verify(&["audit.jsonl"]).unproven_records == 0
    });
}
