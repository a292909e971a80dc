//! Checks of `Host` and `Origin`: the name that a request has for the server, and
//! the web page that sent it. Guards against: a page that makes a browser call a
//! server which only its user can reach.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use anyhow::{bail, ensure};
use axum::http::header::{HOST, ORIGIN};
use axum::http::uri::{Authority, Uri};
use axum::http::{HeaderMap, HeaderValue};

/// The allowed hosts and origins.
pub(crate) struct Peers {
    hosts: Vec<Name>,
    origins: Vec<Origin>,
    /// The schemes of the server's own pages.
    own_schemes: &'static [&'static str],
}

/// A host, with a port or for every port.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Name {
    host: String,
    port: Option<u16>,
}

/// The origin of a web page.
#[derive(Debug, PartialEq, Eq)]
struct Origin {
    scheme: String,
    name: Name,
}

/// The reason why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PeerError {
    /// It does not name exactly one host, as HTTP demands.
    NoHost,
    /// It names a host that is not allowed.
    Host,
    /// It comes from a page that is not allowed.
    Origin,
}

impl Peers {
    /// Returns the allowed hosts and origins. The address itself and, on loopback,
    /// the names of this machine are allowed too. A server that listens on every
    /// address needs at least one host.
    pub(crate) fn new(
        hosts: &[String],
        origins: &[String],
        address: SocketAddr,
        has_tls: bool,
    ) -> anyhow::Result<Self> {
        let ip = address.ip().to_canonical();
        ensure!(
            !(ip.is_unspecified() && hosts.is_empty()),
            "a server that listens on every address needs its names in `allowed_hosts`"
        );
        let own: &[&str] = match ip {
            ip if ip.is_loopback() => &["localhost", "127.0.0.1", "::1"],
            _ => &[],
        };
        let own = own.iter().map(|name| (*name).to_owned());
        let own = own.chain((!ip.is_unspecified()).then(|| ip.to_string()));
        let hosts = hosts.iter().cloned().chain(own).map(|host| {
            Name::parse(&host).ok_or_else(|| {
                anyhow::anyhow!(
                    "`{}` is not an allowed host: a name or an address, with a port or without",
                    host.escape_debug()
                )
            })
        });
        let origins = origins.iter().map(|origin| match Origin::parse(origin) {
            Some(parsed) => Ok(parsed),
            None => bail!(
                "`{}` is not an allowed origin: a scheme and a host, such as `https://app.example.com`",
                origin.escape_debug()
            ),
        });
        Ok(Self {
            hosts: hosts.collect::<anyhow::Result<_>>()?,
            origins: origins.collect::<anyhow::Result<_>>()?,
            own_schemes: if has_tls {
                &["https"]
            } else {
                // A balancer in front may speak TLS.
                &["http", "https"]
            },
        })
    }

    /// Checks a request. Returns its origin if that is another server's and is
    /// allowed: the browser needs CORS headers then.
    pub(crate) fn check<'a>(
        &self,
        uri: &Uri,
        headers: &'a HeaderMap,
    ) -> Result<Option<&'a HeaderValue>, PeerError> {
        let host = one(headers, HOST.as_str()).ok_or(PeerError::NoHost)?;
        let host = host.and_then(text).and_then(Name::parse);
        let host = host.ok_or(PeerError::NoHost)?;
        // A host in the request line counts too.
        let in_line = uri.authority().map(Name::of);
        for name in in_line.iter().chain([&host]) {
            if !self.hosts.iter().any(|allowed| allowed.covers(name)) {
                return Err(PeerError::Host);
            }
        }
        match one(headers, ORIGIN.as_str()) {
            Some(None) => match is_cross_site(headers) {
                false => Ok(None),
                true => Err(PeerError::Origin),
            },
            None => Err(PeerError::Origin),
            Some(Some(value)) => {
                let origin = text(value).and_then(Origin::parse);
                let origin = origin.ok_or(PeerError::Origin)?;
                if self.is_own(&origin, &host) {
                    return Ok(None);
                }
                let allowed = self.origins.iter().any(|allowed| allowed.covers(&origin));
                match allowed {
                    true => Ok(Some(value)),
                    false => Err(PeerError::Origin),
                }
            }
        }
    }
}

impl Peers {
    /// Returns whether a page is one of this server, which the request calls `host`.
    fn is_own(&self, origin: &Origin, host: &Name) -> bool {
        self.own_schemes.iter().any(|scheme| {
            let own = Origin {
                scheme: (*scheme).to_owned(),
                name: host.clone(),
            };
            own.covers(origin)
        })
    }
}

/// Returns whether a browser says that a page of another site may have sent the
/// request. It leaves `Origin` out if the page does not see the answer.
fn is_cross_site(headers: &HeaderMap) -> bool {
    let mut sites = headers.get_all("sec-fetch-site").iter();
    !sites.all(|site| matches!(site.as_bytes(), b"same-origin" | b"none"))
}

/// Returns the value of a header that may be there once. None if it is there
/// twice.
fn one<'a>(headers: &'a HeaderMap, name: &str) -> Option<Option<&'a HeaderValue>> {
    let mut values = headers.get_all(name).iter();
    let value = values.next();
    values.next().is_none().then_some(value)
}

fn text(value: &HeaderValue) -> Option<&str> {
    value.to_str().ok()
}

impl Name {
    fn parse(text: &str) -> Option<Self> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Some(Self {
                host: address.to_string(),
                port: None,
            });
        }
        let authority: Authority = text.parse().ok()?;
        let name = Self::of(&authority);
        let is_name = |host: &str| {
            let of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
            !host.is_empty() && host.bytes().all(of_name)
        };
        // An authority may begin with a user's name, which can make one host look
        // like another.
        let is_host = is_name(&name.host) || name.host.parse::<Ipv6Addr>().is_ok();
        let has_port = authority.as_str().len() > authority.host().len();
        (is_host && has_port == name.port.is_some()).then_some(name)
    }

    fn of(authority: &Authority) -> Self {
        let host = authority.host();
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        Self {
            host: bare.unwrap_or(host).to_ascii_lowercase(),
            port: authority.port_u16(),
        }
    }

    fn covers(&self, other: &Self) -> bool {
        self.host == other.host && (self.port.is_none() || self.port == other.port)
    }
}

impl Origin {
    fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let scheme = scheme.to_ascii_lowercase();
        matches!(&*scheme, "http" | "https").then_some(())?;
        let name = Name::parse(rest)?;
        Some(Self { scheme, name })
    }

    /// Returns the port. A browser leaves the default port of the scheme out.
    fn port(&self) -> u16 {
        self.name.port.unwrap_or(match &*self.scheme {
            "https" => 443,
            _ => 80,
        })
    }

    fn covers(&self, other: &Self) -> bool {
        self.scheme == other.scheme
            && self.name.host == other.name.host
            && self.port() == other.port()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peers(hosts: &[&str], origins: &[&str], address: &str) -> anyhow::Result<Peers> {
        let owned = |names: &[&str]| {
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>()
        };
        let address = address.parse().unwrap();
        Peers::new(&owned(hosts), &owned(origins), address, false)
    }

    fn check(
        peers: &Peers,
        uri: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<bool, PeerError> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_str(value).unwrap());
        }
        peers
            .check(&uri.parse().unwrap(), &map)
            .map(|foreign| foreign.is_some())
    }

    #[test]
    fn on_loopback_only_the_names_of_this_machine_are_allowed() {
        let peers = peers(&[], &[], "127.0.0.1:80").unwrap();
        for host in [
            "localhost",
            "LOCALHOST:9",
            "127.0.0.1:80",
            "[::1]:80",
            "[::1]",
        ] {
            assert_eq!(check(&peers, "/", &[("host", host)]), Ok(false), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.2",
            "localhost.",
        ] {
            let refused = check(&peers, "/", &[("host", host)]);
            assert_eq!(refused, Err(PeerError::Host), "{host}");
        }
        for host in [
            "",
            "a b",
            "localhost@evil.example",
            "evil@localhost",
            "localhost:",
            "localhost:x",
        ] {
            let refused = check(&peers, "/", &[("host", host)]);
            assert_eq!(refused, Err(PeerError::NoHost), "{host}");
        }
        assert_eq!(check(&peers, "/", &[]), Err(PeerError::NoHost));
        let two = [("host", "localhost"), ("host", "localhost")];
        assert_eq!(check(&peers, "/", &two), Err(PeerError::NoHost));
        let in_line = check(&peers, "http://evil.example/mcp", &[("host", "localhost")]);
        assert_eq!(in_line, Err(PeerError::Host));
    }

    #[test]
    fn pages_of_the_own_and_of_allowed_origins_pass() {
        let peers = peers(
            &["h.example"],
            &["https://app.example", "http://b.example:81"],
            "10.0.0.1:80",
        );
        let peers = peers.unwrap();
        let from = |origin: &str| check(&peers, "/", &[("host", "h.example"), ("origin", origin)]);
        assert_eq!(from("https://h.example"), Ok(false));
        for origin in [
            "https://app.example",
            "HTTPS://APP.example:443",
            "http://b.example:81",
        ] {
            assert_eq!(from(origin), Ok(true), "{origin}");
        }
        for origin in [
            "http://app.example",
            "https://app.example:444",
            "https://app.example.evil.example",
            "https://h.example:8443",
            "http://b.example",
            "null",
            "",
            "file://h.example",
            "https://",
        ] {
            assert_eq!(from(origin), Err(PeerError::Origin), "{origin}");
        }
        let twice = [
            ("host", "h.example"),
            ("origin", "https://h.example"),
            ("origin", "x"),
        ];
        assert_eq!(check(&peers, "/", &twice), Err(PeerError::Origin));
        assert_eq!(check(&peers, "/", &[("host", "10.0.0.1:80")]), Ok(false));
        assert_eq!(
            check(&peers, "/", &[("host", "localhost")]),
            Err(PeerError::Host)
        );
    }

    #[test]
    fn own_origin_has_scheme_host_and_port_of_the_server() {
        let hosts = ["h.example".to_owned()];
        let address = "10.0.0.1:443".parse().unwrap();
        let [plain, tls] = [false, true].map(|tls| Peers::new(&hosts, &[], address, tls).unwrap());
        for (host, origin, is_own_of_plain, is_own_of_tls) in [
            ("h.example", "https://h.example", true, true),
            ("h.example", "https://h.example:443", true, true),
            ("h.example:443", "https://h.example", true, true),
            ("h.example:8443", "https://h.example:8443", true, true),
            // The page came without TLS, so anybody on the way may have written it.
            ("h.example", "http://h.example", true, false),
            ("h.example:443", "http://h.example:443", true, false),
            ("h.example:8443", "http://h.example:8443", true, false),
            ("h.example:443", "http://h.example", false, false),
            ("h.example", "https://h.example:8443", false, false),
            ("h.example:8443", "https://h.example", false, false),
            ("h.example", "https://h.example.evil.example", false, false),
        ] {
            let headers = [("host", host), ("origin", origin)];
            for (peers, is_own) in [(&plain, is_own_of_plain), (&tls, is_own_of_tls)] {
                let expected = if is_own {
                    Ok(false)
                } else {
                    Err(PeerError::Origin)
                };
                assert_eq!(check(peers, "/", &headers), expected, "{host} {origin}");
            }
        }
    }

    #[test]
    fn a_host_with_a_port_covers_that_port_only() {
        let peers = peers(&["h.example:8443"], &[], "0.0.0.0:80").unwrap();
        assert_eq!(check(&peers, "/", &[("host", "h.example:8443")]), Ok(false));
        assert_eq!(
            check(&peers, "/", &[("host", "h.example")]),
            Err(PeerError::Host)
        );
    }

    #[test]
    fn refuses_hosts_and_origins_that_match_nothing() {
        for host in ["", "a b", "http://h.example", "h.example/x", "*"] {
            assert!(peers(&[host], &[], "127.0.0.1:80").is_err(), "{host}");
        }
        for origin in [
            "",
            "app.example",
            "null",
            "https://app.example/x",
            "ftp://a.example",
        ] {
            assert!(peers(&[], &[origin], "127.0.0.1:80").is_err(), "{origin}");
        }
        assert!(peers(&[], &[], "0.0.0.0:80").is_err());
        assert!(peers(&[], &[], "[::]:80").is_err());
    }
}
