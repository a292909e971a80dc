//! Distinguishes public IP addresses from all others, which a grant must name.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns whether an address is on the public internet.
///
/// Not public are addresses of this machine, of private networks and of cloud metadata services, and
/// IPv6 addresses that contain such an IPv4 address.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => {
            let is_public = match embedded_v4(address) {
                Some(address) => is_public_v4(address),
                None => is_public_v6(address),
            };
            is_public && isatap_v4(address).is_none_or(is_public_v4)
        }
    }
}

/// Returns an address in the form for comparisons: an IPv4-mapped address becomes an IPv4 address.
pub(crate) fn canonical(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

/// The address at which virtual machines of Azure read their configuration. The rest of
/// its network is public.
const AZURE: Ipv4Addr = Ipv4Addr::new(168, 63, 129, 16);

fn is_public_v4(address: Ipv4Addr) -> bool {
    if address == AZURE {
        return false;
    }
    let [a, b, c, _] = address.octets();
    let is_special = matches!(
        (a, b, c),
        // This network, private, loopback, multicast, reserved and broadcast addresses.
        (0 | 10 | 127 | 224.., ..)
            // Carrier-grade NAT, and the metadata service of a cloud.
            | (100, 64..=127, _)
            // Link-local addresses, and the metadata services of most clouds.
            | (169, 254, _)
            | (172, 16..=31, _)
            // Protocol assignments, documentation, and relays of 6to4.
            | (192, 0, 0 | 2)
            | (192, 88, 99)
            | (192, 168, _)
            // Measurements between networks.
            | (198, 18 | 19, _)
            | (198, 51, 100)
            | (203, 0, 113)
    );
    !is_special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    // All public addresses start with the bits 001, except for protocol assignments with Teredo, and
    // documentation.
    let is_global = first & 0xe000 == 0x2000;
    let is_special = matches!(
        (first, second),
        (0x2001, 0..=0x1ff | 0xdb8) | (0x3fff, 0..=0xfff)
    );
    is_global && !is_special
}

/// Returns the IPv4 address that an IPv6 address leads to: IPv4-mapped, NAT64 and 6to4.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    match address.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            Some(v4(high, low))
        }
        [0x2002, high, low, ..] => Some(v4(high, low)),
        _ => None,
    }
}

/// Returns the IPv4 address to which a router of ISATAP (RFC 5214) in the address's network sends
/// packets.
fn isatap_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    match address.segments() {
        [_, _, _, _, 0 | 0x200, 0x5efe, high, low] => Some(v4(high, low)),
        _ => None,
    }
}

fn v4(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::vectors;

    #[test]
    fn knows_public_addresses() {
        for row in vectors("addresses") {
            let address = row["address"].as_str().unwrap();
            assert_eq!(row["public"], is_public(address.parse().unwrap()), "{row}");
        }
    }
}
