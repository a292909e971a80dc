//! The audit log: one line of JSON per call, appended to a file that only its
//! owner can read, or to standard error. What was asked and how it ended is in
//! it; what was read is not.

mod end;

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

use crate::tool::observer;
use crate::tool::{CallError, Output, Stop};
use crate::trust::Trust;
use end::End;

/// The path that stands for standard error.
const STDERR: &str = "-";

/// Longest value that a record carries, in characters. Meets: a caller that
/// fills the disk with names.
const LONGEST: usize = 1024;

/// The outcome of a record that says that the one before it is torn.
const TORN: &str = "torn";

/// What happens to a call whose record cannot be written.
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
    log: Log,
    mode: AuditMode,
}

/// Where records go.
#[derive(Debug)]
enum Log {
    File(Mutex<Appended>),
    Stderr,
}

/// A file that records are appended to.
#[derive(Debug)]
struct Appended {
    file: File,
    /// Whether a record may have been cut short at its end: the disk was full.
    torn: bool,
}

/// The record of one call, which is written even if the caller gives up.
pub(crate) struct Entry {
    audit: Arc<Audit>,
    record: Record,
    start: Instant,
    written: bool,
}

#[derive(Serialize, Default)]
struct Record {
    /// When the call began, UTC.
    time: String,
    /// The caller's id for the call.
    id: Option<String>,
    tool: String,
    /// SHA-256 of the component.
    component: Option<String>,
    skill: Option<String>,
    /// The path as the caller gave it.
    path: Option<String>,
    /// `output`, `failed`, `refused`, `stopped` or `cancelled`; `torn` says
    /// that the line before is cut short, and is of no call.
    outcome: &'static str,
    /// What kind of failure or stop it was.
    reason: Option<&'static str>,
    /// Bytes of the answer.
    bytes: usize,
    duration_us: u64,
    /// Most memory that the guest had, in bytes.
    memory: usize,
}

/// What is known of a call once it is routed.
pub(crate) struct Subject<'a> {
    pub(crate) component: &'a str,
    pub(crate) skill: Option<&'a str>,
    pub(crate) path: Option<&'a str>,
}

impl Audit {
    /// Opens a log for appending; `-` is standard error. A file that is there
    /// must be the user's own and nobody else's, and an audit log already:
    /// records appended to a program's configuration would be read by it.
    pub(crate) fn open(path: &Path, mode: AuditMode, trust: &Trust) -> anyhow::Result<Self> {
        let log = match path == Path::new(STDERR) {
            true => Log::Stderr,
            false => Self::open_file(path, trust)
                .with_context(|| format!("cannot use the audit log `{}`", path.display()))?,
        };
        Ok(Self { log, mode })
    }

    fn open_file(path: &Path, trust: &Trust) -> anyhow::Result<Log> {
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
        let torn = match end::of(&mut file)? {
            End::Whole => false,
            End::Torn => {
                tracing::warn!(
                    "the last record of the audit log `{}` is torn; it is closed",
                    path.display()
                );
                true
            }
            End::Foreign => bail!(
                "it ends in a line that is no audit record: name a new file, an empty one, or an \
                 audit log"
            ),
        };
        let mut log = Appended { file, torn };
        if torn {
            log.append(&[])?;
        }
        Ok(Log::File(Mutex::new(log)))
    }

    /// Begins the record of a call.
    pub(crate) fn begin(self: &Arc<Self>, tool: &str, id: Option<&str>) -> Entry {
        Entry {
            audit: Arc::clone(self),
            record: Record {
                id: id.map(bounded),
                tool: bounded(tool),
                ..Record::new(observer::CANCELLED)
            },
            start: Instant::now(),
            written: false,
        }
    }

    fn append(&self, record: &Record) -> io::Result<()> {
        let line = line(record)?;
        match &self.log {
            Log::File(log) => {
                let mut log = log.lock().unwrap_or_else(|broken| broken.into_inner());
                log.append(&line)
            }
            Log::Stderr => io::stderr().lock().write_all(&line),
        }
    }
}

impl Appended {
    /// Appends a line, in one write. A torn record before it is closed, and that
    /// is noted: else this one would be part of it.
    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        let closed;
        let bytes = match self.torn {
            true => {
                closed = [b"\n", &*self::line(&Record::new(TORN))?, line].concat();
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
    /// A record of this moment.
    fn new(outcome: &'static str) -> Self {
        Self {
            time: humantime::format_rfc3339_millis(SystemTime::now()).to_string(),
            outcome,
            ..Self::default()
        }
    }
}

/// A record as a line of the log.
fn line(record: &Record) -> io::Result<Vec<u8>> {
    let mut line = Vec::with_capacity(256);
    let mut serializer = serde_json::Serializer::with_formatter(&mut line, Ascii);
    record
        .serialize(&mut serializer)
        .map_err(io::Error::other)?;
    line.push(b'\n');
    Ok(line)
}

impl Entry {
    pub(crate) fn subject(&mut self, subject: &Subject<'_>) {
        self.record.component = Some(subject.component.to_owned());
        self.record.skill = subject.skill.map(bounded);
        self.record.path = subject.path.map(bounded);
    }

    /// The skill whose folder the call reads, however it was found.
    pub(crate) fn read_in(&mut self, skill: Option<&str>) {
        self.record.skill = skill.map(bounded);
    }

    pub(crate) fn memory(&mut self, bytes: usize) {
        self.record.memory = bytes;
    }

    /// Writes how the call ended. The error says that this failed and that the
    /// call must fail for it.
    pub(crate) fn end(mut self, outcome: &Result<Output, CallError>) -> Result<(), Stop> {
        (self.record.outcome, self.record.reason) = observer::kind(outcome);
        self.record.bytes = answered(outcome);
        self.write()
    }

    fn write(&mut self) -> Result<(), Stop> {
        self.written = true;
        self.record.duration_us =
            u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX);
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

impl Drop for Entry {
    fn drop(&mut self) {
        if !self.written {
            // Nobody waits for this call's answer any more.
            let _ = self.write();
        }
    }
}

/// Bytes of what the caller is answered.
fn answered(outcome: &Result<Output, CallError>) -> usize {
    match outcome {
        Ok(output) => output.text.len() + output.details.as_ref().map_or(0, String::len),
        Err(CallError::Failed(failure)) => failure.message.len(),
        Err(_) => 0,
    }
}

fn bounded(value: &str) -> String {
    value.chars().take(LONGEST).collect()
}

/// JSON in which everything but printable ASCII is escaped: nothing in a record
/// can move a cursor or turn a line's direction when the file is looked at.
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
