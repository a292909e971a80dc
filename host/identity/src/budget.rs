//! The budget of one client: concurrent requests, and requests and bytes per minute.
//!
//! Requests beyond the limit on concurrent ones wait. Requests beyond a minute's budget are
//! refused.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::settings::ClientLimits;

/// The period that the limits on requests and bytes cover.
const MINUTE: Duration = Duration::from_secs(60);

/// The budget of one client.
#[derive(Debug)]
pub(crate) struct ClientBudget {
    concurrent_requests: Arc<Semaphore>,
    requests: Option<Mutex<Bucket>>,
    bytes: Option<Mutex<Bucket>>,
}

/// One request's lease of its client's budget. Dropping it lets the next request run.
#[derive(Debug)]
pub struct RequestLease {
    _permit: Option<OwnedSemaphorePermit>,
}

/// The refusal of a request whose client has used up its budget for this minute.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the client has used up its {resource} for this minute; try again in {} s", seconds(.wait))]
pub struct BudgetError {
    resource: &'static str,
    wait: Duration,
}

impl BudgetError {
    /// Returns the number of seconds after which the client may try again.
    pub fn retry_after(&self) -> u64 {
        seconds(&self.wait)
    }
}

fn seconds(wait: &Duration) -> u64 {
    wait.as_millis().div_ceil(1000).max(1) as u64
}

impl ClientBudget {
    pub(crate) fn new(limits: &ClientLimits) -> Self {
        let bucket = |capacity: usize| Mutex::new(Bucket::new(capacity as f64, Instant::now()));
        let concurrent = (limits.calls as usize).min(Semaphore::MAX_PERMITS);
        Self {
            concurrent_requests: Arc::new(Semaphore::new(concurrent)),
            requests: limits.calls_per_minute.map(|limit| bucket(limit as usize)),
            bytes: limits.bytes_per_minute.map(bucket),
        }
    }

    /// Counts a request against the budget of this minute.
    pub(crate) fn count_request(&self) -> Result<(), BudgetError> {
        self.check_bytes()?;
        if let Some(requests) = &self.requests {
            let resource = "requests";
            let taken = lock(requests).try_take(1.0, Instant::now());
            taken.map_err(|wait| BudgetError { resource, wait })?;
        }
        Ok(())
    }

    /// Checks that bytes are left in this minute. The size of an answer is known only at its
    /// end, so the answers to running requests may exceed the limit.
    pub(crate) fn check_bytes(&self) -> Result<(), BudgetError> {
        let resource = "bytes";
        let wait = self
            .bytes
            .as_ref()
            .and_then(|bytes| lock(bytes).time_until(1.0, Instant::now()));
        wait.map_or(Ok(()), |wait| Err(BudgetError { resource, wait }))
    }

    /// Waits until one more request may run. Requests run in order of arrival.
    pub(crate) async fn acquire(&self) -> RequestLease {
        let permit = Arc::clone(&self.concurrent_requests).acquire_owned().await;
        RequestLease {
            // The semaphore is never closed.
            _permit: permit.ok(),
        }
    }

    /// Counts bytes against the budget of this minute.
    pub(crate) fn count_bytes(&self, bytes: usize) {
        if let Some(bucket) = &self.bytes {
            lock(bucket).take_into_debt(bytes as f64, Instant::now());
        }
    }
}

impl RequestLease {
    /// Returns the lease of a client without limits.
    pub(crate) fn unlimited() -> Self {
        Self { _permit: None }
    }
}

/// A token bucket. It refills evenly, and holds at most the amount of one minute.
#[derive(Debug)]
struct Bucket {
    capacity: f64,
    /// The current amount. Negative if more was taken than the bucket held.
    level: f64,
    last_refill: Instant,
}

impl Bucket {
    fn new(capacity: f64, now: Instant) -> Self {
        Self {
            capacity,
            level: capacity,
            last_refill: now,
        }
    }

    /// Refills the bucket, and returns the time until it holds an amount. Returns `None` if the
    /// bucket already holds that.
    fn time_until(&mut self, amount: f64, now: Instant) -> Option<Duration> {
        let passed = now
            .saturating_duration_since(self.last_refill)
            .as_secs_f64();
        let rate = self.capacity / MINUTE.as_secs_f64();
        self.level = (self.level + passed * rate).min(self.capacity);
        self.last_refill = self.last_refill.max(now);
        let missing = amount - self.level;
        (missing > 0.0).then(|| Duration::from_secs_f64((missing / rate).min(1e9)))
    }

    /// Takes an amount, or returns the time until the bucket holds it.
    fn try_take(&mut self, amount: f64, now: Instant) -> Result<(), Duration> {
        match self.time_until(amount, now) {
            Some(wait) => Err(wait),
            None => {
                self.level -= amount;
                Ok(())
            }
        }
    }

    /// Takes an amount even if the bucket holds less.
    fn take_into_debt(&mut self, amount: f64, now: Instant) {
        // Refills the bucket.
        self.time_until(amount, now);
        self.level -= amount;
    }
}

fn lock(bucket: &Mutex<Bucket>) -> MutexGuard<'_, Bucket> {
    bucket.lock().unwrap_or_else(|broken| broken.into_inner())
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;

    use super::*;

    fn budget(calls: u32, per_minute: Option<u32>, bytes: Option<usize>) -> ClientBudget {
        ClientBudget::new(&ClientLimits {
            calls,
            calls_per_minute: per_minute,
            bytes_per_minute: bytes,
        })
    }

    #[test]
    fn bucket_refills_evenly_up_to_its_capacity() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut bucket = Bucket::new(60.0, start);
        for _ in 0..60 {
            bucket.try_take(1.0, start).unwrap();
        }
        assert_eq!(bucket.try_take(1.0, start), Err(Duration::from_secs(1)));
        bucket.try_take(1.0, after(1)).unwrap();
        assert!(bucket.try_take(1.0, after(1)).is_err());
        // A clock that stands still or goes back refills nothing.
        assert!(bucket.try_take(1.0, start).is_err());
        assert_eq!(bucket.time_until(60.0, after(3600)), None);
        assert!(bucket.time_until(61.0, after(7200)).is_some());
        bucket.take_into_debt(120.0, after(7200));
        let wait = bucket.time_until(1.0, after(7200)).unwrap();
        assert_eq!(wait, Duration::from_secs(61));
        let mut slow = Bucket::new(30.0, start);
        slow.take_into_debt(30.0, start);
        let wait = slow.time_until(1.0, after(1)).unwrap();
        assert_eq!(wait, Duration::from_secs(1));
    }

    #[tokio::test]
    async fn requests_past_the_limit_wait() {
        let budget = budget(2, None, None);
        let (first, _second) = (budget.acquire().await, budget.acquire().await);
        let mut third = Box::pin(budget.acquire());
        let is_pending = poll_fn(|task| Poll::Ready(third.as_mut().poll(task).is_pending()));
        assert!(is_pending.await);
        drop(first);
        third.await;
    }

    #[test]
    fn refuses_requests_past_the_budget_of_a_minute() {
        let few = budget(9, Some(2), None);
        few.count_request().unwrap();
        few.count_request().unwrap();
        let error = few.count_request().unwrap_err();
        assert!((29..=30).contains(&error.retry_after()), "{error}");
        assert!(error.to_string().contains("its requests"), "{error}");
        let small = budget(9, None, Some(1 << 20));
        small.count_request().unwrap();
        small.count_bytes(2 << 20);
        let error = small.count_request().unwrap_err();
        assert!((59..=61).contains(&error.retry_after()), "{error}");
        assert!(error.to_string().contains("its bytes"), "{error}");
    }
}
