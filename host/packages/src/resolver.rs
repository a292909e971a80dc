//! Restricts the addresses that requests go to.
//!
//! The operator names the registry, so all its addresses are allowed. The registry names the targets
//! of redirects, whose addresses must be public, or addresses of the registry.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use skillhost_egress::is_public;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

/// The resolved addresses of a registry. Redirects may go to them too.
pub(crate) type RegistryAddresses = Arc<Mutex<Vec<IpAddr>>>;

/// A resolver that checks every address of a name.
#[derive(Debug)]
pub(crate) struct CheckedResolver {
    inner: DefaultResolver,
    target: Target,
    registry: RegistryAddresses,
}

/// The host that is resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// The registry.
    Registry,
    /// The target of a redirect.
    Redirect,
    /// A token service that is not the registry. If the registry is in a private network, the
    /// service can be in one too.
    TokenService,
}

impl CheckedResolver {
    /// Creates a resolver. All resolvers of one client share `registry`.
    pub(crate) fn new(target: Target, registry: RegistryAddresses) -> Self {
        Self {
            inner: DefaultResolver::default(),
            target,
            registry,
        }
    }

    fn check(&self, uri: &Uri, addresses: &[SocketAddr]) -> Result<(), String> {
        let host = uri.host().unwrap_or_default();
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        let ips = || addresses.iter().map(|it| it.ip().to_canonical());
        // If a name has public and private addresses, redirects must not reach the private ones.
        let has_public = registry.iter().copied().chain(ips()).any(is_public);
        for address in ips() {
            if uri.scheme_str() == Some("http") && !address.is_loopback() {
                return Err(format!("plain HTTP to `{host}`, which is not this machine"));
            }
            match self.target {
                Target::Registry => {
                    let is_allowed = is_public(address) || !has_public;
                    if is_allowed && !registry.contains(&address) {
                        registry.push(address);
                    }
                }
                _ if is_public(address) || registry.contains(&address) => {}
                Target::Redirect => {
                    return Err(format!(
                        "a redirect to `{host}`, whose address is not public"
                    ));
                }
                Target::TokenService if is_beside(address, &registry) => {}
                Target::TokenService => {
                    return Err(format!(
                        "the token service `{host}`, whose address is not public"
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Returns whether an address and all addresses of a registry are in private networks.
fn is_beside(address: IpAddr, registry: &[IpAddr]) -> bool {
    let is_in_network = |address: IpAddr| {
        let is_link_local = match address {
            IpAddr::V4(address) => address.is_link_local(),
            IpAddr::V6(address) => address.is_unicast_link_local(),
        };
        !is_public(address) && !address.is_loopback() && !is_link_local
    };
    let mut addresses = registry.iter().copied();
    is_in_network(address) && !registry.is_empty() && addresses.all(is_in_network)
}

impl Resolver for CheckedResolver {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let addresses = self.inner.resolve(uri, config, timeout)?;
        match self.check(uri, &addresses) {
            Ok(()) => Ok(addresses),
            Err(why) => Err(std::io::Error::other(format!("refused {why}")).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_reach_no_address_more_private_than_registry() {
        let registry = RegistryAddresses::default();
        let direct = CheckedResolver::new(Target::Registry, Arc::clone(&registry));
        let redirect = CheckedResolver::new(Target::Redirect, registry);
        let check = |resolver: &CheckedResolver, uri: &str, address: &str| {
            let addresses = [SocketAddr::new(address.parse().unwrap(), 443)];
            resolver.check(&uri.parse().unwrap(), &addresses).is_ok()
        };
        assert!(check(&direct, "https://registry.example", "10.0.0.5"));
        let both =
            ["93.184.216.34", "10.0.0.7"].map(|it| SocketAddr::new(it.parse().unwrap(), 443));
        direct
            .check(&"https://registry.example".parse().unwrap(), &both)
            .unwrap();
        for (uri, address, is_allowed) in [
            ("https://cdn.example", "93.184.216.34", true),
            ("https://cdn.example", "10.0.0.7", false),
            ("https://cdn.example", "10.0.0.5", true),
            ("https://cdn.example", "::ffff:10.0.0.5", true),
            ("https://cdn.example", "10.0.0.6", false),
            ("https://cdn.example", "127.0.0.1", false),
            ("https://cdn.example", "169.254.169.254", false),
            ("https://cdn.example", "::ffff:127.0.0.1", false),
            ("https://cdn.example", "fe80::1", false),
            ("http://cdn.example", "93.184.216.34", false),
            ("http://cdn.example", "10.0.0.5", false),
        ] {
            assert_eq!(
                check(&redirect, uri, address),
                is_allowed,
                "{uri} {address}"
            );
        }
        for (registry, address, is_allowed) in [
            ("93.184.216.34", "93.184.216.35", true),
            ("93.184.216.34", "10.0.0.6", false),
            ("93.184.216.34", "127.0.0.1", false),
            ("10.0.0.5", "10.0.0.6", true),
            ("10.0.0.5", "192.168.0.1", true),
            ("10.0.0.5", "::ffff:10.0.0.6", true),
            ("10.0.0.5", "127.0.0.1", false),
            ("10.0.0.5", "169.254.169.254", false),
            ("10.0.0.5", "fe80::1", false),
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "10.0.0.6", false),
        ] {
            let addresses = RegistryAddresses::default();
            let direct = CheckedResolver::new(Target::Registry, Arc::clone(&addresses));
            let service = CheckedResolver::new(Target::TokenService, addresses);
            assert!(check(&direct, "https://registry.example", registry));
            let found = check(&service, "https://tokens.example", address);
            assert_eq!(found, is_allowed, "{registry} {address}");
        }
        assert!(!check(&direct, "http://localhost", "10.0.0.5"));
        assert!(check(&direct, "http://localhost", "127.0.0.1"));
    }
}
