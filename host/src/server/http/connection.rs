//! Connections: taken in, bounded in number and in time, and closed.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::HttpLimits;
use super::metrics::Metrics;
use super::reply::{BUSY, RETRY_AFTER_SECONDS};
use super::unread::Unread;

/// Bytes of a request's line and headers. Meets: a peer that sends headers
/// without end.
const HEADER_BYTES: usize = 32 << 10;

/// Bytes that a connection reads ahead, and writes at a time.
const BUFFER_BYTES: usize = 64 << 10;

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
    pub(super) limits: HttpLimits,
    pub(super) metrics: Arc<Metrics>,
    /// Ends connections, each after the request that it is at.
    pub(super) ending: CancellationToken,
}

impl Connections {
    /// Takes connections until the server ends. What then is still at work is
    /// handed back.
    pub(super) async fn take(&self, listener: TcpListener) -> JoinSet<()> {
        let places = Arc::new(Semaphore::new(
            self.limits.connections.min(Semaphore::MAX_PERMITS),
        ));
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
            if let Ok(place) = Arc::clone(&places).try_acquire_owned() {
                let span = tracing::error_span!("http", %peer);
                open.spawn(self.serve(stream, place).instrument(span));
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

    fn serve(
        &self,
        stream: TcpStream,
        place: OwnedSemaphorePermit,
    ) -> impl Future<Output = ()> + Send + use<> {
        let router = self.router.clone();
        let (limits, ending) = (self.limits.clone(), self.ending.clone());
        let counted = Counted::new(Arc::clone(&self.metrics));
        async move {
            let (_place, _counted) = (place, counted);
            // Answers are small: each goes out at once.
            let _ = stream.set_nodelay(true);
            let io = TokioIo::new(Unread::new(stream, limits.write_time));
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(limits.header_time)
                .max_header_size(HEADER_BYTES)
                .max_buf_size(BUFFER_BYTES)
                .serve_connection(io, TowerToHyperService::new(router));
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
    let _ = tokio::time::timeout(TELLING, telling).await;
}
