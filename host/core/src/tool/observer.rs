//! Watching calls go by: whoever counts them, such as the server's metrics, is
//! told how each one ended. What was asked and what was answered is not said:
//! that is the audit log's to record.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::tool::{CallError, FailureKind, Output};

/// Is told of every call when it ends; see
/// [`HostBuilder::observer`](crate::HostBuilder::observer). It is asked on the
/// call's own path, so it must not wait for anything.
pub trait Observer: Send + Sync {
    /// A call has ended, in whatever way.
    fn ended(&self, call: &CallEnd<'_>);
}

/// How a call ended, and what it took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallEnd<'a> {
    /// The tool that was called; none, if there is no tool of that name.
    /// Callers may invent names without end, and none of those is passed on.
    pub tool: Option<&'a str>,
    /// `output`, `failed`, `refused`, `stopped` or `cancelled`, as in the audit
    /// log.
    pub outcome: &'static str,
    /// What kind of failure, refusal or stop it was. There are a few dozen at
    /// most.
    pub reason: Option<&'static str>,
    /// From the call's arrival to its end: waiting for a slot is part of it.
    pub duration: Duration,
    /// Most bytes of linear memory that the guest had; none, if none ran to
    /// its end.
    pub memory: Option<usize>,
}

/// What a host has in hand at one moment; see
/// [`Host::occupancy`](crate::Host::occupancy).
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

/// One call that is watched. Given up before it ends, it counts as cancelled.
pub(crate) struct Watch<'a> {
    observer: Arc<dyn Observer>,
    tool: Option<&'a str>,
    start: Instant,
    ended: bool,
}

impl<'a> Watch<'a> {
    pub(crate) fn begin(observer: &Arc<dyn Observer>, tool: Option<&'a str>) -> Self {
        Self {
            observer: Arc::clone(observer),
            tool,
            start: Instant::now(),
            ended: false,
        }
    }

    pub(crate) fn end(mut self, outcome: &Result<Output, CallError>, memory: Option<usize>) {
        let (outcome, reason) = kind(outcome);
        self.tell(outcome, reason, memory);
    }

    fn tell(&mut self, outcome: &'static str, reason: Option<&'static str>, memory: Option<usize>) {
        self.ended = true;
        self.observer.ended(&CallEnd {
            tool: self.tool,
            outcome,
            reason,
            duration: self.start.elapsed(),
            memory,
        });
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.tell(CANCELLED, None, None);
        }
    }
}

/// The outcome of a call whose caller gave it up.
pub(crate) const CANCELLED: &str = "cancelled";

/// The outcome of a call, and what kind of it, in the words of the audit log
/// and the metrics.
pub fn kind(outcome: &Result<Output, CallError>) -> (&'static str, Option<&'static str>) {
    match outcome {
        Ok(_) => ("output", None),
        Err(CallError::Failed(failure)) => {
            let reason = match failure.kind {
                FailureKind::InvalidArguments => "invalid-arguments",
                FailureKind::NotFound => "not-found",
                FailureKind::Refused => "refused",
                FailureKind::Unreadable => "unreadable",
                FailureKind::Failed => "failed",
            };
            ("failed", Some(reason))
        }
        Err(CallError::UnknownTool { .. }) => ("refused", Some("unknown-tool")),
        Err(CallError::Arguments(_)) => ("refused", Some("arguments")),
        Err(CallError::Stopped { stop, .. }) => ("stopped", Some(stop.kind())),
    }
}
