//! The longest wait of a call for its audit log: for the lock of the file, or for the reader
//! of stderr.

use std::io;
use std::time::Duration;

/// The longest wait. Guards against: a process that was stopped while it held the lock, and
/// a reader that stopped reading.
const MAX_WAIT: Duration = Duration::from_secs(2);

/// The longest wait after one that timed out. Guards against: a queue of calls that each
/// wait for [`MAX_WAIT`], one after another.
const SHORT_WAIT: Duration = Duration::from_millis(5);

/// The limit of the next wait. It is short from a timeout until the next success.
#[derive(Debug, Default)]
pub(super) struct WaitLimit {
    is_short: bool,
}

impl WaitLimit {
    /// Creates a limit that is short from the start.
    pub(super) const fn short() -> Self {
        Self { is_short: true }
    }

    /// Creates the usual limit.
    pub(super) const fn new() -> Self {
        Self { is_short: false }
    }

    /// Returns the longest time of the next wait.
    pub(super) fn time(&self) -> Duration {
        if self.is_short { SHORT_WAIT } else { MAX_WAIT }
    }

    /// Shortens the limit if a wait timed out.
    pub(super) fn observe<T>(&mut self, waited: io::Result<T>) -> io::Result<T> {
        let is_timeout = |error: &io::Error| error.kind() == io::ErrorKind::TimedOut;
        self.is_short |= waited.as_ref().err().is_some_and(is_timeout);
        waited
    }

    /// Restores the usual limit after a success.
    pub(super) fn restore(&mut self) {
        self.is_short = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_is_short_from_timeout_to_success() {
        let mut limit = WaitLimit::new();
        assert_eq!(limit.time(), MAX_WAIT);
        limit
            .observe::<()>(Err(io::ErrorKind::StorageFull.into()))
            .unwrap_err();
        assert_eq!(limit.time(), MAX_WAIT);
        limit
            .observe::<()>(Err(io::ErrorKind::TimedOut.into()))
            .unwrap_err();
        assert_eq!(limit.time(), SHORT_WAIT);
        limit.observe(Ok(())).unwrap();
        assert_eq!(limit.time(), SHORT_WAIT);
        limit.restore();
        assert_eq!(limit.time(), MAX_WAIT);
    }
}
