//! References to packages: `oci://REGISTRY/REPOSITORY:TAG` or `…@sha256:DIGEST`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use anyhow::{Context as _, bail, ensure};

use crate::digest::Digest;
use crate::quote::quote;

/// The scheme of a reference.
const SCHEME: &str = "oci://";

/// The tag of a reference that names neither a tag nor a digest.
const DEFAULT_TAG: &str = "latest";

/// The maximum length of a host with its port, in bytes. DNS limits names to 253 bytes.
const MAX_AUTHORITY: usize = 253 + ":65535".len();

/// The maximum length of a repository's name in registries, in bytes.
const MAX_REPOSITORY: usize = 255;

/// The maximum length of a tag in registries, in bytes.
const MAX_TAG: usize = 128;

/// A reference to a package in a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    registry: String,
    repository: String,
    version: Version,
}

/// A version of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Version {
    /// A name that the registry can move to other bytes.
    Tag(String),
    /// The digest of fixed bytes. A tag beside it is dropped.
    Digest(Digest),
}

impl Reference {
    /// Returns the registry: a host, and a port if it has one.
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// Returns the path of the repository in the registry.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// Returns the reference without its tag or digest, as rules in `[trust]` name it.
    pub fn place(&self) -> String {
        format!("{SCHEME}{}/{}", self.registry, self.repository)
    }

    /// Returns a reference to one manifest in the same repository.
    ///
    /// # Errors
    ///
    /// If it would be too long.
    pub fn fixed(&self, manifest: &Digest) -> anyhow::Result<Self> {
        format!("{}@{manifest}", self.place()).parse()
    }

    /// Returns the last part of the repository's name.
    pub fn last_name(&self) -> &str {
        let last = self.repository.rsplit('/').next();
        last.unwrap_or(&self.repository)
    }

    /// Returns the tag. Returns `None` if the reference has a digest.
    pub fn tag(&self) -> Option<&str> {
        match &self.version {
            Version::Tag(tag) => Some(tag),
            Version::Digest(_) => None,
        }
    }

    /// Returns the digest of the manifest. Returns `None` if the reference has a tag.
    pub fn digest(&self) -> Option<&Digest> {
        match &self.version {
            Version::Tag(_) => None,
            Version::Digest(digest) => Some(digest),
        }
    }

    pub(crate) fn version(&self) -> &Version {
        &self.version
    }
}

impl FromStr for Reference {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        parse(text).with_context(|| {
            let text = quote(text);
            format!("`{text}` is not a reference such as `oci://registry.example/acme/csv:1.2`")
        })
    }
}

fn parse(text: &str) -> anyhow::Result<Reference> {
    let Some(text) = text.strip_prefix(SCHEME) else {
        bail!("it must start with `{SCHEME}`");
    };
    let (registry, rest) = text.split_once('/').context("it has no repository")?;
    check_authority(registry)?;
    let (rest, digest) = match rest.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest.parse()?)),
        None => (rest, None),
    };
    let (repository, tag) = match rest.split_once(':') {
        Some((repository, tag)) => (repository, Some(tag)),
        None => (rest, None),
    };
    check_repository(repository)?;
    let tag = tag.unwrap_or(DEFAULT_TAG);
    check_tag(tag)?;
    let version = match digest {
        Some(digest) => Version::Digest(digest),
        None => Version::Tag(tag.to_owned()),
    };
    Ok(Reference {
        registry: registry.to_owned(),
        repository: repository.to_owned(),
        version,
    })
}

/// Returns whether an authority (a host with an optional port) names this machine. Plain HTTP is
/// used only for this machine.
pub(crate) fn is_loopback(authority: &str) -> bool {
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|c| c.is_ascii_digit()) => host,
        _ => authority,
    };
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || address.parse().is_ok_and(|it: IpAddr| it.is_loopback())
}

/// Checks the authority of a registry, a repository or a site.
///
/// An authority is a host name with a dot, `localhost` or an address, with an optional port.
/// Accepts only one spelling of each. Guards against: a second spelling of a registry, to which its
/// rule in `[trust]` does not apply.
pub(crate) fn check_authority(authority: &str) -> anyhow::Result<()> {
    ensure!(
        authority.len() <= MAX_AUTHORITY,
        "the host has more than {MAX_AUTHORITY} bytes"
    );
    let parsed: http::uri::Authority = authority.parse().context("the host is invalid")?;
    let host = parsed.host();
    let is_plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || b"-.:[]".contains(&c);
    ensure!(
        authority.bytes().all(is_plain),
        "the host may have lower-case letters, digits, `-`, `.` and a port"
    );
    let rest = authority.strip_prefix(host).unwrap_or_default();
    if !rest.is_empty() {
        let port = rest.strip_prefix(':').unwrap_or_default();
        let is_canonical = |it: &u16| *it > 0 && it.to_string() == port;
        ensure!(
            port.parse().is_ok_and(|it: u16| is_canonical(&it)),
            "the host has an invalid port, or one with leading zeros"
        );
        // Plain HTTP is used only for this machine.
        ensure!(
            port != "443" && (port != "80" || !is_loopback(host)),
            "leave out the port {port}, which is the default"
        );
    }
    check_host(host)
}

/// Checks that a host has its only accepted spelling.
fn check_host(host: &str) -> anyhow::Result<()> {
    if let Some(address) = host.strip_prefix('[') {
        let address = address.strip_suffix(']').unwrap_or_default();
        let parsed: Ipv6Addr = address.parse().context("the address is invalid")?;
        // An IPv4-mapped address has another spelling: the IPv4 address.
        ensure!(
            parsed.to_canonical() == parsed && parsed.to_string() == address,
            "write the address `{address}` as `{}`",
            parsed.to_canonical()
        );
        return Ok(());
    }
    let last = host.rsplit('.').next().unwrap_or_default();
    // Resolvers also read `127.1`, `0177.0.0.1` and `127.0.0.0x1` as addresses.
    if last.starts_with(|c: char| c.is_ascii_digit()) {
        let parsed: Result<Ipv4Addr, _> = host.parse();
        parsed.context("write the address as four numbers without leading zeros")?;
        return Ok(());
    }
    ensure!(
        host == "localhost" || host.contains('.'),
        "the host `{host}` must be a name with a dot, an address or `localhost`"
    );
    ensure!(
        !host.contains(['[', ']', ':']) && host.split('.').all(|label| !label.is_empty()),
        "the host may have lower-case letters and digits, and one dot between its parts"
    );
    Ok(())
}

fn check_repository(repository: &str) -> anyhow::Result<()> {
    let is_alphanumeric = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_part = |part: &str| {
        let bytes = part.as_bytes();
        bytes.first().is_some_and(|c| is_alphanumeric(*c))
            && bytes.last().is_some_and(|c| is_alphanumeric(*c))
            && bytes
                .iter()
                .all(|c| is_alphanumeric(*c) || b"._-".contains(c))
            && !part.contains("..")
    };
    ensure!(
        repository.len() <= MAX_REPOSITORY && repository.split('/').all(is_part),
        "the repository may have lower-case letters and digits, with `.`, `_` and `-` between \
         them, in parts with `/` between them"
    );
    Ok(())
}

fn check_tag(tag: &str) -> anyhow::Result<()> {
    let is_word = |c: u8| c.is_ascii_alphanumeric() || c == b'_';
    let bytes = tag.as_bytes();
    ensure!(
        bytes.len() <= MAX_TAG
            && bytes.first().is_some_and(|c| is_word(*c))
            && bytes.iter().all(|c| is_word(*c) || b".-".contains(c)),
        "the tag may have up to {MAX_TAG} letters, digits, `_`, `.` and `-`"
    );
    Ok(())
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.place())?;
        match &self.version {
            Version::Tag(tag) => write!(f, ":{tag}"),
            Version::Digest(digest) => write!(f, "@{digest}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_references() {
        for (text, shown) in [
            (
                "oci://registry.example/acme/csv:1.2",
                "oci://registry.example/acme/csv:1.2",
            ),
            (
                "oci://registry.example/csv",
                "oci://registry.example/csv:latest",
            ),
            (
                "oci://localhost:5000/a/b_c/d-e:x",
                "oci://localhost:5000/a/b_c/d-e:x",
            ),
            ("oci://[::1]:5000/a:x", "oci://[::1]:5000/a:x"),
            ("oci://[2001:db8::1]/a:x", "oci://[2001:db8::1]/a:x"),
            ("oci://10.0.0.1:5000/a:x", "oci://10.0.0.1:5000/a:x"),
            (
                "oci://1.registry.example:80/a:x",
                "oci://1.registry.example:80/a:x",
            ),
        ] {
            let reference: Reference = text.parse().unwrap();
            assert_eq!(reference.to_string(), shown);
        }
        let digest = Digest::of(b"x");
        let fixed = format!("oci://registry.example/csv:1@{digest}");
        let fixed: Reference = fixed.parse().unwrap();
        assert_eq!(
            fixed.to_string(),
            format!("oci://registry.example/csv@{digest}")
        );
    }

    #[test]
    fn refuses_invalid_references() {
        for text in [
            "registry.example/acme/csv",
            "https://registry.example/csv",
            "oci://registry.example",
            "oci://registry.example/",
            "oci://acme/csv",
            "oci://user:word@registry.example/csv",
            "oci://registry.example/../csv",
            "oci://registry.example/a/./csv",
            "oci://registry.example/a//csv",
            "oci://registry.example/Csv",
            "oci://registry.example/csv:",
            "oci://registry.example/csv:a b",
            "oci://registry.example/csv:\u{1b}[2J",
            "oci://registry.example/csv@sha256:12",
            "oci://registry.example/csv@sha512:12",
            "oci://registry.example/csv?x=1",
            "oci://registry.example:x/csv",
            "oci://registry.example:443/csv",
            "oci://registry.example./csv",
            "oci://registry..example/csv",
            "oci://127.0.0.1:05055/csv",
            "oci://registry.example:0443/csv",
            "oci://registry.example:0/csv",
            "oci://localhost:80/csv",
            "oci://127.0.0.1:80/csv",
            "oci://[::1]:80/csv",
            "oci://[::1]:443/csv",
            "oci://127.1/csv",
            "oci://127.0.0.01/csv",
            "oci://0177.0.0.1/csv",
            "oci://127.0.0.0x1/csv",
            "oci://1.2.3.4.5/csv",
            "oci://[0::1]/csv",
            "oci://[0:0:0:0:0:0:0:1]:5000/csv",
            "oci://[::0001]/csv",
            "oci://[::ffff:127.0.0.1]/csv",
            "oci://[::ffff:7f00:1]/csv",
            "oci://[127.0.0.1]/csv",
            "oci://[localhost]/csv",
            "oci://::1/csv",
            "oci://[::1]a.example/csv",
            &format!("oci://{}.example/csv", "a".repeat(300)),
        ] {
            assert!(text.parse::<Reference>().is_err(), "{text}");
        }
    }

    #[test]
    fn recognizes_registries_on_this_machine() {
        for (registry, expected) in [
            ("localhost", true),
            ("localhost:5000", true),
            ("127.0.0.1:5000", true),
            ("127.9.9.9", true),
            ("[::1]:5000", true),
            ("localhost.example", false),
            ("127.0.0.1.example", false),
            ("10.0.0.1", false),
        ] {
            assert_eq!(is_loopback(registry), expected, "{registry}");
        }
    }
}
