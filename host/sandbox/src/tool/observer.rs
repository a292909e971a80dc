//! Observers of calls, such as the server's metrics. They get the outcome of each call, but
//! neither its arguments nor its answer. Only observers for a tool's author get traces of
//! failed calls.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::tool::{CallError, CallOutcome, CallTrace, Output, RequestLog, RequestRecord};

/// An observer of a host's calls; see `HostBuilder::observer`. It runs as part of each
/// call, so it must not block.
pub trait Observer: Send + Sync {
    /// Receives the end of each call.
    fn ended(&self, call: &CallEnd<'_>);

    /// Returns whether the observer wants traces of failed calls. The host then keeps each
    /// guest's output until its call has ended.
    fn traces(&self) -> bool {
        false
    }

    /// Receives the trace of a failed or stopped call, before [`Observer::ended`].
    fn traced(&self, _trace: CallTrace) {}
}

/// The end of a call: its outcome and cost.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallEnd<'a> {
    /// The called tool. `None` if it does not exist, because callers can invent any number
    /// of names.
    pub tool: Option<&'a str>,
    /// The outcome.
    pub outcome: CallOutcome,
    /// The time from the call's arrival to its end, including waiting for a slot.
    pub duration: Duration,
    /// The guest's peak linear memory in bytes. `None` if no guest ran to its end.
    pub memory: Option<usize>,
    /// The HTTP requests of the guest.
    pub requests: Vec<RequestRecord>,
}

/// The current calls and memory of a host; see `Host::occupancy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Occupancy {
    /// The number of running calls.
    pub running: usize,
    /// The number of calls that wait for a slot.
    pub waiting: usize,
    /// The bytes of linear memory of all sandboxes.
    pub memory: usize,
    /// The number of component files that are not served, or not in their current version:
    /// they could not be loaded, or the operator's rules refuse them.
    pub refused_components: usize,
}

/// The observation of one call. If the call is dropped, its outcome is
/// [`CallOutcome::Cancelled`].
pub struct Observation<'a> {
    observer: Arc<dyn Observer>,
    tool: Option<&'a str>,
    requests: Option<RequestLog>,
    start: Instant,
    has_ended: bool,
}

impl<'a> Observation<'a> {
    /// Starts observing a call of a tool, and its requests if it may send any.
    pub fn begin(
        observer: &Arc<dyn Observer>,
        tool: Option<&'a str>,
        requests: Option<RequestLog>,
    ) -> Self {
        Self {
            observer: Arc::clone(observer),
            tool,
            requests,
            start: Instant::now(),
            has_ended: false,
        }
    }

    /// Reports the end of the call, and its guest's peak memory.
    pub fn end(mut self, result: &Result<Output, CallError>, memory: Option<usize>) {
        self.report(CallOutcome::of(result), memory);
    }

    fn report(&mut self, outcome: CallOutcome, memory: Option<usize>) {
        self.has_ended = true;
        self.observer.ended(&CallEnd {
            tool: self.tool,
            outcome,
            duration: self.start.elapsed(),
            memory,
            requests: self
                .requests
                .as_ref()
                .map_or_else(Vec::new, RequestLog::records),
        });
    }
}

impl Drop for Observation<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.report(CallOutcome::Cancelled, None);
        }
    }
}
