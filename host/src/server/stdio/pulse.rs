//! Whether work that nobody can look into, because it waits in the kernel, goes
//! on.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the beginnings and the ends of some work that one does at a time.
#[derive(Default)]
pub(crate) struct Pulse(AtomicUsize);

/// A moment of a [`Pulse`]. The same moment again, and nothing has happened.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Beat(usize);

impl Pulse {
    /// Does the work.
    pub(crate) fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        /// Ends it also where the work panics.
        struct End<'a>(&'a AtomicUsize);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
        self.0.fetch_add(1, Ordering::SeqCst);
        let _end = End(&self.0);
        work()
    }

    pub(crate) fn beat(&self) -> Beat {
        Beat(self.0.load(Ordering::SeqCst))
    }
}

impl Beat {
    /// Whether work was going on.
    pub(crate) fn is_at_work(self) -> bool {
        self.0 % 2 == 1
    }
}
