//! What a component may send: the rules, addresses and secrets of its grant.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

use http::HeaderName;
use serde::{Deserialize, Serialize};

use crate::address::{canonical, is_public};
use crate::rule::{NetworkRule, RuleError};
use crate::target::{Host, Target, read_authority};

/// The requests that the tools of a component may send. The default allows none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkGrant {
    /// True if a person, not a rule, allows each origin.
    asks: bool,
    pub(crate) rules: Vec<NetworkRule>,
    pub(crate) private: Vec<PrivateAddress>,
    pub(crate) secrets: Vec<SecretUse>,
}

/// A non-public address that requests may be sent to: an IP address and optionally a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PrivateAddress {
    address: IpAddr,
    port: Option<u16>,
}

/// A secret, with the only header and hosts that it may be sent to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "SecretParts", into = "SecretParts")]
pub struct SecretUse {
    /// The name of the secret, and of the guest's environment variable.
    pub(crate) name: String,
    /// The only header that may have it.
    pub(crate) header: HeaderName,
    /// The only hosts that may receive it, each with its port.
    pub(crate) hosts: Vec<(Host, u16)>,
}

/// A [`SecretUse`] as it is sent to another process.
#[derive(Serialize, Deserialize)]
struct SecretParts {
    name: String,
    header: String,
    hosts: Vec<String>,
}

impl TryFrom<SecretParts> for SecretUse {
    type Error = RuleError;

    fn try_from(parts: SecretParts) -> Result<Self, RuleError> {
        Self::new(&parts.name, &parts.header, parts.hosts)
    }
}

impl From<SecretUse> for SecretParts {
    fn from(secret: SecretUse) -> Self {
        let hosts = secret.hosts.iter();
        Self {
            name: secret.name,
            header: secret.header.to_string(),
            hosts: hosts.map(|(host, port)| format!("{host}:{port}")).collect(),
        }
    }
}

impl TryFrom<String> for PrivateAddress {
    type Error = RuleError;

    fn try_from(text: String) -> Result<Self, RuleError> {
        text.parse()
    }
}

impl From<PrivateAddress> for String {
    fn from(address: PrivateAddress) -> Self {
        address.to_string()
    }
}

/// The part of a grant that allows a request.
#[derive(Debug, Clone, Copy)]
pub enum Permission<'a> {
    /// A rule.
    Rule(&'a NetworkRule),
    /// A person's consent, which the host asks for.
    Consent,
}

impl Permission<'_> {
    /// Returns whether the request has no TLS.
    pub fn is_plain(&self) -> bool {
        matches!(self, Self::Rule(rule) if rule.is_plain())
    }

    /// Returns whether the host is `localhost`, which may resolve to this machine.
    pub fn is_localhost(&self) -> bool {
        matches!(self, Self::Rule(rule) if rule.is_localhost())
    }
}

impl fmt::Display for Permission<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(rule) => rule.fmt(f),
            Self::Consent => f.write_str(ASK),
        }
    }
}

/// The value of `network` in a grant that asks a person.
pub const ASK: &str = "ask";

/// The reason why a request is denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Denial {
    /// No rule allows the method and address.
    NoRule,
    /// The grant asks a person, and the request has no TLS.
    PlainAsk,
    /// The host has an address that is neither public nor named by the grant.
    PrivateAddress(IpAddr),
    /// The request has no TLS, and its host is neither `localhost` nor in `network_private`.
    Plain,
    /// The placeholder of this secret is in the address or in another header, or the host is not
    /// allowed to receive the secret.
    Secret(String),
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRule => f.write_str("no rule in `network` allows it"),
            Self::PlainAsk => f.write_str("`network = \"ask\"` is only for `https`"),
            Self::PrivateAddress(address) => write!(
                f,
                "the host has the address {address}, which is not public and not in \
                 `network_private`"
            ),
            Self::Plain => f.write_str(
                "plain `http` is only for `localhost` and for addresses in `network_private`",
            ),
            Self::Secret(name) => write!(
                f,
                "the secret `{name}` is only for its header, its hosts, and requests over TLS"
            ),
        }
    }
}

impl std::error::Error for Denial {}

impl NetworkGrant {
    /// Creates a grant that allows no request.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a grant that lets a person allow public origins over TLS, one by one.
    ///
    /// The host asks the person; the egress process allows all these origins. Rules, private addresses
    /// and secrets that are added to this grant allow nothing.
    pub fn ask() -> Self {
        Self {
            asks: true,
            ..Self::default()
        }
    }

    /// Adds a rule.
    pub fn rule(mut self, rule: NetworkRule) -> Self {
        self.rules.push(rule);
        self
    }

    /// Adds an address that is not public.
    pub fn private(mut self, address: PrivateAddress) -> Self {
        self.private.push(address);
        self
    }

    /// Adds a secret.
    pub fn secret(mut self, secret: SecretUse) -> Self {
        self.secrets.push(secret);
        self
    }

    /// Returns whether the grant allows no request.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty() && !self.asks
    }

    /// Returns whether a person, not a rule, allows each origin.
    pub fn asks(&self) -> bool {
        self.asks
    }

    /// Returns whether all allowed requests have methods that change nothing, such as GET.
    pub fn allows_only_safe_methods(&self) -> bool {
        !self.asks && self.rules.iter().all(NetworkRule::has_only_safe_methods)
    }

    /// Returns the rules.
    pub fn rules(&self) -> impl Iterator<Item = &NetworkRule> {
        self.rules.iter()
    }

    /// Returns the non-public addresses that requests may be sent to.
    pub fn private_addresses(&self) -> impl Iterator<Item = &PrivateAddress> {
        self.private.iter()
    }

    /// Returns the secrets.
    pub fn secrets(&self) -> impl Iterator<Item = &SecretUse> {
        self.secrets.iter()
    }

    /// Returns the names of the secrets.
    pub fn secret_names(&self) -> impl Iterator<Item = &str> {
        self.secrets.iter().map(|secret| &*secret.name)
    }

    /// Returns the rule or the consent that allows a request, by method and address alone.
    ///
    /// # Errors
    ///
    /// If nothing allows it.
    pub fn allow(&self, target: &Target) -> Result<Permission<'_>, Denial> {
        if self.asks {
            return if !target.is_tls() {
                Err(Denial::PlainAsk)
            } else if target.host.is_local() {
                Err(Denial::PrivateAddress(Ipv4Addr::LOCALHOST.into()))
            } else {
                Ok(Permission::Consent)
            };
        }
        let mut rules = self.rules.iter();
        let rule = rules.find(|rule| rule.allows(target));
        rule.map(Permission::Rule).ok_or(Denial::NoRule)
    }

    /// Checks an address of the host of an allowed request.
    ///
    /// # Errors
    ///
    /// If the request must not be sent to it.
    pub fn allow_address(
        &self,
        permission: Permission<'_>,
        address: SocketAddr,
    ) -> Result<(), Denial> {
        let (ip, port) = (canonical(address.ip()), address.port());
        let is_private = |granted: &PrivateAddress| granted.covers(ip, port);
        let is_granted = !self.asks && self.private.iter().any(is_private)
            || permission.is_localhost() && ip.is_loopback();
        if is_granted {
            Ok(())
        } else if permission.is_plain() {
            Err(Denial::Plain)
        } else if is_public(ip) {
            Ok(())
        } else {
            Err(Denial::PrivateAddress(ip))
        }
    }

    /// Returns the permission for a request, as far as it is known before the host is resolved.
    ///
    /// # Errors
    ///
    /// If the request is denied for every address that the host can have.
    pub fn allow_unresolved(&self, target: &Target) -> Result<Permission<'_>, Denial> {
        let permission = self.allow(target)?;
        self.allow_host(permission, target.address(), target.port())?;
        Ok(permission)
    }

    /// Checks a host: an IP address, or a name that can resolve to any addresses.
    pub(crate) fn allow_host(
        &self,
        permission: Permission<'_>,
        address: Option<IpAddr>,
        port: u16,
    ) -> Result<(), Denial> {
        if let Some(address) = address {
            return self.allow_address(permission, SocketAddr::new(address, port));
        }
        let mut private = self.private.iter();
        let may_be_plain =
            permission.is_localhost() || private.any(|granted| granted.covers_port(port));
        if permission.is_plain() && !may_be_plain {
            Err(Denial::Plain)
        } else {
            Ok(())
        }
    }

    /// Returns the secrets that a request may have.
    pub fn secrets_for(&self, target: &Target) -> impl Iterator<Item = &SecretUse> {
        let secrets = self.secrets.iter().filter(|_| !self.asks);
        secrets.filter(|secret| secret.allows(target, &secret.header))
    }

    pub(crate) fn find_secret(&self, name: &str) -> Option<&SecretUse> {
        let mut secrets = self.secrets.iter().filter(|_| !self.asks);
        secrets.find(|secret| secret.name == name)
    }
}

impl PrivateAddress {
    fn covers(&self, address: IpAddr, port: u16) -> bool {
        self.address == address && self.covers_port(port)
    }

    fn covers_port(&self, port: u16) -> bool {
        self.port.is_none_or(|granted| granted == port)
    }
}

impl fmt::Display for PrivateAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => SocketAddr::new(self.address, port).fmt(f),
            None => self.address.fmt(f),
        }
    }
}

impl FromStr for PrivateAddress {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let (address, port) = match (text.parse::<IpAddr>(), text.parse::<SocketAddr>()) {
            (Ok(address), _) => (address, None),
            (_, Ok(address)) if address.port() != 0 => (address.ip(), Some(address.port())),
            _ => {
                let why = format!(
                    "`{}` is not an IP address with an optional port, such as `10.1.2.3:8080` or \
                     `[fd00::1]:8080`",
                    text.escape_debug()
                );
                return Err(RuleError::new(why));
            }
        };
        let address = canonical(address);
        Ok(Self { address, port })
    }
}

impl SecretUse {
    /// Creates a secret that may be sent in one header to some hosts, each with a port if it is
    /// not 443.
    ///
    /// # Errors
    ///
    /// If the header or a host is not valid.
    pub fn new<S: AsRef<str>>(
        name: &str,
        header: &str,
        hosts: impl IntoIterator<Item = S>,
    ) -> Result<Self, RuleError> {
        let error =
            |why: String| RuleError::new(format!("secret `{}`: {why}", name.escape_debug()));
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(error(
                "its name cannot be the name of a variable".to_owned(),
            ));
        }
        let not_header = |_| error(format!("`{}` is not a header", header.escape_debug()));
        let header = HeaderName::from_bytes(header.as_bytes()).map_err(not_header)?;
        let host = |text: S| match read_authority(text.as_ref()) {
            Ok((host, port)) => Ok((host, port.unwrap_or(443))),
            Err(why) => Err(error(format!("`{}`: {why}", text.as_ref().escape_debug()))),
        };
        let hosts = hosts.into_iter().map(host).collect::<Result<Vec<_>, _>>()?;
        if hosts.is_empty() {
            return Err(error("it has no `hosts`".to_owned()));
        }
        Ok(Self {
            name: name.to_owned(),
            header,
            hosts,
        })
    }

    /// Returns the secret's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the only header that may have the secret, in lower case.
    pub fn header(&self) -> &str {
        self.header.as_str()
    }

    /// Returns the only hosts that may receive the secret, each with its port if it is not 443.
    pub fn hosts(&self) -> impl Iterator<Item = String> {
        let hosts = self.hosts.iter();
        hosts.map(|(host, port)| match port {
            443 => host.to_string(),
            port => format!("{host}:{port}"),
        })
    }

    /// Returns whether the secret may be sent in this header of a request.
    pub(crate) fn allows(&self, target: &Target, header: &HeaderName) -> bool {
        let is_host = |(host, port): &(Host, u16)| *host == target.host && *port == target.port;
        target.is_tls && self.header == *header && self.hosts.iter().any(is_host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::tests::target;

    #[test]
    fn reads_private_addresses() {
        for (text, expected) in [
            ("10.1.2.3:8080", Some("10.1.2.3:8080")),
            ("10.1.2.3", Some("10.1.2.3")),
            ("[fd00::1]:80", Some("[fd00::1]:80")),
            ("fd00::1", Some("fd00::1")),
            ("::ffff:10.1.2.3", Some("10.1.2.3")),
            ("10.1.2.3:0", None),
            ("10.1.2", None),
            ("localhost:80", None),
            ("10.0.0.0/8", None),
            ("", None),
        ] {
            let address = text
                .parse()
                .map(|address: PrivateAddress| address.to_string());
            assert_eq!(address.ok().as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn allows_addresses_that_are_public_or_granted() {
        let private = |address| Err(Denial::PrivateAddress(address));
        for (rule, granted, address, expected) in [
            ("https://e.org", "", "1.1.1.1:443", Ok(())),
            (
                "https://e.org",
                "",
                "10.0.0.1:443",
                private([10, 0, 0, 1].into()),
            ),
            ("https://e.org", "10.0.0.1", "10.0.0.1:443", Ok(())),
            ("https://e.org", "10.0.0.1:443", "10.0.0.1:443", Ok(())),
            (
                "https://e.org",
                "10.0.0.1:443",
                "[::ffff:10.0.0.1]:443",
                Ok(()),
            ),
            (
                "https://e.org",
                "10.0.0.1:80",
                "10.0.0.1:443",
                private([10, 0, 0, 1].into()),
            ),
            (
                "https://e.org",
                "10.0.0.2",
                "10.0.0.1:443",
                private([10, 0, 0, 1].into()),
            ),
            (
                "https://e.org",
                "",
                "127.0.0.1:443",
                private([127, 0, 0, 1].into()),
            ),
            ("https://localhost", "", "127.0.0.1:443", Ok(())),
            ("https://localhost", "", "[::1]:443", Ok(())),
            (
                "https://localhost",
                "",
                "10.0.0.1:443",
                private([10, 0, 0, 1].into()),
            ),
            (
                "https://localhost.example.org",
                "",
                "127.0.0.1:443",
                private([127, 0, 0, 1].into()),
            ),
            ("http://e.org", "", "1.1.1.1:80", Err(Denial::Plain)),
            ("http://e.org", "", "10.0.0.1:80", Err(Denial::Plain)),
            ("http://e.org", "10.0.0.1:80", "10.0.0.1:80", Ok(())),
            ("http://e.org", "1.1.1.1:80", "1.1.1.1:80", Ok(())),
            ("http://localhost", "", "127.0.0.1:80", Ok(())),
            ("http://127.0.0.1", "", "127.0.0.1:80", Err(Denial::Plain)),
        ] {
            let mut grant = NetworkGrant::new();
            if !granted.is_empty() {
                grant = grant.private(granted.parse().unwrap());
            }
            let rule = rule.parse().unwrap();
            let allowed = grant.allow_address(Permission::Rule(&rule), address.parse().unwrap());
            assert_eq!(allowed, expected, "{rule} {granted} {address}");
        }
    }

    #[test]
    fn asks_only_for_public_addresses_over_tls() {
        let secret = SecretUse::new("TOKEN", "authorization", ["e.org"]).unwrap();
        let grant = NetworkGrant::ask()
            .rule("http://localhost".parse().unwrap())
            .private("10.0.0.1".parse().unwrap())
            .secret(secret);
        let local = Some(Denial::PrivateAddress(Ipv4Addr::LOCALHOST.into()));
        for (uri, expected) in [
            ("https://e.org/", None),
            ("https://e.org:8443/", None),
            ("https://1.1.1.1/", None),
            ("http://e.org/", Some(Denial::PlainAsk)),
            ("http://localhost/", Some(Denial::PlainAsk)),
            (
                "https://10.0.0.1/",
                Some(Denial::PrivateAddress([10, 0, 0, 1].into())),
            ),
            (
                "https://[::1]/",
                Some(Denial::PrivateAddress("::1".parse().unwrap())),
            ),
            ("https://localhost/", local.clone()),
            ("https://LOCALHOST.:8443/", local.clone()),
            ("https://a.x.localhost/", local),
            ("https://localhost.e.org/", None),
            ("https://xlocalhost/", None),
        ] {
            let allowed = grant.allow_unresolved(&target(uri).unwrap());
            assert_eq!(allowed.err(), expected, "{uri}");
        }
        for address in ["127.0.0.1:443", "10.0.0.1:443"] {
            let allowed = grant.allow_address(Permission::Consent, address.parse().unwrap());
            assert!(allowed.is_err(), "{address}");
        }
        let public = target("https://e.org/").unwrap();
        assert_eq!(grant.secrets_for(&public).count(), 0);
        assert!(grant.find_secret("TOKEN").is_none() && !grant.is_empty());
    }

    #[test]
    fn allows_names_that_may_resolve_to_allowed_addresses() {
        let private = |address: [u8; 4]| Some(Denial::PrivateAddress(address.into()));
        for (rule, granted, uri, expected) in [
            ("https://e.org", "", "https://e.org/", None),
            ("https://e.org", "", "https://f.org/", Some(Denial::NoRule)),
            ("http://e.org", "", "http://e.org/", Some(Denial::Plain)),
            ("http://e.org", "10.0.0.1", "http://e.org/", None),
            ("http://e.org", "10.0.0.1:80", "http://e.org/", None),
            (
                "http://e.org",
                "10.0.0.1:81",
                "http://e.org/",
                Some(Denial::Plain),
            ),
            ("http://localhost", "", "http://localhost/", None),
            (
                "https://10.0.0.1",
                "",
                "https://10.0.0.1/",
                private([10, 0, 0, 1]),
            ),
            ("https://10.0.0.1", "10.0.0.1", "https://10.0.0.1/", None),
            (
                "http://1.1.1.1",
                "10.0.0.1",
                "http://1.1.1.1/",
                Some(Denial::Plain),
            ),
        ] {
            let mut grant = NetworkGrant::new().rule(rule.parse().unwrap());
            if !granted.is_empty() {
                grant = grant.private(granted.parse().unwrap());
            }
            let allowed = grant.allow_unresolved(&target(uri).unwrap());
            assert_eq!(allowed.err(), expected, "{rule} {granted} {uri}");
        }
    }

    #[test]
    fn allows_secrets_only_in_their_header_and_hosts() {
        let header = |name: &str| HeaderName::from_bytes(name.as_bytes()).unwrap();
        let secret = SecretUse::new("TOKEN", "Authorization", ["e.org", "e.org:8443"]).unwrap();
        for (uri, name, is_allowed) in [
            ("https://e.org/a", "authorization", true),
            ("https://E.org.:8443/a", "authorization", true),
            ("https://e.org:444/", "authorization", false),
            ("https://www.e.org/", "authorization", false),
            ("https://e.org.x/", "authorization", false),
            ("https://e.org/", "x-authorization", false),
            ("http://e.org/", "authorization", false),
            ("http://e.org:443/", "authorization", false),
        ] {
            let allowed = secret.allows(&target(uri).unwrap(), &header(name));
            assert_eq!(allowed, is_allowed, "{uri} {name}");
        }
        for (name, header, hosts) in [
            ("", "authorization", vec!["e.org"]),
            ("A-B", "authorization", vec!["e.org"]),
            ("A", "a b", vec!["e.org"]),
            ("A", "authorization", vec![]),
            ("A", "authorization", vec!["https://e.org"]),
            ("A", "authorization", vec!["*.e.org"]),
        ] {
            SecretUse::new(name, header, hosts).unwrap_err();
        }
    }
}
