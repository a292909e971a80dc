//! The audit log: one line of JSON per call, appended to a file that only its owner can
//! read, or to stderr.
//!
//! A record has the request and the outcome of a call, but not its answer. In a file, each
//! record has the digest of the record before it.

pub mod chain;
mod checkpoint;
mod digest;
mod end;
mod entry;
mod log_file;
mod meter;
mod queue;
mod record;
mod signed_log;
mod stderr;
mod wait_limit;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;

use crate::tool::Caller;
use digest::DigestKey;
use log_file::Signer;
use queue::RecordQueue;
use record::{Record, to_json};
use signed_log::{LogSource, SignedLog};
use skillhost_skills::broker::Opener;
use skillhost_skills::text::count::count;
use skillhost_skills::text::digest::hex;
use skillhost_skills::trust::Trust;

pub use checkpoint::CheckpointSigner;
pub use entry::{AuditEntry, CallSubject};
pub use log_file::open_audit_log;
pub use meter::{CpuMeter, MemoryMeter};
pub use stderr::{start_stderr_thread, write_stderr_line};

/// The path that means stderr.
pub const STDERR: &str = "-";

/// The interval between checks for a renamed log and for records of other processes, and between
/// attempts to open a log that could not be used. Rotations must be further apart.
const FOLLOW_INTERVAL: Duration = Duration::from_secs(1);

/// The treatment of a call whose record cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AuditMode {
    /// The call fails, so that every answer has a record. A host does not start without its
    /// log.
    #[default]
    Required,
    /// The call is answered; the host's log says that the record is lost.
    BestEffort,
}

/// An open audit log.
pub struct Audit {
    destination: Destination,
    mode: AuditMode,
    /// The key of the digests of arguments and answers.
    key: DigestKey,
    /// The random number of this process, with which the ids of its calls begin.
    process: Arc<str>,
    /// The number of calls so far.
    calls: AtomicU64,
    /// The number of records lost since the last successful write.
    lost: AtomicU64,
}

/// The destination of records.
enum Destination {
    File(Box<RecordQueue>),
    Stderr,
}

impl Audit {
    /// Opens a log for appending; `-` is stderr.
    ///
    /// An existing file must belong to the user alone and already be an audit log. Guards
    /// against: appending records to another program's configuration. With
    /// [`AuditMode::BestEffort`], an unusable file is only an error in the host's log.
    pub fn open(
        path: &Path,
        mode: AuditMode,
        trust: &Trust,
        signer: Option<Arc<dyn CheckpointSigner>>,
        opener: &Opener,
    ) -> anyhow::Result<Self> {
        let (mut key, mut process) = ([0; 32], [0; 8]);
        for random in [&mut key[..], &mut process[..]] {
            getrandom::fill(random).context("the system has no random numbers")?;
        }
        if let Some(signer) = &signer {
            key = signer.digest_key();
        }
        let process: Arc<str> = hex(&process).into();
        let destination = if path == Path::new(STDERR) {
            if mode == AuditMode::Required {
                stderr::check_is_open().context("cannot write the audit log to stderr")?;
            }
            Destination::Stderr
        } else {
            let source = LogSource {
                path: path.to_owned(),
                trust: trust.clone(),
                opener: opener.clone(),
                signer: signer.map(|signer| Signer::new(signer, &process)),
            };
            Destination::File(Box::new(RecordQueue::new(SignedLog::open(source, mode)?)))
        };
        Ok(Self {
            destination,
            mode,
            key: DigestKey::new(&key),
            process,
            calls: AtomicU64::new(0),
            lost: AtomicU64::new(0),
        })
    }

    /// Begins the record of a call. The arguments are as the caller gave them, or `None` if
    /// they are not JSON.
    pub fn begin(
        self: &Arc<Self>,
        caller: &Caller,
        tool: &str,
        arguments: Option<&Value>,
    ) -> AuditEntry {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let call = format!("{}-{number}", self.process);
        AuditEntry::begin(self, caller, call, tool).with_arguments(arguments)
    }

    /// Writes a record. Reports a lost record in the host's log, and the number of lost records
    /// when writing works again.
    fn write(self: &Arc<Self>, record: &Record) -> io::Result<()> {
        let written = self.append(record);
        match &written {
            Ok(()) => {
                let lost = self.lost.swap(0, Ordering::Relaxed);
                if lost > 0 {
                    tracing::warn!(
                        "writing to the audit log works again; the log has no record of {}",
                        count(lost, "call")
                    );
                }
            }
            Err(error) => {
                self.lost.fetch_add(1, Ordering::Relaxed);
                let consequence = match self.mode {
                    AuditMode::Required => "the call's answer is withheld",
                    AuditMode::BestEffort => "the call is answered without a record",
                };
                tracing::error!("cannot record {record} in the audit log: {error}; {consequence}");
            }
        }
        written
    }

    fn append(self: &Arc<Self>, record: &Record) -> io::Result<()> {
        let mut line = to_json(record)?;
        let Destination::File(queue) = &self.destination else {
            line.push(b'\n');
            start_stderr_thread();
            return write_stderr_line(&line);
        };
        if let Some(time) = queue.append(line)? {
            self.checkpoint_after(time);
        }
        Ok(())
    }

    /// Writes a checkpoint if there are records after the last one.
    pub fn checkpoint(self: &Arc<Self>) {
        if let Some(retry) = self.with_log(SignedLog::checkpoint).flatten() {
            self.checkpoint_after(retry);
        }
    }

    /// Writes a checkpoint after a time, and tries again if that fails.
    fn checkpoint_after(self: &Arc<Self>, mut time: Duration) {
        let audit = Arc::downgrade(self);
        // Without a runtime, a later record or the end of the host writes it.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                loop {
                    tokio::time::sleep(time).await;
                    let Some(audit) = audit.upgrade() else {
                        return;
                    };
                    match audit.with_log(SignedLog::checkpoint).flatten() {
                        Some(retry) => time = retry,
                        None => return,
                    }
                }
            });
        }
    }

    /// Opens the new file after each rename of the log, and reads the records of other processes,
    /// even if no call is recorded. Otherwise an idle process would miss the file between two
    /// rotations, and another process's records could be removed before this one has read them.
    pub fn follow(self: &Arc<Self>) {
        if matches!(self.destination, Destination::Stderr) {
            return;
        }
        let audit = Arc::downgrade(self);
        // Without a runtime, only the next record opens the new file.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                loop {
                    tokio::time::sleep(FOLLOW_INTERVAL).await;
                    let Some(audit) = audit.upgrade() else {
                        return;
                    };
                    if audit.with_log(|log| log.has_changed()) == Some(true) {
                        // This can wait for a lock, or read mebibytes.
                        let follow = move || audit.with_log(SignedLog::follow);
                        let _ = tokio::task::spawn_blocking(follow).await;
                    }
                }
            });
        }
    }

    /// Writes the last checkpoint, and waits until late readers of checkpoints have all, up to a limit
    /// of seconds. May be called again.
    pub fn finish(&self) {
        self.with_log(SignedLog::finish);
    }

    /// Calls a function with the log file, if records go to one.
    fn with_log<T>(&self, work: impl FnOnce(&mut SignedLog) -> T) -> Option<T> {
        match &self.destination {
            Destination::File(queue) => Some(queue.with_log(work)),
            Destination::Stderr => None,
        }
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        self.finish();
    }
}
