//! The HTTP server of skillhost: MCP over streamable HTTP, with clients, limits, metrics, and a
//! graceful shutdown. Without a token or a client, only this machine can reach it.
//!
//! The server works with any handler of rmcp. Each request gets a new one, because the server
//! stores nothing between requests.

// The lowest layer first: a module uses only those above it in this list.

mod client;
mod budget;
mod authority;
mod tls;
mod settings;
mod options;
mod shutdown;
mod metadata;

mod metrics;
mod headers;
mod accept;
mod reply;
mod network;
mod slots;
mod body;
mod response_budget;
mod sessions;
mod response;
mod changes;
mod endpoint;
mod host_check;
mod gate;
mod write_timeout;
mod stream;
mod peer_watch;
mod unix_socket;
mod listeners;
mod connection;
mod io_thread;

use std::fmt::Display;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use axum::Router;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{any, get};
use rmcp::ServerHandler;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::sync::watch::Receiver;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use budget::Budget;
use connection::Acceptor;
use endpoint::Endpoint;
use gate::Gate;
use host_check::HostCheck;
use io_thread::IoThread;
use listeners::Listeners;
use reply::refusal;
use sessions::Sessions;
use skillhost::Occupancy;
use skillhost_mcp::Changes;
use slots::ConnectionSlots;

pub use listeners::Sockets;
pub use metrics::Metrics;
pub use options::HttpOptions;
pub use settings::{HttpLimits, HttpSettings, SocketMode};
pub use shutdown::Shutdown;
pub use skillhost_identity::{Clients, Token};
pub use tls::{Tls, TlsFiles};

/// The address that stands in for a Unix socket in checks: only this machine can reach either.
const LOCAL_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// The time for telling peers that their requests were aborted or their streams ended.
const FINAL_WRITE_TIME: Duration = Duration::from_millis(500);

/// The pause between two reads of all issuers' keys.
const KEY_PAUSE: Duration = Duration::from_secs(60 * 60);

/// A function that returns the occupancy of the host, or `None` until the host is loaded.
type OccupancySource = Arc<dyn Fn() -> Option<Occupancy> + Send + Sync>;

/// A server that listens. It answers requests while [`Server::serve`] runs.
pub struct Server {
    thread: IoThread,
    listeners: Listeners,
    address: Option<SocketAddr>,
    options: HttpOptions,
    host_check: Arc<HostCheck>,
    slots: Arc<ConnectionSlots>,
    sessions: Arc<Sessions>,
    metrics: Arc<Metrics>,
    occupancy: Option<OccupancySource>,
    changes: Option<Receiver<Changes>>,
}

impl Server {
    /// Listens at an address.
    ///
    /// # Errors
    ///
    /// The errors of [`Server::check`] and [`Server::from_sockets`], and those of the system.
    pub async fn bind(address: SocketAddr, options: HttpOptions) -> anyhow::Result<Self> {
        Self::check(address, &options)?;
        Self::from_sockets(Sockets::bind(address)?, options).await
    }

    /// Listens on both loopback addresses, as [`Sockets::bind_localhost`] does.
    ///
    /// # Errors
    ///
    /// The errors of [`Sockets::bind_localhost`] and [`Server::from_sockets`].
    pub async fn bind_localhost(port: u16, options: HttpOptions) -> anyhow::Result<Self> {
        Self::from_sockets(Sockets::bind_localhost(port)?, options).await
    }

    /// Checks that a server with these options may listen at an address.
    ///
    /// # Errors
    ///
    /// If the address is not loopback and there is neither a token nor a client, if TLS asks for
    /// certificates of clients and there are no clients, if the address means every address and
    /// there are no allowed hosts, or if an option is not valid.
    pub fn check(address: SocketAddr, options: &HttpOptions) -> anyhow::Result<()> {
        let cannot = || cannot_serve(address);
        ensure!(
            options.token.is_some()
                || !options.clients.is_empty()
                || address.ip().to_canonical().is_loopback(),
            "{}: other machines can reach it, and there is no token; set `token_file` in `[http]`, or \
             `SKILLHOST_HTTP_TOKEN`, or a client in `[clients.NAME]`",
            cannot()
        );
        ensure!(
            options.token.is_some()
                || !options.clients.is_empty()
                || !options.tls.iter().any(|tls| tls.asks_for_certificates()),
            "{}: `tls_client_ca` in `[http]` has no effect without clients; add `[clients.NAME]` \
             with `certificate_names`, or remove it",
            cannot()
        );
        let (hosts, origins) = (&options.allowed_hosts, &options.allowed_origins);
        HostCheck::new(hosts, origins, address, options.tls.is_some()).with_context(cannot)?;
        let clients = options.clients.len() + usize::from(options.token.is_some());
        let limits = &options.limits;
        for (limit, key) in [(limits.requests, "requests"), (limits.streams, "streams")] {
            Budget::check(limit, clients, key).with_context(cannot)?;
        }
        ConnectionSlots::new(limits.connections, clients, &options.trusted_proxies)
            .with_context(cannot)?;
        Ok(())
    }

    /// Checks that a server with these options may listen on a Unix socket.
    ///
    /// # Errors
    ///
    /// If an option is not valid, or if TLS is configured.
    pub fn check_unix(path: &Path, options: &HttpOptions) -> anyhow::Result<()> {
        let cannot = || cannot_serve(format_args!("unix:{}", path.display()));
        ensure!(
            options.tls.is_none(),
            "{}: a Unix socket has no TLS; remove `--tls-cert` and `tls_cert` in `[http]`",
            cannot()
        );
        Self::check(LOCAL_ADDRESS, options)
    }

    /// Returns a server on bound sockets.
    ///
    /// On a Unix socket without a token and without clients, only the user of this process and root
    /// may send requests.
    ///
    /// # Errors
    ///
    /// The errors of [`Server::check`] or [`Server::check_unix`], and those of the system.
    pub async fn from_sockets(sockets: Sockets, mut options: HttpOptions) -> anyhow::Result<Self> {
        let name = sockets.to_string();
        let cannot = || cannot_serve(&name);
        let address = sockets.address();
        let checked_address = address.unwrap_or(LOCAL_ADDRESS);
        match sockets.path() {
            Some(path) => Self::check_unix(path, &options)?,
            None => Self::check(checked_address, &options)?,
        }
        if let Some(token) = options.token.take() {
            options.clients = options.clients.with_unnamed(token)?;
        }
        options.clients = options.clients.with_opener(options.opener.clone());
        let (hosts, origins) = (&options.allowed_hosts, &options.allowed_origins);
        let host_check = HostCheck::new(hosts, origins, checked_address, options.tls.is_some());
        let host_check = Arc::new(host_check.with_context(cannot)?);
        let connections = slots::affordable_connections(options.limits.connections);
        let clients = options.clients.len();
        let slots = ConnectionSlots::new(connections, clients, &options.trusted_proxies);
        let slots = slots.with_context(cannot)?;
        let thread = IoThread::start().with_context(cannot)?;
        let listeners = thread.run(async { Listeners::new(sockets) }).await;
        Ok(Self {
            thread,
            address,
            listeners: listeners.with_context(cannot)?.with_context(cannot)?,
            options,
            host_check,
            slots,
            sessions: Sessions::new().with_context(cannot)?,
            metrics: Arc::default(),
            occupancy: None,
            changes: None,
        })
    }

    /// Returns the address, with the port that the system chose for port 0. For localhost this is
    /// the IPv4 address. Returns `None` for a Unix socket.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Serves these metrics at `/metrics`. By default only requests are counted.
    #[must_use]
    pub fn metrics(mut self, metrics: Arc<Metrics>) -> Self {
        self.metrics = metrics;
        self
    }

    /// Serves the host's occupancy at `/metrics`. The server is not ready while the source returns
    /// `None`.
    #[must_use]
    pub fn occupancy(
        mut self,
        source: impl Fn() -> Option<Occupancy> + Send + Sync + 'static,
    ) -> Self {
        self.occupancy = Some(Arc::new(source));
        self
    }

    /// Sends these changes to clients that speak a protocol revision with sessions, on the stream
    /// that they open by GET. By default a GET is refused.
    #[must_use]
    pub fn changes(mut self, changes: Receiver<Changes>) -> Self {
        self.changes = Some(changes);
        self
    }

    /// Returns a notification that fires when most connections have ended after there were many.
    /// The caller can then return their memory to the system.
    #[must_use]
    pub fn quiet(&self) -> Arc<Notify> {
        Arc::clone(&self.slots.quiet)
    }

    /// Serves requests until the server shuts down. Returns the number of aborted connections.
    ///
    /// A shutdown waits for the requests in flight, at most `shutdown_time`. A separate thread
    /// accepts connections and answers probes. The handler runs on the caller's runtime.
    pub async fn serve<S: ServerHandler>(
        self,
        handler: impl Fn() -> io::Result<S> + Send + Sync + 'static,
        shutdown: &Shutdown,
    ) -> usize {
        let abort = CancellationToken::new();
        let endpoint = self.endpoint(handler, &abort);
        let router = self.router(endpoint, shutdown, &abort);
        let limits = self.options.limits;
        let clients = self.options.clients;
        let poll_keys = async move { clients.poll_keys(KEY_PAUSE).await };
        let _polling_keys = AbortOnDropHandle::new(tokio::spawn(poll_keys));
        let poll_files = |tls| Tls::poll(tls, tls::POLL_INTERVAL, self.options.opener);
        let poll_files = self.options.tls.clone().map(poll_files);
        let _polling_files = poll_files.map(|poll| AbortOnDropHandle::new(tokio::spawn(poll)));
        let acceptor = Acceptor {
            router,
            runtime: Handle::current(),
            limits: limits.clone(),
            slots: self.slots,
            metrics: self.metrics,
            tls: self.options.tls,
            shutdown: shutdown.begun().clone(),
        };
        let listeners = self.listeners;
        let forced = shutdown.forced().clone();
        let served = self.thread.run(async move {
            let mut connections = acceptor.accept(listeners).await;
            tokio::select! {
                () = join_all(&mut connections) => return 0,
                () = tokio::time::sleep(limits.shutdown_time) => {}
                () = forced.cancelled() => {}
            }
            let aborted = connections.len();
            abort.cancel();
            let _ = tokio::time::timeout(FINAL_WRITE_TIME, join_all(&mut connections)).await;
            connections.shutdown().await;
            aborted
        });
        served.await.unwrap_or_else(|error| {
            tracing::error!("the server failed: {error}");
            0
        })
    }

    /// Returns the endpoint `/mcp`.
    fn endpoint<S: ServerHandler>(
        &self,
        handler: impl Fn() -> io::Result<S> + Send + Sync + 'static,
        abort: &CancellationToken,
    ) -> Arc<Endpoint<S>> {
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            .with_max_request_body_bytes(self.options.limits.body)
            // The gate checks both, for `/metrics` too.
            .disable_allowed_hosts()
            .disable_allowed_origins();
        let service =
            StreamableHttpService::new(handler, Arc::<NeverSessionManager>::default(), config);
        Arc::new(Endpoint::new(
            service,
            Arc::clone(&self.sessions),
            self.changes.clone(),
            &self.options,
            abort,
        ))
    }

    /// Returns the routes of all paths.
    fn router<S: ServerHandler>(
        &self,
        endpoint: Arc<Endpoint<S>>,
        shutdown: &Shutdown,
        abort: &CancellationToken,
    ) -> Router {
        let scrape = {
            let (metrics, occupancy) = (Arc::clone(&self.metrics), self.occupancy.clone());
            move || {
                let occupancy = occupancy.as_ref().and_then(|occupancy| occupancy());
                std::future::ready(scrape(&metrics, occupancy))
            }
        };
        let ready = {
            let (shutdown, occupancy) = (shutdown.begun().clone(), self.occupancy.clone());
            let clients = self.options.clients.clone();
            move || std::future::ready(readiness(&shutdown, occupancy.as_ref(), &clients))
        };
        let gate = Arc::new(Gate {
            host_check: Arc::clone(&self.host_check),
            clients: self.options.clients.clone(),
        });
        let guarded = Router::new()
            .route("/mcp", any(endpoint::answer::<S>))
            .with_state(endpoint)
            .route(gate::METRICS_PATH, get(scrape))
            .route_layer(from_fn_with_state(gate, gate::admit));
        let metadata = self.options.clients.resource_metadata();
        let router = metadata.iter().fold(guarded, |router, metadata| {
            metadata::serve(router, &metadata.paths, metadata.document.to_string())
        });
        let (metrics, abort) = (Arc::clone(&self.metrics), abort.clone());
        router
            .route("/healthz", get("ok\n"))
            .route("/readyz", get(ready))
            .fallback(|| std::future::ready(refusal(StatusCode::NOT_FOUND, "no such path\n")))
            .layer(from_fn(move |request, next| {
                gate::count(Arc::clone(&metrics), abort.clone(), request, next)
            }))
    }
}

fn cannot_serve(address: impl Display) -> String {
    format!("cannot serve at `{address}`")
}

async fn join_all(tasks: &mut JoinSet<()>) {
    while tasks.join_next().await.is_some() {}
}

/// Answers `/readyz`, which tells balancers whether to send new requests.
fn readiness(
    shutdown: &CancellationToken,
    occupancy: Option<&OccupancySource>,
    clients: &Clients,
) -> Response {
    if shutdown.is_cancelled() {
        return reply::shutting_down();
    }
    if occupancy.is_some_and(|occupancy| occupancy().is_none()) {
        let text = "the tools are being loaded\n";
        return refusal(StatusCode::SERVICE_UNAVAILABLE, text);
    }
    if !clients.can_read_keys() {
        let text =
            "no keys of issuers can be fetched: the egress process has ended; restart the server\n";
        return refusal(StatusCode::SERVICE_UNAVAILABLE, text);
    }
    "ready\n".into_response()
}

fn scrape(metrics: &Metrics, occupancy: Option<Occupancy>) -> Response {
    match metrics.scrape(occupancy) {
        Ok(text) => ([(CONTENT_TYPE, metrics::MEDIA_TYPE)], text).into_response(),
        Err(error) => {
            tracing::error!("cannot write the metrics: {error}");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}
