//! The file of an audit log with its checkpoints. Decides when a checkpoint is due, and reopens
//! a file that could not be used.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::log_file::{LogFile, Signer, cannot_use};
use super::wait_limit::WaitLimit;
use super::{AuditMode, FOLLOW_INTERVAL};
use skillhost_skills::broker::Opener;
use skillhost_skills::trust::Trust;

/// The longest time from a failed checkpoint to the next attempt.
const MAX_RETRY_TIME: Duration = Duration::from_secs(10);

/// A log file, and the checkpoints in it.
pub(super) struct SignedLog {
    source: LogSource,
    /// `None` until the file can be used, which only [`AuditMode::BestEffort`] allows.
    file: Option<LogFile>,
    /// The earliest time to try again to open the file.
    next_open: Instant,
    /// The limits of unsigned records. `None` without a signer.
    limits: Option<UnsignedLimits>,
    /// The number of records after the last checkpoint.
    unsigned: u64,
    /// The time at which a timer writes the next checkpoint, or tries again.
    due: Option<Instant>,
}

/// The parameters for opening a log.
pub(super) struct LogSource {
    pub(super) path: PathBuf,
    pub(super) trust: Trust,
    pub(super) opener: Opener,
    pub(super) signer: Option<Signer>,
}

/// The number of records and the time after which a checkpoint is due.
struct UnsignedLimits {
    records: u64,
    time: Duration,
}

impl LogSource {
    fn open(&self, wait: WaitLimit) -> anyhow::Result<LogFile> {
        let (trust, signer) = (&self.trust, self.signer.clone());
        LogFile::open(&self.path, trust, &self.opener, signer, wait)
            .with_context(|| cannot_use(&self.path))
    }
}

impl SignedLog {
    /// Opens the file. If that fails, returns the error, or only logs it in
    /// [`AuditMode::BestEffort`].
    pub(super) fn open(source: LogSource, mode: AuditMode) -> anyhow::Result<Self> {
        let file = match source.open(WaitLimit::new()) {
            Ok(file) => Some(file),
            Err(error) if mode == AuditMode::BestEffort => {
                tracing::error!("{error:#}; calls have no record until the log can be used");
                None
            }
            Err(error) => return Err(error),
        };
        let limits = source.signer.as_ref().map(|signer| UnsignedLimits {
            records: signer.records(),
            time: signer.time(),
        });
        Ok(Self {
            source,
            file,
            next_open: Instant::now(),
            limits,
            unsigned: 0,
            due: None,
        })
    }

    /// Locks the file, and appends the records that `take_records` returns.
    ///
    /// `take_records` gets the number of records until the next checkpoint, and returns at most as
    /// many.
    ///
    /// Returns the time after which a checkpoint is due, if a timer must be started for it, and the
    /// number of records that are completely in the file.
    pub(super) fn append(
        &mut self,
        take_records: impl FnOnce(usize) -> Vec<Vec<u8>>,
    ) -> (io::Result<Option<Duration>>, usize) {
        let limit = self.limits.as_ref().map(|limits| limits.records);
        let until_checkpoint = limit.map_or(u64::MAX, |records| {
            records.saturating_sub(self.unsigned).max(1)
        });
        let file = match self.usable_file() {
            Ok(file) => file,
            Err(error) => return (Err(error), 0),
        };
        let until_checkpoint = usize::try_from(until_checkpoint).unwrap_or(usize::MAX);
        let (appended, count) = file.append(|| take_records(until_checkpoint));
        self.unsigned += count as u64;
        (appended.map(|()| self.checkpoint_if_due()), count)
    }

    /// Writes a checkpoint if enough records are unsigned. Returns the time after which one is
    /// due, if a timer must be started for it.
    fn checkpoint_if_due(&mut self) -> Option<Duration> {
        let limits = self.limits.as_ref()?;
        let (records, time) = (limits.records, limits.time);
        // The timer is late, or ended with its runtime.
        let is_late = self.due.is_some_and(|due| Instant::now() > due);
        if is_late || self.unsigned >= records {
            return self.checkpoint();
        }
        if self.due.is_some() {
            return None;
        }
        self.due = Some(Instant::now() + time);
        Some(time)
    }

    /// Writes a checkpoint if there are records after the last one. Returns the time after
    /// which to try again if that fails and no timer is running.
    pub(super) fn checkpoint(&mut self) -> Option<Duration> {
        let time = self.limits.as_ref()?.time;
        let file = self.file.as_mut().filter(|_| self.unsigned > 0)?;
        let Err(error) = file.checkpoint() else {
            (self.unsigned, self.due) = (0, None);
            return None;
        };
        tracing::error!("cannot write a checkpoint of the audit log: {error}");
        if self.due.is_some_and(|due| Instant::now() < due) {
            return None;
        }
        let retry = time.min(MAX_RETRY_TIME);
        self.due = Some(Instant::now() + retry);
        Some(retry)
    }

    /// Returns whether [`Self::follow`] has something to do.
    pub(super) fn has_changed(&self) -> bool {
        self.file.as_ref().is_some_and(LogFile::has_changed) || self.is_overdue()
    }

    /// Returns whether a checkpoint is due for which no timer runs. Writing some of a batch can fail.
    fn is_overdue(&self) -> bool {
        let is_over = |due: Instant| Instant::now() > due + FOLLOW_INTERVAL;
        self.limits.is_some() && self.unsigned > 0 && self.due.is_none_or(is_over)
    }

    /// Opens the file that has the log's name now, if it is another file, and reads what other
    /// processes have appended.
    pub(super) fn follow(&mut self) {
        if let Some(file) = &mut self.file {
            file.follow();
        }
        if self.is_overdue() {
            self.checkpoint();
        }
    }

    /// Writes the last checkpoint, and waits until the sinks have it, up to a limit.
    pub(super) fn finish(&mut self) {
        self.checkpoint();
        if let Some(file) = &mut self.file {
            file.finish();
        }
    }

    /// Returns the open file. If it could not be opened, tries again at intervals.
    fn usable_file(&mut self) -> io::Result<&mut LogFile> {
        let file = match self.file.take() {
            Some(file) => file,
            None => self.reopen()?,
        };
        Ok(self.file.insert(file))
    }

    fn reopen(&mut self) -> io::Result<LogFile> {
        if Instant::now() < self.next_open {
            return Err(io::Error::other("the log could not be opened"));
        }
        self.next_open = Instant::now() + FOLLOW_INTERVAL;
        let opened = self.source.open(WaitLimit::short());
        opened.map_err(|error| io::Error::other(format!("{error:#}")))
    }
}
