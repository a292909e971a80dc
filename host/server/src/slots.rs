//! The slots of connections. When all are in use, a new connection evicts an unprotected one.
//!
//! An unprotected connection is in one of four stages: a request is in progress; nothing has
//! arrived; a part of the first request has arrived; or the last request had no token and has its
//! response. The stages are tried in this order. A stage is spared if it has at most half of the
//! connections in it and the later stages. The first stage that is not spared loses its oldest
//! connection. So a flood mostly evicts its own connections, whatever they send, and a new peer has
//! time for its handshake and its request.
//!
//! A connection whose last request had a token is protected. On a server without a token, a
//! connection is protected during a request to `/mcp`.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use anyhow::Context as _;
use rustix::process::Resource;
use skillhost::Peer;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::budget::{Budget, Holder, Lease};
use crate::client::ClientKey;
use crate::network::Network;

/// The maximum size of the reserve: the number of slots that always stay unprotected. Guards
/// against: clients that protect all slots and leave none for probes.
const MAX_RESERVE: usize = 16;

/// The number of all slots divided by this is the reserve, at most [`MAX_RESERVE`].
const RESERVE_DIVISOR: usize = 4;

/// The number of all slots divided by this is the limit for the unprotected connections of one
/// address or user. Guards against: one peer that takes all slots.
const PEER_DIVISOR: usize = 2;

/// The divisor for sparing a stage: it is spared if it has at most `n / SPARED_DIVISOR`
/// connections, where `n` counts those in it and in the later stages.
const SPARED_DIVISOR: usize = 2;

/// The maximum number of bytes that may arrive without a request or a part of a body. It is more
/// than a connection reads ahead. Guards against: a chunk whose size has endless zeros or blanks,
/// which hyper reads byte by byte.
const MAX_UNREAD_BYTES: usize = 256 << 10;

/// The smallest peak of connections that leads to a notification when most of them have ended. The
/// memory of fewer connections is not worth returning to the system.
const MANY_CONNECTIONS: usize = 16;

/// The number of leading bits of an IPv6 address that identify one peer. A host chooses the other
/// bits freely.
const IPV6_PEER_BITS: u8 = 64;

/// The maximum number of descriptors that are left for calls and files.
const MAX_OTHER_DESCRIPTORS: usize = 256;

/// The number of descriptors that one connection uses.
const DESCRIPTORS_PER_CONNECTION: usize = 2;

/// The slots of all connections of a server.
pub(crate) struct ConnectionSlots {
    limit: usize,
    trusted_proxies: Vec<Network>,
    table: Mutex<SlotTable>,
    /// The slots that clients can protect.
    protectable: Arc<Budget>,
    /// Notified when three quarters of at least [`MANY_CONNECTIONS`] connections have ended. Their
    /// memory can then be returned to the system.
    pub(crate) quiet: Arc<Notify>,
}

struct SlotTable {
    /// The number of events so far. Orders connections by age.
    events: u64,
    connections: HashMap<u64, SlotEntry>,
    /// The maximum number of connections since `quiet` was last notified.
    peak: usize,
    protected: usize,
    unprotected: EvictionOrder,
    /// The same connections by peer, without those of trusted proxies.
    unprotected_by_peer: HashMap<Peer, EvictionOrder>,
}

/// Unprotected connections in the order of eviction.
#[derive(Default)]
struct EvictionOrder {
    /// The connections in each stage, the oldest first.
    stages: [BTreeMap<u64, u64>; 4],
}

/// The stage of a connection, and the event that began it.
type Rank = (Stage, u64);

/// The stage of an unprotected connection.
#[derive(Debug, Clone, Copy)]
enum Stage {
    /// A request is in progress, such as one that waits for an issuer's keys.
    Asking,
    /// The peer has sent nothing.
    Silent,
    /// The first request is not complete.
    Begun,
    /// The last request has its response.
    Answered,
}

struct SlotEntry {
    /// `None` for a trusted proxy, which connects for many peers.
    peer: Option<Peer>,
    rank: Rank,
    /// The client of the last request.
    client: Option<ClientKey>,
    /// The client's lease of a slot that can be protected.
    lease: Option<Lease>,
    /// The number of requests that protect the connection, on a server without a token.
    running_requests: usize,
    evicted: CancellationToken,
}

/// The slot of one connection. Dropping it frees the slot.
pub(crate) struct ConnectionSlot {
    slots: Arc<ConnectionSlots>,
    id: u64,
    peer: Option<Peer>,
    evicted: CancellationToken,
    /// Cancelled when the first request has arrived.
    requested: CancellationToken,
    /// The number of received bytes that are not yet counted for a client.
    uncounted: AtomicUsize,
    /// The number of bytes received since the last request or part of a body.
    unread: AtomicUsize,
}

/// The protection of a connection. Dropping it ends the protection.
pub(crate) struct Protection(Arc<ConnectionSlot>);

impl ConnectionSlots {
    /// Returns the slots of a server with this number of clients.
    pub(crate) fn new(
        limit: usize,
        clients: usize,
        trusted_proxies: &[String],
    ) -> anyhow::Result<Arc<Self>> {
        let trusted_proxies = trusted_proxies.iter().map(|text| {
            Network::parse(text).with_context(|| {
                format!(
                    "`{}` is not a trusted proxy: expected an IP address, or a network such as \
                     `10.0.0.0/8`",
                    text.escape_debug()
                )
            })
        });
        let protectable = limit - reserve(limit);
        Budget::check(protectable, clients, "connections")?;
        Ok(Arc::new(Self {
            limit,
            trusted_proxies: trusted_proxies.collect::<anyhow::Result<_>>()?,
            table: Mutex::new(SlotTable {
                events: 0,
                connections: HashMap::new(),
                peak: 0,
                protected: 0,
                unprotected: EvictionOrder::default(),
                unprotected_by_peer: HashMap::new(),
            }),
            protectable: Budget::new(protectable, clients),
            quiet: Arc::default(),
        }))
    }

    /// Gives a connection a slot, and evicts another connection if necessary. Returns `None` if
    /// all others are protected.
    pub(crate) fn acquire(self: &Arc<Self>, peer: Peer) -> Option<ConnectionSlot> {
        let peer = self.limited_peer(peer);
        let mut table = self.table();
        let peer_order = peer.and_then(|peer| table.unprotected_by_peer.get(&peer));
        let peer_limit = peer_limit(self.limit);
        let evicted = match peer_order {
            Some(order) if order.len() >= peer_limit => order.first(),
            _ if table.connections.len() >= self.limit => Some(table.unprotected.first()?),
            _ => None,
        };
        if let Some(id) = evicted
            && let Some(entry) = table.remove(id)
        {
            entry.evicted.cancel();
        }
        let id = table.next_event();
        let evicted = CancellationToken::new();
        let entry = SlotEntry {
            peer,
            rank: (Stage::Silent, id),
            client: None,
            lease: None,
            running_requests: 0,
            evicted: evicted.clone(),
        };
        table.insert(id, entry);
        table.peak = table.peak.max(table.connections.len());
        drop(table);
        Some(ConnectionSlot {
            slots: Arc::clone(self),
            id,
            peer,
            evicted,
            requested: CancellationToken::new(),
            uncounted: AtomicUsize::new(0),
            unread: AtomicUsize::new(0),
        })
    }

    /// Returns the peer whose limit a connection counts against: an address without its port, or
    /// a user. Returns `None` for a trusted proxy.
    fn limited_peer(&self, peer: Peer) -> Option<Peer> {
        let address = match peer {
            Peer::Address(address) => address.ip().to_canonical(),
            Peer::Process { user, .. } => return Some(Peer::Process { user, process: 0 }),
            other => return Some(other),
        };
        let mut proxies = self.trusted_proxies.iter();
        if proxies.any(|network| network.contains(address)) {
            return None;
        }
        let address = match address {
            IpAddr::V4(_) => address,
            IpAddr::V6(address) => {
                let mask = u128::MAX << (128 - u32::from(IPV6_PEER_BITS));
                Ipv6Addr::from_bits(address.to_bits() & mask).into()
            }
        };
        Some(Peer::Address((address, 0).into()))
    }

    /// Changes an entry. Returns false if the connection was evicted, or if it stays unprotected
    /// because protecting it would leave too few slots to others.
    fn change(&self, id: u64, change: impl FnOnce(&mut SlotEntry, u64)) -> bool {
        let mut table = self.table();
        let event = table.next_event();
        // The entry is removed first, so that `table.protected` does not count it.
        let Some(mut entry) = table.remove(id) else {
            return false;
        };
        let client = entry.client.clone();
        change(&mut entry, event);
        let can_protect = table.protected + reserve(self.limit) < self.limit;
        let mut fits = can_protect || !entry.is_protected();
        if client != entry.client {
            entry.lease = None;
            if let Some(client) = entry.client.clone().filter(|_| fits) {
                entry.lease = self.protectable.lease(Holder::Client(client));
                fits = entry.lease.is_some();
            }
        }
        if !fits {
            entry.rank = (Stage::Answered, event);
            entry.client = None;
            entry.lease = None;
            entry.running_requests = 0;
        }
        table.insert(id, entry);
        fits
    }

    fn table(&self) -> MutexGuard<'_, SlotTable> {
        let table = self.table.lock();
        table.unwrap_or_else(|broken| broken.into_inner())
    }
}

/// Returns the number of reserved slots, at most `MAX_RESERVE`.
fn reserve(limit: usize) -> usize {
    MAX_RESERVE.min(limit / RESERVE_DIVISOR)
}

/// Returns the number of slots that the unprotected connections of one peer may have.
fn peer_limit(limit: usize) -> usize {
    limit.div_ceil(PEER_DIVISOR)
}

impl SlotTable {
    fn next_event(&mut self) -> u64 {
        self.events += 1;
        self.events
    }

    fn insert(&mut self, id: u64, entry: SlotEntry) {
        if entry.is_protected() {
            self.protected += 1;
        } else {
            self.unprotected.insert(entry.rank, id);
            if let Some(peer) = entry.peer {
                let peer_order = self.unprotected_by_peer.entry(peer).or_default();
                peer_order.insert(entry.rank, id);
            }
        }
        self.connections.insert(id, entry);
    }

    fn remove(&mut self, id: u64) -> Option<SlotEntry> {
        let entry = self.connections.remove(&id)?;
        if entry.is_protected() {
            self.protected -= 1;
            return Some(entry);
        }
        self.unprotected.remove(entry.rank);
        if let Some(peer) = entry.peer
            && let Some(peer_order) = self.unprotected_by_peer.get_mut(&peer)
        {
            peer_order.remove(entry.rank);
            if peer_order.len() == 0 {
                self.unprotected_by_peer.remove(&peer);
            }
        }
        Some(entry)
    }
}

impl EvictionOrder {
    fn len(&self) -> usize {
        self.stages.iter().map(BTreeMap::len).sum()
    }

    /// Returns the first connection to evict. Spares those of a stage that has at most half of the
    /// connections in it and the later stages.
    fn first(&self) -> Option<u64> {
        let mut left = self.len();
        let stage = self.stages.iter().find(|stage| {
            let max_spared = left / SPARED_DIVISOR;
            left -= stage.len();
            stage.len() > max_spared
        });
        stage?.values().next().copied()
    }

    fn insert(&mut self, (stage, event): Rank, id: u64) {
        self.stages[stage as usize].insert(event, id);
    }

    fn remove(&mut self, (stage, event): Rank) {
        self.stages[stage as usize].remove(&event);
    }
}

impl SlotEntry {
    fn is_protected(&self) -> bool {
        self.client.is_some() || self.running_requests > 0
    }
}

impl ConnectionSlot {
    /// Waits until the connection is evicted and must end.
    pub(crate) async fn evicted(&self) {
        self.evicted.cancelled().await;
    }

    /// Waits until the first request has arrived.
    pub(crate) async fn requested(&self) {
        self.requested.cancelled().await;
    }

    /// Returns the peer whose limits the connection counts against, or `None` for a trusted proxy.
    pub(crate) fn peer(&self) -> Option<Peer> {
        self.peer
    }

    /// Adds to the number of bytes that the next [`take_received`](Self::take_received) returns.
    /// Returns false if too many have arrived without a request or a part of a body.
    pub(crate) fn add_received(&self, bytes: usize) -> bool {
        self.uncounted.fetch_add(bytes, Ordering::Relaxed);
        self.unread.fetch_add(bytes, Ordering::Relaxed) + bytes <= MAX_UNREAD_BYTES
    }

    /// Marks that a request or a part of a body was read.
    pub(crate) fn set_read(&self) {
        self.unread.store(0, Ordering::Relaxed);
    }

    /// Returns the number of bytes that were received since the last call of this function.
    pub(crate) fn take_received(&self) -> usize {
        self.uncounted.swap(0, Ordering::Relaxed)
    }

    /// Marks that the first bytes have arrived.
    pub(crate) fn set_first_bytes_received(&self) {
        self.slots.change(self.id, |entry, event| {
            entry.rank = (Stage::Begun, event);
        });
    }

    /// Marks that a whole request has arrived. The protection by the previous request lasts until
    /// this one is checked, so that no new connection takes the slot in between.
    pub(crate) fn set_requested(&self) {
        self.requested.cancel();
        self.set_read();
        self.slots.change(self.id, |entry, event| {
            entry.rank = (Stage::Asking, event);
        });
    }

    /// Marks that the last request came from no client, and has its response.
    ///
    /// This also [forgets](Self::forget_received) the number of received bytes.
    pub(crate) fn forget_client(&self) {
        self.slots.change(self.id, |entry, event| {
            entry.rank = (Stage::Answered, event);
            entry.client = None;
        });
        self.forget_received();
    }

    /// Discards the number of received bytes if the connection is from a trusted proxy. The next
    /// request may come from another peer, and these bytes must not count for its client.
    pub(crate) fn forget_received(&self) {
        if self.peer.is_none() {
            self.take_received();
        }
    }

    /// Protects the connection because its last request came from a client. Returns false if no
    /// more slots can be protected, for this client or at all.
    pub(crate) fn protect_for(&self, client: ClientKey) -> bool {
        let change = |entry: &mut SlotEntry, _| entry.client = Some(client);
        self.slots.change(self.id, change)
    }

    /// Protects the connection during a request, on a server without a token. Returns `None` if
    /// no more slots can be protected.
    pub(crate) fn protect_during_request(self: &Arc<Self>) -> Option<Protection> {
        let is_protected = self.slots.change(self.id, |entry, _| {
            entry.running_requests = entry.running_requests.saturating_add(1);
        });
        is_protected.then(|| Protection(Arc::clone(self)))
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut table = self.slots.table();
        table.remove(self.id);
        let open = table.connections.len();
        if table.peak >= MANY_CONNECTIONS && open <= table.peak / 4 {
            table.peak = open;
            self.slots.quiet.notify_one();
        }
    }
}

impl Drop for Protection {
    fn drop(&mut self) {
        self.0.slots.change(self.0.id, |entry, event| {
            entry.running_requests = entry.running_requests.saturating_sub(1);
            entry.rank = (Stage::Answered, event);
        });
    }
}

/// Returns the number of connections that the limit of descriptors allows, at most `wanted`. With
/// more, the system would refuse a connection before the oldest is evicted.
pub(crate) fn affordable_connections(wanted: usize) -> usize {
    let limit = rustix::process::getrlimit(Resource::Nofile).current;
    let limit = limit.map_or(usize::MAX, |limit| {
        usize::try_from(limit).unwrap_or(usize::MAX)
    });
    let allowed = connections_for(limit);
    if allowed < wanted {
        tracing::warn!(
            "`connections` is {wanted}, but the limit of {limit} descriptors allows only {allowed} \
             connections at a time; raise the limit (`ulimit -n`)"
        );
    }
    wanted.min(allowed)
}

/// Returns the number of connections that this number of descriptors allows.
fn connections_for(descriptors: usize) -> usize {
    let others = (descriptors / 2).min(MAX_OTHER_DESCRIPTORS);
    ((descriptors - others) / DESCRIPTORS_PER_CONNECTION).max(1)
}

#[cfg(test)]
mod tests;
