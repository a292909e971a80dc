//! `skillhost serve --http ADDR`: sets up the HTTP server from options, configuration and
//! environment.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use clap::Args;
use skillhost::config::ConfiguredPath;
use skillhost::{EgressClient, Host, HostBuilder, Trust};
use skillhost_confine::SocketFile;
use skillhost_identity::{
    ClientConfig, Clients, FetchKeys, IdentitySettings, KeySource, KeysFuture, Token,
};
use skillhost_mcp::{Handler, LiveHost, LiveSettings};
use skillhost_server::{
    HttpOptions, HttpSettings, Metrics, Server, Shutdown, SocketMode, Sockets, Tls, TlsFiles,
};
use skillhost_skills::text::count::count;

use super::memory;
use crate::settings::Settings;
use skillhost_program::exit::Exit;
use skillhost_program::options::{self, TOKEN_VARIABLE, report_problems};
use skillhost_program::terminal::{self, format_line};

/// Options of the HTTP server. Its other settings are keys of `[http]`.
#[derive(Args, Default)]
pub(crate) struct HttpArguments {
    /// Serve over HTTP at this address, such as localhost:8080 or
    /// unix:/run/skillhost/socket, with MCP at /mcp
    #[arg(long = "http", value_name = "ADDR")]
    pub(crate) address: Option<HttpAddress>,
    /// File with the bearer token that requests must carry, instead of the
    /// configured one; or set SKILLHOST_HTTP_TOKEN
    #[arg(long, value_name = "FILE", requires = "address")]
    token_file: Option<PathBuf>,
    /// Speak TLS with the certificate in this PEM file, instead of the configured one
    #[arg(long, value_name = "FILE", requires = "address", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The private key of that certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "address", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Accept requests to this host name, besides the configured ones;
    /// repeatable
    #[arg(long, value_name = "NAME", requires = "address")]
    allow_host: Vec<String>,
    /// Accept requests from web pages of this origin, besides the configured
    /// ones; repeatable
    #[arg(long, value_name = "ORIGIN", requires = "address")]
    allow_origin: Vec<String>,
}

/// The address that a server listens on.
#[derive(Clone)]
pub(crate) enum HttpAddress {
    /// Both loopback addresses, with this port.
    Localhost(u16),
    /// One address.
    Socket(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

impl FromStr for HttpAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            let path = std::path::absolute(path);
            return path.map(Self::Unix).map_err(|error| error.to_string());
        }
        if let Ok(address) = text.parse() {
            return Ok(Self::Socket(address));
        }
        let (host, port) = text.rsplit_once(':').unwrap_or((text, ""));
        let is_localhost = host.eq_ignore_ascii_case("localhost");
        match port.parse() {
            Ok(port) if is_localhost => Ok(Self::Localhost(port)),
            _ => Err(
                "expected localhost or an address, with a port: localhost:8080, \
                      127.0.0.1:8080, [::1]:8080 or, with a token, 0.0.0.0:8080; or a \
                      Unix socket, unix:PATH"
                    .to_owned(),
            ),
        }
    }
}

/// A server whose sockets are bound.
pub(crate) struct ReadyHttp {
    options: HttpOptions,
    /// The certificate and key files of TLS.
    tls_files: Option<TlsFiles>,
    /// The files with issuers' keys.
    key_files: Vec<PathBuf>,
    /// The configured clients.
    clients: Vec<ClientConfig>,
    bound: BoundSockets,
}

/// The bound sockets of a server.
struct BoundSockets {
    sockets: Sockets,
    /// The path and the file of the Unix socket.
    unix: Option<(PathBuf, SocketFile)>,
    /// The address in the form that clients use.
    shown_address: String,
}

impl BoundSockets {
    /// Checks that the options allow the address, and binds it.
    fn bind(
        address: &HttpAddress,
        options: &HttpOptions,
        socket_mode: SocketMode,
        trust: &Trust,
    ) -> anyhow::Result<Self> {
        let scheme = if options.tls.is_some() {
            "https"
        } else {
            "http"
        };
        let mut unix = None;
        let (sockets, shown_address) = match address {
            HttpAddress::Localhost(port) => {
                let sockets = Sockets::bind_localhost(*port)?;
                let port = sockets.address().map_or(*port, |address| address.port());
                (sockets, format!("{scheme}://localhost:{port}/mcp"))
            }
            HttpAddress::Socket(address) => {
                Server::check(*address, options)?;
                let sockets = Sockets::bind(*address)?;
                let shown_address = format!("{scheme}://{sockets}/mcp");
                (sockets, shown_address)
            }
            HttpAddress::Unix(path) => {
                Server::check_unix(path, options)?;
                let sockets = Sockets::bind_unix(path, socket_mode.bits(), trust)?;
                unix = Some((path.clone(), SocketFile::open(path)?));
                let shown_address = sockets.to_string();
                (sockets, shown_address)
            }
        };
        Ok(Self {
            sockets,
            unix,
            shown_address,
        })
    }
}

impl HttpArguments {
    /// Reads the tokens, and binds the sockets.
    pub(crate) fn prepare(
        self,
        address: HttpAddress,
        settings: &Settings,
        trust: &Trust,
    ) -> anyhow::Result<ReadyHttp> {
        let Settings { http, identity, .. } = settings;
        let resource = http.resource.as_deref().unwrap_or_default();
        let clients = Clients::read(&identity.clients, trust)?.with_issuers(
            &identity.clients,
            &identity.issuers,
            resource,
            trust,
        )?;
        for warning in Clients::warnings(&identity.clients) {
            terminal::complain(warning);
        }
        let tls_files = self.tls_files(http)?;
        let mut options = self.options(http.clone(), clients, trust)?;
        let tls = tls_files.clone().map(|files| Tls::read(files, trust));
        options.tls = tls.transpose()?.map(Arc::new);
        let bound = BoundSockets::bind(&address, &options, http.socket_mode, trust)?;
        for warning in unix_user_warnings(&identity.clients, &address, http.socket_mode) {
            terminal::complain(warning);
        }
        let has_client_ca = tls_files.iter().any(|files| files.client_ca.is_some());
        if !has_client_ca {
            warn_of_unused_certificate_names(&identity.clients);
        }
        Ok(ReadyHttp {
            options,
            tls_files,
            key_files: key_files(identity),
            clients: identity.clients.clone(),
            bound,
        })
    }

    fn options(
        self,
        configured: HttpSettings,
        clients: Clients,
        trust: &Trust,
    ) -> anyhow::Result<HttpOptions> {
        let mut options = HttpOptions::default();
        options.clients = clients;
        options.token = self.token(&configured, trust)?;
        options.allowed_hosts = configured.allowed_hosts;
        options.allowed_hosts.extend(self.allow_host);
        options.allowed_origins = configured.allowed_origins;
        options.allowed_origins.extend(self.allow_origin);
        options.trusted_proxies = configured.trusted_proxies;
        options.limits = configured.limits;
        Ok(options)
    }

    /// Returns the files of TLS. The two options replace both configured files.
    fn tls_files(&self, configured: &HttpSettings) -> anyhow::Result<Option<TlsFiles>> {
        let path = |file: &Option<ConfiguredPath>| file.as_ref().map(|file| file.path.clone());
        let (certificate, key) = match (&self.tls_cert, &self.tls_key) {
            (None, None) => (path(&configured.tls_cert), path(&configured.tls_key)),
            (certificate, key) => (certificate.clone(), key.clone()),
        };
        let client_ca = path(&configured.tls_client_ca);
        match (certificate, key) {
            (Some(certificate), Some(key)) => Ok(Some(TlsFiles {
                certificate,
                key,
                client_ca,
            })),
            (None, None) if client_ca.is_none() => Ok(None),
            (Some(_), None) => bail!("`tls_cert` in `[http]` needs its key: set `tls_key`"),
            (None, Some(_)) => bail!("`tls_key` in `[http]` needs a certificate: set `tls_cert`"),
            (None, None) => bail!("`tls_client_ca` in `[http]` needs `tls_cert` and `tls_key`"),
        }
    }

    /// Returns the token, or an error if a file and the environment both have one.
    fn token(&self, configured: &HttpSettings, trust: &Trust) -> anyhow::Result<Option<Token>> {
        let file = match (&self.token_file, &configured.token_file) {
            (Some(file), _) => Some((file, "`--token-file`")),
            (None, Some(configured)) => Some((&configured.path, configured.place.as_str())),
            (None, None) => None,
        };
        match (file, options::token()) {
            (Some((_, place)), Some(_)) => {
                bail!("{place}: `{TOKEN_VARIABLE}` also holds a token; remove one of the two")
            }
            (Some((file, place)), None) => {
                let token = Token::read(file, trust);
                token.context(place.to_owned()).map(Some)
            }
            (None, Some(text)) => {
                let token = text
                    .to_str()
                    .context("it is not UTF-8")
                    .and_then(Token::new);
                token.context(format!("`{TOKEN_VARIABLE}`")).map(Some)
            }
            (None, None) => Ok(None),
        }
    }
}

impl ReadyHttp {
    /// Returns the files that are read again when they change.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let tls_files = self.tls_files.iter().flat_map(TlsFiles::paths);
        tls_files
            .map(Path::to_owned)
            .chain(self.key_files.iter().cloned())
            .collect()
    }

    /// Makes the clients fetch issuers' keys with the egress process.
    pub(crate) fn fetch_keys_with(&mut self, egress: EgressClient) {
        let clients = std::mem::take(&mut self.options.clients);
        self.options.clients = clients.with_fetch(Arc::new(EgressFetch(egress)));
    }

    /// Returns the path of the Unix socket, or `None` if the server listens on none.
    pub(crate) fn socket(&self) -> Option<&Path> {
        self.bound.unix.as_ref().map(|(path, _)| &**path)
    }

    /// Serves until a signal ends the server.
    pub(crate) async fn execute(
        self,
        builder: HostBuilder,
        settings: LiveSettings,
    ) -> anyhow::Result<Exit> {
        let metrics = Arc::<Metrics>::default();
        let builder = builder.observer(metrics.clone());
        let shutdown = Shutdown::on_signals()?;
        let BoundSockets {
            sockets,
            unix,
            shown_address,
        } = self.bound;
        let mut options = self.options;
        options.opener = builder.opener().clone();
        let server = Server::from_sockets(sockets, options).await?;
        memory::release_large_blocks();
        tokio::spawn(memory::release_when_quiet(server.quiet()));
        let live = Arc::new(LiveHost::new(builder).with_settings(settings));
        let _watching = live
            .watch()
            .inspect_err(|error| tracing::warn!("{error:#}"));
        let served = serve(server, &live, metrics, &shutdown);
        close_on_shutdown(&live, &shutdown);
        // The sockets have listened since the start. Once the address is printed, the server
        // answers.
        let announced = async {
            live.serving().await;
            terminal::print(&[format_line!("{shown_address}")])?;
            terminal::explain_wait("MCP clients at this address", "Ctrl-C");
            Ok(())
        };
        tokio::pin!(served);
        // As over stdio, an early client waits for the tools.
        let aborted = tokio::select! {
            aborted = &mut served => {
                // The server may end before the other branch reports problems.
                if let Some(host) = live.loaded() {
                    report_problems(&host);
                    report_unmatched_patterns(&host, &self.clients);
                }
                Ok(aborted)
            }
            loaded = async { tokio::try_join!(live.load(), announced) } => match loaded {
                Ok((host, ())) => {
                    report_problems(&host);
                    report_unmatched_patterns(&host, &self.clients);
                    Ok(served.await)
                }
                Err(error) => Err(error),
            }
        };
        drop(unix);
        live.stop().await;
        let aborted = aborted?;
        if aborted > 0 {
            let aborted = count(aborted, "connection");
            tracing::warn!("aborted {aborted} with requests in flight");
        }
        Ok(Exit::Ok)
    }
}

/// Serves the host until the shutdown. Returns the number of connections that were aborted with
/// requests in flight.
fn serve(
    server: Server,
    live: &Arc<LiveHost>,
    metrics: Arc<Metrics>,
    shutdown: &Shutdown,
) -> impl Future<Output = usize> {
    let server = if live.is_watched() {
        server.changes(live.changes())
    } else {
        server
    };
    let (occupied, answering) = (Arc::clone(live), Arc::clone(live));
    server
        .metrics(Arc::clone(&metrics))
        .occupancy(move || {
            metrics.set_folders(occupied.folder_counts());
            let host = occupied.loaded().filter(Host::is_complete);
            host.map(|host| host.occupancy())
        })
        .serve(move || Ok(Handler::new(Arc::clone(&answering))), shutdown)
}

/// Closes the host when the shutdown is requested.
fn close_on_shutdown(live: &Arc<LiveHost>, shutdown: &Shutdown) {
    let (live, shutdown) = (Arc::clone(live), shutdown.clone());
    tokio::spawn(async move {
        shutdown.requested().await;
        live.close();
    });
}

/// The egress process as the [`FetchKeys`] of the clients.
#[derive(Debug)]
struct EgressFetch(EgressClient);

impl FetchKeys for EgressFetch {
    fn fetch_keys<'a>(&'a self, address: &'a str, max_bytes: usize) -> KeysFuture<'a> {
        Box::pin(self.0.fetch_keys(address, max_bytes))
    }

    fn has_ended(&self) -> bool {
        self.0.has_ended()
    }
}

/// Returns the addresses of issuers' keys.
pub(super) fn key_addresses(identity: &IdentitySettings) -> impl Iterator<Item = &str> {
    let issuers = identity.issuers.iter();
    issuers.filter_map(|issuer| match &issuer.keys {
        KeySource::Address(address) => Some(&**address),
        KeySource::File(_) => None,
    })
}

/// Returns the files with issuers' keys.
fn key_files(identity: &IdentitySettings) -> Vec<PathBuf> {
    identity
        .issuers
        .iter()
        .filter_map(|issuer| match &issuer.keys {
            KeySource::File(file) => Some(file.path.clone()),
            KeySource::Address(_) => None,
        })
        .collect()
}

/// Warns of each client whose `certificate_names` have no effect without `tls_client_ca`.
fn warn_of_unused_certificate_names(clients: &[ClientConfig]) {
    for client in clients {
        if !client.certificate_names.is_empty() {
            terminal::complain(format_args!(
                "{}: `certificate_names` of `{}`: no certificate is asked for without \
                 `tls_client_ca` in `[http]`",
                client.place,
                client.table()
            ));
        }
    }
}

/// Returns a warning for each client whose `unix_users` cannot connect, with the reason.
fn unix_user_warnings(
    clients: &[ClientConfig],
    address: &HttpAddress,
    socket_mode: SocketMode,
) -> Vec<String> {
    let own_user = rustix::process::geteuid().as_raw();
    let reason = match address {
        HttpAddress::Unix(_) if socket_mode.bits() & 0o066 != 0 => return Vec::new(),
        HttpAddress::Unix(_) => "no other user can open the socket; set `socket_mode` in `[http]`",
        _ => "users are known only at a Unix socket, `--http unix:PATH`",
    };
    let is_unix = matches!(address, HttpAddress::Unix(_));
    let is_unreachable = |user: &u32| !is_unix || (*user != own_user && *user != 0);
    clients
        .iter()
        .filter(|client| client.unix_users.iter().any(is_unreachable))
        .map(|client| {
            format!(
                "{}: `unix_users` of `{}`: {reason}",
                client.place,
                client.table()
            )
        })
        .collect()
}

/// Reports each pattern of a client that matches no tool or no skill.
fn report_unmatched_patterns(host: &Host, clients: &[ClientConfig]) {
    for client in clients {
        for (kind, pattern) in host.unmatched(&client.scope) {
            terminal::complain(format_args!(
                "{}: `{}` in `{kind}` of `{}` matches none of the {kind}",
                client.place,
                pattern,
                client.table()
            ));
        }
    }
}
