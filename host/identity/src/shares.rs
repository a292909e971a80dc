//! The part of a server that one client has: requests at a time, which wait for one
//! another, and requests and bytes in a minute, past which it is refused.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use skillhost::config::ClientLimits;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The time for which the bounds of a minute hold.
const MINUTE: Duration = Duration::from_secs(60);

/// What a client may take of a server.
#[derive(Debug)]
pub(crate) struct Shares {
    at_a_time: Arc<Semaphore>,
    calls: Option<Mutex<Bucket>>,
    bytes: Option<Mutex<Bucket>>,
}

/// The place of one request that is worked on. It is given back when this is dropped.
#[derive(Debug)]
pub struct Share {
    _place: Option<OwnedSemaphorePermit>,
}

/// The refusal of a request, because its client has taken its share.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the client has used up its {what} for this minute; try again in {} s", seconds(.wait))]
pub struct ShareError {
    what: &'static str,
    wait: Duration,
}

impl ShareError {
    /// Returns the seconds after which there is something left again.
    pub fn seconds(&self) -> u64 {
        seconds(&self.wait)
    }
}

fn seconds(wait: &Duration) -> u64 {
    wait.as_millis().div_ceil(1000).max(1) as u64
}

impl Shares {
    pub(crate) fn new(limits: &ClientLimits) -> Self {
        let bucket = |most: usize| Mutex::new(Bucket::new(most as f64, Instant::now()));
        let at_a_time = limits.calls as usize;
        Self {
            at_a_time: Arc::new(Semaphore::new(at_a_time.min(Semaphore::MAX_PERMITS))),
            calls: limits.calls_per_minute.map(|most| bucket(most as usize)),
            bytes: limits.bytes_per_minute.map(bucket),
        }
    }

    /// Counts a request against its minute.
    pub(crate) fn count_request(&self) -> Result<(), ShareError> {
        let now = Instant::now();
        if let Some(bytes) = &self.bytes {
            // An answer's size is known only at its end, so the bound is passed once.
            let wait = lock(bytes).wait_for(1.0, now);
            wait.map_or(Ok(()), |wait| {
                Err(ShareError {
                    what: "bytes",
                    wait,
                })
            })?;
        }
        if let Some(calls) = &self.calls {
            let taken = lock(calls).take(1.0, now);
            taken.map_err(|wait| ShareError {
                what: "requests",
                wait,
            })?;
        }
        Ok(())
    }

    /// Waits until a request may be worked on. Those of one client take turns in the
    /// order in which they came.
    pub(crate) async fn enter(&self) -> Share {
        let place = Arc::clone(&self.at_a_time).acquire_owned().await;
        // It is never closed.
        Share { _place: place.ok() }
    }

    /// Counts bytes against their minute.
    pub(crate) fn count_bytes(&self, bytes: usize) {
        if let Some(bucket) = &self.bytes {
            lock(bucket).take_all(bytes as f64, Instant::now());
        }
    }
}

impl Share {
    /// Returns the place of a client without bounds.
    pub(crate) fn unbounded() -> Self {
        Self { _place: None }
    }
}

/// What is left of a minute's worth. It fills up evenly.
#[derive(Debug)]
struct Bucket {
    most: f64,
    left: f64,
    filled: Instant,
}

impl Bucket {
    fn new(most: f64, now: Instant) -> Self {
        Self {
            most,
            left: most,
            filled: now,
        }
    }

    /// Returns how long it takes until there is so much, if there is less now.
    fn wait_for(&mut self, wanted: f64, now: Instant) -> Option<Duration> {
        let passed = now.saturating_duration_since(self.filled).as_secs_f64();
        let rate = self.most / MINUTE.as_secs_f64();
        self.left = (self.left + passed * rate).min(self.most);
        self.filled = self.filled.max(now);
        let missing = wanted - self.left;
        (missing > 0.0).then(|| Duration::from_secs_f64((missing / rate).min(1e9)))
    }

    fn take(&mut self, wanted: f64, now: Instant) -> Result<(), Duration> {
        match self.wait_for(wanted, now) {
            Some(wait) => Err(wait),
            None => {
                self.left -= wanted;
                Ok(())
            }
        }
    }

    /// Takes even what is not there: it is missing later.
    fn take_all(&mut self, wanted: f64, now: Instant) {
        self.wait_for(wanted, now);
        self.left -= wanted;
    }
}

fn lock(bucket: &Mutex<Bucket>) -> MutexGuard<'_, Bucket> {
    bucket.lock().unwrap_or_else(|broken| broken.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(calls: u32, per_minute: Option<u32>, bytes: Option<usize>) -> Shares {
        let mut limits = ClientLimits::default();
        limits.calls = calls;
        limits.calls_per_minute = per_minute;
        limits.bytes_per_minute = bytes;
        Shares::new(&limits)
    }

    #[test]
    fn a_bucket_fills_up_evenly_and_no_further() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut bucket = Bucket::new(60.0, start);
        for _ in 0..60 {
            bucket.take(1.0, start).unwrap();
        }
        assert_eq!(bucket.take(1.0, start), Err(Duration::from_secs(1)));
        bucket.take(1.0, after(1)).unwrap();
        assert!(bucket.take(1.0, after(1)).is_err());
        // A clock that stands still or goes back gives nothing.
        assert!(bucket.take(1.0, start).is_err());
        assert_eq!(bucket.wait_for(60.0, after(3600)), None);
        assert!(bucket.wait_for(61.0, after(7200)).is_some());
        bucket.take_all(120.0, after(7200));
        let wait = bucket.wait_for(1.0, after(7200)).unwrap();
        assert_eq!(wait, Duration::from_secs(61));
        let mut slow = Bucket::new(30.0, start);
        slow.take_all(30.0, start);
        let wait = slow.wait_for(1.0, after(1)).unwrap();
        assert_eq!(wait, Duration::from_secs(1));
    }

    #[tokio::test]
    async fn requests_of_a_client_wait_for_one_another() {
        let shares = shares(2, None, None);
        let (one, _two) = (shares.enter().await, shares.enter().await);
        let mut third = Box::pin(shares.enter());
        let soon = Duration::from_millis(10);
        assert!(tokio::time::timeout(soon, &mut third).await.is_err());
        drop(one);
        third.await;
    }

    #[test]
    fn refuses_more_requests_and_bytes_than_a_minute_has() {
        let few = shares(9, Some(2), None);
        few.count_request().unwrap();
        few.count_request().unwrap();
        let error = few.count_request().unwrap_err();
        assert!((29..=30).contains(&error.seconds()), "{error}");
        assert!(error.to_string().contains("its requests"), "{error}");
        let small = shares(9, None, Some(1 << 20));
        small.count_request().unwrap();
        small.count_bytes(2 << 20);
        let error = small.count_request().unwrap_err();
        assert!((59..=61).contains(&error.seconds()), "{error}");
        assert!(error.to_string().contains("its bytes"), "{error}");
    }
}
