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
fn few_descriptors_are_enough_for_few_connections() {
    for (descriptors, connections) in [(0, 1), (20, 5), (100, 25), (1024, 384), (1280, 512)] {
        assert_eq!(connections_of(descriptors), connections);
        assert!(2 * connections <= descriptors.max(2), "{descriptors}");
    }
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
fn calls_without_a_token_leave_some_places_unprotected() {
    let places = places(8, &[]);
    let connections: Vec<_> = (0..8)
        .map(|peer| Arc::new(places.take(address(peer)).unwrap()))
        .collect();
    let protect = |of: usize| connections[of].protect();
    let mut working: Vec<_> = (0..6).filter_map(protect).collect();
    assert_eq!(working.len(), 6);
    assert!(protect(6).is_none());
    // Further calls of a connection take no more places.
    working.extend(protect(5));
    working.truncate(6);
    assert!(protect(6).is_none());
    working.truncate(5);
    let seventh = protect(6);
    assert!(seventh.is_some() && protect(7).is_none() && protect(5).is_none());
}

#[test]
fn clients_share_the_places_that_can_be_protected() {
    let places = Places::new(8, 2, &[]).unwrap();
    let connections: Vec<_> = (0..8)
        .map(|peer| places.take(address(peer)).unwrap())
        .collect();
    let admit = |of: usize, client: &str| connections[of].admit(Some(client.into()));
    // One is the other's own, and two are for probes.
    assert!((0..5).all(|of| admit(of, "one")));
    assert!(!admit(5, "one") && admit(5, "other") && !admit(6, "other"));
    // A connection is the client's whose token it showed last.
    assert!(admit(4, "other") && !admit(6, "one"));
    connections[0].reject();
    assert!(admit(6, "one") && !admit(7, "one"));
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
    // A server at an IPv6 address sees peers that speak IPv4 so.
    let mapped = at("::ffff:10.0.0.9".parse().unwrap());
    for proxy in [address(9), mapped] {
        let proxied: Vec<_> = (0..5).map(|_| take(proxy)).collect();
        assert_eq!(open(&proxied), [true; 5], "{proxy}");
    }
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

#[test]
fn each_network_of_a_provider_has_a_share_of_its_own() {
    let places = places(8, &[]);
    let take = |network: u16, host| {
        let address = Ipv6Addr::new(0x2001, 0xdb9, 0, network, 0, 0, 0, host);
        Arc::new(places.take(at(address.into())).unwrap())
    };
    let hosts = (0..4).flat_map(|host| [(0, host), (1, host)]);
    let connections: Vec<_> = hosts.map(|(network, host)| take(network, host)).collect();
    assert_eq!(open(&connections), [true; 8]);
}
