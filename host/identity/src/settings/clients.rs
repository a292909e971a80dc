//! The tables `[clients.NAME]`: the clients of a server, with their credentials, scopes and
//! limits.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;
use skillhost::config::{ConfiguredPath, Keys, Tables};
use skillhost::{Principal, Scope};
use skillhost_sandbox::declare_limits;
use skillhost_skills::own_user::overflow_user;
use toml::Spanned;
use toml::value::{Datetime, Offset};

use super::OneOrMany;

/// The maximum number of characters of a client's name. Guards against: names that fill records.
const MAX_NAME_CHARS: usize = 64;

/// A client: its credentials, scope and limits.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ClientConfig {
    /// The name from the configuration.
    pub name: String,
    /// The place of its table, for messages.
    pub place: String,
    /// The files of its tokens.
    pub token_files: Vec<ConfiguredPath>,
    /// The SHA-256 digests of its other tokens.
    pub token_digests: Vec<[u8; 32]>,
    /// The claims that identify its access tokens. Empty if it uses none.
    pub claims: BTreeMap<String, String>,
    /// The OAuth scopes that its access tokens must have.
    pub oauth_scopes: Vec<String>,
    /// The numbers of the local users who are this client at a Unix socket.
    pub unix_users: Vec<u32>,
    /// The names of its TLS certificates: host names in lower case, and URIs.
    pub certificate_names: Vec<String>,
    /// The tools and skills that it may use.
    pub scope: Arc<Scope>,
    /// True if it may read the metrics.
    pub metrics: bool,
    /// The time at which it expires, if it does.
    pub expires: Option<SystemTime>,
    /// Its limits.
    pub limits: ClientLimits,
}

declare_limits! {
    /// The limits of one client.
    ClientLimits in "clients.*", "no request would be answered" {
        /// Requests of the client that run at a time. Further ones wait.
        calls: u32, Count "4" in 1, u32::MAX;
        against "a client that keeps all others waiting"

        /// Requests of the client in a minute. Further ones are refused until some time
        /// has passed.
        calls_per_minute: Option<u32>, Count "no bound" in 1, u32::MAX;
        against "a client that never stops asking"

        /// Bytes of the client's requests and answers in a minute. Beyond that,
        /// requests are refused until some time has passed.
        bytes_per_minute: Option<usize>, Bytes "no bound" in 1 << 10, u64::MAX;
        against "a client that copies whole catalogs"
    }
}

/// The raw keys of the table, without the limits.
#[derive(Deserialize, Default)]
#[serde(default, expecting = "a `[clients.NAME]` table")]
struct RawClient {
    token_file: Option<Spanned<OneOrMany<PathBuf>>>,
    token_sha256: Option<Spanned<OneOrMany<String>>>,
    claims: BTreeMap<String, String>,
    oauth_scopes: Vec<String>,
    unix_users: Option<Spanned<Vec<RawUser>>>,
    certificate_names: Option<Spanned<Vec<String>>>,
    tools: Option<Vec<String>>,
    skills: Option<Vec<String>>,
    metrics: bool,
    expires: Option<Spanned<Datetime>>,
}

/// A local user.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected the name or the number of a user")]
enum RawUser {
    Number(u32),
    Name(String),
}

impl RawUser {
    /// Returns the user's number.
    fn number(self) -> anyhow::Result<u32> {
        let number = match self {
            // The kernel's value for "no user".
            Self::Number(u32::MAX) => bail!("there is no user {}", u32::MAX),
            Self::Number(number) => number,
            Self::Name(name) => match format!("user:{name}").parse() {
                Ok(Principal::User(number)) => number,
                _ => bail!(
                    "there is no user `{}` in /etc/passwd; a number is always accepted",
                    name.escape_debug()
                ),
            },
        };
        ensure!(
            number != overflow_user(),
            "the user {number} means every user that this machine does not know; name another"
        );
        Ok(number)
    }
}

/// Declares the keys of the tables.
pub(super) fn declare_keys(keys: &mut Keys) {
    keys.fields::<RawClient>("clients.*");
    keys.names("clients.*.claims");
    keys.limits::<ClientLimits>();
}

/// Reads the clients, sorted by name.
pub(super) fn read(tables: &Tables<'_>) -> anyhow::Result<Vec<ClientConfig>> {
    let raw: BTreeMap<String, Spanned<RawClient>> = tables.table("clients")?;
    let clients = raw.into_iter().map(|(name, client)| {
        let place = tables.place(client.span().start);
        let client = client.into_inner().into_config(name, place, tables)?;
        client.check().map(|()| client)
    });
    clients.collect()
}

impl RawClient {
    /// Returns the client with this name.
    fn into_config(
        self,
        name: String,
        place: String,
        tables: &Tables<'_>,
    ) -> anyhow::Result<ClientConfig> {
        check_name(&name).with_context(|| place.clone())?;
        let mut token_files = Vec::new();
        if let Some(files) = self.token_file {
            let span = files.span();
            let files = files.into_inner().into_all().into_iter();
            let files = files.map(|file| tables.path(Spanned::new(span.clone(), file)));
            token_files = files.collect::<anyhow::Result<_>>()?;
        }
        let mut token_digests = Vec::new();
        if let Some(digests) = self.token_sha256 {
            let place = tables.place(digests.span().start);
            for digest in digests.into_inner().into_all() {
                token_digests.push(read_digest(&digest).with_context(|| place.clone())?);
            }
        }
        let mut unix_users = Vec::new();
        if let Some(users) = self.unix_users {
            let place = tables.place(users.span().start);
            for user in users.into_inner() {
                let user = user.number();
                unix_users.push(user.with_context(|| format!("{place}: `unix_users`"))?);
            }
        }
        let mut certificate_names = Vec::new();
        if let Some(names) = self.certificate_names {
            let place = tables.place(names.span().start);
            for name in names.into_inner() {
                certificate_names.push(read_certificate_name(name).with_context(|| place.clone())?);
            }
        }
        let expires = match self.expires {
            None => None,
            Some(time) => {
                let place = tables.place(time.span().start);
                Some(read_time(time.get_ref()).context(place)?)
            }
        };
        let mut scope = Scope::new();
        if let Some(tools) = self.tools {
            scope = scope.tools(tools).with_context(|| place.clone())?;
        }
        if let Some(skills) = self.skills {
            scope = scope.skills(skills).with_context(|| place.clone())?;
        }
        let limits = tables.named_limits("clients", &name)?;
        Ok(ClientConfig {
            name,
            place,
            token_files,
            token_digests,
            claims: self.claims,
            oauth_scopes: self.oauth_scopes,
            unix_users,
            certificate_names,
            scope: Arc::new(scope),
            metrics: self.metrics,
            expires,
            limits,
        })
    }
}

impl ClientConfig {
    /// Returns the client's table, for messages.
    pub fn table(&self) -> String {
        format!("[clients.{}]", self.name)
    }

    /// Refuses a client without credentials or with an invalid OAuth scope.
    fn check(&self) -> anyhow::Result<()> {
        ensure!(
            !self.token_files.is_empty()
                || !self.token_digests.is_empty()
                || !self.claims.is_empty()
                || !self.unix_users.is_empty()
                || !self.certificate_names.is_empty(),
            "{}: the client `{}` has no credential: set `token_file`, `token_sha256`, `claims`, \
             `unix_users` or `certificate_names`",
            self.place,
            self.name
        );
        let is_scope_byte = |byte: u8| byte.is_ascii_graphic() && !b"\"\\".contains(&byte);
        for scope in &self.oauth_scopes {
            ensure!(
                !scope.is_empty() && scope.bytes().all(is_scope_byte),
                "{}: `oauth_scopes`: `{}` is not a scope: write ASCII without spaces and quotes",
                self.place,
                scope.escape_debug()
            );
        }
        Ok(())
    }
}

/// Checks a name, which appears in records, logs and metrics.
fn check_name(name: &str) -> anyhow::Result<()> {
    let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if name.is_empty() || name.len() > MAX_NAME_CHARS || !name.bytes().all(is_name_byte) {
        bail!(
            "`{}` is not the name of a client: write 1 to {MAX_NAME_CHARS} letters, digits, `-`, \
             `_` and `.`",
            name.escape_debug()
        );
    }
    Ok(())
}

fn read_digest(hex: &str) -> anyhow::Result<[u8; 32]> {
    let wrong = "`token_sha256` is the SHA-256 digest of a token: 64 hex digits";
    let digits = hex.as_bytes();
    ensure!(
        digits.len() == 64 && digits.iter().all(u8::is_ascii_hexdigit),
        wrong
    );
    let mut digest = [0; 32];
    for (byte, pair) in digest.iter_mut().zip(digits.chunks(2)) {
        *byte = u8::from_str_radix(str::from_utf8(pair)?, 16)?;
    }
    Ok(digest)
}

/// Parses a name of a certificate: a host or a URI.
fn read_certificate_name(name: String) -> anyhow::Result<String> {
    let is_host_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_uri = name.contains(':') && name.bytes().all(|byte| byte.is_ascii_graphic());
    let is_host = !name.is_empty() && name.bytes().all(is_host_byte);
    ensure!(
        is_uri || is_host,
        "`certificate_names`: `{}` is not the name of a certificate: write a host without \
         wildcards such as `ci.example.com`, or a URI such as `spiffe://example.com/ci`",
        name.escape_debug()
    );
    // Host names ignore case.
    Ok(if is_uri {
        name
    } else {
        name.to_ascii_lowercase()
    })
}

/// Parses a time. A date without a time means its start in UTC.
fn read_time(time: &Datetime) -> anyhow::Result<SystemTime> {
    let wrong = "`expires` is a date such as 2027-01-31, or a time such as 2027-01-31T18:00:00Z";
    let date = time.date.context(wrong)?;
    let (clock, minutes) = match (time.time, time.offset) {
        (None, None) => ("00:00:00".to_owned(), 0),
        (Some(clock), Some(offset)) => {
            let minutes = match offset {
                Offset::Z => 0,
                Offset::Custom { minutes } => minutes,
            };
            let second = clock.second.unwrap_or_default();
            let clock = format!("{:02}:{:02}:{second:02}", clock.hour, clock.minute);
            (clock, minutes)
        }
        _ => bail!(wrong),
    };
    let time = humantime::parse_rfc3339(&format!("{date}T{clock}Z")).context(wrong)?;
    let offset = Duration::from_secs(u64::from(minutes.unsigned_abs()) * 60);
    let time = if minutes > 0 {
        time.checked_sub(offset)
    } else {
        time.checked_add(offset)
    };
    time.context(wrong)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use skillhost::config;

    use super::*;
    use crate::IdentitySettings;

    const DIGEST: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

    fn parse(text: &str) -> Result<Vec<ClientConfig>, String> {
        let settings = config::parse::<IdentitySettings>(text, "skillhost.toml", Path::new("/etc"));
        settings
            .map(|settings| settings.clients)
            .map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn reads_clients_with_their_tokens_scopes_and_limits() {
        let text = format!(
            "[clients.ci]\ntoken_file = [\"a\", \"/b\"]\ntoken_sha256 = \"{DIGEST}\"\n\
             tools = [\"read_*\"]\nskills = [\"public-*\"]\ncalls = 2\ncalls_per_minute = 30\n\
             bytes_per_minute = \"1MiB\"\nexpires = 2027-01-31\nmetrics = true\n\
             [clients.other]\ntoken_file = \"c\"\n"
        );
        let clients = parse(&text).unwrap();
        let [ci, other] = &clients[..] else {
            panic!("{clients:?}");
        };
        assert_eq!(ci.name, "ci");
        let files: Vec<_> = ci.token_files.iter().map(|file| &*file.path).collect();
        assert_eq!(files, [Path::new("/etc/a"), Path::new("/b")]);
        assert_eq!(ci.token_files[0].place, "`skillhost.toml`, line 2");
        assert_eq!((ci.token_digests.len(), ci.token_digests[0][0]), (1, 0x9f));
        assert!(ci.scope.allows_tool("read_skill") && !ci.scope.allows_tool("list_skills"));
        assert!(ci.scope.allows_skill("public-a") && !ci.scope.allows_skill("a"));
        let limits = (ci.limits.calls, ci.limits.calls_per_minute);
        assert_eq!(limits, (2, Some(30)));
        assert_eq!(ci.limits.bytes_per_minute, Some(1 << 20));
        let expires = humantime::format_rfc3339(ci.expires.unwrap()).to_string();
        assert_eq!(expires, "2027-01-31T00:00:00Z");
        assert!(ci.metrics && !other.metrics);
        assert_eq!((other.limits.clone(), other.expires), Default::default());
        assert!(other.scope.allows_tool("x") && other.scope.allows_skill("x"));
    }

    #[test]
    fn reads_users_by_name_and_by_number() {
        let clients = parse("[clients.a]\nunix_users = [\"root\", 1234, \"5678\"]").unwrap();
        assert_eq!(clients[0].unix_users, [0, 1234, 5678]);
    }

    #[test]
    fn reads_names_of_certificates() {
        let names = "[\"CI.example.com\", \"spiffe://Example.com/ci\"]";
        let clients = parse(&format!("[clients.a]\ncertificate_names = {names}")).unwrap();
        let expected = ["ci.example.com", "spiffe://Example.com/ci"];
        assert_eq!(clients[0].certificate_names, expected);
    }

    #[test]
    fn reads_times_with_an_offset() {
        for (text, expected) in [
            ("2027-01-31T18:00:00Z", "2027-01-31T18:00:00Z"),
            ("2027-01-31T18:00:00+02:00", "2027-01-31T16:00:00Z"),
            ("2027-01-31T18:00:30.5-00:30", "2027-01-31T18:30:30Z"),
        ] {
            let text = format!("[clients.a]\ntoken_file = \"t\"\nexpires = {text}");
            let expires = parse(&text).unwrap()[0].expires.unwrap();
            assert_eq!(humantime::format_rfc3339(expires).to_string(), expected);
        }
    }

    #[test]
    fn refuses_invalid_clients() {
        let key = "token_file = \"t\"";
        for (text, reason) in [
            (
                "[clients.a]".to_owned(),
                "line 1: the client `a` has no credential",
            ),
            (
                "[clients.a]\ntoken_file = []".into(),
                "set `token_file`, `token_sha256`",
            ),
            (
                format!("[clients.\"ä\"]\n{key}"),
                "is not the name of a client",
            ),
            (
                format!("[clients.\"\"]\n{key}"),
                "is not the name of a client",
            ),
            (
                format!("[clients.\"a b\"]\n{key}"),
                "is not the name of a client",
            ),
            (
                format!("[clients.{}]\n{key}", "x".repeat(65)),
                "1 to 64 letters",
            ),
            (
                format!("[clients.a]\ntoken_sha256 = \"{}\"", &DIGEST[1..]),
                "line 2: `token_sha256` is the SHA-256",
            ),
            (
                format!("[clients.a]\ntoken_sha256 = \"+{}\"", &DIGEST[1..]),
                "64 hex digits",
            ),
            (
                format!("[clients.a]\ntoken_sha256 = [\"{DIGEST}\", \"x\"]"),
                "line 2: `token_sha256` is the SHA-256",
            ),
            (
                "[clients.a]\ntoken = \"secret\"".into(),
                "line 2: unknown key `clients.a.token`; did you mean `token_file`?",
            ),
            (
                format!("[clients.a]\n{key}\ncalls = 0"),
                "line 3: `calls` is at least 1",
            ),
            (
                format!("[clients.a]\n{key}\nbytes_per_minute = 1"),
                "`bytes_per_minute` is at least 1 KiB",
            ),
            (
                format!("[clients.a]\n{key}\ntools = [\"a b\"]"),
                "neither a tool name nor a pattern",
            ),
            (
                format!("[clients.a]\n{key}\nskills = [\"../a\"]"),
                "neither a skill name nor a pattern",
            ),
            (
                format!("[clients.a]\n{key}\nexpires = 10:00:00"),
                "line 3: `expires` is a date",
            ),
            (
                format!("[clients.a]\n{key}\nexpires = 2027-01-31T10:00:00"),
                "`expires` is a date",
            ),
            (format!("[clients.a]\n{key}\nexpires = \"soon\""), "line 3"),
            (
                "[clients.a]\nunix_users = [\"no such user\"]".into(),
                "line 2: `unix_users`: there is no user `no such user`",
            ),
            (
                "[clients.a]\nunix_users = [4294967295]".into(),
                "line 2: `unix_users`: there is no user 4294967295",
            ),
            (
                "[clients.a]\nunix_users = [-1]".into(),
                "line 2: expected the name or the number of a user",
            ),
            (
                format!("[clients.a]\nunix_users = [{}]", overflow_user()),
                "means every user that this machine does not know",
            ),
            (
                "[clients.a]\ncertificate_names = [\"*.example.com\"]".into(),
                "line 2: `certificate_names`: `*.example.com` is not the name of a certificate",
            ),
            (
                "[clients.a]\ncertificate_names = [\"\"]".into(),
                "is not the name of a certificate",
            ),
            (
                "[clients.a]\ncertificate_names = [\"a b:c\"]".into(),
                "is not the name of a certificate",
            ),
            ("[clients.a]\nunix_users = []".into(), "has no credential"),
            ("clients = []".into(), "`clients` is a table, not a list"),
            (
                "clients.a = 1".into(),
                "`clients.a` is a table, not a number",
            ),
        ] {
            let error = parse(&text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
