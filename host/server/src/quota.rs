//! A bound on requests at a time: of all peers, of one address or user, and of one client.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use skillhost::Peer;

use crate::client::ClientKey;
use crate::client_shares::ClientShares;

/// One address leaves one part in so many to others. Guards against: one peer that
/// takes all. It leaves no more because, without a token, all programs of a
/// machine may have one address.
const OTHERS_PART: usize = 4;

/// The permits of all requests.
pub(crate) struct RequestQuota {
    most: usize,
    counts: Mutex<Counts>,
}

struct Counts {
    all: usize,
    /// Of each peer that has a share.
    by_peer: HashMap<Peer, usize>,
    by_client: ClientShares,
}

/// The party that a request counts for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum QuotaHolder {
    /// Everybody together: it comes through a balancer, and shows no client.
    Anybody,
    /// An address or a user, on a server without clients.
    Peer(Peer),
    /// A client.
    Client(ClientKey),
}

/// The permit of one request, returned when it is dropped.
pub(crate) struct QuotaPermit {
    quota: Arc<RequestQuota>,
    holder: QuotaHolder,
}

impl RequestQuota {
    pub(crate) fn new(most: usize, clients: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            counts: Mutex::new(Counts {
                all: 0,
                by_peer: HashMap::new(),
                by_client: ClientShares::new(most, clients),
            }),
        })
    }

    /// Takes a permit. None if none is left, or none for this peer.
    pub(crate) fn take(self: &Arc<Self>, holder: QuotaHolder) -> Option<QuotaPermit> {
        let mut counts = self.counts();
        if counts.all >= self.most {
            return None;
        }
        match &holder {
            QuotaHolder::Anybody => {}
            QuotaHolder::Peer(peer) => {
                let of = counts.by_peer.entry(*peer).or_default();
                if *of >= self.most - self.most / OTHERS_PART {
                    return None;
                }
                *of += 1;
            }
            QuotaHolder::Client(client) => counts.by_client.take(client, 1).then_some(())?,
        }
        counts.all += 1;
        drop(counts);
        Some(QuotaPermit {
            quota: Arc::clone(self),
            holder,
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
        match &self.holder {
            QuotaHolder::Anybody => {}
            QuotaHolder::Peer(peer) => {
                if let Some(of) = counts.by_peer.get_mut(peer) {
                    *of -= 1;
                    if *of == 0 {
                        counts.by_peer.remove(peer);
                    }
                }
            }
            QuotaHolder::Client(client) => counts.by_client.give_back(client, 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_each_address_and_all_together() {
        let quota = RequestQuota::new(4, 0);
        let [one, other, third] =
            [1, 2, 3].map(|last| QuotaHolder::Peer(Peer::Address(([10, 0, 0, last], 0).into())));
        let taken = [(); 3].map(|()| quota.take(one.clone()));
        assert!(taken.iter().all(Option::is_some));
        assert!(quota.take(one).is_none());
        let rest = quota.take(other);
        assert!(rest.is_some());
        assert!(quota.take(third).is_none() && quota.take(QuotaHolder::Anybody).is_none());
        drop((taken, rest));
        let free = [(); 4].map(|()| quota.take(QuotaHolder::Anybody));
        assert!(free.iter().all(Option::is_some));
        drop(free);
        assert!(quota.counts().by_peer.is_empty() && quota.counts().all == 0);
    }

    #[test]
    fn bounds_each_client_and_all_together() {
        let quota = RequestQuota::new(8, 2);
        let [one, other] = ["one", "other"].map(|name| QuotaHolder::Client(Some(name.into())));
        let taken = [(); 6].map(|()| quota.take(one.clone()));
        assert!(taken.iter().all(Option::is_some) && quota.take(one).is_none());
        let rest = [(); 2].map(|()| quota.take(other.clone()));
        assert!(rest.iter().all(Option::is_some) && quota.take(other.clone()).is_none());
        drop(taken);
        assert!(quota.take(other).is_some());
    }
}
