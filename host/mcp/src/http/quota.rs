//! So many of something at a time: of all, and of one address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

/// One part in so many is what one address leaves to others. Meets: one peer
/// that takes what all others need. On a server without a token all of a
/// machine's programs may have one address, so it leaves no more.
const OTHERS_PART: usize = 4;

/// What may be taken.
pub(super) struct Quota {
    most: usize,
    taken: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    all: usize,
    /// Of each address that counts.
    of: HashMap<IpAddr, usize>,
}

/// One, until this is dropped.
pub(super) struct Taken {
    quota: Arc<Quota>,
    address: Option<IpAddr>,
}

impl Quota {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            taken: Mutex::default(),
        })
    }

    /// Takes one. None if there is none left, or none left for this address.
    pub(super) fn take(self: &Arc<Self>, address: Option<IpAddr>) -> Option<Taken> {
        let mut taken = self.counts();
        if taken.all >= self.most {
            return None;
        }
        if let Some(address) = address {
            let of = taken.of.entry(address).or_default();
            if *of >= self.most - self.most / OTHERS_PART {
                return None;
            }
            *of += 1;
        }
        taken.all += 1;
        drop(taken);
        Some(Taken {
            quota: Arc::clone(self),
            address,
        })
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        let counts = self.taken.lock();
        counts.unwrap_or_else(|broken| broken.into_inner())
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let mut counts = self.quota.counts();
        counts.all -= 1;
        if let Some(address) = self.address
            && let Some(of) = counts.of.get_mut(&address)
        {
            *of -= 1;
            if *of == 0 {
                counts.of.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_its_part_and_all_together_have_the_rest() {
        let quota = Quota::new(4);
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
        assert!(quota.counts().of.is_empty() && quota.counts().all == 0);
    }
}
