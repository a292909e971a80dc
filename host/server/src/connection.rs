//! Connections: accepted, bounded in number and time, and closed. `places.rs`
//! decides which one is closed when there are too many. A connection starts on
//! the thread that accepted it. If its first request is a probe, that thread
//! answers and closes it; otherwise it moves to the protocol's runtime.

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
use tokio::sync::watch::Sender;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

use skillhost::Peer;
use skillhost_identity::CertificateNames;

use crate::HttpLimits;
use crate::listeners::Listeners;
use crate::metrics::Metrics;
use crate::peer_watch::{AnswerState, PeerWatch};
use crate::places::{ConnectionPlace, Places};
use crate::reply::{BUSY, RETRY_AFTER_SECONDS};
use crate::stream::Stream;
use crate::tls::{self, Tls};
use crate::write_timeout::WriteTimeout;

/// The most bytes of a request's line and headers. Guards against: a peer that
/// sends endless headers.
const HEADER_BYTES: usize = 32 << 10;

/// The bytes that a connection reads ahead, and writes at a time.
const BUFFER_BYTES: usize = 64 << 10;

/// The start of a connection that is answered on the thread that accepted it. It
/// has only that one request, because no other may run there.
const PROBES: [&[u8]; 2] = [b"GET /healthz", b"GET /readyz "];

/// The most connections past the bound that get an answer at a time; the others
/// are closed at once. Guards against: a flood of connections.
const MOST_REFUSALS: usize = 64;

/// The time that one of those has to read its answer.
const REFUSAL_TIME: Duration = Duration::from_secs(1);

/// The pause when the system has no more descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Accepts the connections of a server.
pub(crate) struct Acceptor {
    pub(crate) router: Router,
    /// The protocol's runtime.
    pub(crate) runtime: Handle,
    pub(crate) limits: HttpLimits,
    pub(crate) places: Arc<Places>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) tls: Option<Arc<Tls>>,
    /// Ends connections, each after its current request.
    pub(crate) ending: CancellationToken,
}

impl Acceptor {
    /// Accepts connections until the server ends. Returns those that are still
    /// busy then.
    pub(crate) async fn accept(&self, listeners: Listeners) -> JoinSet<()> {
        let refusals = Arc::new(Semaphore::new(MOST_REFUSALS));
        let mut open = JoinSet::new();
        loop {
            // Before the next one, or a flood would keep all that are done.
            while open.try_join_next().is_some() {}
            let accepted = tokio::select! {
                () = self.ending.cancelled() => return open,
                accepted = listeners.accept() => accepted,
                Some(_) = open.join_next() => continue,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    self.pause_after(&error).await;
                    continue;
                }
            };
            if let Some(place) = self.places.take(peer) {
                let span = tracing::error_span!("http", %peer);
                let served = self.serve(stream, peer, Arc::new(place));
                open.spawn(served.instrument(span));
                // Its first bytes are read before the next one can take its place.
                yield_now().await;
            } else if let Ok(permit) = Arc::clone(&refusals).try_acquire_owned() {
                self.metrics.count_answer("none", 503);
                // Over TLS it could not be read.
                if self.tls.is_none() {
                    open.spawn(refuse(stream, peer, permit));
                }
            }
        }
    }

    /// Pauses after an error of the system, which would come again at once. An
    /// error of one connection concerns no other.
    async fn pause_after(&self, error: &io::Error) {
        use io::ErrorKind::{ConnectionAborted, ConnectionReset};
        if !matches!(error.kind(), ConnectionAborted | ConnectionReset) {
            tracing::error!("cannot accept a connection: {error}");
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Serves a connection until it ends or loses its place.
    fn serve(
        &self,
        stream: Stream,
        peer: Peer,
        place: Arc<ConnectionPlace>,
    ) -> impl Future<Output = ()> + Send + use<> {
        let gauge = ConnectionGauge::new(Arc::clone(&self.metrics));
        let connection = HttpConnection {
            router: self.router.clone(),
            limits: self.limits.clone(),
            peer,
            place: Arc::clone(&place),
            ending: self.ending.clone(),
        };
        let runtime = self.runtime.clone();
        let tls = self.tls.as_ref().map(|tls| tls.acceptor());
        let (header_time, ending) = (self.limits.header_time, self.ending.clone());
        let served = async move {
            let deadline = Instant::now() + header_time;
            let tls = tls.map(|acceptor| Handshake { acceptor, deadline });
            let is_probe = tokio::select! {
                is_probe = timeout_at(deadline, begins_with_probe(&stream)) => is_probe,
                () = ending.cancelled() => return,
            };
            connection.place.set_begun();
            match is_probe {
                Ok(Ok(true)) if tls.is_none() => connection.serve(stream, None, false).await,
                Ok(Ok(_)) => {
                    let served = async move {
                        match stream.move_here() {
                            Ok(stream) => connection.serve(stream, tls, true).await,
                            Err(error) => tracing::error!("cannot move a connection: {error}"),
                        }
                    };
                    let _ = AbortOnDropHandle::new(runtime.spawn(served.in_current_span())).await;
                }
                Ok(Err(error)) => tracing::info!("the connection ended: {error}"),
                Err(_) => tracing::info!("the connection ended: it sent nothing"),
            }
        };
        async move {
            tokio::select! {
                () = served => {}
                () = place.evicted() => {
                    gauge.0.evicted.inc();
                    tracing::info!("the connection was closed to make room for another");
                }
            }
        }
    }
}

/// Waits for the first bytes of a connection, without reading them. Returns
/// whether they begin a probe.
async fn begins_with_probe(stream: &Stream) -> io::Result<bool> {
    let mut start = [0; 12];
    let count = stream.peek(&mut start).await?;
    let start = &start[..count];
    Ok(PROBES.iter().any(|probe| start.starts_with(probe)))
}

/// A connection with what serves HTTP on it.
struct HttpConnection {
    router: Router,
    limits: HttpLimits,
    peer: Peer,
    place: Arc<ConnectionPlace>,
    ending: CancellationToken,
}

/// A handshake of TLS that is to come.
struct Handshake {
    acceptor: TlsAcceptor,
    /// Guards against: a peer that never ends it.
    deadline: Instant,
}

impl HttpConnection {
    async fn serve(self, stream: Stream, tls: Option<Handshake>, keep_alive: bool) {
        // Answers are small.
        stream.send_at_once();
        let (watch, answers) = match PeerWatch::new(&stream, tls.is_some()) {
            Ok(watch) => watch,
            Err(error) => {
                tracing::error!("cannot watch a connection: {error}");
                return;
            }
        };
        let stream = WriteTimeout::new(
            stream,
            self.limits.write_time,
            Some(Arc::clone(&self.place)),
        );
        let served = async {
            match tls {
                None => self.answer(stream, None, answers, keep_alive).await,
                Some(handshake) => self.answer_over_tls(stream, handshake, answers).await,
            }
        };
        tokio::select! {
            // Before an answer that begins now.
            biased;
            () = watch.gone() => {}
            () = served => {}
        }
    }

    async fn answer_over_tls(
        self,
        stream: WriteTimeout<Stream>,
        handshake: Handshake,
        answers: Sender<AnswerState>,
    ) {
        let accepting = handshake.acceptor.accept(stream);
        let accepted = tokio::select! {
            accepted = timeout_at(handshake.deadline, accepting) => accepted,
            () = self.ending.cancelled() => return,
        };
        match accepted {
            Ok(Ok(stream)) => {
                let names = tls::names(stream.get_ref().1.peer_certificates());
                self.answer(stream, names, answers, true).await;
            }
            Ok(Err(error)) => tracing::info!("the connection ended in its handshake: {error}"),
            Err(_) => tracing::info!("the connection ended: its handshake took too long"),
        }
    }

    /// Answers the requests on a stream, whose peer may have shown a certificate.
    async fn answer<S>(
        self,
        stream: S,
        names: Option<CertificateNames>,
        answers: Sender<AnswerState>,
        keep_alive: bool,
    ) where
        S: AsyncRead + AsyncWrite + Send + Unpin,
    {
        let Self {
            router,
            limits,
            peer,
            place,
            ending,
        } = self;
        let router = TowerToHyperService::new(router);
        let service = service_fn(move |mut request: axum::http::Request<Incoming>| {
            place.set_requested();
            request.extensions_mut().insert(Arc::clone(&place));
            request.extensions_mut().insert(peer);
            if let Some(names) = &names {
                request.extensions_mut().insert(names.clone());
            }
            answers.send_replace(AnswerState::Awaited(request.version()));
            let answers = answers.clone();
            let answering = router.call(request);
            async move {
                let answer = answering.await?;
                let is_complete = answer.body().size_hint().exact().is_some();
                answers.send_replace(if is_complete {
                    AnswerState::Known
                } else {
                    AnswerState::Streamed
                });
                Ok::<_, Infallible>(answer)
            }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .keep_alive(keep_alive)
            // `PeerWatch` notices a peer that is gone.
            .half_close(true)
            .header_read_timeout(limits.header_time)
            .max_header_size(HEADER_BYTES)
            .max_buf_size(BUFFER_BYTES)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection);
        let done = tokio::select! {
            done = &mut connection => done,
            () = ending.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = done {
            tracing::info!("the connection ended: {error}");
        }
    }
}

/// Counts an open connection until it is dropped.
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

/// Answers that the server is busy, without serving the connection.
async fn refuse(mut stream: Stream, peer: Peer, _permit: OwnedSemaphorePermit) {
    tracing::info!(%peer, "refused a connection: there are too many");
    let length = BUSY.len();
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\n\
         retry-after: {RETRY_AFTER_SECONDS}\r\ncontent-type: text/plain; charset=utf-8\r\n\
         content-length: {length}\r\n\r\n{BUSY}"
    );
    let answered = async {
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await?;
        // Closing with unread bytes would reset the connection, and lose the answer.
        let mut request = [0; 4096];
        while stream.read(&mut request).await? > 0 {}
        io::Result::Ok(())
    };
    let _ = timeout(REFUSAL_TIME, answered).await;
}
