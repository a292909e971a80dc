//! Accepts connections, limits their number and time, and closes them. `slots.rs` decides which one
//! is evicted when there are too many.
//!
//! A connection starts on the thread that accepted it. If its first request is a probe, that thread
//! answers the probe and closes the connection. Otherwise the connection moves to the runtime of
//! the protocol.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::HttpBody as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

use skillhost::Peer;
use skillhost_identity::CertificateNames;

use crate::HttpLimits;
use crate::body::REFUSAL_TIME;
use crate::listeners::Listeners;
use crate::metrics::Metrics;
use crate::peer_watch::{PeerWatch, ResponseProgress, ResponseState};
use crate::reply::{RETRY_AFTER_SECONDS, and_close, busy_text};
use crate::slots::{ConnectionSlot, ConnectionSlots};
use crate::stream::Stream;
use crate::tls::{self, Tls};
use crate::write_timeout::WriteTimeout;

/// The maximum number of bytes of a request's line and headers. Guards against: a peer that sends
/// endless headers.
const MAX_HEADER_BYTES: usize = 32 << 10;

/// The maximum number of bytes that a connection reads ahead, and writes at a time.
const MAX_BUFFER_BYTES: usize = 64 << 10;

/// The first bytes of probes, which the thread that accepts connections answers itself. It then
/// closes the connection, because no other requests may run there.
const PROBE_STARTS: [&[u8]; 2] = [b"GET /healthz", b"GET /readyz "];

/// The maximum number of refusals that are sent at a time. Further connections over the limit are
/// closed without one. Guards against: a flood of connections.
const MAX_REFUSALS: usize = 64;

/// The time after the beginning of a shutdown in which the server still accepts connections and
/// requests. Guards against: requests that arrived before the shutdown and are lost, because the
/// server has not read them yet.
const SHUTDOWN_GRACE: Duration = Duration::from_millis(100);

/// The maximum number of connections that are taken from the system's queue at the end of a
/// shutdown's grace: as many as the queue can hold. Guards against: a flood that delays the
/// shutdown.
const MAX_QUEUED: usize = 1024;

/// The pause between two checks of a connection on which no further request is accepted. Guards
/// against: a shutdown that waits for a request which never becomes complete.
const IDLE_PAUSE: Duration = Duration::from_secs(1);

/// The number of consecutive pauses after which a connection is closed if bytes wait for the peer
/// and none was written. Guards against: a shutdown that waits for a peer which reads nothing.
///
/// Linux accepts more bytes only once a third of its full buffer is free. The buffer has up to
/// 4 MiB, so a peer that reads 300 KB/s needs five seconds.
const MAX_STALLED_PAUSES: u32 = 12;

/// The pause after a system error, such as too few descriptors.
const ERROR_PAUSE: Duration = Duration::from_millis(100);

/// The acceptor of a server's connections.
pub(crate) struct Acceptor {
    pub(crate) router: Router,
    /// The runtime of the protocol.
    pub(crate) runtime: Handle,
    pub(crate) limits: HttpLimits,
    pub(crate) slots: Arc<ConnectionSlots>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) tls: Option<Arc<Tls>>,
    /// The token that ends each connection after its current request.
    pub(crate) shutdown: CancellationToken,
}

impl Acceptor {
    /// Accepts connections until the server shuts down. Returns those that are still open.
    pub(crate) async fn accept(&self, listeners: Listeners) -> JoinSet<()> {
        let refusals = Arc::new(Semaphore::new(MAX_REFUSALS));
        let mut connections = JoinSet::new();
        let mut end_of_grace = pin!(end_of_grace(&self.shutdown));
        loop {
            // Frees finished tasks first, so that a flood of connections does not pile them up.
            while connections.try_join_next().is_some() {}
            let accepted = tokio::select! {
                () = &mut end_of_grace => break,
                accepted = listeners.accept() => accepted,
                Some(_) = connections.join_next() => continue,
            };
            match accepted {
                Ok((stream, peer)) => {
                    self.admit(stream, peer, &mut connections, &refusals).await;
                }
                Err(error) => self.pause_after(&error).await,
            }
        }
        // The system has already accepted these connections, and would reset them.
        for _ in 0..MAX_QUEUED {
            let Ok(Ok((stream, peer))) = timeout(Duration::ZERO, listeners.accept()).await else {
                break;
            };
            self.admit(stream, peer, &mut connections, &refusals).await;
        }
        connections
    }

    /// Serves a connection in a new task, or refuses it if it gets no slot.
    async fn admit(
        &self,
        stream: Stream,
        peer: Peer,
        connections: &mut JoinSet<()>,
        refusals: &Arc<Semaphore>,
    ) {
        if let Some(slot) = self.slots.acquire(peer) {
            let span = tracing::error_span!("http", %peer);
            let served = self.serve(stream, peer, Arc::new(slot));
            connections.spawn(served.instrument(span));
            // The first bytes of a connection must be read before the next one can evict it.
            yield_now().await;
        } else if let Ok(permit) = Arc::clone(refusals).try_acquire_owned() {
            self.metrics.count_response("none", 503);
            // A peer that expects TLS cannot read the refusal.
            if self.tls.is_none() {
                connections.spawn(refuse(stream, peer, permit));
            }
        }
    }

    /// Pauses after a system error, which would otherwise occur again at once. Does not pause if
    /// only one connection failed.
    async fn pause_after(&self, error: &io::Error) {
        use io::ErrorKind::{ConnectionAborted, ConnectionReset};
        if !matches!(error.kind(), ConnectionAborted | ConnectionReset) {
            tracing::error!("cannot accept a connection: {error}");
            tokio::time::sleep(ERROR_PAUSE).await;
        }
    }

    /// Serves a connection until it ends or is evicted.
    fn serve(
        &self,
        stream: Stream,
        peer: Peer,
        slot: Arc<ConnectionSlot>,
    ) -> impl Future<Output = ()> + Send + use<> {
        let gauge = ConnectionGauge::new(Arc::clone(&self.metrics));
        let deadline = Instant::now() + self.limits.header_time;
        let connection = HttpConnection {
            router: self.router.clone(),
            limits: self.limits.clone(),
            peer,
            slot: Arc::clone(&slot),
            deadline,
            end: self.shutdown.child_token(),
            shutdown: self.shutdown.clone(),
        };
        let runtime = self.runtime.clone();
        let tls = self.tls.clone();
        let shutdown = self.shutdown.clone();
        let served = async move {
            let is_probe = tokio::select! {
                // Reads what has arrived before the connection is closed.
                biased;
                is_probe = timeout_at(deadline, begins_with_probe(&stream)) => is_probe,
                () = end_of_grace(&shutdown) => return,
            };
            connection.slot.set_first_bytes_received();
            match is_probe {
                Ok(Ok(true)) if tls.is_none() => connection.serve(stream, None, false).await,
                Ok(Ok(_)) => {
                    let served = async move {
                        match stream.register_here() {
                            Ok(stream) => connection.serve(stream, tls, true).await,
                            Err(error) => tracing::error!("cannot move a connection: {error}"),
                        }
                    };
                    let _ = AbortOnDropHandle::new(runtime.spawn(served.in_current_span())).await;
                }
                Ok(Err(error)) => tracing::info!("the connection ended: {error}"),
                Err(_) => tracing::info!("the connection ended: the peer sent nothing"),
            }
        };
        async move {
            tokio::select! {
                () = served => {}
                () = slot.evicted() => {
                    gauge.0.evicted.inc();
                    tracing::info!("the connection was evicted");
                }
            }
        }
    }
}

/// Waits for the first bytes of a connection, and returns whether they begin a probe. Does not
/// consume them.
async fn begins_with_probe(stream: &Stream) -> io::Result<bool> {
    let mut start = [0; 12];
    let count = stream.peek(&mut start).await?;
    let start = &start[..count];
    Ok(PROBE_STARTS.iter().any(|probe| start.starts_with(probe)))
}

/// A connection, and everything that serving HTTP on it needs.
struct HttpConnection {
    router: Router,
    limits: HttpLimits,
    peer: Peer,
    slot: Arc<ConnectionSlot>,
    /// The time at which the connection ends if its first request has not arrived. Guards against:
    /// a peer that never completes its handshake or its request.
    deadline: Instant,
    /// The token that ends the connection's streams, and the connection after its current request.
    end: CancellationToken,
    /// The token of the server's shutdown, which cancels `end` too.
    shutdown: CancellationToken,
}

/// Waits until a server that shuts down accepts no more connections and requests.
async fn end_of_grace(shutdown: &CancellationToken) {
    shutdown.cancelled().await;
    tokio::time::sleep(SHUTDOWN_GRACE).await;
}

impl HttpConnection {
    async fn serve(self, stream: Stream, tls: Option<Arc<Tls>>, keep_alive: bool) {
        // Most responses are small.
        stream.set_no_delay();
        let watched = match stream.second_handle() {
            Ok(stream) => stream,
            Err(error) => {
                tracing::error!("cannot watch a connection: {error}");
                return;
            }
        };
        let stream =
            WriteTimeout::new(stream, self.limits.write_time, Some(Arc::clone(&self.slot)));
        let (watch, progress) = PeerWatch::new(
            watched,
            tls.is_some(),
            stream.has_unwritten(),
            stream.written(),
        );
        let (slot, deadline) = (Arc::clone(&self.slot), self.deadline);
        let too_slow = async {
            if timeout_at(deadline, slot.requested()).await.is_ok() {
                std::future::pending::<()>().await;
            }
            tracing::info!("the connection ended: its first request took too long");
        };
        let served = async {
            match tls {
                None => self.answer(stream, None, progress, keep_alive).await,
                Some(tls) => self.answer_over_tls(stream, tls, progress).await,
            }
        };
        tokio::select! {
            // Polls the watch first, to notice that the peer is gone before a response begins.
            biased;
            () = watch.gone() => {}
            () = served => {}
            () = too_slow => {}
        }
    }

    async fn answer_over_tls(
        self,
        stream: WriteTimeout<Stream>,
        tls: Arc<Tls>,
        progress: ResponseProgress,
    ) {
        let accepting = tls.acceptor().accept(stream);
        let accepted = tokio::select! {
            accepted = accepting => accepted,
            () = end_of_grace(&self.shutdown) => return,
        };
        match accepted {
            Ok(stream) => {
                let chain = stream.get_ref().1.peer_certificates().map(<[_]>::to_vec);
                let certificate = chain.as_deref().map(|chain| tls.verify(chain));
                if certificate.as_ref().is_some_and(Option::is_none) {
                    tracing::info!(
                        "closed the connection: the peer's certificate is no longer valid"
                    );
                    return;
                }
                let names = tls::certificate_names(chain.as_deref());
                let end = self.end.clone();
                let answering = self.answer(stream, names, progress, true);
                let ending = async {
                    tls.until_refused(certificate.flatten()).await;
                    tracing::info!(
                        "closing the connection: the peer's certificate is no longer valid"
                    );
                    end.cancel();
                    std::future::pending().await
                };
                tokio::select! {
                    () = answering => {}
                    () = ending => {}
                }
            }
            Err(error) => tracing::info!("the connection ended in its handshake: {error}"),
        }
    }

    /// Answers the requests on a stream. `names` are those of the peer's certificate, if it has
    /// one.
    async fn answer<S>(
        self,
        stream: S,
        names: Option<CertificateNames>,
        progress: ResponseProgress,
        keep_alive: bool,
    ) where
        S: AsyncRead + AsyncWrite + Send + Unpin,
    {
        let Self {
            router,
            limits,
            peer,
            slot,
            end,
            shutdown,
            ..
        } = self;
        let end_of_streams = end.clone();
        let service_progress = progress.clone();
        let router = TowerToHyperService::new(router);
        let service = service_fn(move |mut request: axum::http::Request<Incoming>| {
            slot.set_requested();
            request.extensions_mut().insert(Arc::clone(&slot));
            request.extensions_mut().insert(peer);
            request.extensions_mut().insert(end_of_streams.clone());
            if let Some(names) = &names {
                request.extensions_mut().insert(names.clone());
            }
            service_progress.set(ResponseState::Awaited(request.version()));
            let (progress, end) = (service_progress.clone(), end_of_streams.clone());
            let answering = router.call(request);
            async move {
                let mut response = answering.await?;
                if end.is_cancelled() {
                    // The peer must not send another request that nobody reads.
                    response = and_close(response);
                }
                let is_complete = response.body().size_hint().exact().is_some();
                progress.set(if is_complete {
                    ResponseState::Known
                } else {
                    ResponseState::Streamed
                });
                Ok::<_, Infallible>(response)
            }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .keep_alive(keep_alive)
            // `PeerWatch` notices a peer that is gone.
            .half_close(true)
            .header_read_timeout(limits.header_time)
            .max_header_size(MAX_HEADER_BYTES)
            .max_buf_size(MAX_BUFFER_BYTES)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection);
        let last_request = async {
            end.cancelled().await;
            // A peer whose certificate is no longer valid has no grace.
            if shutdown.is_cancelled() {
                end_of_grace(&shutdown).await;
            }
        };
        let done = tokio::select! {
            // Reads what has arrived before the connection is closed.
            biased;
            done = &mut connection => done,
            () = last_request => {
                connection.as_mut().graceful_shutdown();
                let (mut written, mut pauses) = (progress.written(), 0);
                loop {
                    match timeout(IDLE_PAUSE, &mut connection).await {
                        Ok(done) => break done,
                        Err(_) if progress.is_idle() => return,
                        Err(_) => {}
                    }
                    let before = std::mem::replace(&mut written, progress.written());
                    let is_stalled = progress.has_unwritten() && written == before;
                    pauses = if is_stalled { pauses + 1 } else { 0 };
                    if pauses == MAX_STALLED_PAUSES {
                        return;
                    }
                }
            }
        };
        if let Err(error) = done {
            tracing::info!("the connection ended: {error}");
        }
    }
}

/// The count of one open connection, until it is dropped.
struct ConnectionGauge(Arc<Metrics>);

impl ConnectionGauge {
    fn new(metrics: Arc<Metrics>) -> Self {
        metrics.connections.inc();
        Self(metrics)
    }
}

impl Drop for ConnectionGauge {
    fn drop(&mut self) {
        self.0.connections.dec();
    }
}

/// Tells a peer that the server is busy, and closes its connection.
async fn refuse(mut stream: Stream, peer: Peer, _permit: OwnedSemaphorePermit) {
    tracing::info!(%peer, "refused a connection: the limit `connections` is reached");
    let text = busy_text("connections");
    let length = text.len();
    let response = format!(
        "HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\n\
         retry-after: {RETRY_AFTER_SECONDS}\r\ncontent-type: text/plain; charset=utf-8\r\n\
         content-length: {length}\r\n\r\n{text}"
    );
    let answered = async {
        stream.write_all(response.as_bytes()).await?;
        stream.shutdown().await?;
        let mut request = [0; 4096];
        while stream.read(&mut request).await? > 0 {}
        io::Result::Ok(())
    };
    let _ = timeout(REFUSAL_TIME, answered).await;
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    #[tokio::test]
    async fn first_byte_does_not_extend_time_for_request() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap());
        let (peer, accepted) = tokio::join!(peer, listener.accept());
        let (stream, address) = accepted.unwrap();
        let mut peer = peer.unwrap();
        peer.write_all(b"P").await.unwrap();
        let address = Peer::Address(address);
        let slots = ConnectionSlots::new(8, 0, &[]).unwrap();
        let connection = HttpConnection {
            router: Router::new(),
            limits: HttpLimits::default(),
            peer: address,
            slot: Arc::new(slots.acquire(address).unwrap()),
            deadline: Instant::now(),
            end: CancellationToken::new(),
            shutdown: CancellationToken::new(),
        };
        let served = connection.serve(Stream::Tcp(stream), None, true);
        // The default `header_time` is longer.
        let ended = timeout(Duration::from_secs(20), served).await;
        ended.expect("the connection is still open");
    }
}
