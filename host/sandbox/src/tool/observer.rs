//! Observers of calls: what counts calls, such as the server's metrics, learns how
//! each one ended. It does not learn what was asked and answered: that is the audit
//! log's to record. Only one for a tool's author gets traces of failed calls.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::tool::{CallError, CallOutcome, CallTrace, Output};

/// Observes the calls of a host; see
/// `HostBuilder::observer`. The host calls it on
/// the call's own path, so it must not wait for anything.
pub trait Observer: Send + Sync {
    /// Takes note that a call has ended, in whatever way.
    fn ended(&self, call: &CallEnd<'_>);

    /// Returns whether it wants the traces of failed calls. The host then keeps what
    /// each guest prints until its call has ended.
    fn traces(&self) -> bool {
        false
    }

    /// Takes the trace of a call that the tool failed or the host stopped, before
    /// [`Observer::ended`].
    fn traced(&self, _trace: CallTrace) {}
}

/// The end of a call: its outcome and what it took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallEnd<'a> {
    /// The tool that was called; none if no tool has the name. Callers may invent
    /// names without end, and none of those is passed on.
    pub tool: Option<&'a str>,
    /// The outcome.
    pub outcome: CallOutcome,
    /// The time from the call's arrival to its end, waiting for a slot included.
    pub duration: Duration,
    /// The most bytes of linear memory that the guest had; none if no guest ran
    /// to its end.
    pub memory: Option<usize>,
}

/// The calls and the memory of a host at one moment; see
/// `Host::occupancy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Occupancy {
    /// Calls that run.
    pub running: usize,
    /// Calls that wait for a slot.
    pub waiting: usize,
    /// Bytes of linear memory of all sandboxes together.
    pub memory: usize,
    /// Component files that are not served as they lie on disk: they could not
    /// be loaded, or the operator's rules refuse them.
    pub refused_components: usize,
}

/// The observation of one call. If the caller gives the call up, its outcome is
/// [`CallOutcome::Cancelled`].
pub struct Observation<'a> {
    observer: Arc<dyn Observer>,
    tool: Option<&'a str>,
    start: Instant,
    has_ended: bool,
}

impl<'a> Observation<'a> {
    /// Begins to observe a call of this tool.
    pub fn begin(observer: &Arc<dyn Observer>, tool: Option<&'a str>) -> Self {
        Self {
            observer: Arc::clone(observer),
            tool,
            start: Instant::now(),
            has_ended: false,
        }
    }

    /// Reports the end of the call, and the most memory that its guest had.
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
