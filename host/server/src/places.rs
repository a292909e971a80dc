//! The places of connections, and which connection loses its place when all are
//! taken: first those that have sent nothing, then those that have not sent a
//! whole request, then those whose last request did not show the token; of each,
//! the oldest first. So a new peer gets a place, however many others are silent.
//!
//! A connection whose last request showed the token is protected. On a server
//! without a token, a connection is protected during a request to `/mcp`.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use anyhow::Context as _;
use rustix::process::Resource;
use skillhost::Peer;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::client::ClientKey;
use crate::client_shares::ClientShares;
use crate::network::Network;

/// The most places that protected connections leave to others, and the part of all
/// places. Guards against: peers with the token that leave none for probes.
const RESERVE: usize = 16;
const RESERVED_PART: usize = 4;

/// Unprotected connections of one address or user have one part in so many of all places.
/// Guards against: one peer that takes all places.
const SHARED_PART: usize = 2;

/// The connections that are many: when most of them have ended, their memory is given
/// back.
const MANY: usize = 16;

/// The leading bits of an IPv6 address that count as one peer: a host chooses the
/// others freely.
const IPV6_BITS: u8 = 64;

/// The places of one server.
pub(crate) struct Places {
    most: usize,
    trusted: Vec<Network>,
    table: Mutex<PlaceTable>,
    /// Notified when most of many connections have ended.
    pub(crate) quiet: Arc<Notify>,
}

struct PlaceTable {
    /// Counts events, to order connections by age.
    events: u64,
    connections: HashMap<u64, PlaceEntry>,
    /// The most connections since it was last quiet.
    peak: usize,
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
pub(crate) struct ConnectionPlace {
    places: Arc<Places>,
    id: u64,
    peer: Option<Peer>,
    evicted: CancellationToken,
    /// The bytes from the peer that do not count for a client yet.
    uncounted: AtomicUsize,
}

/// Protects a connection until it is dropped.
pub(crate) struct Protection(Arc<ConnectionPlace>);

impl Places {
    /// Returns the places of a server with so many clients.
    pub(crate) fn new(
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
                peak: 0,
                protected: 0,
                order: BTreeMap::new(),
                shares: HashMap::new(),
                clients: ClientShares::new(most - reserve(most), clients),
            }),
            quiet: Arc::default(),
        }))
    }

    /// Gives a connection a place, if need be by evicting another. None if all
    /// others are protected.
    pub(crate) fn take(self: &Arc<Self>, peer: Peer) -> Option<ConnectionPlace> {
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
        table.peak = table.peak.max(table.connections.len());
        drop(table);
        Some(ConnectionPlace {
            places: Arc::clone(self),
            id,
            peer,
            evicted,
            uncounted: AtomicUsize::new(0),
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
        let client = entry.admitted.clone();
        change(&mut entry, event);
        let reserve = reserve(self.most);
        // One that was protected finds its own place free.
        let mut fits = !entry.is_protected() || table.protected + reserve < self.most;
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
    pub(crate) async fn evicted(&self) {
        self.evicted.cancelled().await;
    }

    /// Returns the peer that shares are counted by. None for a trusted proxy.
    pub(crate) fn peer(&self) -> Option<Peer> {
        self.peer
    }

    /// Notes bytes that the peer has sent.
    pub(crate) fn receive(&self, bytes: usize) {
        self.uncounted.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the bytes that the peer has sent since they were last counted.
    pub(crate) fn take_received(&self) -> usize {
        self.uncounted.swap(0, Ordering::Relaxed)
    }

    /// Marks that the first bytes have arrived.
    pub(crate) fn set_begun(&self) {
        self.places.change(self.id, |entry, event| {
            entry.rank = (Stage::Begun, event);
        });
    }

    /// Marks that a whole request has arrived. The connection stays protected by
    /// the request before until this one is checked, so that no newcomer takes the
    /// place in between.
    pub(crate) fn set_requested(&self) {
        self.places.change(self.id, |entry, event| {
            entry.rank = (Stage::Requested, event);
        });
    }

    /// Marks that the request did not show the token.
    pub(crate) fn reject(&self) {
        self.places
            .change(self.id, |entry, _| entry.admitted = None);
    }

    /// Marks that the request showed this client. Returns false if no more places can
    /// be protected, or none of this client's.
    pub(crate) fn admit(&self, client: ClientKey) -> bool {
        let change = |entry: &mut PlaceEntry, _| entry.admitted = Some(client);
        self.places.change(self.id, change)
    }

    /// Protects the connection during a request, on a server without a token. None
    /// if no more places can be protected.
    pub(crate) fn protect(self: &Arc<Self>) -> Option<Protection> {
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
        let open = table.connections.len();
        if table.peak >= MANY && open <= table.peak / 4 {
            table.peak = open;
            self.places.quiet.notify_one();
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

/// Returns the connections that the limit of descriptors allows, of as many as are wanted.
/// Without this, the system would refuse a connection before the oldest gives up its place.
pub(crate) fn affordable(wanted: usize) -> usize {
    let limit = rustix::process::getrlimit(Resource::Nofile).current;
    let limit = limit.map_or(usize::MAX, |limit| {
        usize::try_from(limit).unwrap_or(usize::MAX)
    });
    let most = connections_of(limit);
    if most < wanted {
        tracing::warn!(
            "`connections` is {wanted}, and the limit of {limit} descriptors allows {most} \
             connections at a time: raise it (`ulimit -n`)"
        );
    }
    wanted.min(most)
}

/// Returns the connections that so many descriptors are enough for. Each takes two, and calls
/// and files take some.
fn connections_of(descriptors: usize) -> usize {
    let reserved = (descriptors / 2).min(256);
    ((descriptors - reserved) / 2).max(1)
}

#[cfg(test)]
mod tests;
