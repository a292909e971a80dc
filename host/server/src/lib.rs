//! The HTTP server of skillhost: MCP over streamable HTTP, bound to loopback unless there is a
//! token, with limits, metrics, and an end that waits for requests in flight. The handler
//! answers: any of rmcp's, made anew for each request, because nothing is kept between
//! requests.

// The order is that of the layers, lowest first: a module uses only those above it.

mod client;
mod client_shares;
mod tls;
mod options;
mod shutdown;
mod metadata;

mod metrics;
mod headers;
mod reply;
mod network;
mod places;
mod quota;
mod answer_bytes;
mod sessions;
mod answer;
mod changes;
mod endpoint;
mod peers;
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

use client_shares::ClientShares;
use connection::Acceptor;
use endpoint::Endpoint;
use gate::Gate;
use io_thread::IoThread;
use listeners::Listeners;
use peers::Peers;
use places::Places;
use reply::refusal;
use sessions::Sessions;
use skillhost::Occupancy;
use skillhost_mcp::Changes;

pub use listeners::Sockets;
pub use metrics::Metrics;
pub use options::HttpOptions;
pub use shutdown::Shutdown;
pub use skillhost::config::HttpLimits;
pub use skillhost_identity::{Clients, Token};
pub use tls::{Tls, TlsFiles};

/// The address whose rules hold for a Unix socket: only this machine reaches it.
const LOCAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// The time in which a peer can read that its request was broken off or its stream
/// ended.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// The pause between two scans of the keys of all issuers.
const KEY_PAUSE: Duration = Duration::from_secs(60 * 60);

/// Returns the occupancy of the host. None until the host is loaded.
type OccupancySource = Arc<dyn Fn() -> Option<Occupancy> + Send + Sync>;

/// A server that listens, and answers once it [serves](Server::serve).
pub struct Server {
    thread: IoThread,
    listeners: Listeners,
    address: Option<SocketAddr>,
    options: HttpOptions,
    peers: Peers,
    places: Arc<Places>,
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
    /// Those of [`Server::check`] and [`Server::on`], or if the system refuses.
    pub async fn bind(address: SocketAddr, options: HttpOptions) -> anyhow::Result<Self> {
        Self::check(address, &options)?;
        Self::on(Sockets::bind(address)?, options).await
    }

    /// Listens on both loopback addresses, as [`Sockets::bind_localhost`] does.
    ///
    /// # Errors
    ///
    /// Those of that and of [`Server::on`].
    pub async fn bind_localhost(port: u16, options: HttpOptions) -> anyhow::Result<Self> {
        Self::on(Sockets::bind_localhost(port)?, options).await
    }

    /// Checks that a server with these options may listen at an address.
    ///
    /// # Errors
    ///
    /// If the address is not loopback and there is no token, or it stands for every
    /// address and there are no allowed hosts; if an option is not valid.
    pub fn check(address: SocketAddr, options: &HttpOptions) -> anyhow::Result<()> {
        let cannot = || cannot_serve(address);
        ensure!(
            options.token.is_some()
                || !options.clients.is_empty()
                || address.ip().to_canonical().is_loopback(),
            "{}: it is reachable from other machines but without a token; set `token_file` in \
             `[http]`, or `SKILLHOST_HTTP_TOKEN`, or a client in `[clients.NAME]`",
            cannot()
        );
        let (hosts, origins) = (&options.allowed_hosts, &options.allowed_origins);
        Peers::new(hosts, origins, address, options.tls.is_some()).with_context(cannot)?;
        let clients = options.clients.len() + usize::from(options.token.is_some());
        let limits = &options.limits;
        for (most, key) in [(limits.requests, "requests"), (limits.streams, "streams")] {
            ClientShares::check(most, clients, key).with_context(cannot)?;
        }
        Places::new(limits.connections, clients, &options.trusted_proxies).with_context(cannot)?;
        Ok(())
    }

    /// Checks that a server with these options may listen on a Unix socket.
    ///
    /// # Errors
    ///
    /// If an option is not valid, or there is TLS.
    pub fn check_unix(path: &Path, options: &HttpOptions) -> anyhow::Result<()> {
        let cannot = || cannot_serve(format_args!("unix:{}", path.display()));
        ensure!(
            options.tls.is_none(),
            "{}: a Unix socket has no TLS; leave `--tls-cert` and `tls_cert` in `[http]` out",
            cannot()
        );
        Self::check(LOCAL, options)
    }

    /// Serves on sockets that are bound. On a Unix socket without a token and without
    /// clients, only the user of this process and root may ask.
    ///
    /// # Errors
    ///
    /// Those of [`Server::check`] or [`Server::check_unix`], or if the system refuses.
    pub async fn on(sockets: Sockets, mut options: HttpOptions) -> anyhow::Result<Self> {
        let place = sockets.to_string();
        let cannot = || cannot_serve(&place);
        let address = sockets.address();
        let checked = address.unwrap_or(LOCAL);
        match sockets.path() {
            Some(path) => Self::check_unix(path, &options)?,
            None => Self::check(checked, &options)?,
        }
        if let Some(token) = options.token.take() {
            options.clients = options.clients.with_unnamed(token)?;
        }
        let (hosts, origins) = (&options.allowed_hosts, &options.allowed_origins);
        let peers = Peers::new(hosts, origins, checked, options.tls.is_some());
        let peers = peers.with_context(cannot)?;
        let connections = places::affordable(options.limits.connections);
        let clients = options.clients.len();
        let places = Places::new(connections, clients, &options.trusted_proxies);
        let places = places.with_context(cannot)?;
        let thread = IoThread::start().with_context(cannot)?;
        let listeners = thread.run(async { Listeners::new(sockets) }).await;
        Ok(Self {
            thread,
            address,
            listeners: listeners.with_context(cannot)?.with_context(cannot)?,
            options,
            peers,
            places,
            sessions: Sessions::new().with_context(cannot)?,
            metrics: Arc::default(),
            occupancy: None,
            changes: None,
        })
    }

    /// Returns the address, with the port that the system chose for port 0. For
    /// localhost it is that of IPv4. None for a Unix socket.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Serves these metrics at `/metrics`. Without, only requests are counted.
    #[must_use]
    pub fn metrics(mut self, metrics: Arc<Metrics>) -> Self {
        self.metrics = metrics;
        self
    }

    /// Serves the host's occupancy at `/metrics`. While the source returns None,
    /// the server is not ready.
    #[must_use]
    pub fn occupancy(
        mut self,
        source: impl Fn() -> Option<Occupancy> + Send + Sync + 'static,
    ) -> Self {
        self.occupancy = Some(Arc::new(source));
        self
    }

    /// Notifies clients of protocol revisions with sessions of these changes, on
    /// the stream that such a client opens by GET. Without, a GET is refused.
    #[must_use]
    pub fn changes(mut self, changes: Receiver<Changes>) -> Self {
        self.changes = Some(changes);
        self
    }

    /// Returns what is notified when most of many connections have ended: an allocator may
    /// then give their memory back to the system.
    #[must_use]
    pub fn quiet(&self) -> Arc<Notify> {
        Arc::clone(&self.places.quiet)
    }

    /// Serves until the end is requested, and then until the requests in flight
    /// are answered or the time for that has passed. Returns the number of
    /// connections that were broken off.
    ///
    /// A thread of its own accepts connections and answers probes. The handler
    /// runs on the caller's runtime.
    pub async fn serve<S: ServerHandler>(
        self,
        handler: impl Fn() -> io::Result<S> + Send + Sync + 'static,
        shutdown: &Shutdown,
    ) -> usize {
        let Self {
            thread,
            listeners,
            options,
            peers,
            places,
            sessions,
            metrics,
            occupancy,
            changes,
            ..
        } = self;
        let limits = options.limits.clone();
        let broken_off = CancellationToken::new();
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            .with_max_request_body_bytes(limits.body)
            // The gate checks both, for `/metrics` too.
            .disable_allowed_hosts()
            .disable_allowed_origins();
        let service =
            StreamableHttpService::new(handler, Arc::<NeverSessionManager>::default(), config);
        let endpoint = Arc::new(Endpoint::new(
            service,
            sessions,
            changes,
            &options,
            shutdown.begun(),
            &broken_off,
        ));
        let metadata = options.clients.resource_metadata().cloned();
        let polling = options.clients.clone();
        let polling = async move { polling.poll_keys(KEY_PAUSE).await };
        let _polling = AbortOnDropHandle::new(tokio::spawn(polling));
        let gate = Arc::new(Gate {
            peers,
            clients: options.clients,
        });
        let scrape = {
            let (metrics, occupancy) = (Arc::clone(&metrics), occupancy.clone());
            move || {
                let now = occupancy.as_ref().and_then(|occupancy| occupancy());
                std::future::ready(scrape(&metrics, now))
            }
        };
        let ready = {
            let ending = shutdown.begun().clone();
            move || std::future::ready(ready(&ending, occupancy.as_ref()))
        };
        let guarded = Router::new()
            .route("/mcp", any(endpoint::answer::<S>))
            .with_state(endpoint)
            .route(gate::METRICS, get(scrape))
            .route_layer(from_fn_with_state(gate, gate::admit));
        let router = metadata.iter().fold(guarded, |router, metadata| {
            metadata::serve(router, &metadata.paths, metadata.document.to_string())
        });
        let router = router
            .route("/healthz", get("ok\n"))
            .route("/readyz", get(ready))
            .fallback(|| std::future::ready(refusal(StatusCode::NOT_FOUND, "no such path\n")));
        let counted = Arc::clone(&metrics);
        let router = router.layer(from_fn(move |request, next| {
            gate::count(Arc::clone(&counted), request, next)
        }));
        let acceptor = Acceptor {
            router,
            runtime: Handle::current(),
            limits: limits.clone(),
            places,
            metrics,
            tls: options.tls.clone(),
            ending: shutdown.begun().clone(),
        };
        let follow = |tls| AbortOnDropHandle::new(tokio::spawn(Tls::follow(tls, tls::LOOK)));
        let _following = options.tls.map(follow);
        let forced = shutdown.forced().clone();
        let served = thread.run(async move {
            let mut open = acceptor.accept(listeners).await;
            tokio::select! {
                () = join_all(&mut open) => return 0,
                () = tokio::time::sleep(limits.shutdown_time) => {}
                () = forced.cancelled() => {}
            }
            let left = open.len();
            broken_off.cancel();
            let _ = tokio::time::timeout(LAST_WORDS, join_all(&mut open)).await;
            open.shutdown().await;
            left
        });
        served.await.unwrap_or_else(|error| {
            tracing::error!("the server failed: {error}");
            0
        })
    }
}

fn cannot_serve(address: impl Display) -> String {
    format!("cannot serve at `{address}`")
}

async fn join_all(open: &mut JoinSet<()>) {
    while open.join_next().await.is_some() {}
}

/// Answers `/readyz`: whether a balancer may send new requests.
fn ready(ending: &CancellationToken, occupancy: Option<&OccupancySource>) -> Response {
    if ending.is_cancelled() {
        return reply::ending();
    }
    match occupancy.is_none_or(|occupancy| occupancy().is_some()) {
        true => "ready\n".into_response(),
        false => refusal(
            StatusCode::SERVICE_UNAVAILABLE,
            "the tools are being loaded\n",
        ),
    }
}

fn scrape(metrics: &Metrics, now: Option<Occupancy>) -> Response {
    match metrics.scrape(now) {
        Ok(figures) => ([(CONTENT_TYPE, metrics::MEDIA_TYPE)], figures).into_response(),
        Err(error) => {
            tracing::error!("cannot write the metrics: {error}");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}
