//! A bound on requests at a time: of all peers, and of one address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

/// One address leaves one part in so many to others. Guards against: one peer that
/// takes all. It leaves no more because, without a token, all programs of a
/// machine may have one address.
const OTHERS_PART: usize = 4;

/// The permits of all requests.
pub(super) struct RequestQuota {
    most: usize,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    all: usize,
    /// Of each address that has a share.
    by_address: HashMap<IpAddr, usize>,
}

/// The permit of one request, returned when it is dropped.
pub(super) struct QuotaPermit {
    quota: Arc<RequestQuota>,
    address: Option<IpAddr>,
}

impl RequestQuota {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            counts: Mutex::default(),
        })
    }

    /// Takes a permit. None if none is left, or none for this address.
    pub(super) fn take(self: &Arc<Self>, address: Option<IpAddr>) -> Option<QuotaPermit> {
        let mut counts = self.counts();
        if counts.all >= self.most {
            return None;
        }
        if let Some(address) = address {
            let of = counts.by_address.entry(address).or_default();
            if *of >= self.most - self.most / OTHERS_PART {
                return None;
            }
            *of += 1;
        }
        counts.all += 1;
        drop(counts);
        Some(QuotaPermit {
            quota: Arc::clone(self),
            address,
        })
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        let counts = self.counts.lock();
        counts.unwrap_or_else(|broken| broken.into_inner())
    }
}

impl Drop for QuotaPermit {
    fn drop(&mut self) {
        let mut counts = self.quota.counts();
        counts.all -= 1;
        if let Some(address) = self.address
            && let Some(of) = counts.by_address.get_mut(&address)
        {
            *of -= 1;
            if *of == 0 {
                counts.by_address.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_each_address_and_all_together() {
        let quota = RequestQuota::new(4);
        let [one, other, third]: [Option<IpAddr>; 3] =
            [1, 2, 3].map(|last| Some([10, 0, 0, last].into()));
        let taken = [(); 3].map(|()| quota.take(one));
        assert!(taken.iter().all(Option::is_some));
        assert!(quota.take(one).is_none());
        let rest = quota.take(other);
        assert!(rest.is_some());
        assert!(quota.take(third).is_none() && quota.take(None).is_none());
        drop((taken, rest));
        let free = [(); 4].map(|()| quota.take(None));
        assert!(free.iter().all(Option::is_some));
        drop(free);
        assert!(quota.counts().by_address.is_empty() && quota.counts().all == 0);
    }
}
