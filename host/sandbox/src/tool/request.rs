//! The HTTP requests of a call, for the audit log and for metrics. The sandbox notes them during
//! the call, so the record has them however the call ends.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use skillhost_egress::Outcome;

/// The requests of a call, shared by the sandbox and the call's audit record.
#[derive(Debug, Clone, Default)]
pub struct RequestLog(Arc<Mutex<Vec<RequestEntry>>>);

#[derive(Debug)]
struct RequestEntry {
    record: RequestRecord,
    sent: Arc<AtomicU64>,
    received: Arc<AtomicU64>,
}

/// A request of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestRecord {
    /// The method.
    pub method: String,
    /// The scheme, host and port; empty if the address is not valid.
    pub origin: String,
    /// The path and query.
    pub path: String,
    /// The status of the response, if there was one.
    pub status: Option<u16>,
    /// The result of the request, as the egress process reports it. `None` if the request was
    /// cancelled, or if the process failed.
    pub outcome: Option<Outcome>,
    /// The rule to grant, if the host denied the request because no person consented to it.
    pub missing_rule: Option<String>,
    /// The bytes of the body that were sent.
    pub sent_bytes: u64,
    /// The bytes of the body that were received.
    pub received_bytes: u64,
    /// The time from the request to the head of the response. `None` if the request was
    /// cancelled.
    pub duration: Option<Duration>,
}

impl RequestRecord {
    /// Returns the kind of failure, if the server did not respond.
    pub fn failure(&self) -> Option<&'static str> {
        match (&self.outcome, self.status, self.duration) {
            (_, Some(_), _) => None,
            (
                Some(Outcome {
                    failure: Some(failure),
                    ..
                }),
                ..,
            ) => Some(failure.kind.name()),
            (_, None, Some(_)) => Some("egress"),
            (_, None, None) => Some("cancelled"),
        }
    }
}

impl RequestLog {
    /// Returns the requests so far.
    pub fn records(&self) -> Vec<RequestRecord> {
        let record = |entry: &RequestEntry| RequestRecord {
            sent_bytes: entry.sent.load(Ordering::Relaxed),
            received_bytes: entry.received.load(Ordering::Relaxed),
            ..entry.record.clone()
        };
        self.lock().iter().map(record).collect()
    }

    /// Notes a request. Returns its number, and the counters of the bytes that it sends and
    /// receives.
    pub(crate) fn begin(&self, record: RequestRecord) -> (usize, Arc<AtomicU64>, Arc<AtomicU64>) {
        let mut entries = self.lock();
        let (sent, received) = (Arc::default(), Arc::default());
        entries.push(RequestEntry {
            record,
            sent: Arc::clone(&sent),
            received: Arc::clone(&received),
        });
        (entries.len() - 1, sent, received)
    }

    /// Notes the result of a request.
    pub(crate) fn end(
        &self,
        number: usize,
        status: Option<u16>,
        outcome: Option<Outcome>,
        duration: Duration,
    ) {
        if let Some(RequestEntry { record, .. }) = self.lock().get_mut(number) {
            (record.status, record.outcome) = (status, outcome);
            record.duration = Some(duration);
        }
    }

    /// Notes that the host denied a request, and the rule to grant if only consent is missing.
    pub(crate) fn deny(
        &self,
        number: usize,
        outcome: Outcome,
        missing_rule: Option<String>,
        duration: Duration,
    ) {
        self.end(number, None, Some(outcome), duration);
        if let Some(entry) = self.lock().get_mut(number) {
            entry.record.missing_rule = missing_rule;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<RequestEntry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
