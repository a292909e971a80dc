//! Connections: taken in, bounded in number and in time, and closed. Who has
//! to leave when there are too many stands in `places.rs`. A connection is on the
//! thread that takes it until it asks for something. If that is a probe, it is
//! answered there, and the connection ends; any other goes on where the protocol
//! runs.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, Interest};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinSet, yield_now};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

use super::HttpLimits;
use super::metrics::Metrics;
use super::places::{Place, Places};
use super::reply::{BUSY, RETRY_AFTER_SECONDS};
use super::unread::Unread;

/// Bytes of a request's line and headers. Meets: a peer that sends headers
/// without end.
const HEADER_BYTES: usize = 32 << 10;

/// Bytes that a connection reads ahead, and writes at a time.
const BUFFER_BYTES: usize = 64 << 10;

/// What a connection begins with that is answered on the thread that took it, as
/// the one request of the connection: no other may run there.
const PROBES: [&[u8]; 2] = [b"GET /healthz", b"GET /readyz "];

/// Connections past the bound that are told so at a time; others are closed
/// without a word. Meets: a flood of connections.
const TOLD: usize = 64;

/// How long one of those may take to hear it.
const TELLING: Duration = Duration::from_secs(1);

/// How long to wait when the system has no descriptor to give.
const PAUSE: Duration = Duration::from_millis(100);

/// Connections of one server.
pub(super) struct Connections {
    pub(super) router: Router,
    /// Where the protocol runs.
    pub(super) runtime: Handle,
    pub(super) limits: HttpLimits,
    pub(super) places: Arc<Places>,
    pub(super) metrics: Arc<Metrics>,
    /// Ends connections, each after the request that it is at.
    pub(super) ending: CancellationToken,
}

impl Connections {
    /// Takes connections until the server ends. What then is still at work is
    /// handed back.
    pub(super) async fn take(&self, listener: TcpListener) -> JoinSet<()> {
        let told = Arc::new(Semaphore::new(TOLD));
        let mut open = JoinSet::new();
        loop {
            // Those that are done are let go of, however many come.
            while open.try_join_next().is_some() {}
            let accepted = tokio::select! {
                () = self.ending.cancelled() => return open,
                accepted = listener.accept() => accepted,
                Some(_) = open.join_next() => continue,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    self.pause_after(&error).await;
                    continue;
                }
            };
            if let Some(place) = self.places.take(peer.ip()) {
                let span = tracing::error_span!("http", %peer);
                open.spawn(self.serve(stream, Arc::new(place)).instrument(span));
                // What it has sent is seen before the next one can take its place.
                yield_now().await;
            } else if let Ok(place) = Arc::clone(&told).try_acquire_owned() {
                self.metrics.answered("none", 503);
                open.spawn(refuse(stream, peer, place));
            }
        }
    }

    /// An error of one connection is that connection's; one of the system
    /// would come again at once.
    async fn pause_after(&self, error: &io::Error) {
        use io::ErrorKind::{ConnectionAborted, ConnectionReset};
        if !matches!(error.kind(), ConnectionAborted | ConnectionReset) {
            tracing::error!("cannot take a connection: {error}");
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Serves a connection until it ends, or has to leave.
    fn serve(
        &self,
        stream: TcpStream,
        place: Arc<Place>,
    ) -> impl Future<Output = ()> + Send + use<> {
        let counted = Counted::new(Arc::clone(&self.metrics));
        let speaking = Speaking {
            router: self.router.clone(),
            limits: self.limits.clone(),
            place: Arc::clone(&place),
            ending: self.ending.clone(),
        };
        let runtime = self.runtime.clone();
        let (header_time, ending) = (self.limits.header_time, self.ending.clone());
        let served = async move {
            let asks = tokio::select! {
                asks = timeout(header_time, asks_for_a_probe(&stream)) => asks,
                () = ending.cancelled() => return,
            };
            speaking.place.begun();
            match asks {
                Ok(Ok(true)) => speaking.serve(stream, false).await,
                Ok(Ok(false)) => {
                    let served = async move {
                        match stream.into_std().and_then(TcpStream::from_std) {
                            Ok(stream) => speaking.serve(stream, true).await,
                            Err(error) => tracing::error!("a connection was lost: {error}"),
                        }
                    };
                    let _ = AbortOnDropHandle::new(runtime.spawn(served.in_current_span())).await;
                }
                Ok(Err(error)) => tracing::info!("the connection ended: {error}"),
                Err(_) => tracing::info!("the connection ended: it asked for nothing"),
            }
        };
        async move {
            tokio::select! {
                () = served => {}
                () = place.evicted() => {
                    counted.0.evicted.inc();
                    tracing::info!("the connection was closed to make room for another");
                }
            }
        }
    }
}

/// Waits for the first bytes of a connection: whether they are a probe's. The
/// bytes stay where they are.
async fn asks_for_a_probe(stream: &TcpStream) -> io::Result<bool> {
    let mut start = [0; 12];
    let count = stream.peek(&mut start).await?;
    let start = &start[..count];
    Ok(PROBES.iter().any(|probe| start.starts_with(probe)))
}

/// A connection on which HTTP is spoken.
struct Speaking {
    router: Router,
    limits: HttpLimits,
    place: Arc<Place>,
    ending: CancellationToken,
}

impl Speaking {
    async fn serve(self, stream: TcpStream, keep_alive: bool) {
        let Self {
            router,
            limits,
            place,
            ending,
        } = self;
        let router = TowerToHyperService::new(router);
        let asked = service_fn(move |mut request: axum::http::Request<Incoming>| {
            place.heard();
            request.extensions_mut().insert(Arc::clone(&place));
            router.call(request)
        });
        // Answers are small: each goes out at once.
        let _ = stream.set_nodelay(true);
        let watch = match watch(&stream) {
            Ok(watch) => watch,
            Err(error) => {
                tracing::error!("cannot watch a connection: {error}");
                return;
            }
        };
        let io = TokioIo::new(Unread::new(stream, limits.write_time));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .keep_alive(keep_alive)
            .header_read_timeout(limits.header_time)
            .max_header_size(HEADER_BYTES)
            .max_buf_size(BUFFER_BYTES)
            .serve_connection(io, asked);
        let mut connection = pin!(connection);
        let done = tokio::select! {
            done = &mut connection => done,
            () = hung_up(&watch) => return,
            () = ending.cancelled() => {
                connection.as_mut().graceful_shutdown();
                tokio::select! {
                    done = connection => done,
                    () = hung_up(&watch) => return,
                }
            }
        };
        if let Err(error) = done {
            tracing::info!("the connection ended: {error}");
        }
    }
}

/// A second look at a connection, by which nothing of it is read.
fn watch(stream: &TcpStream) -> io::Result<TcpStream> {
    let handle = stream.as_fd().try_clone_to_owned()?;
    TcpStream::from_std(handle.into())
}

/// Waits until the peer has closed its side, and so waits for no answer. hyper
/// does not look for that while bytes stand behind a request. Meets: a peer whose
/// calls go on when it is gone.
async fn hung_up(watch: &TcpStream) {
    while let Ok(seen) = watch.ready(Interest::READABLE).await {
        if seen.is_read_closed() {
            return;
        }
        // What has come is the connection's to read; the next is waited for.
        let nothing = || io::Result::<()>::Err(io::ErrorKind::WouldBlock.into());
        let _ = watch.try_io(Interest::READABLE, nothing);
    }
}

/// Counts a connection for as long as it is open.
struct Counted(Arc<Metrics>);

impl Counted {
    fn new(metrics: Arc<Metrics>) -> Self {
        metrics.connections.inc();
        Self(metrics)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.connections.dec();
    }
}

/// Says that the server is busy, to a peer that has not been listened to.
async fn refuse(mut stream: TcpStream, peer: SocketAddr, _place: OwnedSemaphorePermit) {
    tracing::info!(%peer, "refused a connection: there are as many as may be");
    let length = BUSY.len();
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\n\
         retry-after: {RETRY_AFTER_SECONDS}\r\ncontent-type: text/plain; charset=utf-8\r\n\
         content-length: {length}\r\n\r\n{BUSY}"
    );
    let telling = async {
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await?;
        // To close before the request is read would take the answer back.
        let mut asked = [0; 4096];
        while stream.read(&mut asked).await? > 0 {}
        io::Result::Ok(())
    };
    let _ = timeout(TELLING, telling).await;
}
