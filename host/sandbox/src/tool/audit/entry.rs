//! The record of one call while the call runs.

use std::sync::Arc;
use std::time::Instant;

use super::meter::{CpuMeter, MemoryMeter};
use super::record::Record;
use super::{Audit, AuditMode};
use crate::tool::script::ScriptRecorder;
use crate::tool::{CallError, CallOutcome, Caller, Output, RequestLog, Stop};

/// The record of one call. It is written even if the caller gives up.
pub struct AuditEntry {
    audit: Arc<Audit>,
    record: Record,
    /// The recorder of the call's script, if the call may run one.
    script: Option<ScriptRecorder>,
    /// The requests of the call, if it may send any.
    requests: Option<RequestLog>,
    /// True if the tool has answered, with an output or a failure.
    is_answered: bool,
    start: Instant,
    cpu: CpuMeter,
    memory: MemoryMeter,
    is_written: bool,
}

/// The component, skill and path of a call, which are known once the host has found the call's tool
/// and checked its arguments.
pub struct CallSubject<'a> {
    /// SHA-256 of the component, in hex.
    pub component: &'a str,
    /// The skill's name, if the call names a skill.
    pub skill: Option<&'a str>,
    /// The path in the skill, if the call names a path.
    pub path: Option<&'a str>,
}

impl AuditEntry {
    /// Begins the record of a call that arrives now. Its outcome is `cancelled` until
    /// [`end`](AuditEntry::end) sets another.
    pub(super) fn begin(audit: &Arc<Audit>, caller: &Caller, call: String, tool: &str) -> Self {
        Self {
            audit: Arc::clone(audit),
            record: Record::begin(CallOutcome::Cancelled.name(), caller, call, tool),
            script: None,
            requests: None,
            is_answered: false,
            start: Instant::now(),
            cpu: CpuMeter::default(),
            memory: MemoryMeter::default(),
            is_written: false,
        }
    }

    /// Sets the digest of the arguments.
    pub(super) fn with_arguments(mut self, arguments: Option<&serde_json::Value>) -> Self {
        let key = &self.audit.key;
        self.record.arguments_hmac = arguments.map(|arguments| key.digest_arguments(arguments));
        self
    }

    /// Returns the meter of the call's processor time.
    pub fn cpu(&self) -> CpuMeter {
        self.cpu.clone()
    }

    /// Returns the meter of the call's memory.
    pub fn memory(&self) -> MemoryMeter {
        self.memory.clone()
    }

    /// Sets the component, skill and path of the call.
    pub fn set_subject(&mut self, subject: &CallSubject<'_>) {
        self.record.component = Some(subject.component.to_owned());
        self.record.set_skill(subject.skill);
        self.record.set_path(subject.path);
    }

    /// Sets the skill whose folder the call reads.
    pub fn set_skill(&mut self, skill: Option<&str>) {
        self.record.set_skill(skill);
    }

    /// Sets the recorder in which the sandbox notes the script that the call runs.
    pub fn set_script(&mut self, script: ScriptRecorder) {
        self.script = Some(script);
    }

    /// Sets the log in which the sandbox records the requests that the call sends.
    pub fn set_requests(&mut self, requests: RequestLog) {
        self.requests = Some(requests);
    }

    /// Writes how the call ended. If this returns an error, the call must fail.
    pub fn end(mut self, result: &Result<Output, CallError>) -> Result<(), Stop> {
        let outcome = CallOutcome::of(result);
        self.is_answered = matches!(result, Ok(_) | Err(CallError::Failed(_)));
        (self.record.outcome, self.record.reason) = (outcome.name(), outcome.reason());
        self.record.bytes = answer_bytes(result);
        self.record.answer_hmac = self.audit.key.digest_answer(result);
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
        self.is_written = true;
        let duration = self.start.elapsed().as_micros();
        self.record.duration_us = u64::try_from(duration).unwrap_or(u64::MAX);
        self.record.cpu_us = Some(self.cpu.micros());
        self.record.memory = self.memory.bytes();
        let script = self.script.as_ref();
        if let Some(script) = script.and_then(|recorder| recorder.to_record(self.is_answered)) {
            self.record.set_script(script);
        }
        if let Some(requests) = &self.requests {
            self.record.set_requests(requests, &self.audit.key);
        }
        match (self.audit.write(&self.record), self.audit.mode) {
            (Err(_), AuditMode::Required) => Err(Stop::NotRecorded),
            (Ok(()), _) | (Err(_), AuditMode::BestEffort) => Ok(()),
        }
    }
}

impl Drop for AuditEntry {
    fn drop(&mut self) {
        if !self.is_written {
            // Nobody waits for this call's answer any more.
            let _ = self.write();
        }
    }
}

/// Returns the size in bytes of the answer to the caller.
fn answer_bytes(result: &Result<Output, CallError>) -> usize {
    match result {
        Ok(output) => output.size(),
        Err(CallError::Failed(failure)) => failure.message.len(),
        Err(_) => 0,
    }
}
