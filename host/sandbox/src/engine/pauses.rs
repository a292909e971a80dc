//! Pauses of a call, while a person decides about a request. They do not count towards the time
//! of the call, and its guest does not compute meanwhile.

use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// The pauses of a call.
#[derive(Debug, Clone, Default)]
pub(crate) struct CallPauses(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Notified when no pause is open any more.
    ended: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The number of open pauses.
    open: usize,
    /// The time when the first open pause began.
    since: Option<Instant>,
    /// The time of all pauses that have ended.
    total: Duration,
}

/// An open pause, which ends on drop.
pub(crate) struct Pause(CallPauses);

impl CallPauses {
    /// Begins a pause. Pauses that overlap count once.
    pub(crate) fn begin(&self) -> Pause {
        let mut state = self.state();
        state.open += 1;
        state.since.get_or_insert_with(Instant::now);
        Pause(self.clone())
    }

    /// Returns the time of all pauses that have ended.
    pub(crate) fn total(&self) -> Duration {
        self.state().total
    }

    /// Returns a future that lasts until no pause is open, or `None` if none is open now.
    pub(crate) fn end_of_open_pauses(&self) -> Option<Pin<Box<dyn Future<Output = ()> + Send>>> {
        if self.state().open == 0 {
            return None;
        }
        let pauses = self.clone();
        Some(Box::pin(async move { pauses.wait_until_none_open().await }))
    }

    /// Waits until this time has passed, without counting pauses.
    pub(crate) async fn sleep_outside_pauses(&self, time: Duration) {
        let start = Instant::now();
        loop {
            self.wait_until_none_open().await;
            let taken = start.elapsed().saturating_sub(self.total());
            match time.checked_sub(taken) {
                Some(left) if !left.is_zero() => tokio::time::sleep(left).await,
                _ => return,
            }
        }
    }

    async fn wait_until_none_open(&self) {
        loop {
            let mut ended = pin!(self.0.ended.notified());
            // Enabled before the check, so that a pause that ends after the check wakes it.
            ended.as_mut().enable();
            if self.state().open == 0 {
                return;
            }
            ended.await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Pause {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.open -= 1;
        if state.open == 0 {
            let since = state.since.take();
            state.total += since.map_or(Duration::ZERO, |since| since.elapsed());
            drop(state);
            self.0.0.ended.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn pauses_do_not_count_towards_call_time() {
        let pauses = CallPauses::default();
        let (one, other) = (pauses.begin(), pauses.begin());
        let time = Duration::from_millis(50);
        let mut sleep = pin!(pauses.sleep_outside_pauses(time));
        let timeout = tokio::time::timeout(4 * time, sleep.as_mut());
        let still_waits = timeout.await.is_err();
        assert!(still_waits, "the pause counts");
        drop(one);
        let end = pauses.end_of_open_pauses().expect("a pause is open");
        let still_waits = tokio::time::timeout(time, end).await.is_err();
        assert!(still_waits && pauses.total().is_zero());
        let end = pauses.end_of_open_pauses().expect("a pause is open");
        drop(other);
        end.await;
        assert!(pauses.end_of_open_pauses().is_none());
        // Overlapping pauses count once.
        let total = pauses.total();
        assert!(total >= 5 * time && total < 60 * time, "{total:?}");
        let rest = Instant::now();
        sleep.await;
        assert!(rest.elapsed() <= 40 * time);
        // The time between pauses counts.
        drop(pauses.begin());
        assert!(pauses.total() < 2 * total);
    }
}
