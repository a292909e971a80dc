//! Keeps the trace of the last failed call, to explain why a check failed.

use std::sync::{Arc, Mutex, PoisonError};

use skillhost::{CallEnd, CallTrace, Observer};

/// A function that turns a trace into lines for the tool's author.
type Explain = dyn Fn(&CallTrace) -> Vec<String> + Send + Sync;

/// An observer that keeps the trace of the last failed call.
pub(super) struct Tracer {
    explain: Box<Explain>,
    last: Mutex<Option<CallTrace>>,
}

impl Tracer {
    pub(super) fn new(
        explain: impl Fn(&CallTrace) -> Vec<String> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            explain: Box::new(explain),
            last: Mutex::default(),
        })
    }

    /// Forgets the trace of the previous check's calls.
    pub(super) fn clear(&self) {
        self.replace(None);
    }

    /// Returns the lines that explain the last failed call.
    pub(super) fn explain(&self) -> Vec<String> {
        let trace = self.replace(None).unwrap_or_default();
        (self.explain)(&trace)
    }

    fn replace(&self, trace: Option<CallTrace>) -> Option<CallTrace> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut last, trace)
    }
}

impl Observer for Tracer {
    fn ended(&self, _: &CallEnd<'_>) {}

    fn traces(&self) -> bool {
        true
    }

    fn traced(&self, trace: CallTrace) {
        self.replace(Some(trace));
    }
}
