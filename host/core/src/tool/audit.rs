//! The audit log: one line of JSON per call, appended to a file that only its
//! owner can read, or to standard error. A record says what was asked and how the
//! call ended, but not what it read.

mod end;
mod make;

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime};

use anyhow::{Context as _, bail};
use rustix::fs::OFlags;
use rustix::io::Errno;
use serde::Serialize;
use serde_json::ser::Formatter;

use crate::tool::script::{ScriptLog, ScriptRecord};
use crate::tool::{CallError, CallOutcome, Output, Stop};
use crate::trust::Trust;
use end::LogEnd;
pub use make::make_audit_log;

/// The path that stands for standard error.
const STDERR: &str = "-";

/// The longest value that a record carries, in characters. Guards against: a caller
/// that fills the disk with names.
const LONGEST: usize = 1024;

/// The outcome in a record which says that the one before it is torn.
const TORN: &str = "torn";

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
#[derive(Debug)]
pub(crate) struct Audit {
    destination: Destination,
    mode: AuditMode,
}

/// The place that records go to.
#[derive(Debug)]
enum Destination {
    File(Mutex<LogFile>),
    Stderr,
}

/// A file that records are appended to.
#[derive(Debug)]
struct LogFile {
    file: File,
    /// True if a record may have been cut short at its end: the disk was full.
    torn: bool,
}

/// The record of one call. It is written even if the caller gives up.
pub(crate) struct AuditEntry {
    audit: Arc<Audit>,
    record: Record,
    /// The script that the call runs, if it runs one.
    script: Option<ScriptLog>,
    start: Instant,
    written: bool,
}

#[derive(Serialize, Default)]
struct Record {
    /// The time at which the call began, UTC.
    time: String,
    /// The caller's id for the call.
    id: Option<String>,
    tool: String,
    /// SHA-256 of the component.
    component: Option<String>,
    skill: Option<String>,
    /// The path as the caller gave it.
    path: Option<String>,
    /// `output`, `failed`, `refused`, `stopped` or `cancelled`. `torn` belongs to
    /// no call: it says that the line before is cut short.
    outcome: &'static str,
    /// The kind of failure, refusal or stop.
    reason: Option<&'static str>,
    /// Bytes of the answer.
    bytes: usize,
    duration_us: u64,
    /// The most memory that the guest had, in bytes.
    memory: usize,
    /// The script, for a call that started one.
    #[serde(flatten)]
    script: Option<ScriptRecord>,
    /// The files that the call made or changed in a copy-on-write view, and their
    /// bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    changed_files: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    changed_bytes: Option<u64>,
}

/// The component, skill and path of a call, which are known once it is routed.
pub(crate) struct CallSubject<'a> {
    pub(crate) component: &'a str,
    pub(crate) skill: Option<&'a str>,
    pub(crate) path: Option<&'a str>,
}

impl Audit {
    /// Opens a log for appending; `-` is standard error. An existing file must
    /// belong to the user alone and be an audit log already: a program would read
    /// records that were appended to its configuration.
    pub(crate) fn open(path: &Path, mode: AuditMode, trust: &Trust) -> anyhow::Result<Self> {
        let destination = match path == Path::new(STDERR) {
            true => Destination::Stderr,
            false => Self::open_file(path, trust)
                .with_context(|| format!("cannot use the audit log `{}`", path.display()))?,
        };
        Ok(Self { destination, mode })
    }

    fn open_file(path: &Path, trust: &Trust) -> anyhow::Result<Destination> {
        trust.check_parent(path)?;
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(flags.bits().cast_signed())
            .open(path)
            .map_err(|error| match Errno::from_io_error(&error) {
                Some(Errno::LOOP) => anyhow::anyhow!("it is a symlink; name the file itself"),
                _ => error.into(),
            })?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            bail!("it is not a regular file");
        }
        let (owner, mode) = (metadata.uid(), metadata.mode() & 0o7777);
        if !trust.has_user(owner) || mode & 0o077 != 0 {
            bail!(
                "it belongs to user {owner} and has mode {mode:04o}; it must belong to the user \
                 who runs skillhost, or to one that `--trust` names, and nobody else may read or \
                 write it (mode 0600)"
            );
        }
        let torn = match end::read(&mut file)? {
            LogEnd::Whole => false,
            LogEnd::Torn => {
                tracing::warn!(
                    "the last record of the audit log `{}` is torn; it is closed",
                    path.display()
                );
                true
            }
            LogEnd::Foreign => bail!(
                "it ends in a line that is no audit record: name a new file, an empty one, or an \
                 audit log"
            ),
        };
        let mut log = LogFile { file, torn };
        if torn {
            log.append(&[])?;
        }
        Ok(Destination::File(Mutex::new(log)))
    }

    /// Begins the record of a call.
    pub(crate) fn begin(self: &Arc<Self>, tool: &str, id: Option<&str>) -> AuditEntry {
        AuditEntry {
            audit: Arc::clone(self),
            record: Record {
                id: id.map(truncate),
                tool: truncate(tool),
                ..Record::new(CallOutcome::Cancelled.name())
            },
            script: None,
            start: Instant::now(),
            written: false,
        }
    }

    fn append(&self, record: &Record) -> io::Result<()> {
        let line = to_line(record)?;
        match &self.destination {
            Destination::File(log) => {
                let mut log = log.lock().unwrap_or_else(|broken| broken.into_inner());
                log.append(&line)
            }
            Destination::Stderr => io::stderr().lock().write_all(&line),
        }
    }
}

impl LogFile {
    /// Appends a line, in one write. Closes a torn record before it with a note:
    /// else this record would be part of that one.
    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        let closed;
        let bytes = match self.torn {
            true => {
                closed = [b"\n", &*to_line(&Record::new(TORN))?, line].concat();
                &closed
            }
            false => line,
        };
        self.torn = true;
        self.file.write_all(bytes)?;
        self.torn = false;
        Ok(())
    }
}

impl Record {
    /// Creates a record of this moment.
    fn new(outcome: &'static str) -> Self {
        Self {
            time: humantime::format_rfc3339_millis(SystemTime::now()).to_string(),
            outcome,
            ..Self::default()
        }
    }
}

/// Returns a record as a line of the log.
fn to_line(record: &Record) -> io::Result<Vec<u8>> {
    let mut line = Vec::with_capacity(256);
    let mut serializer = serde_json::Serializer::with_formatter(&mut line, Ascii);
    record
        .serialize(&mut serializer)
        .map_err(io::Error::other)?;
    line.push(b'\n');
    Ok(line)
}

impl AuditEntry {
    /// Sets what is known of the call once it is routed.
    pub(crate) fn set_subject(&mut self, subject: &CallSubject<'_>) {
        self.record.component = Some(subject.component.to_owned());
        self.record.skill = subject.skill.map(truncate);
        self.record.path = subject.path.map(truncate);
    }

    /// Sets the skill whose folder the call reads, however it was found.
    pub(crate) fn set_skill(&mut self, skill: Option<&str>) {
        self.record.skill = skill.map(truncate);
    }

    /// Sets the most memory that the guest had.
    pub(crate) fn set_memory(&mut self, bytes: usize) {
        self.record.memory = bytes;
    }

    /// Sets the place where the sandbox notes the script that the call runs.
    pub(crate) fn set_script(&mut self, script: ScriptLog) {
        self.script = Some(script);
    }

    /// Writes how the call ended. After an error the call must fail.
    pub(crate) fn end(mut self, result: &Result<Output, CallError>) -> Result<(), Stop> {
        let outcome = CallOutcome::of(result);
        (self.record.outcome, self.record.reason) = (outcome.name(), outcome.reason());
        self.record.bytes = answer_bytes(result);
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
        self.record.script = self.script.as_ref().and_then(|log| log.record(LONGEST));
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

fn truncate(value: &str) -> String {
    value.chars().take(LONGEST).collect()
}

/// Formats JSON with everything but printable ASCII escaped: no record can move a
/// cursor or turn a line's direction when somebody looks at the file.
struct Ascii;

impl Formatter for Ascii {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        for c in fragment.chars() {
            if matches!(c, ' '..='~') {
                write!(out, "{c}")?;
            } else {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write!(out, "\\u{unit:04x}")?;
                }
            }
        }
        Ok(())
    }
}
