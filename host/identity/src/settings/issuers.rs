//! The tables `[issuers.NAME]`: the accepted issuers of OAuth access tokens, and the
//! sources of their keys.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;
use skillhost::config::{ConfiguredPath, Keys, Tables};
use toml::Spanned;

use super::OneOrMany;

/// The supported signature algorithms. All are asymmetric: a key that verifies a signature
/// cannot create one.
const ALGORITHMS: [&str; 9] = [
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA",
];

/// The default algorithms: those that OAuth and OpenID servers use.
const DEFAULT_ALGORITHMS: [&str; 4] = ["RS256", "PS256", "ES256", "EdDSA"];

/// An issuer of access tokens.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct IssuerConfig {
    /// The name from the configuration.
    pub name: String,
    /// The place of its table, for messages.
    pub place: String,
    /// Its identifier, the `iss` of tokens.
    pub issuer: String,
    /// The accepted audiences. Empty means the server's own address.
    pub audience: Vec<String>,
    /// The source of its keys.
    pub keys: KeySource,
    /// The allowed signature algorithms.
    pub algorithms: Vec<&'static str>,
}

/// The source of an issuer's JWK Set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// A file.
    File(ConfiguredPath),
    /// A URL.
    Address(String),
}

/// The table as written, before it is checked.
#[derive(Deserialize, Default)]
#[serde(default, expecting = "an `[issuers.NAME]` table")]
struct RawIssuer {
    issuer: Option<String>,
    audience: Option<OneOrMany<String>>,
    jwks_file: Option<Spanned<PathBuf>>,
    jwks_url: Option<String>,
    algorithms: Option<Vec<String>>,
}

/// The server's address, which is the audience of access tokens. The server's crate checks that it
/// is an address.
#[derive(Deserialize, Default)]
#[serde(default)]
struct RawServer {
    resource: Option<Spanned<String>>,
}

/// Declares the settings that the tables may have.
pub(super) fn declare_keys(keys: &mut Keys) {
    keys.fields::<RawIssuer>("issuers.*");
}

/// Reads the issuers, sorted by name.
pub(super) fn read(tables: &Tables<'_>) -> anyhow::Result<Vec<IssuerConfig>> {
    let raw: BTreeMap<String, Spanned<RawIssuer>> = tables.table("issuers")?;
    let server: RawServer = tables.table("http")?;
    if let Some(resource) = &server.resource {
        // The path of the protected resource metadata (RFC 9728) ends with this address's path, so a
        // query would be lost.
        ensure!(
            !resource.get_ref().contains('?'),
            "{}: `resource`: the server's address must not contain a query (`?`)",
            tables.place(resource.span().start)
        );
    }
    let issuers = raw.into_iter().map(|(name, issuer)| {
        let place = tables.place(issuer.span().start);
        ensure!(
            server.resource.is_some(),
            "{place}: `[issuers]` needs `resource` in `[http]`, the address that tokens are issued for"
        );
        issuer.into_inner().into_config(name, place, tables)
    });
    issuers.collect()
}

impl RawIssuer {
    fn into_config(
        self,
        name: String,
        place: String,
        tables: &Tables<'_>,
    ) -> anyhow::Result<IssuerConfig> {
        let read = || {
            let issuer = self.issuer.context("`issuer` is missing")?;
            check_address(&issuer).context("`issuer`")?;
            let keys = match (self.jwks_file, self.jwks_url) {
                (Some(file), None) => KeySource::File(tables.path(file)?),
                (None, Some(address)) => {
                    check_address(&address).context("`jwks_url`")?;
                    KeySource::Address(address)
                }
                _ => bail!("set either `jwks_file` or `jwks_url`, the source of its keys"),
            };
            let algorithms = match self.algorithms {
                None => DEFAULT_ALGORITHMS.to_vec(),
                Some(names) => {
                    let names = names.iter().map(|name| {
                        let known = ALGORITHMS.into_iter().find(|known| known == name);
                        known.with_context(|| {
                            format!(
                                "`algorithms`: `{}` is not one of {}",
                                name.escape_debug(),
                                ALGORITHMS.join(", ")
                            )
                        })
                    });
                    names.collect::<anyhow::Result<_>>()?
                }
            };
            Ok(IssuerConfig {
                name: name.clone(),
                place: place.clone(),
                issuer,
                audience: self.audience.map(OneOrMany::into_all).unwrap_or_default(),
                keys,
                algorithms,
            })
        };
        read().with_context(|| format!("{place}: `[issuers.{name}]`"))
    }
}

/// Checks the length and characters of a URL, that it has no user, and that it uses HTTPS. Plain
/// HTTP is allowed to this machine only, which tests need.
pub fn check_address(address: &str) -> anyhow::Result<()> {
    let wrong = "an address must begin with `https://`; `http://` is allowed only for this machine";
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"\"\\<>#{}|^`".contains(&byte);
    ensure!(
        address.len() <= 2048 && address.bytes().all(is_plain),
        "an address has at most 2048 characters, which are printable ASCII other than \" < > \\ ^ ` \
         {{ | }} #"
    );
    let https_rest = address.strip_prefix("https://");
    let rest = https_rest.or_else(|| address.strip_prefix("http://"));
    let authority = rest.context(wrong)?.split(['/', '?']).next();
    let authority = authority.unwrap_or_default();
    // Userinfo could be mistaken for the host.
    ensure!(
        !authority.contains('@'),
        "an address must not contain a user (`@`)"
    );
    if https_rest.is_some() {
        ensure!(!authority.is_empty(), wrong);
        return Ok(());
    }
    let host = match authority.strip_prefix('[') {
        Some(ipv6) => ipv6.split(']').next(),
        None => authority.split(':').next(),
    };
    ensure!(
        matches!(host, Some("localhost" | "127.0.0.1" | "::1")),
        wrong
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use skillhost::config;

    use super::*;
    use crate::IdentitySettings;

    fn parse(text: &str) -> Result<Vec<IssuerConfig>, String> {
        let settings = config::parse::<IdentitySettings>(text, "skillhost.toml", Path::new("/etc"));
        let issuers = settings.map(|settings| settings.issuers);
        issuers.map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn reads_issuers() {
        let issuers = parse(
            "[http]\nresource = \"https://mcp.example.com/mcp\"\n\
             [issuers.a]\nissuer = \"https://a.example\"\njwks_file = \"keys.json\"\n\
             [issuers.b]\nissuer = \"http://localhost:1/b\"\njwks_url = \"http://[::1]:1/k\"\n\
             audience = [\"x\", \"y\"]\nalgorithms = [\"ES256\"]\n",
        );
        let issuers = issuers.unwrap();
        let [a, b] = &issuers[..] else {
            panic!("{issuers:?}");
        };
        let file = ConfiguredPath {
            path: "/etc/keys.json".into(),
            place: "`skillhost.toml`, line 5".into(),
        };
        assert_eq!(
            (&*a.issuer, &a.keys),
            ("https://a.example", &KeySource::File(file))
        );
        assert_eq!(a.algorithms, DEFAULT_ALGORITHMS);
        assert_eq!(b.keys, KeySource::Address("http://[::1]:1/k".into()));
        assert_eq!((&*b.algorithms, b.audience.len()), (&["ES256"][..], 2));
    }

    #[test]
    fn refuses_resource_with_query() {
        for address in [
            "https://mcp.example.com/mcp?tenant=1",
            "https://mcp.example.com?tenant=1",
            "https://mcp.example.com/mcp?",
        ] {
            let error = parse(&format!("[http]\n\nresource = \"{address}\"\n")).unwrap_err();
            let expected = "`skillhost.toml`, line 3: `resource`: the server's address must not \
                            contain a query (`?`)";
            assert_eq!(error, expected, "{address}");
        }
    }

    #[test]
    fn refuses_invalid_issuers() {
        let keys = "jwks_file = \"k\"";
        let issuer = "issuer = \"https://a.example\"";
        for (table, reason) in [
            (
                keys.to_owned(),
                "line 3: `[issuers.a]`: `issuer` is missing",
            ),
            (issuer.to_owned(), "either `jwks_file` or `jwks_url`"),
            (
                format!("{issuer}\n{keys}\njwks_url = \"https://a.example/k\""),
                "either `jwks_file` or",
            ),
            (
                format!("issuer = \"http://a.example\"\n{keys}"),
                "must begin with `https://`",
            ),
            (
                format!("issuer = \"https:///x\"\n{keys}"),
                "must begin with `https://`",
            ),
            (
                format!("issuer = \"http://localhost.evil.example\"\n{keys}"),
                "only for this machine",
            ),
            (
                format!("{issuer}\njwks_url = \"file:///etc/passwd\""),
                "`jwks_url`",
            ),
            (
                format!("{issuer}\njwks_url = \"https://a b\""),
                "printable ASCII",
            ),
            (
                format!("{issuer}\n{keys}\nalgorithms = [\"HS256\"]"),
                "`HS256` is not one of RS256",
            ),
            (
                format!("{issuer}\n{keys}\nalgorithms = [\"none\"]"),
                "`none` is not one of",
            ),
            (
                format!("{issuer}\n{keys}\njwks = \"x\""),
                "unknown key `issuers.a.jwks`",
            ),
            (
                format!("{issuer}\njwks_url = \"http://127.0.0.1.evil.example/k\""),
                "only for this machine",
            ),
            (
                format!("{issuer}\njwks_url = \"http://127.evil.example/k\""),
                "only for this machine",
            ),
        ] {
            let resource = "[http]\nresource = \"https://mcp.example.com/mcp\"\n";
            let error = parse(&format!("{resource}[issuers.a]\n{table}\n")).unwrap_err();
            assert!(error.contains(reason), "{table}: {error}");
        }
        // In each of these addresses, the user before the `@` looks like a host.
        for address in [
            "http://localhost:x@evil.example/keys",
            "http://[::1]@evil.example/keys",
            "http://127.0.0.1@evil.example?x",
            "https://a.example@evil.example",
        ] {
            let error = check_address(address).unwrap_err().to_string();
            assert!(error.contains("user (`@`)"), "{address}: {error}");
        }
        check_address("https://a.example/@a?b@c").unwrap();
        for address in [
            "https://a.example/{x}",
            "https://a.example/}",
            "https://a.example/a|b",
        ] {
            let error = check_address(address).unwrap_err().to_string();
            assert!(error.contains("printable ASCII"), "{address}: {error}");
        }
        let error = parse(&format!("[issuers.a]\n{issuer}\n{keys}\n")).unwrap_err();
        assert!(error.contains("`resource` in `[http]`"), "{error}");
    }
}
