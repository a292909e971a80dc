//! The HTTP requests of a call, for the audit log and for metrics. The sandbox notes them during
//! the call, so the record has them however the call ends.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use skillhost_egress::Outcome;

/// The requests of a call, shared by the sandbox and the call's audit record.
#[derive(Debug, Clone, Default)]
pub struct RequestLog(Arc<Mutex<Requests>>);

#[derive(Debug, Default)]
struct Requests {
    entries: Vec<RequestEntry>,
    /// The number of requests beyond the limit of the call, which have no entry.
    beyond_limit: usize,
}

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
    /// The result of the request, as the egress process reports it. Without a report, the rule and the
    /// secrets that the host knows of.
    pub outcome: Option<Outcome>,
    /// True if reading the body of the response failed: because of the server, a limit, or a secret
    /// in it.
    pub is_incomplete: bool,
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
    /// Returns the kind of failure, if the request failed.
    pub fn failure(&self) -> Option<&'static str> {
        match (&self.outcome, self.status, self.duration) {
            (_, Some(_), _) => self.is_incomplete.then_some("incomplete"),
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
        self.lock().entries.iter().map(record).collect()
    }

    /// Returns the number of requests so far, with those beyond the limit of the call.
    pub(crate) fn total(&self) -> usize {
        let requests = self.lock();
        requests.entries.len().saturating_add(requests.beyond_limit)
    }

    /// Counts a request beyond the limit of the call.
    pub(crate) fn count_beyond_limit(&self) {
        let mut requests = self.lock();
        requests.beyond_limit = requests.beyond_limit.saturating_add(1);
    }

    /// Notes a request. Returns its number, and the counters of the bytes that it sends and
    /// receives.
    pub(crate) fn begin(&self, record: RequestRecord) -> (usize, Arc<AtomicU64>, Arc<AtomicU64>) {
        let entries = &mut self.lock().entries;
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
        self.change(number, |record| {
            (record.status, record.outcome) = (status, outcome);
            record.duration = Some(duration);
        });
    }

    /// Changes the record of a request.
    pub(crate) fn change(&self, number: usize, change: impl FnOnce(&mut RequestRecord)) {
        if let Some(entry) = self.lock().entries.get_mut(number) {
            change(&mut entry.record);
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
        self.change(number, |record| record.missing_rule = missing_rule);
    }

    fn lock(&self) -> MutexGuard<'_, Requests> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
