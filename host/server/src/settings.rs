//! The table `[http]`: the settings of the HTTP server.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use serde::Deserialize;
use toml::Spanned;

use skillhost::config::{ConfiguredPath, FileSettings, Keys, Tables};
use skillhost_identity::check_address;
use skillhost_sandbox::declare_limits;
use skillhost_sandbox::tool::limits::{DAY, MAX_MEMORY};

/// The name of the table.
const TABLE: &str = "http";

/// The settings of a server over HTTP.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct HttpSettings {
    /// The file that holds the token.
    pub token_file: Option<ConfiguredPath>,
    /// The server's public URL, such as `https://host/mcp`. It is the audience of access
    /// tokens.
    pub resource: Option<String>,
    /// The server's TLS certificate.
    pub tls_cert: Option<ConfiguredPath>,
    /// The private key of the certificate.
    pub tls_key: Option<ConfiguredPath>,
    /// The authorities that sign clients' certificates.
    pub tls_client_ca: Option<ConfiguredPath>,
    /// Further allowed host names of the server.
    pub allowed_hosts: Vec<String>,
    /// Origins of web pages that may send requests.
    pub allowed_origins: Vec<String>,
    /// The addresses of load balancers in front of the server.
    pub trusted_proxies: Vec<String>,
    /// The file mode of a Unix socket.
    pub socket_mode: SocketMode,
    /// The limits on peers.
    pub limits: HttpLimits,
}

/// The file mode of a Unix socket, which decides who may connect. Default: only its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct SocketMode(u32);

impl SocketMode {
    /// Returns the mode bits.
    pub fn bits(self) -> u32 {
        self.0
    }
}

impl Default for SocketMode {
    fn default() -> Self {
        Self(0o600)
    }
}

impl TryFrom<String> for SocketMode {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let is_octal =
            matches!(text.len(), 3 | 4) && text.bytes().all(|byte| byte.is_ascii_digit());
        let bits = u32::from_str_radix(&text, 8).ok().filter(|_| is_octal);
        // Connecting needs the right to write.
        let is_mode = |bits: &u32| bits & !0o666 == 0 && bits & 0o600 == 0o600;
        bits.filter(is_mode).map(Self).ok_or_else(|| {
            format!(
                "`{}` is not a valid mode of a socket: expected a mode from \"0600\" (only its \
                 owner) to \"0666\" (every user)",
                text.escape_debug()
            )
        })
    }
}

declare_limits! {
    /// The limits of a server over HTTP.
    HttpLimits in "http", "the server would not send its lists" {
        /// Bytes of a request's body.
        body: usize, Bytes "2MiB" in 1, MAX_MEMORY;
        against "a peer that takes the server's memory"

        /// Connections at a time. A further connection evicts one that has not shown the
        /// token. If all have shown it, the new one is told that the server is busy.
        connections: usize, Count "512" in 1, u32::MAX;
        against "peers that take the server's descriptors"

        /// Requests to `/mcp` at a time, from reading the body until the last byte
        /// of the response is written. The response to a further request says that
        /// the server is busy.
        requests: usize, Count "512" in 1, u32::MAX;
        against "peers that ask faster than guests answer"

        /// Bytes of the bodies of requests to `/mcp`, and of the values that are parsed
        /// from them. The response to a further request says that the server is busy.
        bodies: usize, Bytes "256MiB" in 1 << 20, u64::MAX;
        against "peers that send many large requests at a time"

        /// Bytes of responses that are not written yet. If a response does not fit, the
        /// server drops it and answers that it is busy.
        answers: usize, Bytes "256MiB" in 1 << 20, u64::MAX;
        against "peers that ask and do not read"

        /// Streams of notifications at a time. They do not count as
        /// [`requests`](Self::requests).
        streams: usize, Count "128" in 1, u32::MAX;
        against "listeners that leave no capacity for calls"

        /// Longest wait for the headers of a request, from the connection's start
        /// or the previous response.
        header_time: Duration, Time "30s" in 1, DAY;
        against "a peer that sends them byte by byte, and connections that nobody uses"

        /// Longest time for receiving a request's body.
        body_time: Duration, Time "30s" in 1, DAY;
        against "a peer that sends it byte by byte"

        /// Longest time from the body of a request to its response.
        request_time: Duration, Time "60s" in 1, DAY;
        against "a call that never ends"

        /// Longest time in which a peer may read less than 256 KiB while the rest of
        /// a response waits to be sent.
        write_time: Duration, Time "30s" in 1, DAY;
        against "a peer that asks and does not read"

        /// Longest time that a shutdown waits for requests in flight.
        shutdown_time: Duration, Time "20s" in 1, DAY;
        against "a shutdown that never ends"
    }
}

/// The raw keys of the table, without the limits.
#[derive(Deserialize, Default)]
#[serde(default, expecting = "a table of settings")]
struct RawHttp {
    token_file: Option<Spanned<PathBuf>>,
    resource: Option<Spanned<String>>,
    tls_cert: Option<Spanned<PathBuf>>,
    tls_key: Option<Spanned<PathBuf>>,
    tls_client_ca: Option<Spanned<PathBuf>>,
    allowed_hosts: Vec<String>,
    allowed_origins: Vec<String>,
    trusted_proxies: Vec<String>,
    socket_mode: SocketMode,
}

impl FileSettings for HttpSettings {
    fn declare_keys(keys: &mut Keys) {
        keys.fields::<RawHttp>(TABLE);
        keys.limits::<HttpLimits>();
    }

    fn from_tables(tables: &Tables<'_>) -> anyhow::Result<Self> {
        let raw: RawHttp = tables.table(TABLE)?;
        if let Some(resource) = &raw.resource {
            let place = tables.place(resource.span().start);
            check_address(resource.get_ref()).with_context(|| format!("{place}: `resource`"))?;
        }
        Ok(Self {
            token_file: tables.optional_path(raw.token_file)?,
            tls_cert: tables.optional_path(raw.tls_cert)?,
            tls_key: tables.optional_path(raw.tls_key)?,
            tls_client_ca: tables.optional_path(raw.tls_client_ca)?,
            allowed_hosts: raw.allowed_hosts,
            allowed_origins: raw.allowed_origins,
            trusted_proxies: raw.trusted_proxies,
            socket_mode: raw.socket_mode,
            limits: tables.limits()?,
            resource: raw.resource.map(Spanned::into_inner),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use skillhost::config;

    use super::*;

    #[test]
    fn reads_settings() {
        let http = |text: &str| -> HttpSettings {
            config::parse(text, "skillhost.toml", Path::new("/etc")).unwrap()
        };
        let given = http(
            "[http]\ntoken_file = \"t\"\nallowed_hosts = [\"h\"]\nallowed_origins = [\"o\"]\n\
             body = \"1MiB\"\nconnections = 1\nrequests = 2\nstreams = 3\nheader_time = \"4s\"\n\
             body_time = \"5s\"\nrequest_time = \"6s\"\nwrite_time = \"7s\"\nshutdown_time = \"8s\"\n",
        );
        let token = given.token_file.unwrap();
        assert_eq!(token.path, Path::new("/etc/t"));
        assert_eq!(token.place, "`skillhost.toml`, line 2");
        assert_eq!(
            (&*given.allowed_hosts, &*given.allowed_origins),
            (&["h".into()][..], &["o".into()][..])
        );
        let limits = given.limits;
        let counts = (
            limits.body,
            limits.connections,
            limits.requests,
            limits.streams,
        );
        assert_eq!(counts, (1 << 20, 1, 2, 3));
        let times = [
            limits.header_time,
            limits.body_time,
            limits.request_time,
            limits.write_time,
        ];
        assert_eq!(times, [4, 5, 6, 7].map(Duration::from_secs));
        assert_eq!(limits.shutdown_time, Duration::from_secs(8));
        assert_eq!(http("[http]").limits, HttpLimits::default());
    }
}
