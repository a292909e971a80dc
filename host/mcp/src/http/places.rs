//! The places of connections, and which connection loses its place when all are
//! taken: first those that have sent nothing, then those that have not sent a
//! whole request, then those whose last request did not show the token; of each,
//! the oldest first. So a new peer gets a place, however many others are silent.
//!
//! A connection whose last request showed the token is protected. On a server
//! without a token, a connection is protected during a request to `/mcp`.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard};

use anyhow::Context as _;
use skillhost::Peer;
use tokio_util::sync::CancellationToken;

use super::client::ClientKey;
use super::client_shares::ClientShares;
use super::network::Network;

/// The most places that protected connections leave to others, and the part of all
/// places. Guards against: peers with the token that leave none for probes.
const RESERVE: usize = 16;
const RESERVED_PART: usize = 4;

/// Unprotected connections of one address or user have one part in so many of all places.
/// Guards against: one peer that takes all places.
const SHARED_PART: usize = 2;

/// The leading bits of an IPv6 address that count as one peer: a host chooses the
/// others freely.
const IPV6_BITS: u8 = 64;

/// The places of one server.
pub(super) struct Places {
    most: usize,
    trusted: Vec<Network>,
    table: Mutex<PlaceTable>,
}

struct PlaceTable {
    /// Counts events, to order connections by age.
    events: u64,
    connections: HashMap<u64, PlaceEntry>,
    protected: usize,
    /// Unprotected connections, the first to be evicted first: of all, and of each
    /// peer that has a share.
    order: BTreeMap<Rank, u64>,
    shares: HashMap<Peer, BTreeMap<Rank, u64>>,
    /// Connections whose last request showed a client.
    clients: ClientShares,
}

/// The order of eviction: by stage, then by age.
type Rank = (Stage, u64);

/// The stage of an unprotected connection, the first to be evicted first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// It has sent nothing.
    Silent,
    /// Its first request is not complete.
    Begun,
    /// It has sent a request.
    Requested,
}

struct PlaceEntry {
    /// None for a trusted proxy, which connects for many.
    peer: Option<Peer>,
    rank: Rank,
    /// The client that its last request showed.
    admitted: Option<ClientKey>,
    /// The requests that protect it, on a server without a token.
    working: usize,
    evicted: CancellationToken,
}

/// The place of one connection, returned when it is dropped.
pub(super) struct ConnectionPlace {
    places: Arc<Places>,
    id: u64,
    peer: Option<Peer>,
    evicted: CancellationToken,
}

/// Protects a connection until it is dropped.
pub(super) struct Protection(Arc<ConnectionPlace>);

impl Places {
    /// Returns the places of a server with so many clients.
    pub(super) fn new(
        most: usize,
        clients: usize,
        trusted: &[String],
    ) -> anyhow::Result<Arc<Self>> {
        let trusted = trusted.iter().map(|text| {
            Network::parse(text).with_context(|| {
                format!(
                    "`{}` is not a trusted proxy: an IP address, or a network such as \
                     `10.0.0.0/8`",
                    text.escape_debug()
                )
            })
        });
        ClientShares::check(most - reserve(most), clients, "connections")?;
        Ok(Arc::new(Self {
            most,
            trusted: trusted.collect::<anyhow::Result<_>>()?,
            table: Mutex::new(PlaceTable {
                events: 0,
                connections: HashMap::new(),
                protected: 0,
                order: BTreeMap::new(),
                shares: HashMap::new(),
                clients: ClientShares::new(most - reserve(most), clients),
            }),
        }))
    }

    /// Gives a connection a place, if need be by evicting another. None if all
    /// others are protected.
    pub(super) fn take(self: &Arc<Self>, peer: Peer) -> Option<ConnectionPlace> {
        let peer = self.counted(peer);
        let mut table = self.table();
        let share = peer.and_then(|peer| table.shares.get(&peer));
        let evicted = match share {
            Some(share) if share.len() >= share_of(self.most) => share.values().next(),
            _ if table.connections.len() >= self.most => Some(table.order.values().next()?),
            _ => None,
        };
        if let Some(id) = evicted.copied()
            && let Some(entry) = table.remove(id)
        {
            entry.evicted.cancel();
        }
        let id = table.next_event();
        let evicted = CancellationToken::new();
        let entry = PlaceEntry {
            peer,
            rank: (Stage::Silent, id),
            admitted: None,
            working: 0,
            evicted: evicted.clone(),
        };
        table.insert(id, entry);
        drop(table);
        Some(ConnectionPlace {
            places: Arc::clone(self),
            id,
            peer,
            evicted,
        })
    }

    /// Returns the peer that a connection counts for: an address without its port, or a
    /// user. None for a trusted proxy.
    fn counted(&self, peer: Peer) -> Option<Peer> {
        let address = match peer {
            Peer::Address(address) => address.ip().to_canonical(),
            Peer::Process { user, .. } => return Some(Peer::Process { user, process: 0 }),
            other => return Some(other),
        };
        if self.trusted.iter().any(|network| network.contains(address)) {
            return None;
        }
        let counted = match address {
            IpAddr::V4(_) => address,
            IpAddr::V6(address) => {
                let kept = u128::MAX << (128 - u32::from(IPV6_BITS));
                Ipv6Addr::from_bits(address.to_bits() & kept).into()
            }
        };
        Some(Peer::Address((counted, 0).into()))
    }

    /// Changes an entry. Returns false if the connection has lost its place, or if
    /// its protection would leave too few places to others.
    fn change(&self, id: u64, change: impl FnOnce(&mut PlaceEntry, u64)) -> bool {
        let mut table = self.table();
        let event = table.next_event();
        let Some(mut entry) = table.remove(id) else {
            return false;
        };
        let before = entry.is_protected();
        let client = entry.admitted.clone();
        change(&mut entry, event);
        let reserve = reserve(self.most);
        let mut fits = before || !entry.is_protected() || table.protected + reserve < self.most;
        if client != entry.admitted {
            client.iter().for_each(|it| table.clients.give_back(it, 1));
            let now = entry.admitted.as_ref();
            if fits && !now.is_none_or(|now| table.clients.take(now, 1)) {
                fits = false;
            }
        }
        if !fits {
            entry.admitted = None;
            entry.working = 0;
        }
        table.insert(id, entry);
        fits
    }

    fn table(&self) -> MutexGuard<'_, PlaceTable> {
        let table = self.table.lock();
        table.unwrap_or_else(|broken| broken.into_inner())
    }
}

/// Returns the places that protected connections leave to others.
fn reserve(all: usize) -> usize {
    RESERVE.min(all / RESERVED_PART)
}

/// Returns the share of one peer.
fn share_of(all: usize) -> usize {
    all.div_ceil(SHARED_PART)
}

impl PlaceTable {
    fn next_event(&mut self) -> u64 {
        self.events += 1;
        self.events
    }

    /// Adds a connection.
    fn insert(&mut self, id: u64, entry: PlaceEntry) {
        if entry.is_protected() {
            self.protected += 1;
        } else {
            self.order.insert(entry.rank, id);
            if let Some(peer) = entry.peer {
                let share = self.shares.entry(peer).or_default();
                share.insert(entry.rank, id);
            }
        }
        self.connections.insert(id, entry);
    }

    fn remove(&mut self, id: u64) -> Option<PlaceEntry> {
        let entry = self.connections.remove(&id)?;
        if entry.is_protected() {
            self.protected -= 1;
            return Some(entry);
        }
        self.order.remove(&entry.rank);
        if let Some(peer) = entry.peer
            && let Some(share) = self.shares.get_mut(&peer)
        {
            share.remove(&entry.rank);
            if share.is_empty() {
                self.shares.remove(&peer);
            }
        }
        Some(entry)
    }
}

impl PlaceEntry {
    fn is_protected(&self) -> bool {
        self.admitted.is_some() || self.working > 0
    }
}

impl ConnectionPlace {
    /// Waits until the connection has lost its place, and must end.
    pub(super) async fn evicted(&self) {
        self.evicted.cancelled().await;
    }

    /// Returns the peer that shares are counted by. None for a trusted proxy.
    pub(super) fn peer(&self) -> Option<Peer> {
        self.peer
    }

    /// Marks that the first bytes have arrived.
    pub(super) fn set_begun(&self) {
        self.places.change(self.id, |entry, event| {
            entry.rank = (Stage::Begun, event);
        });
    }

    /// Marks that a whole request has arrived. The connection stays protected by
    /// the request before until this one is checked, so that no newcomer takes the
    /// place in between.
    pub(super) fn set_requested(&self) {
        self.places.change(self.id, |entry, event| {
            entry.rank = (Stage::Requested, event);
        });
    }

    /// Marks that the request did not show the token.
    pub(super) fn reject(&self) {
        self.places
            .change(self.id, |entry, _| entry.admitted = None);
    }

    /// Marks that the request showed this client. Returns false if no more places can
    /// be protected, or none of this client's.
    pub(super) fn admit(&self, client: ClientKey) -> bool {
        let change = |entry: &mut PlaceEntry, _| entry.admitted = Some(client);
        self.places.change(self.id, change)
    }

    /// Protects the connection during a request, on a server without a token. None
    /// if no more places can be protected.
    pub(super) fn protect(self: &Arc<Self>) -> Option<Protection> {
        let protected = self.places.change(self.id, |entry, _| {
            entry.working = entry.working.saturating_add(1)
        });
        protected.then(|| Protection(Arc::clone(self)))
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        let mut table = self.places.table();
        if let Some(client) = table.remove(self.id).and_then(|entry| entry.admitted) {
            table.clients.give_back(&client, 1);
        }
    }
}

impl Drop for Protection {
    fn drop(&mut self) {
        self.0.places.change(self.0.id, |entry, event| {
            entry.working = entry.working.saturating_sub(1);
            entry.rank = (Stage::Requested, event);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(most: usize, trusted: &[&str]) -> Arc<Places> {
        let trusted: Vec<_> = trusted.iter().map(|text| (*text).to_owned()).collect();
        Places::new(most, 1, &trusted).unwrap()
    }

    fn address(last: u8) -> Peer {
        at([10, 0, 0, last].into())
    }

    fn at(address: IpAddr) -> Peer {
        Peer::Address((address, 0).into())
    }

    fn open<'a>(connections: impl IntoIterator<Item = &'a Arc<ConnectionPlace>>) -> Vec<bool> {
        let open = connections.into_iter();
        open.map(|place| !place.evicted.is_cancelled()).collect()
    }

    #[test]
    fn evicts_the_oldest_silent_connection_and_no_protected_one() {
        let places = places(8, &[]);
        let mut connections: Vec<_> = (0..8)
            .map(|peer| Arc::new(places.take(address(peer)).unwrap()))
            .collect();
        connections[0].set_requested();
        assert!(connections[0].admit(None));
        connections[1].set_requested();
        connections[4].set_begun();
        let protection = connections[2].protect().unwrap();
        for peer in 8..14 {
            connections.push(Arc::new(places.take(address(peer)).unwrap()));
        }
        // The silent connections went, the oldest first.
        let gone: Vec<_> = (0..14).filter(|at| !open(&connections)[*at]).collect();
        assert_eq!(gone, [3, 5, 6, 7, 8, 9]);
        for connection in &connections[10..] {
            connection.set_requested();
        }
        connections.push(Arc::new(places.take(address(14)).unwrap()));
        assert_eq!(open([&connections[4], &connections[1]]), [false, true]);
        drop(protection);
        for peer in 15..20 {
            connections.push(Arc::new(places.take(address(peer)).unwrap()));
        }
        assert_eq!(open(&connections[..3]), [true, true, true]);
        // Then those with requests, by the last one; its end counts too.
        for peer in 20..22 {
            connections.last().unwrap().set_requested();
            connections.push(Arc::new(places.take(address(peer)).unwrap()));
        }
        let requested = [0, 1, 10, 2, 11].map(|at| &connections[at]);
        assert_eq!(open(requested), [true, false, false, true, true]);
    }

    #[test]
    fn leaves_some_places_unprotected() {
        for (most, protected) in [(8, 6), (3, 3), (1, 1), (512, 496)] {
            let places = places(most, &["10.0.0.0/8"]);
            let connections: Vec<_> = (0..most)
                .map(|_| Arc::new(places.take(address(1)).unwrap()))
                .collect();
            let admitted = connections.iter().filter(|place| {
                place.set_requested();
                place.admit(None)
            });
            assert_eq!(admitted.count(), protected, "{most}");
            assert_eq!(places.take(address(1)).is_some(), protected < most);
            // A protected connection stays so between two requests.
            connections[0].set_requested();
            if protected < most {
                assert!(!connections[most - 1].admit(None));
            }
            assert!(connections[0].admit(None));
            // Without the token, it gives way to another.
            connections[0].set_requested();
            connections[0].reject();
            if protected < most {
                assert!(connections[most - 1].admit(None));
                assert!(!connections[0].admit(None));
            }
        }
    }

    #[test]
    fn bounds_the_share_of_an_address_but_not_of_a_trusted_proxy() {
        let places = places(8, &["10.0.0.9", "2001:db8::/32"]);
        let take = |peer| Arc::new(places.take(peer).unwrap());
        let other = take(address(1));
        let own: Vec<_> = (0..6).map(|_| take(address(2))).collect();
        assert_eq!(open([&other]), [true]);
        assert_eq!(open(&own), [false, false, true, true, true, true]);
        let mapped = take(at("::ffff:10.0.0.2".parse().unwrap()));
        assert_eq!(open(&own), [false, false, false, true, true, true]);
        drop((own, mapped));
        let one = |last: u16| take(at(Ipv6Addr::new(0x2001, 0xdb9, 0, 0, last, 0, 0, 1).into()));
        let of_one_host: Vec<_> = (0..5).map(one).collect();
        assert_eq!(open(&of_one_host), [false, true, true, true, true]);
        drop(of_one_host);
        let proxied: Vec<_> = (0..5).map(|_| take(address(9))).collect();
        assert_eq!(open(&proxied), [true; 5]);
        let proxied: Vec<_> = (0..2)
            .map(|_| take(at("2001:db8:7::1".parse().unwrap())))
            .collect();
        assert_eq!(open(proxied.iter().chain([&other])), [true; 3]);
    }

    #[test]
    fn bounds_the_share_of_a_user_whatever_the_process() {
        let places = places(8, &[]);
        let take = |user, process| {
            let place = places.take(Peer::Process { user, process });
            Arc::new(place.unwrap())
        };
        let other = take(1, 1);
        let own: Vec<_> = (0..6).map(|process| take(2, process)).collect();
        assert_eq!(open([&other]), [true]);
        assert_eq!(open(&own), [false, false, true, true, true, true]);
    }

    #[test]
    fn a_connection_that_ends_leaves_nothing_behind() {
        let places = places(4, &[]);
        let place = Arc::new(places.take(address(1)).unwrap());
        place.set_requested();
        let protection = place.protect();
        drop(place);
        drop(protection);
        for _ in 0..100 {
            let place = Arc::new(places.take(address(1)).unwrap());
            assert!(place.admit(None));
        }
        let table = places.table();
        assert!(table.connections.is_empty() && table.order.is_empty());
        assert!(table.shares.is_empty() && table.protected == 0);
    }

    #[test]
    fn refuses_a_trusted_proxy_that_is_no_network_and_names_it() {
        for wrong in ["", "10.0.0.0/33", "10.0.0.0/+8", "a.example", "*"] {
            let error = Places::new(1, 0, &[wrong.to_owned()]).err().unwrap();
            assert!(error.to_string().contains(&format!("`{wrong}`")), "{error}");
        }
    }
}
