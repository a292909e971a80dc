//! Networks of IP addresses, such as `10.0.0.0/8`.

use std::net::IpAddr;

/// A range of addresses that begin with the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    /// Parses an address, or an address and a number of bits.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let max_bits = if address.is_ipv4() { 32 } else { 128 };
        let bits: u8 = match bits {
            // Only digits: `+8` would parse too.
            Some(bits) if !bits.bytes().all(|byte| byte.is_ascii_digit()) => return None,
            Some(bits) => bits.parse().ok().filter(|bits| *bits <= max_bits)?,
            None => max_bits,
        };
        Some(match (address.to_canonical(), address) {
            // An IPv4 network, mapped to IPv6.
            (mapped @ IpAddr::V4(_), IpAddr::V6(_)) => Self {
                address: mapped,
                bits: bits.checked_sub(96)?,
            },
            (address, _) => Self { address, bits },
        })
    }

    /// Returns whether an address is in the network.
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
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

    #[test]
    fn parses_networks_strictly() {
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
            let parsed = Network::parse(network).unwrap();
            assert!(parsed.contains(inside.parse().unwrap()), "{network}");
            assert!(!parsed.contains(outside.parse().unwrap()), "{network}");
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
        }
    }
}
