//! The traces of the calls of a check: the last one explains why the check failed.

use std::sync::{Arc, Mutex};

use skillhost::{CallEnd, CallTrace, Observer};

/// A function that puts a trace into lines for the tool's author.
type Explain = dyn Fn(&CallTrace) -> Vec<String> + Send + Sync;

/// Keeps the trace of the last call that failed.
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

    /// Forgets the calls before a check.
    pub(super) fn clear(&self) {
        self.put(None);
    }

    /// Explains the last call that failed.
    pub(super) fn explain(&self) -> Vec<String> {
        let trace = self.put(None).unwrap_or_default();
        (self.explain)(&trace)
    }

    fn put(&self, trace: Option<CallTrace>) -> Option<CallTrace> {
        let mut last = self
            .last
            .lock()
            .unwrap_or_else(|broken| broken.into_inner());
        std::mem::replace(&mut last, trace)
    }
}

impl Observer for Tracer {
    fn ended(&self, _: &CallEnd<'_>) {}

    fn traces(&self) -> bool {
        true
    }

    fn traced(&self, trace: CallTrace) {
        self.put(Some(trace));
    }
}
