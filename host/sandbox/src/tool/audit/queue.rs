//! A queue of records that wait for the file of a log. The call that gets the file writes the
//! records of all waiting calls, so that each call waits for the file's lock only once.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use super::signed_log::SignedLog;

/// The file of a log, and the records that wait for it.
pub(super) struct RecordQueue {
    log: Mutex<SignedLog>,
    waiting: Mutex<Vec<WaitingRecord>>,
}

/// A record that waits, and the place for its outcome.
struct WaitingRecord {
    line: Vec<u8>,
    outcome: Arc<Outcome>,
}

/// The outcome of writing a record, once it is known.
type Outcome = OnceLock<Result<(), WriteError>>;

/// The kind and the text of an error.
type WriteError = (io::ErrorKind, String);

impl RecordQueue {
    pub(super) fn new(log: SignedLog) -> Self {
        Self {
            log: Mutex::new(log),
            waiting: Mutex::default(),
        }
    }

    /// Waits until no other call uses the file, and calls a function with it.
    pub(super) fn with_log<T>(&self, work: impl FnOnce(&mut SignedLog) -> T) -> T {
        work(&mut self.log.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Appends a record. Returns the time after which a checkpoint is due, if a timer must be
    /// started for it.
    pub(super) fn append(&self, line: Vec<u8>) -> io::Result<Option<Duration>> {
        let outcome = self.push(line);
        self.with_log(|log| {
            let mut due = None;
            loop {
                // Another call may already have written this record.
                if let Some(outcome) = outcome.get() {
                    return to_result(outcome).map(|()| due);
                }
                let next_due = self.append_waiting(log, &outcome);
                due = next_due?.or(due);
            }
        })
    }

    /// Appends the waiting records, or only the first of them if a checkpoint must follow. `own` is
    /// the outcome of the caller's record.
    fn append_waiting(
        &self,
        log: &mut SignedLog,
        own: &Arc<Outcome>,
    ) -> io::Result<Option<Duration>> {
        let mut outcomes = Vec::new();
        let (appended, count) = log.append(|max| {
            let mut waiting = self.waiting();
            let count = max.min(waiting.len());
            let records = waiting.drain(..count);
            let split = records.map(|record| (record.line, record.outcome));
            let (lines, pending): (Vec<_>, Vec<_>) = split.unzip();
            outcomes = pending;
            lines
        });
        let Err(error) = &appended else {
            for outcome in outcomes {
                let _ = outcome.set(Ok(()));
            }
            return appended;
        };
        let has_dequeued = !outcomes.is_empty();
        for (number, outcome) in outcomes.into_iter().enumerate() {
            let _ = outcome.set(if number < count {
                Ok(())
            } else {
                Err((error.kind(), error.to_string()))
            });
        }
        if has_dequeued {
            return Ok(None);
        }
        // The file could not be locked, so no record left the queue. This call removes its own
        // record, and the other calls try again.
        self.waiting()
            .retain(|record| !Arc::ptr_eq(&record.outcome, own));
        appended
    }

    fn push(&self, line: Vec<u8>) -> Arc<Outcome> {
        let outcome = Arc::<Outcome>::default();
        self.waiting().push(WaitingRecord {
            line,
            outcome: Arc::clone(&outcome),
        });
        outcome
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<WaitingRecord>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn to_result(outcome: &Result<(), WriteError>) -> io::Result<()> {
    let error = |(kind, text)| io::Error::new(kind, text);
    outcome.clone().map_err(error)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::super::AuditMode;
    use super::super::signed_log::LogSource;
    use super::*;
    use skillhost_skills::broker::Opener;
    use skillhost_skills::trust::Trust;

    #[test]
    fn one_call_writes_all_waiting_records() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let source = LogSource {
            path: path.clone(),
            trust: Trust::new(),
            opener: Opener::DIRECT,
            signer: None,
        };
        let queue = RecordQueue::new(SignedLog::open(source, AuditMode::Required).unwrap());
        let record = || b"{\"outcome\":\"output\"}".to_vec();
        let records = || fs::read_to_string(&path).unwrap().lines().count();
        let waiting = [(); 2].map(|()| queue.push(record()));
        queue.append(record()).unwrap();
        assert!(waiting.iter().all(|outcome| outcome.get() == Some(&Ok(()))));
        assert_eq!(records(), 3);

        // A call that cannot lock the file removes only its own record.
        let lock = File::open(&path).unwrap();
        lock.lock().unwrap();
        let waiting = queue.push(record());
        let error = queue.append(record()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(waiting.get().is_none());
        drop(lock);
        queue.append(record()).unwrap();
        assert_eq!((waiting.get(), records()), (Some(&Ok(())), 5));
        assert!(queue.waiting().is_empty());
    }
}
