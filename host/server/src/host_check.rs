//! Checks of `Host` and `Origin`: the server's name in a request, and the web page that sent the
//! request. Guards against: a page that makes a browser call a server which only the browser's user
//! can reach.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use anyhow::{bail, ensure};
use axum::http::header::{HOST, ORIGIN};
use axum::http::uri::{Authority, Uri};
use axum::http::{HeaderMap, HeaderValue};

/// The allowed hosts and origins.
pub(crate) struct HostCheck {
    hosts: Vec<Name>,
    origins: Vec<Origin>,
    /// The schemes of the server's own pages.
    own_schemes: &'static [&'static str],
}

/// A host, with one port or with any port.
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
pub(crate) enum HostCheckError {
    /// The request does not name exactly one host, as HTTP requires.
    NoHost,
    /// The request names a host that is not allowed.
    Host,
    /// The request comes from a page that is not allowed.
    Origin,
}

impl HostCheck {
    /// Parses the allowed hosts and origins. The server's own address is allowed too. On loopback,
    /// so are the names of this machine.
    ///
    /// # Errors
    ///
    /// If a host or an origin is not valid, or if the server listens on every address and `hosts`
    /// is empty.
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
        let loopback_names: &[&str] = if ip.is_loopback() {
            &["localhost", "127.0.0.1", "::1"]
        } else {
            &[]
        };
        let loopback_names = loopback_names.iter().map(|name| (*name).to_owned());
        let address_name = (!ip.is_unspecified()).then(|| ip.to_string());
        let own_names = loopback_names.chain(address_name);
        let hosts = hosts.iter().cloned().chain(own_names).map(|host| {
            Name::parse(&host).ok_or_else(|| {
                anyhow::anyhow!(
                    "`{}` is not a valid host: expected a name or an address, with or without a port",
                    host.escape_debug()
                )
            })
        });
        let origins = origins.iter().map(|origin| match Origin::parse(origin) {
            Some(parsed) => Ok(parsed),
            None => bail!(
                "`{}` is not a valid origin: expected a scheme and a host, such as \
                 `https://app.example.com`",
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

    /// Checks a request. Returns its origin if that is allowed and not the server's own. The
    /// browser then needs CORS headers.
    pub(crate) fn check<'a>(
        &self,
        uri: &Uri,
        headers: &'a HeaderMap,
    ) -> Result<Option<&'a HeaderValue>, HostCheckError> {
        let host = at_most_one(headers, HOST.as_str())
            .flatten()
            .and_then(text)
            .and_then(Name::parse)
            .ok_or(HostCheckError::NoHost)?;
        // The request line can name a host too.
        let line_host = match uri.authority() {
            Some(authority) => Some(Name::from_authority(authority).ok_or(HostCheckError::Host)?),
            None => None,
        };
        for name in line_host.iter().chain([&host]) {
            if !self.hosts.iter().any(|allowed| allowed.covers(name)) {
                return Err(HostCheckError::Host);
            }
        }
        match at_most_one(headers, ORIGIN.as_str()) {
            None => Err(HostCheckError::Origin),
            Some(None) if is_cross_site(headers) => Err(HostCheckError::Origin),
            Some(None) => Ok(None),
            Some(Some(value)) => {
                let origin = text(value).and_then(Origin::parse);
                let origin = origin.ok_or(HostCheckError::Origin)?;
                if self.is_own_origin(&origin, &host) {
                    return Ok(None);
                }
                let mut allowed = self.origins.iter();
                if allowed.any(|allowed| allowed.covers(&origin)) {
                    Ok(Some(value))
                } else {
                    Err(HostCheckError::Origin)
                }
            }
        }
    }

    /// Returns whether an origin is the server's own, if the server's name is `host`.
    fn is_own_origin(&self, origin: &Origin, host: &Name) -> bool {
        self.own_schemes.iter().any(|scheme| {
            let own = Origin {
                scheme: (*scheme).to_owned(),
                name: host.clone(),
            };
            own.covers(origin)
        })
    }
}

/// Returns whether a browser says that a page of another site may have sent the request. Browsers
/// omit `Origin` if the page cannot see the response.
fn is_cross_site(headers: &HeaderMap) -> bool {
    let mut sites = headers.get_all("sec-fetch-site").iter();
    !sites.all(|site| matches!(site.as_bytes(), b"same-origin" | b"none"))
}

/// Returns the value of a header, or `Some(None)` if the header is missing. Returns `None` if the
/// header occurs more than once.
fn at_most_one<'a>(headers: &'a HeaderMap, name: &str) -> Option<Option<&'a HeaderValue>> {
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
        Self::from_authority(&text.parse().ok()?)
    }

    /// Returns the name and port in a URI's authority. Returns `None` if the host is neither a name
    /// nor an address, if the port is invalid, or if there is a user name, which can make one host
    /// look like another.
    fn from_authority(authority: &Authority) -> Option<Self> {
        let host = authority.host();
        let without_brackets = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let name = Self {
            host: without_brackets.unwrap_or(host).to_ascii_lowercase(),
            port: authority.port_u16(),
        };
        let is_name = |host: &str| {
            let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
            !host.is_empty() && host.bytes().all(is_name_byte)
        };
        let is_host = is_name(&name.host) || name.host.parse::<Ipv6Addr>().is_ok();
        let has_user = authority.as_str().contains('@');
        let has_port = authority.as_str().len() > host.len();
        (is_host && !has_user && has_port == name.port.is_some()).then_some(name)
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

    /// Returns the port. A browser omits the default port of the scheme.
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

    fn host_check(hosts: &[&str], origins: &[&str], address: &str) -> anyhow::Result<HostCheck> {
        let owned = |names: &[&str]| {
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>()
        };
        let address = address.parse().unwrap();
        HostCheck::new(&owned(hosts), &owned(origins), address, false)
    }

    fn check(
        host_check: &HostCheck,
        uri: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<bool, HostCheckError> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_str(value).unwrap());
        }
        host_check
            .check(&uri.parse().unwrap(), &map)
            .map(|cross_origin| cross_origin.is_some())
    }

    #[test]
    fn allows_only_names_of_this_machine_on_loopback() {
        let host_check = host_check(&[], &[], "127.0.0.1:80").unwrap();
        for host in [
            "localhost",
            "LOCALHOST:9",
            "127.0.0.1:80",
            "[::1]:80",
            "[::1]",
        ] {
            assert_eq!(
                check(&host_check, "/", &[("host", host)]),
                Ok(false),
                "{host}"
            );
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.2",
            "localhost.",
        ] {
            let refused = check(&host_check, "/", &[("host", host)]);
            assert_eq!(refused, Err(HostCheckError::Host), "{host}");
        }
        for host in [
            "",
            "a b",
            "localhost@evil.example",
            "evil@localhost",
            "evil.example@localhost:80",
            "localhost:",
            "localhost:x",
        ] {
            let refused = check(&host_check, "/", &[("host", host)]);
            assert_eq!(refused, Err(HostCheckError::NoHost), "{host}");
        }
        assert_eq!(check(&host_check, "/", &[]), Err(HostCheckError::NoHost));
        let two = [("host", "localhost"), ("host", "localhost")];
        assert_eq!(check(&host_check, "/", &two), Err(HostCheckError::NoHost));
        for uri in [
            "http://evil.example/mcp",
            "http://evil.example@localhost/mcp",
            "http://evil.example@localhost:80/mcp",
        ] {
            let in_line = check(&host_check, uri, &[("host", "localhost")]);
            assert_eq!(in_line, Err(HostCheckError::Host), "{uri}");
        }
    }

    #[test]
    fn allows_pages_of_own_and_allowed_origins() {
        let host_check = host_check(
            &["h.example"],
            &["https://app.example", "http://b.example:81"],
            "10.0.0.1:80",
        );
        let host_check = host_check.unwrap();
        let from = |origin: &str| {
            check(
                &host_check,
                "/",
                &[("host", "h.example"), ("origin", origin)],
            )
        };
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
            "https://evil.example@h.example",
            "https://evil.example@h.example:443",
            "http://b.example",
            "null",
            "",
            "file://h.example",
            "https://",
        ] {
            assert_eq!(from(origin), Err(HostCheckError::Origin), "{origin}");
        }
        let twice = [
            ("host", "h.example"),
            ("origin", "https://h.example"),
            ("origin", "x"),
        ];
        assert_eq!(check(&host_check, "/", &twice), Err(HostCheckError::Origin));
        assert_eq!(
            check(&host_check, "/", &[("host", "10.0.0.1:80")]),
            Ok(false)
        );
        assert_eq!(
            check(&host_check, "/", &[("host", "localhost")]),
            Err(HostCheckError::Host)
        );
    }

    #[test]
    fn own_origin_matches_server_scheme_host_and_port() {
        let hosts = ["h.example".to_owned()];
        let address = "10.0.0.1:443".parse().unwrap();
        let [plain, tls] =
            [false, true].map(|tls| HostCheck::new(&hosts, &[], address, tls).unwrap());
        for (host, origin, is_own_of_plain, is_own_of_tls) in [
            ("h.example", "https://h.example", true, true),
            ("h.example", "https://h.example:443", true, true),
            ("h.example:443", "https://h.example", true, true),
            ("h.example:8443", "https://h.example:8443", true, true),
            // The page came without TLS, so anybody on the network may have written it.
            ("h.example", "http://h.example", true, false),
            ("h.example:443", "http://h.example:443", true, false),
            ("h.example:8443", "http://h.example:8443", true, false),
            ("h.example:443", "http://h.example", false, false),
            ("h.example", "https://h.example:8443", false, false),
            ("h.example:8443", "https://h.example", false, false),
            ("h.example", "https://h.example.evil.example", false, false),
        ] {
            let headers = [("host", host), ("origin", origin)];
            for (host_check, is_own) in [(&plain, is_own_of_plain), (&tls, is_own_of_tls)] {
                let expected = if is_own {
                    Ok(false)
                } else {
                    Err(HostCheckError::Origin)
                };
                assert_eq!(
                    check(host_check, "/", &headers),
                    expected,
                    "{host} {origin}"
                );
            }
        }
    }

    #[test]
    fn host_with_port_covers_only_that_port() {
        let host_check = host_check(&["h.example:8443"], &[], "0.0.0.0:80").unwrap();
        assert_eq!(
            check(&host_check, "/", &[("host", "h.example:8443")]),
            Ok(false)
        );
        assert_eq!(
            check(&host_check, "/", &[("host", "h.example")]),
            Err(HostCheckError::Host)
        );
    }

    #[test]
    fn refuses_invalid_hosts_and_origins() {
        for host in ["", "a b", "http://h.example", "h.example/x", "*"] {
            assert!(host_check(&[host], &[], "127.0.0.1:80").is_err(), "{host}");
        }
        for origin in [
            "",
            "app.example",
            "null",
            "https://app.example/x",
            "ftp://a.example",
        ] {
            assert!(
                host_check(&[], &[origin], "127.0.0.1:80").is_err(),
                "{origin}"
            );
        }
        assert!(host_check(&[], &[], "0.0.0.0:80").is_err());
        assert!(host_check(&[], &[], "[::]:80").is_err());
    }
}
