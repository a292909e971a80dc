//! The audit log: one line of JSON per call, appended to a file that only its
//! owner can read, or to standard error. A record says what was asked and how the
//! call ended, but not what it read. In a file, each record names the one before.

pub mod chain;
mod checkpoint;
mod digest;
mod end;
mod log_file;
mod record;

use std::io::{self, Write as _};
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;

use crate::tool::script::ScriptLog;
use crate::tool::{CallError, CallOutcome, Caller, Output, Stop};
use digest::DigestKey;
use log_file::{LogFile, Signer, cannot_use};
use record::{LONGEST, Record, to_json, truncate};
use skillhost_skills::text::digest::hex;
use skillhost_skills::trust::Trust;

pub use checkpoint::CheckpointSigner;
pub use log_file::open_audit_log;

/// The path that stands for standard error.
pub const STDERR: &str = "-";

/// The fate of a call whose record cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AuditMode {
    /// The call fails: nothing goes unrecorded.
    #[default]
    Required,
    /// The call goes on; the operator's log says that the record is missing.
    BestEffort,
}

/// An open audit log.
pub struct Audit {
    destination: Destination,
    mode: AuditMode,
    /// The key of the digests of arguments and answers.
    key: DigestKey,
    /// The random number of this process, which the ids of its calls begin with.
    process: Arc<str>,
    calls: AtomicU64,
}

/// The place that records go to.
enum Destination {
    File(Box<Mutex<SignedLog>>),
    Stderr,
}

/// A file, and the checkpoints in it.
struct SignedLog {
    file: LogFile,
    /// The records after which there is a checkpoint, and the time. `None` without a
    /// signer.
    limits: Option<(u64, Duration)>,
    /// Records after the last checkpoint.
    unsigned: u64,
    /// The time at which there must be one.
    due: Option<Instant>,
}

/// The record of one call. It is written even if the caller gives up.
pub struct AuditEntry {
    audit: Arc<Audit>,
    record: Record,
    /// The script that the call runs, if it runs one.
    script: Option<ScriptLog>,
    /// True if the tool has answered, with an output or a failure.
    is_answered: bool,
    start: Instant,
    cpu: CpuMeter,
    written: bool,
}

/// Counts the time of processors that a call takes in this process.
#[derive(Clone, Default)]
pub struct CpuMeter(Arc<AtomicU64>);

/// The time between two looks at the name of a log. Two rotations must be further apart.
const LOOK: Duration = Duration::from_secs(1);

/// The component, skill and path of a call, which are known once it is routed.
pub struct CallSubject<'a> {
    /// SHA-256 of the component, in hex.
    pub component: &'a str,
    /// The skill's name, if the call names a skill.
    pub skill: Option<&'a str>,
    /// The path in the skill, if the call names a path.
    pub path: Option<&'a str>,
}

impl Audit {
    /// Opens a log for appending; `-` is standard error. An existing file must
    /// belong to the user alone and be an audit log already: a program would read
    /// records that were appended to its configuration.
    pub fn open(
        path: &Path,
        mode: AuditMode,
        trust: &Trust,
        signer: Option<Arc<dyn CheckpointSigner>>,
    ) -> anyhow::Result<Self> {
        let (mut key, mut process) = ([0; 32], [0; 8]);
        for lot in [&mut key[..], &mut process[..]] {
            getrandom::fill(lot).context("the system has no random numbers")?;
        }
        if let Some(signer) = &signer {
            key = signer.digest_key();
        }
        let process: Arc<str> = hex(&process).into();
        let destination = if path == Path::new(STDERR) {
            Destination::Stderr
        } else {
            Destination::File(Box::new(Mutex::new(SignedLog {
                limits: signer
                    .as_ref()
                    .map(|signer| (signer.records(), signer.time())),
                file: LogFile::open(
                    path,
                    trust,
                    signer.map(|signer| Signer::new(signer, &process)),
                )
                .with_context(|| cannot_use(path))?,
                unsigned: 0,
                due: None,
            })))
        };
        Ok(Self {
            destination,
            mode,
            key: DigestKey::new(&key),
            process,
            calls: AtomicU64::new(0),
        })
    }

    /// Begins the record of a call. The arguments are as the caller gave them; there
    /// are none if they are not JSON.
    pub fn begin(
        self: &Arc<Self>,
        caller: &Caller,
        tool: &str,
        arguments: Option<&Value>,
    ) -> AuditEntry {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let call = format!("{}-{number}", self.process);
        let mut record = Record::begin(CallOutcome::Cancelled.name(), caller, call, tool);
        record.arguments_hmac = arguments.map(|arguments| self.key.of_arguments(arguments));
        AuditEntry {
            audit: Arc::clone(self),
            record,
            script: None,
            is_answered: false,
            start: Instant::now(),
            cpu: CpuMeter::default(),
            written: false,
        }
    }

    fn append(self: &Arc<Self>, record: &Record) -> io::Result<()> {
        let mut line = to_json(record)?;
        let Some(mut log) = self.log() else {
            line.push(b'\n');
            return io::stderr().lock().write_all(&line);
        };
        log.file.append(line)?;
        let Some((records, time)) = log.limits else {
            return Ok(());
        };
        log.unsigned += 1;
        match log.due {
            // The timer is late, or went with its runtime.
            Some(due) if Instant::now() > due => log.checkpoint(),
            _ if log.unsigned >= records => log.checkpoint(),
            Some(_) => {}
            None => {
                log.due = Some(Instant::now() + time);
                self.checkpoint_after(time);
            }
        }
        Ok(())
    }

    /// Writes a checkpoint, unless there is one after the last record.
    pub fn checkpoint(&self) {
        if let Some(mut log) = self.log() {
            log.checkpoint();
        }
    }

    /// Follows the log when it is renamed, also while no call is recorded. Otherwise an idle
    /// process would miss the file between two rotations.
    pub fn follow_renames(self: &Arc<Self>) {
        if matches!(self.destination, Destination::Stderr) {
            return;
        }
        let audit = Arc::downgrade(self);
        // Without a runtime, the log is followed only at the next record.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                loop {
                    tokio::time::sleep(LOOK).await;
                    let Some(audit) = audit.upgrade() else {
                        return;
                    };
                    if let Some(mut log) = audit.log() {
                        log.file.follow_rename();
                    }
                }
            });
        }
    }

    fn checkpoint_after(self: &Arc<Self>, time: Duration) {
        let audit = Arc::downgrade(self);
        // Without a runtime, a later record or the end has it.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                tokio::time::sleep(time).await;
                if let Some(audit) = audit.upgrade() {
                    audit.checkpoint();
                }
            });
        }
    }

    /// Returns the file, if records go to one.
    fn log(&self) -> Option<MutexGuard<'_, SignedLog>> {
        match &self.destination {
            Destination::File(log) => Some(log.lock().unwrap_or_else(|broken| broken.into_inner())),
            Destination::Stderr => None,
        }
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        self.checkpoint();
        if let Some(log) = self.log() {
            log.file.finish();
        }
    }
}

impl SignedLog {
    /// Writes a checkpoint. One that cannot be written is tried again after the next
    /// record.
    fn checkpoint(&mut self) {
        if self.limits.is_none() || self.unsigned == 0 {
            return;
        }
        match self.file.checkpoint() {
            Ok(()) => (self.unsigned, self.due) = (0, None),
            Err(error) => tracing::error!("cannot write a checkpoint of the audit log: {error}"),
        }
    }
}

impl AuditEntry {
    /// Returns the meter of the call's time of processors.
    pub fn cpu(&self) -> CpuMeter {
        self.cpu.clone()
    }

    /// Sets what is known of the call once it is routed.
    pub fn set_subject(&mut self, subject: &CallSubject<'_>) {
        self.record.component = Some(subject.component.to_owned());
        self.record.skill = subject.skill.map(truncate);
        self.record.path = subject.path.map(truncate);
    }

    /// Sets the skill whose folder the call reads, however it was found.
    pub fn set_skill(&mut self, skill: Option<&str>) {
        self.record.skill = skill.map(truncate);
    }

    /// Sets the most memory that the guest had.
    pub fn set_memory(&mut self, bytes: usize) {
        self.record.memory = bytes;
    }

    /// Sets the place where the sandbox notes the script that the call runs.
    pub fn set_script(&mut self, script: ScriptLog) {
        self.script = Some(script);
    }

    /// Writes how the call ended. After an error the call must fail.
    pub fn end(mut self, result: &Result<Output, CallError>) -> Result<(), Stop> {
        let outcome = CallOutcome::of(result);
        self.is_answered = matches!(result, Ok(_) | Err(CallError::Failed(_)));
        (self.record.outcome, self.record.reason) = (outcome.name(), outcome.reason());
        self.record.bytes = answer_bytes(result);
        self.record.answer_hmac = self.audit.key.of_answer(result);
        if let Ok(Output {
            files: Some(files), ..
        }) = result
        {
            self.record.changed_files = Some(files.total);
            self.record.changed_bytes = Some(files.total_bytes);
        }
        self.write()
    }

    fn write(&mut self) -> Result<(), Stop> {
        self.written = true;
        self.record.duration_us =
            u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.record.cpu_us = Some(self.cpu.0.load(Ordering::Relaxed) / 1_000);
        let script = self.script.as_ref();
        self.record.script = script.and_then(|log| log.record(LONGEST, self.is_answered));
        let Err(error) = self.audit.append(&self.record) else {
            return Ok(());
        };
        tracing::error!("cannot write to the audit log: {error}");
        match self.audit.mode {
            AuditMode::Required => Err(Stop::NotRecorded),
            AuditMode::BestEffort => Ok(()),
        }
    }
}

impl Drop for AuditEntry {
    fn drop(&mut self) {
        if !self.written {
            // Nobody waits for this call's answer any more.
            let _ = self.write();
        }
    }
}

/// Returns the bytes of the answer to the caller.
fn answer_bytes(result: &Result<Output, CallError>) -> usize {
    match result {
        Ok(output) => output.size(),
        Err(CallError::Failed(failure)) => failure.message.len(),
        Err(_) => 0,
    }
}

impl CpuMeter {
    /// Polls a future on this thread's time.
    pub fn poll<F: Future + ?Sized>(
        &self,
        work: Pin<&mut F>,
        task: &mut Context<'_>,
    ) -> Poll<F::Output> {
        let start = thread_time();
        let polled = work.poll(task);
        let taken = thread_time().saturating_sub(start).as_nanos();
        let taken = u64::try_from(taken).unwrap_or(u64::MAX);
        self.0.fetch_add(taken, Ordering::Relaxed);
        polled
    }
}

/// Returns the time of processors that this thread has taken.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_the_time_of_processors_in_microseconds() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let audit = Audit::open(&path, AuditMode::Required, &Trust::new(), None).unwrap();
        let mut entry = Arc::new(audit).begin(&Caller::default(), "tool", None);
        entry.cpu().0.store(5_000_999, Ordering::Relaxed);
        entry.write().unwrap();
        let record: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(record["cpu_us"], 5_000);
    }
}
