//! Whether work that nobody can look into, because it waits in the kernel, goes
//! on.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the beginnings and the ends of some work that one does at a time.
#[derive(Default)]
pub(crate) struct Pulse(AtomicUsize);

/// Set in the count once the one at work has been relieved.
const RELIEVED: usize = 1 << (usize::BITS - 1);

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

    /// Relieves the one at work, if that moment is still now: who has come back
    /// in between goes on.
    pub(crate) fn relieve(&self, now: Beat) -> bool {
        let relieved = now.0 | RELIEVED;
        self.0
            .compare_exchange(now.0, relieved, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok()
    }

    pub(crate) fn is_relieved(&self) -> bool {
        self.0.load(Ordering::SeqCst) & RELIEVED != 0
    }
}

impl Beat {
    /// Whether work was going on.
    pub(crate) fn is_at_work(self) -> bool {
        self.0 % 2 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_come_back_is_not_relieved() {
        let pulse = Pulse::default();
        let kept = pulse.during(|| pulse.beat());
        assert!(kept.is_at_work());
        assert!(!pulse.relieve(kept));
        assert!(!pulse.is_relieved());
        assert!(pulse.during(|| pulse.relieve(pulse.beat())));
        assert!(pulse.is_relieved());
        assert!(!pulse.beat().is_at_work());
    }
}
