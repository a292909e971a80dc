//! MCP over streamable HTTP, as an operator needs it: bound to loopback unless
//! there is a token, bounded in every way, observable, and ended without
//! breaking off what is in flight. What is asked and answered is the handler's:
//! any of rmcp's will do, and one is made for each request, because nothing is
//! kept between requests.

mod answer;
mod changes;
mod connection;
mod endpoint;
mod gate;
mod io_thread;
mod metrics;
mod options;
mod peers;
mod places;
mod quota;
mod reply;
mod sessions;
mod shutdown;
mod token;
mod unread;

use std::io;
use std::net::SocketAddr;
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
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::watch::Receiver;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::live::Changes;
use connection::Connections;
use endpoint::Endpoint;
use gate::Gate;
use io_thread::IoThread;
use peers::Peers;
use places::Places;
use reply::refusal;
use sessions::Sessions;
use skillhost::Occupancy;

pub use metrics::Metrics;
pub use options::Options;
pub use shutdown::Shutdown;
pub use skillhost::config::HttpLimits;
pub use token::Token;

/// What a peer is given, when its request is broken off or its stream ended, to
/// hear of it.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Says what the host has in hand; none while there is no host yet.
type Source = Arc<dyn Fn() -> Option<Occupancy> + Send + Sync>;

/// A server that listens, and answers once it [serves](Server::serve).
pub struct Server {
    thread: IoThread,
    listener: TcpListener,
    address: SocketAddr,
    options: Options,
    peers: Peers,
    places: Arc<Places>,
    sessions: Arc<Sessions>,
    metrics: Arc<Metrics>,
    source: Option<Source>,
    changes: Option<Receiver<Changes>>,
}

impl Server {
    /// Listens at an address. One that others can reach takes a token, and one
    /// that stands for every address takes the names that peers ask by: without
    /// these it is an error.
    pub async fn bind(address: SocketAddr, options: Options) -> anyhow::Result<Self> {
        let cannot = || format!("cannot serve at `{address}`");
        ensure!(
            options.token.is_some() || address.ip().to_canonical().is_loopback(),
            "{}: others than this machine can reach it, and there is no token that they must \
             show; set `token_file` in `[http]`, or `SKILLHOST_HTTP_TOKEN`",
            cannot()
        );
        let (hosts, origins) = (&options.allowed_hosts, &options.allowed_origins);
        let peers = Peers::new(hosts, origins, address).with_context(cannot)?;
        let connections = options.limits.connections;
        let places = Places::new(connections, &options.trusted_proxies).with_context(cannot)?;
        let thread = IoThread::start().with_context(cannot)?;
        let listener = thread.run(TcpListener::bind(address)).await;
        let listener = listener.with_context(cannot)?.with_context(cannot)?;
        Ok(Self {
            thread,
            address: listener.local_addr().with_context(cannot)?,
            listener,
            options,
            peers,
            places,
            sessions: Sessions::new().with_context(cannot)?,
            metrics: Arc::default(),
            source: None,
            changes: None,
        })
    }

    /// The address, with the port that the system chose where 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Shows these figures at `/metrics`, in place of the requests alone.
    #[must_use]
    pub fn metrics(mut self, metrics: Arc<Metrics>) -> Self {
        self.metrics = metrics;
        self
    }

    /// Shows at `/metrics` what the host has in hand. While this says that
    /// there is no host yet, the server is not ready.
    #[must_use]
    pub fn occupancy(
        mut self,
        source: impl Fn() -> Option<Occupancy> + Send + Sync + 'static,
    ) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// Tells clients of protocol revisions with sessions of these changes, on
    /// the stream that such a client opens by GET. Without, there is none.
    #[must_use]
    pub fn changes(mut self, changes: Receiver<Changes>) -> Self {
        self.changes = Some(changes);
        self
    }

    /// Serves until it is told to end, and then until the requests in flight
    /// are answered or the time for that has passed. The answer is the number
    /// of connections that were broken off. Connections are taken and probes
    /// answered by a thread of their own; the handler is asked where this is
    /// awaited.
    pub async fn serve<S: ServerHandler>(
        self,
        handler: impl Fn() -> io::Result<S> + Send + Sync + 'static,
        shutdown: &Shutdown,
    ) -> usize {
        let Self {
            thread,
            listener,
            options,
            peers,
            places,
            sessions,
            metrics,
            source,
            changes,
            ..
        } = self;
        let limits = options.limits.clone();
        let broken_off = CancellationToken::new();
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            .with_max_request_body_bytes(limits.body)
            // The gate looks at both, for `/metrics` too.
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
        let gate = Arc::new(Gate {
            peers,
            token: options.token,
        });
        let scrape = {
            let (metrics, source) = (Arc::clone(&metrics), source.clone());
            move || {
                let now = source.as_ref().and_then(|source| source());
                std::future::ready(scrape(&metrics, now))
            }
        };
        let ready = {
            let ending = shutdown.begun().clone();
            move || std::future::ready(ready(&ending, source.as_ref()))
        };
        let guarded = Router::new()
            .route("/mcp", any(endpoint::answer::<S>))
            .with_state(endpoint)
            .route("/metrics", get(scrape))
            .route_layer(from_fn_with_state(gate, gate::admit));
        let router = guarded
            .route("/healthz", get("ok\n"))
            .route("/readyz", get(ready))
            .fallback(|| {
                std::future::ready(refusal(StatusCode::NOT_FOUND, "there is nothing here\n"))
            });
        let counted = Arc::clone(&metrics);
        let router = router.layer(from_fn(move |request, next| {
            gate::count(Arc::clone(&counted), request, next)
        }));
        let connections = Connections {
            router,
            runtime: Handle::current(),
            limits: limits.clone(),
            places,
            metrics,
            ending: shutdown.begun().clone(),
        };
        let hurried = shutdown.hurried().clone();
        let served = thread.run(async move {
            let mut open = connections.take(listener).await;
            tokio::select! {
                () = all(&mut open) => return 0,
                () = tokio::time::sleep(limits.shutdown_time) => {}
                () = hurried.cancelled() => {}
            }
            let left = open.len();
            broken_off.cancel();
            let _ = tokio::time::timeout(LAST_WORDS, all(&mut open)).await;
            open.shutdown().await;
            left
        });
        served.await.unwrap_or_else(|error| {
            tracing::error!("the server broke off: {error}");
            0
        })
    }
}

async fn all(open: &mut JoinSet<()>) {
    while open.join_next().await.is_some() {}
}

/// Whether new requests are welcome: a balancer asks.
fn ready(ending: &CancellationToken, source: Option<&Source>) -> Response {
    if ending.is_cancelled() {
        return reply::ending();
    }
    match source.is_none_or(|source| source().is_some()) {
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
            tracing::error!("cannot show the metrics: {error}");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}
