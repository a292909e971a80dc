//! Meters of a call's processor time and memory. The call's record has both, however the call ends.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A meter of the processor time that a call uses in this process.
#[derive(Clone, Default)]
pub struct CpuMeter(Arc<AtomicU64>);

/// A meter of the memory of a call: the linear memories of its guest, and the host's memory for
/// the call.
#[derive(Debug, Clone, Default)]
pub struct MemoryMeter(Arc<AtomicUsize>);

impl CpuMeter {
    /// Polls a future, and counts the processor time that this uses.
    pub fn poll<F: Future + ?Sized>(
        &self,
        work: Pin<&mut F>,
        task: &mut Context<'_>,
    ) -> Poll<F::Output> {
        self.measure(|| work.poll(task))
    }

    /// Calls a function, and counts the processor time that this uses.
    pub(crate) fn measure<T>(&self, work: impl FnOnce() -> T) -> T {
        let start = thread_time();
        let result = work();
        let used = thread_time().saturating_sub(start).as_nanos();
        let used = u64::try_from(used).unwrap_or(u64::MAX);
        self.0.fetch_add(used, Ordering::Relaxed);
        result
    }

    /// Returns the counted time in microseconds.
    pub(super) fn micros(&self) -> u64 {
        self.0.load(Ordering::Relaxed) / 1_000
    }
}

impl MemoryMeter {
    /// Sets the bytes in use. They never shrink while the call runs.
    pub(crate) fn set(&self, bytes: usize) {
        self.0.store(bytes, Ordering::Relaxed);
    }

    /// Returns the peak memory of the call in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Returns the processor time that this thread has used.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_processor_time_in_microseconds() {
        let meter = CpuMeter(Arc::new(AtomicU64::new(5_000_999)));
        assert_eq!(meter.micros(), 5_000);
    }
}
