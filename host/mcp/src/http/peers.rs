//! Who may ask, by the names in a request's headers: the name that the server
//! was asked by, and the web page that asked. Meets: a page in a browser that
//! makes the browser call a server which only its user can reach.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use anyhow::{bail, ensure};
use axum::http::header::{HOST, ORIGIN};
use axum::http::uri::{Authority, Uri};
use axum::http::{HeaderMap, HeaderValue};

/// The names and pages that may.
pub(super) struct Peers {
    hosts: Vec<Name>,
    origins: Vec<Origin>,
}

/// A host, and its port if that matters.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Name {
    host: String,
    port: Option<u16>,
}

/// Where a page came from.
#[derive(Debug, PartialEq, Eq)]
struct Origin {
    scheme: String,
    name: Name,
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It does not name a host, as HTTP demands, or not one.
    NoHost,
    /// It names a host that this server is not.
    Host,
    /// It comes from a page that may not ask.
    Origin,
}

impl Peers {
    /// The names that an operator allows, and besides these the ones that are
    /// this machine's alone, or the address itself. A server that listens on
    /// every address must be told its names.
    pub(super) fn new(
        hosts: &[String],
        origins: &[String],
        address: SocketAddr,
    ) -> anyhow::Result<Self> {
        let ip = address.ip().to_canonical();
        ensure!(
            !(ip.is_unspecified() && hosts.is_empty()),
            "a server that listens on every address must be told the names that it is asked by, \
             in `allowed_hosts`"
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
                    "an allowed host is a name or an address, with a port or without, and not `{}`",
                    host.escape_debug()
                )
            })
        });
        let origins = origins.iter().map(|origin| match Origin::parse(origin) {
            Some(parsed) => Ok(parsed),
            None => bail!(
                "an allowed origin is such as `https://app.example.com`, and not `{}`",
                origin.escape_debug()
            ),
        });
        Ok(Self {
            hosts: hosts.collect::<anyhow::Result<_>>()?,
            origins: origins.collect::<anyhow::Result<_>>()?,
        })
    }

    /// Looks at a request. The origin is handed back if it is one of another
    /// server that is allowed: its browser has to be told so.
    pub(super) fn check<'a>(
        &self,
        uri: &Uri,
        headers: &'a HeaderMap,
    ) -> Result<Option<&'a HeaderValue>, Refusal> {
        let host = one(headers, HOST.as_str()).ok_or(Refusal::NoHost)?;
        let host = host.and_then(text).and_then(Name::parse);
        let host = host.ok_or(Refusal::NoHost)?;
        // A request line may name a host, too, and then it counts.
        let in_line = uri.authority().map(Name::of);
        for name in in_line.iter().chain([&host]) {
            if !self.hosts.iter().any(|allowed| allowed.covers(name)) {
                return Err(Refusal::Host);
            }
        }
        match one(headers, ORIGIN.as_str()) {
            Some(None) => match of_another_site(headers) {
                false => Ok(None),
                true => Err(Refusal::Origin),
            },
            None => Err(Refusal::Origin),
            Some(Some(value)) => {
                let origin = text(value).and_then(Origin::parse);
                let origin = origin.ok_or(Refusal::Origin)?;
                if origin.name == host {
                    return Ok(None);
                }
                let allowed = self.origins.iter().any(|allowed| allowed.covers(&origin));
                match allowed {
                    true => Ok(Some(value)),
                    false => Err(Refusal::Origin),
                }
            }
        }
    }
}

/// Whether a browser says that a page of another server asks, or may do so. It
/// leaves the origin out where the page does not see the answer.
fn of_another_site(headers: &HeaderMap) -> bool {
    let mut sites = headers.get_all("sec-fetch-site").iter();
    !sites.all(|site| matches!(site.as_bytes(), b"same-origin" | b"none"))
}

/// The value of a header that may be given once. None if it is given twice.
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
        // An authority may be other things, and begin with a user's name, which
        // is a way to make one name look like another.
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

    /// A browser leaves the scheme's own port out.
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
        Peers::new(&owned(hosts), &owned(origins), address.parse().unwrap())
    }

    fn check(peers: &Peers, uri: &str, headers: &[(&'static str, &str)]) -> Result<bool, Refusal> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_str(value).unwrap());
        }
        peers
            .check(&uri.parse().unwrap(), &map)
            .map(|foreign| foreign.is_some())
    }

    #[test]
    fn a_server_on_loopback_goes_by_its_own_names_alone() {
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
            assert_eq!(refused, Err(Refusal::Host), "{host}");
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
            assert_eq!(refused, Err(Refusal::NoHost), "{host}");
        }
        assert_eq!(check(&peers, "/", &[]), Err(Refusal::NoHost));
        let two = [("host", "localhost"), ("host", "localhost")];
        assert_eq!(check(&peers, "/", &two), Err(Refusal::NoHost));
        let in_line = check(&peers, "http://evil.example/mcp", &[("host", "localhost")]);
        assert_eq!(in_line, Err(Refusal::Host));
    }

    #[test]
    fn a_page_may_ask_its_own_server_and_where_it_is_allowed() {
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
            assert_eq!(from(origin), Err(Refusal::Origin), "{origin}");
        }
        let twice = [
            ("host", "h.example"),
            ("origin", "https://h.example"),
            ("origin", "x"),
        ];
        assert_eq!(check(&peers, "/", &twice), Err(Refusal::Origin));
        assert_eq!(check(&peers, "/", &[("host", "10.0.0.1:80")]), Ok(false));
        assert_eq!(
            check(&peers, "/", &[("host", "localhost")]),
            Err(Refusal::Host)
        );
    }

    #[test]
    fn a_name_with_a_port_is_that_port_alone() {
        let peers = peers(&["h.example:8443"], &[], "0.0.0.0:80").unwrap();
        assert_eq!(check(&peers, "/", &[("host", "h.example:8443")]), Ok(false));
        assert_eq!(
            check(&peers, "/", &[("host", "h.example")]),
            Err(Refusal::Host)
        );
    }

    #[test]
    fn names_that_would_match_nothing_are_refused_at_the_start() {
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
