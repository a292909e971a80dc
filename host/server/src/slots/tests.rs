//! Tests of slots, eviction and protection.

use super::*;

fn slots(limit: usize, trusted: &[&str]) -> Arc<ConnectionSlots> {
    let trusted: Vec<_> = trusted.iter().map(|text| (*text).to_owned()).collect();
    ConnectionSlots::new(limit, 1, &trusted).unwrap()
}

fn ipv4_peer(last: u8) -> Peer {
    peer([10, 0, 0, last].into())
}

fn peer(address: IpAddr) -> Peer {
    Peer::Address((address, 0).into())
}

/// Marks that a request without a token has arrived and has its response.
fn answer(slot: &ConnectionSlot) {
    slot.set_requested();
    slot.forget_client();
}

fn are_open<'a>(connections: impl IntoIterator<Item = &'a Arc<ConnectionSlot>>) -> Vec<bool> {
    let connections = connections.into_iter();
    connections
        .map(|slot| !slot.evicted.is_cancelled())
        .collect()
}

#[test]
fn few_descriptors_allow_few_connections() {
    for (descriptors, connections) in [(0, 1), (20, 5), (100, 25), (1024, 384), (1280, 512)] {
        assert_eq!(connections_for(descriptors), connections);
        assert!(2 * connections <= descriptors.max(2), "{descriptors}");
    }
}

#[test]
fn evicts_oldest_silent_unprotected_connection() {
    let slots = slots(8, &[]);
    let mut connections: Vec<_> = (0..8)
        .map(|peer| Arc::new(slots.acquire(ipv4_peer(peer)).unwrap()))
        .collect();
    connections[0].set_requested();
    assert!(connections[0].protect_for(None));
    answer(&connections[1]);
    connections[4].set_first_bytes_received();
    let protection = connections[2].protect_during_request().unwrap();
    for peer in 8..14 {
        connections.push(Arc::new(slots.acquire(ipv4_peer(peer)).unwrap()));
    }
    // The silent connections were evicted, the oldest first.
    let evicted: Vec<_> = (0..14)
        .filter(|index| !are_open(&connections)[*index])
        .collect();
    assert_eq!(evicted, [3, 5, 6, 7, 8, 9]);
    for connection in &connections[11..] {
        answer(connection);
    }
    let acquire = |peers: std::ops::Range<u8>, connections: &mut Vec<_>| {
        for peer in peers {
            connections.push(Arc::new(slots.acquire(ipv4_peer(peer)).unwrap()));
        }
    };
    // Now the silent ones are spared, and so is the one that has begun.
    acquire(14..16, &mut connections);
    let open_now = are_open([1, 4, 10, 11, 14, 15].map(|index| &connections[index]));
    assert_eq!(open_now, [false, true, true, false, true, true]);
    drop(protection);
    acquire(16..17, &mut connections);
    answer(&connections[15]);
    answer(&connections[16]);
    // Answered connections are evicted in the order in which their last requests ended.
    acquire(17..19, &mut connections);
    let open_now = are_open([0, 2, 4, 10, 12, 13, 14].map(|index| &connections[index]));
    assert_eq!(open_now, [true, false, true, true, false, false, true]);
    // Now four of seven are silent.
    acquire(19..20, &mut connections);
    let open_now = are_open([4, 10, 14, 15, 16].map(|index| &connections[index]));
    assert_eq!(open_now, [true, false, true, true, true]);
}

#[test]
fn flood_spares_connections_of_other_stages() {
    let stages: [fn(&ConnectionSlot); 4] = [
        ConnectionSlot::set_requested,
        |_| {},
        ConnectionSlot::set_first_bytes_received,
        answer,
    ];
    for flooded in 0..stages.len() {
        let slots = slots(16, &["10.0.0.0/8"]);
        let acquire = |stage: usize| {
            let slot = Arc::new(slots.acquire(ipv4_peer(1)).unwrap());
            stages[stage](&slot);
            slot
        };
        let others = (0..stages.len()).filter(|stage| *stage != flooded);
        let others: Vec<_> = others.map(acquire).collect();
        let _flood: Vec<_> = (0..100).map(|_| acquire(flooded)).collect();
        assert_eq!(are_open(&others), [true; 3], "{flooded}");
    }
}

#[test]
fn new_connections_survive_many_requests() {
    for limit in [4, 64, 512] {
        let slots = slots(limit, &["10.0.0.0/8"]);
        let requested: Vec<_> = (0..limit)
            .map(|_| Arc::new(slots.acquire(ipv4_peer(1)).unwrap()))
            .collect();
        requested.iter().for_each(|slot| answer(slot));
        let new: Vec<_> = (0..limit / 2)
            .map(|_| Arc::new(slots.acquire(ipv4_peer(1)).unwrap()))
            .collect();
        assert!(are_open(&new).into_iter().all(|is_open| is_open), "{limit}");
        assert!(new[0].protect_for(None), "{limit}");
    }
}

#[test]
fn flood_leaves_each_connection_half_the_slots() {
    let slots = slots(512, &["10.0.0.0/8"]);
    let acquire = || Arc::new(slots.acquire(ipv4_peer(1)).unwrap());
    let requested: Vec<_> = (0..495).map(|_| acquire()).collect();
    requested.iter().for_each(|slot| answer(slot));
    let mut flood = std::collections::VecDeque::new();
    for _ in 0..2_000 {
        let new = acquire();
        new.set_first_bytes_received();
        flood.push_back(new);
        if flood.len() > 256 {
            assert!(are_open([&flood[0]])[0]);
            flood.pop_front();
        }
    }
}

#[test]
fn keeps_some_slots_unprotected() {
    for (limit, protected) in [(8, 6), (3, 3), (1, 1), (512, 496)] {
        let slots = slots(limit, &["10.0.0.0/8"]);
        let connections: Vec<_> = (0..limit)
            .map(|_| Arc::new(slots.acquire(ipv4_peer(1)).unwrap()))
            .collect();
        let protected_connections = connections.iter().filter(|slot| {
            slot.set_requested();
            slot.protect_for(None)
        });
        assert_eq!(protected_connections.count(), protected, "{limit}");
        assert_eq!(slots.acquire(ipv4_peer(1)).is_some(), protected < limit);
        // A protected connection stays protected between two requests.
        connections[0].set_requested();
        if protected < limit {
            assert!(!connections[limit - 1].protect_for(None));
        }
        assert!(connections[0].protect_for(None));
        // Without a token the connection is unprotected, and another one can be protected.
        connections[0].set_requested();
        connections[0].forget_client();
        if protected < limit {
            assert!(connections[limit - 1].protect_for(None));
            assert!(!connections[0].protect_for(None));
        }
    }
}

#[test]
fn requests_without_token_keep_some_slots_unprotected() {
    let slots = slots(8, &[]);
    let connections: Vec<_> = (0..8)
        .map(|peer| Arc::new(slots.acquire(ipv4_peer(peer)).unwrap()))
        .collect();
    let protect = |index: usize| connections[index].protect_during_request();
    let mut protections: Vec<_> = (0..6).filter_map(protect).collect();
    assert_eq!(protections.len(), 6);
    assert!(protect(6).is_none());
    // Further requests of a connection take no more slots.
    protections.extend(protect(5));
    protections.truncate(6);
    assert!(protect(6).is_none());
    protections.truncate(5);
    let seventh = protect(6);
    assert!(seventh.is_some() && protect(7).is_none() && protect(5).is_none());
}

#[test]
fn clients_share_protectable_slots() {
    let slots = ConnectionSlots::new(8, 2, &[]).unwrap();
    let connections: Vec<_> = (0..8)
        .map(|peer| slots.acquire(ipv4_peer(peer)).unwrap())
        .collect();
    let protect = |index: usize, client: &str| connections[index].protect_for(Some(client.into()));
    // Two of the 8 slots cannot be protected, and one of the rest is reserved for `other`.
    assert!((0..5).all(|index| protect(index, "one")));
    assert!(!protect(5, "one") && protect(5, "other") && !protect(6, "other"));
    // A connection belongs to the client of its last request.
    assert!(protect(4, "other") && !protect(6, "one"));
    connections[0].forget_client();
    assert!(protect(6, "one") && !protect(7, "one"));
}

#[test]
fn limits_each_address_except_trusted_proxies() {
    let slots = slots(8, &["10.0.0.9", "2001:db8::/32"]);
    let acquire = |peer| Arc::new(slots.acquire(peer).unwrap());
    let other = acquire(ipv4_peer(1));
    let own: Vec<_> = (0..6).map(|_| acquire(ipv4_peer(2))).collect();
    assert_eq!(are_open([&other]), [true]);
    assert_eq!(are_open(&own), [false, false, true, true, true, true]);
    let mapped = acquire(peer("::ffff:10.0.0.2".parse().unwrap()));
    assert_eq!(are_open(&own), [false, false, false, true, true, true]);
    drop((own, mapped));
    let acquire_from = |last: u16| {
        acquire(peer(
            Ipv6Addr::new(0x2001, 0xdb9, 0, 0, last, 0, 0, 1).into(),
        ))
    };
    let same_network: Vec<_> = (0..5).map(acquire_from).collect();
    assert_eq!(are_open(&same_network), [false, true, true, true, true]);
    drop(same_network);
    // A server at an IPv6 address sees IPv4 peers in this form.
    let mapped = peer("::ffff:10.0.0.9".parse().unwrap());
    for proxy in [ipv4_peer(9), mapped] {
        let proxied: Vec<_> = (0..5).map(|_| acquire(proxy)).collect();
        assert_eq!(are_open(&proxied), [true; 5], "{proxy}");
    }
    let proxied: Vec<_> = (0..2)
        .map(|_| acquire(peer("2001:db8:7::1".parse().unwrap())))
        .collect();
    assert_eq!(are_open(proxied.iter().chain([&other])), [true; 3]);
}

#[test]
fn limits_each_user_across_processes() {
    let slots = slots(8, &[]);
    let acquire = |user, process| {
        let slot = slots.acquire(Peer::Process { user, process });
        Arc::new(slot.unwrap())
    };
    let other = acquire(1, 1);
    let own: Vec<_> = (0..6).map(|process| acquire(2, process)).collect();
    assert_eq!(are_open([&other]), [true]);
    assert_eq!(are_open(&own), [false, false, true, true, true, true]);
}

#[test]
fn ended_connection_leaves_nothing_behind() {
    let slots = slots(4, &[]);
    let slot = Arc::new(slots.acquire(ipv4_peer(1)).unwrap());
    slot.set_requested();
    let protection = slot.protect_during_request();
    drop(slot);
    drop(protection);
    for _ in 0..100 {
        let slot = Arc::new(slots.acquire(ipv4_peer(1)).unwrap());
        assert!(slot.protect_for(None));
    }
    let table = slots.table();
    assert!(table.connections.is_empty() && table.unprotected.len() == 0);
    assert!(table.unprotected_by_peer.is_empty() && table.protected == 0);
}

#[test]
fn error_names_invalid_trusted_proxy() {
    for wrong in ["", "10.0.0.0/33", "10.0.0.0/+8", "a.example", "*"] {
        let error = ConnectionSlots::new(1, 0, &[wrong.to_owned()])
            .err()
            .unwrap();
        assert!(error.to_string().contains(&format!("`{wrong}`")), "{error}");
    }
}

#[test]
fn each_ipv6_network_has_its_own_limit() {
    let slots = slots(8, &[]);
    let acquire = |network: u16, host| {
        let address = Ipv6Addr::new(0x2001, 0xdb9, 0, network, 0, 0, 0, host);
        Arc::new(slots.acquire(peer(address.into())).unwrap())
    };
    let hosts = (0..4).flat_map(|host| [(0, host), (1, host)]);
    let connections: Vec<_> = hosts
        .map(|(network, host)| acquire(network, host))
        .collect();
    assert_eq!(are_open(&connections), [true; 8]);
}
