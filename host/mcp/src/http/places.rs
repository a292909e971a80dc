//! Who has a place among the connections, and who gives it up when places are
//! short. A connection on which no valuable work is done can lose its place at
//! any time: first the ones that have sent nothing, then the ones that have not
//! sent a whole request yet, then the ones whose last request did not show the
//! token, of each the oldest first. So a new peer always gets a place, however many others are silent.
//!
//! Who shows the token is protected. On a server without a token nobody can,
//! and a connection is protected for as long as its request to `/mcp` takes.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard};

use anyhow::Context as _;
use tokio_util::sync::CancellationToken;

/// Places that protected connections leave to others, at most, and the part of
/// all places. Meets: peers with the token that leave none for probes.
const RESERVE: usize = 16;
const RESERVED_PART: usize = 4;

/// The part of all places that unprotected connections of one address have.
/// Meets: one peer that takes what all others need.
const SHARED_PART: usize = 2;

/// Bits of an IPv6 address that make one peer: a host is given so many to choose
/// the others from.
const IPV6_BITS: u8 = 64;

/// The places of one server.
pub(super) struct Places {
    most: usize,
    trusted: Vec<Network>,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    /// Counts what happened, and so orders connections by age.
    turn: u64,
    connections: HashMap<u64, Entry>,
    protected: usize,
    /// Unprotected connections, the first to go first: of all, and of each
    /// address that has a share.
    order: BTreeMap<Rank, u64>,
    shares: HashMap<IpAddr, BTreeMap<Rank, u64>>,
}

/// When a connection goes: by what it is at, then by when that began.
type Rank = (State, u64);

/// What an unprotected connection is at, the first to go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    /// It has sent nothing.
    Silent,
    /// Its first request is not complete.
    Begun,
    /// It has sent requests.
    Heard,
}

struct Entry {
    /// None for a proxy, which speaks for many.
    address: Option<IpAddr>,
    rank: Rank,
    /// Its last request showed the token.
    admitted: bool,
    /// Requests that protect it, on a server without a token.
    working: usize,
    evicted: CancellationToken,
}

/// The place of one connection, until this is dropped.
pub(super) struct Place {
    places: Arc<Places>,
    id: u64,
    address: Option<IpAddr>,
    evicted: CancellationToken,
}

/// Protects a connection for as long as its request takes.
pub(super) struct Work(Arc<Place>);

impl Places {
    pub(super) fn new(most: usize, trusted: &[String]) -> anyhow::Result<Arc<Self>> {
        let trusted = trusted.iter().map(|text| {
            Network::parse(text).with_context(|| {
                format!(
                    "a trusted proxy is an IP address, or a network such as `10.0.0.0/8`, and \
                     not `{}`",
                    text.escape_debug()
                )
            })
        });
        Ok(Arc::new(Self {
            most,
            trusted: trusted.collect::<anyhow::Result<_>>()?,
            table: Mutex::default(),
        }))
    }

    /// Gives a connection a place, if need be one that another has to leave.
    /// None if all of them are protected.
    pub(super) fn take(self: &Arc<Self>, peer: IpAddr) -> Option<Place> {
        let address = self.counted(peer);
        let mut table = self.table();
        let share = address.and_then(|address| table.shares.get(&address));
        let leaving = match share {
            Some(share) if share.len() >= part(self.most) => share.values().next(),
            _ if table.connections.len() >= self.most => Some(table.order.values().next()?),
            _ => None,
        };
        if let Some(id) = leaving.copied()
            && let Some(evicted) = table.remove(id)
        {
            evicted.evicted.cancel();
        }
        let id = table.next_turn();
        let evicted = CancellationToken::new();
        let entry = Entry {
            address,
            rank: (State::Silent, id),
            admitted: false,
            working: 0,
            evicted: evicted.clone(),
        };
        table.file(id, &entry);
        table.connections.insert(id, entry);
        drop(table);
        Some(Place {
            places: Arc::clone(self),
            id,
            address,
            evicted,
        })
    }

    /// The address that a peer counts by. None for a proxy.
    fn counted(&self, peer: IpAddr) -> Option<IpAddr> {
        let peer = peer.to_canonical();
        if self.trusted.iter().any(|network| network.contains(peer)) {
            return None;
        }
        Some(match peer {
            IpAddr::V4(_) => peer,
            IpAddr::V6(address) => {
                let kept = u128::MAX << (128 - u32::from(IPV6_BITS));
                Ipv6Addr::from_bits(address.to_bits() & kept).into()
            }
        })
    }

    /// Changes what protects a connection. False if that would leave too few
    /// places to others.
    fn change(&self, id: u64, change: impl FnOnce(&mut Entry, u64)) -> bool {
        let mut table = self.table();
        let turn = table.next_turn();
        // One that has lost its place is about to end.
        let Some(mut entry) = table.remove(id) else {
            return false;
        };
        let before = entry.is_protected();
        change(&mut entry, turn);
        let reserve = RESERVE.min(self.most / RESERVED_PART);
        let fits = before || !entry.is_protected() || table.protected + reserve < self.most;
        if !fits {
            entry.admitted = false;
            entry.working = 0;
        }
        table.file(id, &entry);
        table.connections.insert(id, entry);
        fits
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        let table = self.table.lock();
        table.unwrap_or_else(|broken| broken.into_inner())
    }
}

/// What one address may have of all.
fn part(of: usize) -> usize {
    of.div_ceil(SHARED_PART)
}

impl Table {
    fn next_turn(&mut self) -> u64 {
        self.turn += 1;
        self.turn
    }

    /// Puts a connection where it is found when places are short.
    fn file(&mut self, id: u64, entry: &Entry) {
        if entry.is_protected() {
            self.protected += 1;
            return;
        }
        self.order.insert(entry.rank, id);
        if let Some(address) = entry.address {
            self.shares
                .entry(address)
                .or_default()
                .insert(entry.rank, id);
        }
    }

    fn remove(&mut self, id: u64) -> Option<Entry> {
        let entry = self.connections.remove(&id)?;
        if entry.is_protected() {
            self.protected -= 1;
            return Some(entry);
        }
        self.order.remove(&entry.rank);
        if let Some(address) = entry.address
            && let Some(share) = self.shares.get_mut(&address)
        {
            share.remove(&entry.rank);
            if share.is_empty() {
                self.shares.remove(&address);
            }
        }
        Some(entry)
    }
}

impl Entry {
    fn is_protected(&self) -> bool {
        self.admitted || self.working > 0
    }
}

impl Place {
    /// Waits until the place is another's. The connection ends then.
    pub(super) async fn evicted(&self) {
        self.evicted.cancelled().await;
    }

    /// The address that shares are counted by. None for a proxy.
    pub(super) fn address(&self) -> Option<IpAddr> {
        self.address
    }

    /// The first bytes have come.
    pub(super) fn begun(&self) {
        self.places.change(self.id, |entry, turn| {
            entry.rank = (State::Begun, turn);
        });
    }

    /// A whole request has come. What the one before it showed counts until this
    /// one shows something: no newcomer takes the place in between.
    pub(super) fn heard(&self) {
        self.places.change(self.id, |entry, turn| {
            entry.rank = (State::Heard, turn);
        });
    }

    /// The request has not shown the token.
    pub(super) fn dismiss(&self) {
        self.places
            .change(self.id, |entry, _| entry.admitted = false);
    }

    /// The request has shown the token. False if no place can be protected any
    /// more.
    pub(super) fn admit(&self) -> bool {
        let change = |entry: &mut Entry, _| entry.admitted = true;
        self.places.change(self.id, change)
    }

    /// Protects a place of a server without a token. None if no place can be
    /// protected any more.
    pub(super) fn work(self: &Arc<Self>) -> Option<Work> {
        let protected = self.places.change(self.id, |entry, _| {
            entry.working = entry.working.saturating_add(1)
        });
        protected.then(|| Work(Arc::clone(self)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.table().remove(self.id);
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.0.places.change(self.0.id, |entry, turn| {
            entry.working = entry.working.saturating_sub(1);
            entry.rank = (State::Heard, turn);
        });
    }
}

/// Addresses that begin with the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits: u8 = match bits {
            // Digits alone: `+8` is a number, too.
            Some(bits) if !bits.bytes().all(|byte| byte.is_ascii_digit()) => return None,
            Some(bits) => bits.parse().ok().filter(|bits| *bits <= most)?,
            None => most,
        };
        Some(match (address.to_canonical(), address) {
            // One of IPv4 in the clothes of IPv6.
            (mapped @ IpAddr::V4(_), IpAddr::V6(_)) => Self {
                address: mapped,
                bits: bits.checked_sub(96)?,
            },
            (address, _) => Self { address, bits },
        })
    }

    fn contains(&self, address: IpAddr) -> bool {
        let differing = match (self.address, address) {
            (IpAddr::V4(one), IpAddr::V4(other)) => {
                u128::from(one.to_bits() ^ other.to_bits()) << 96
            }
            (IpAddr::V6(one), IpAddr::V6(other)) => one.to_bits() ^ other.to_bits(),
            _ => return false,
        };
        differing.leading_zeros() >= u32::from(self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(most: usize, trusted: &[&str]) -> Arc<Places> {
        let trusted: Vec<_> = trusted.iter().map(|text| (*text).to_owned()).collect();
        Places::new(most, &trusted).unwrap()
    }

    fn address(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    fn open<'a>(connections: impl IntoIterator<Item = &'a Arc<Place>>) -> Vec<bool> {
        let open = connections.into_iter();
        open.map(|place| !place.evicted.is_cancelled()).collect()
    }

    #[test]
    fn the_oldest_silent_connection_goes_first_and_protected_ones_never() {
        let places = places(8, &[]);
        let mut connections: Vec<_> = (0..8)
            .map(|peer| Arc::new(places.take(address(peer)).unwrap()))
            .collect();
        connections[0].heard();
        assert!(connections[0].admit());
        connections[1].heard();
        connections[4].begun();
        let working = connections[2].work().unwrap();
        for peer in 8..14 {
            connections.push(Arc::new(places.take(address(peer)).unwrap()));
        }
        // The silent ones went, the oldest first.
        let gone: Vec<_> = (0..14).filter(|at| !open(&connections)[*at]).collect();
        assert_eq!(gone, [3, 5, 6, 7, 8, 9]);
        for connection in &connections[10..] {
            connection.heard();
        }
        connections.push(Arc::new(places.take(address(14)).unwrap()));
        assert_eq!(open([&connections[4], &connections[1]]), [false, true]);
        drop(working);
        for peer in 15..20 {
            connections.push(Arc::new(places.take(address(peer)).unwrap()));
        }
        assert_eq!(open(&connections[..3]), [true, true, true]);
        // The ones that were heard, by the last time; the end of work counts, too.
        for peer in 20..22 {
            connections.last().unwrap().heard();
            connections.push(Arc::new(places.take(address(peer)).unwrap()));
        }
        let heard = [0, 1, 10, 2, 11].map(|at| &connections[at]);
        assert_eq!(open(heard), [true, false, false, true, true]);
    }

    #[test]
    fn some_places_cannot_be_protected_and_the_rest_can() {
        for (most, protected) in [(8, 6), (3, 3), (1, 1), (512, 496)] {
            let places = places(most, &["10.0.0.0/8"]);
            let connections: Vec<_> = (0..most)
                .map(|_| Arc::new(places.take(address(1)).unwrap()))
                .collect();
            let admitted = connections.iter().filter(|place| {
                place.heard();
                place.admit()
            });
            assert_eq!(admitted.count(), protected, "{most}");
            assert_eq!(places.take(address(1)).is_some(), protected < most);
            // What is protected stays so, whoever comes between two requests.
            connections[0].heard();
            if protected < most {
                assert!(!connections[most - 1].admit());
            }
            assert!(connections[0].admit());
            // Without the token, it gives way to another.
            connections[0].heard();
            connections[0].dismiss();
            if protected < most {
                assert!(connections[most - 1].admit());
                assert!(!connections[0].admit());
            }
        }
    }

    #[test]
    fn an_address_takes_its_share_from_itself_and_a_proxy_has_none() {
        let places = places(8, &["10.0.0.9", "2001:db8::/32"]);
        let take = |peer| Arc::new(places.take(peer).unwrap());
        let other = take(address(1));
        let own: Vec<_> = (0..6).map(|_| take(address(2))).collect();
        assert_eq!(open([&other]), [true]);
        assert_eq!(open(&own), [false, false, true, true, true, true]);
        let mapped = take("::ffff:10.0.0.2".parse().unwrap());
        assert_eq!(open(&own), [false, false, false, true, true, true]);
        drop((own, mapped));
        let one = |last: u16| take(Ipv6Addr::new(0x2001, 0xdb9, 0, 0, last, 0, 0, 1).into());
        let of_one_host: Vec<_> = (0..5).map(one).collect();
        assert_eq!(open(&of_one_host), [false, true, true, true, true]);
        drop(of_one_host);
        let proxied: Vec<_> = (0..5).map(|_| take(address(9))).collect();
        assert_eq!(open(&proxied), [true; 5]);
        let proxied: Vec<_> = (0..2)
            .map(|_| take("2001:db8:7::1".parse().unwrap()))
            .collect();
        assert_eq!(open(proxied.iter().chain([&other])), [true; 3]);
    }

    #[test]
    fn a_connection_that_ends_leaves_nothing() {
        let places = places(4, &[]);
        let place = Arc::new(places.take(address(1)).unwrap());
        place.heard();
        let work = place.work();
        drop(place);
        drop(work);
        for _ in 0..100 {
            let place = Arc::new(places.take(address(1)).unwrap());
            assert!(place.admit());
        }
        let table = places.table();
        assert!(table.connections.is_empty() && table.order.is_empty());
        assert!(table.shares.is_empty() && table.protected == 0);
    }

    #[test]
    fn a_network_is_read_exactly() {
        for (network, inside, outside) in [
            ("10.0.0.9", "10.0.0.9", "10.0.0.8"),
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.1"),
            ("10.0.0.0/9", "10.127.0.1", "10.128.0.1"),
            ("0.0.0.0/0", "192.0.2.1", "::1"),
            ("::ffff:10.0.0.0/104", "10.9.9.9", "11.0.0.1"),
            ("::ffff:10.0.0.9", "10.0.0.9", "10.0.0.8"),
            ("2001:db8::/33", "2001:db8:7fff::1", "2001:db8:8000::1"),
            ("::/0", "::1", "127.0.0.1"),
        ] {
            let read = Network::parse(network).unwrap();
            assert!(read.contains(inside.parse().unwrap()), "{network}");
            assert!(!read.contains(outside.parse().unwrap()), "{network}");
        }
        for wrong in [
            "",
            "10.0.0",
            "10.0.0.0/33",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "::/129",
            "a.example",
            "10.0.0.0/8/8",
            "::ffff:10.0.0.0/95",
            "*",
        ] {
            assert_eq!(Network::parse(wrong), None, "{wrong}");
            let error = Places::new(1, &[wrong.to_owned()]).err().unwrap();
            assert!(error.to_string().contains(&format!("`{wrong}`")), "{error}");
        }
    }
}
