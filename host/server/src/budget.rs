//! Budgets: bounded capacity that requests share. A request holds a lease of some units.
//!
//! Half of a budget is reserved for clients, in equal parts of at least one unit. The rest is for
//! whoever asks first. Guards against: one client that leaves nothing to others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use anyhow::ensure;
use skillhost::Peer;

use crate::client::ClientKey;

/// The capacity divided by this is the part that is reserved for clients.
const CLIENTS_DIVISOR: usize = 2;

/// The capacity divided by this is the part that one peer leaves to others. Guards against: one
/// peer that takes everything. The part is small because, without a token, all programs of a
/// machine can have one address.
const OTHERS_DIVISOR: usize = 4;

/// A bounded number of units, such as requests or bytes.
pub(crate) struct Budget {
    capacity: usize,
    usage: Mutex<Usage>,
}

struct Usage {
    total: usize,
    by_peer: HashMap<Peer, usize>,
    by_client: ClientUsage,
}

/// The holder of a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Holder {
    /// No client and no known peer. Only the capacity limits it.
    Anybody,
    /// An address or a user, on a server without clients.
    Peer(Peer),
    /// A client.
    Client(ClientKey),
}

/// The units that one holder has of a budget. Dropping it releases them.
pub(crate) struct Lease {
    budget: Arc<Budget>,
    holder: Holder,
    units: usize,
}

impl Budget {
    /// Checks that a capacity has a unit for each client.
    pub(crate) fn check(capacity: usize, clients: usize, key: &str) -> anyhow::Result<()> {
        ensure!(
            capacity >= clients,
            "`{key}` in `[http]` leaves {capacity} to {clients} clients, and each needs one; raise \
             `{key}` by {} at least",
            clients - capacity
        );
        Ok(())
    }

    /// Returns a budget for this number of clients. The capacity must pass [`Self::check`].
    pub(crate) fn new(capacity: usize, clients: usize) -> Arc<Self> {
        Arc::new(Self {
            capacity,
            usage: Mutex::new(Usage {
                total: 0,
                by_peer: HashMap::new(),
                by_client: ClientUsage::new(capacity, clients),
            }),
        })
    }

    /// Returns a lease of no units, which can [grow](Lease::grow).
    pub(crate) fn empty_lease(self: &Arc<Self>, holder: Holder) -> Lease {
        Lease {
            budget: Arc::clone(self),
            holder,
            units: 0,
        }
    }

    /// Returns a lease of one unit, or `None` if the holder gets no more.
    pub(crate) fn lease(self: &Arc<Self>, holder: Holder) -> Option<Lease> {
        let mut lease = self.empty_lease(holder);
        lease.grow(1).then_some(lease)
    }

    /// Returns the number of units that one peer may have.
    fn peer_limit(&self) -> usize {
        self.capacity - self.capacity / OTHERS_DIVISOR
    }

    fn usage(&self) -> MutexGuard<'_, Usage> {
        self.usage
            .lock()
            .unwrap_or_else(|broken| broken.into_inner())
    }
}

impl Lease {
    /// Adds units to the lease. Returns false, and adds none, if too few are left for the holder.
    pub(crate) fn grow(&mut self, units: usize) -> bool {
        let mut usage = self.budget.usage();
        let total = usage.total.checked_add(units);
        let Some(total) = total.filter(|total| *total <= self.budget.capacity) else {
            return false;
        };
        match &self.holder {
            Holder::Anybody => {}
            Holder::Peer(peer) => {
                let used = usage.by_peer.get(peer).copied().unwrap_or_default() + units;
                if used > self.budget.peer_limit() {
                    return false;
                }
                usage.by_peer.insert(*peer, used);
            }
            Holder::Client(client) => {
                if !usage.by_client.acquire(client, units) {
                    return false;
                }
            }
        }
        usage.total = total;
        self.units += units;
        true
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut usage = self.budget.usage();
        usage.total -= self.units;
        match &self.holder {
            Holder::Anybody => {}
            Holder::Peer(peer) => {
                if let Some(used) = usage.by_peer.get_mut(peer) {
                    *used -= self.units;
                    if *used == 0 {
                        usage.by_peer.remove(peer);
                    }
                }
            }
            Holder::Client(client) => usage.by_client.release(client, self.units),
        }
    }
}

/// The units that clients have of a budget.
struct ClientUsage {
    /// The number of units that are reserved for each client.
    reserved: usize,
    /// The number of units for whoever asks first.
    common: usize,
    common_used: usize,
    used: HashMap<ClientKey, usize>,
}

impl ClientUsage {
    fn new(capacity: usize, clients: usize) -> Self {
        let clients = clients.max(1);
        let reserved = (capacity / CLIENTS_DIVISOR / clients).max(1);
        Self {
            reserved,
            common: capacity.saturating_sub(reserved * clients),
            common_used: 0,
            used: HashMap::new(),
        }
    }

    /// Acquires units for a client. Returns false if too few are left for it.
    fn acquire(&mut self, client: &ClientKey, units: usize) -> bool {
        let before = self.used.get(client).copied().unwrap_or_default();
        let Some(after) = before.checked_add(units) else {
            return false;
        };
        let more = self.beyond_reserved(after) - self.beyond_reserved(before);
        if more > self.common - self.common_used {
            return false;
        }
        self.common_used += more;
        self.used.insert(client.clone(), after);
        true
    }

    /// Releases units of a client.
    fn release(&mut self, client: &ClientKey, units: usize) {
        let Some(&before) = self.used.get(client) else {
            return;
        };
        let after = before.saturating_sub(units);
        self.common_used -= self.beyond_reserved(before) - self.beyond_reserved(after);
        match after {
            0 => self.used.remove(client),
            _ => self.used.insert(client.clone(), after),
        };
    }

    /// Returns the number of a client's units beyond its reserved ones.
    fn beyond_reserved(&self, units: usize) -> usize {
        units.saturating_sub(self.reserved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(name: &str) -> Holder {
        Holder::Client(Some(name.into()))
    }

    const UNNAMED: Holder = Holder::Client(None);

    /// Takes leases until no units are left, at most 1,000.
    fn exhaust(budget: &Arc<Budget>, holder: &Holder) -> Vec<Lease> {
        let leases = (0..1000).map_while(|_| budget.lease(holder.clone()));
        leases.collect()
    }

    #[test]
    fn greedy_client_leaves_others_their_part() {
        for (capacity, clients, greedy, other) in [
            (128, 2, 96, 32),
            (128, 10, 74, 6),
            (4, 3, 2, 1),
            (128, 65, 64, 1),
            (3, 3, 1, 1),
        ] {
            let budget = Budget::new(capacity, clients);
            let case = format!("{capacity} {clients}");
            let greedy_leases = exhaust(&budget, &client("greedy"));
            assert_eq!(greedy_leases.len(), greedy, "{case}");
            assert_eq!(exhaust(&budget, &UNNAMED).len(), other, "{case}");
        }
    }

    #[test]
    fn refuses_more_clients_than_units() {
        Budget::check(128, 128, "streams").unwrap();
        let error = Budget::check(128, 130, "streams").unwrap_err();
        assert_eq!(
            error.to_string(),
            "`streams` in `[http]` leaves 128 to 130 clients, and each needs one; raise \
             `streams` by 2 at least"
        );
    }

    #[test]
    fn single_client_gets_everything() {
        for capacity in [1, 7, 128] {
            let budget = Budget::new(capacity, 1);
            assert_eq!(exhaust(&budget, &UNNAMED).len(), capacity);
        }
    }

    #[test]
    fn released_units_can_be_leased_again() {
        let budget = Budget::new(8, 2);
        let (one, other) = (client("one"), client("other"));
        for _ in 0..3 {
            let mut first = exhaust(&budget, &one);
            let mut second = exhaust(&budget, &other);
            assert_eq!((first.len(), second.len()), (6, 2));
            drop(first.pop());
            second.push(budget.lease(other.clone()).unwrap());
            assert!(budget.lease(one.clone()).is_none());
            drop((first, second));
            let usage = budget.usage();
            assert!(usage.by_client.used.is_empty() && usage.by_client.common_used == 0);
            assert_eq!(usage.total, 0);
        }
    }

    #[test]
    fn limits_each_address_and_all_together() {
        let budget = Budget::new(4, 0);
        let [one, other, third] =
            [1, 2, 3].map(|last| Holder::Peer(Peer::Address(([10, 0, 0, last], 0).into())));
        let leases = exhaust(&budget, &one);
        assert_eq!(leases.len(), 3);
        let last = budget.lease(other);
        assert!(last.is_some());
        assert!(budget.lease(third).is_none() && budget.lease(Holder::Anybody).is_none());
        drop((leases, last));
        assert_eq!(exhaust(&budget, &Holder::Anybody).len(), 4);
        assert!(budget.usage().by_peer.is_empty() && budget.usage().total == 0);
    }

    #[test]
    fn lease_that_cannot_grow_keeps_its_units() {
        let budget = Budget::new(100, 2);
        let mut lease = budget.empty_lease(client("one"));
        assert!(lease.grow(70) && !lease.grow(6) && !lease.grow(usize::MAX));
        assert!(lease.grow(5));
        drop(lease);
        assert!(budget.empty_lease(client("other")).grow(75));
    }
}
