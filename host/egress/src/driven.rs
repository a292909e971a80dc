//! Sends a request over a connection that the reader of the response drives.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::rt::{Read, Write};
use tokio::task::JoinHandle;

/// The body of a response. Dropping it aborts the request.
///
/// A task drives the connection until the request is sent and the reader starts to read. Then the
/// reader drives it. If the task still drove it, each piece of the body would wake the task, and
/// the task would wake the reader.
pub struct DrivenBody {
    body: Incoming,
    connection: SharedConnection,
    task: Option<AbortOnDrop>,
    /// Can be upgraded until the request is sent, which is when hyper drops the request's body.
    sending: Weak<()>,
    /// The received bytes that a `HeadLimit` counts. Each frame resets the count.
    received: Arc<AtomicUsize>,
}

type SharedConnection = Arc<Mutex<DrivenConnection>>;

struct DrivenConnection {
    /// The future of the connection. `None` once it has ended.
    running: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// True once the reader drives the connection. A late poll by the task would replace the
    /// reader's waker.
    has_reader: bool,
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A task that is aborted when this is dropped.
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Sends a request over `stream`, which carries no other request, and returns the response. Drops
/// `held` when the connection ends.
pub(crate) async fn exchange<B>(
    builder: &http1::Builder,
    stream: impl Read + Write + Send + Unpin + 'static,
    request: Request<B>,
    held: impl Send + 'static,
) -> hyper::Result<Response<DrivenBody>>
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let marker = Arc::new(());
    let sending = Arc::downgrade(&marker);
    let request = request.map(|body| {
        body.map_err(move |error| {
            let _marker = &marker;
            error.into()
        })
    });
    let (mut sender, connection) = builder.handshake(stream).await?;
    let running = Box::pin(async move {
        // hyper also reports errors to the reader of the response.
        let _ = connection.await;
        drop(held);
    });
    let connection = Arc::new(Mutex::new(DrivenConnection {
        running: Some(running),
        has_reader: false,
    }));
    let driven = Arc::clone(&connection);
    let task = poll_fn(move |context| match lock(&driven) {
        connection if connection.has_reader => Poll::Ready(()),
        mut connection => connection.drive(context),
    });
    let task = tokio::spawn(task);
    let task = Some(AbortOnDrop(task));
    let response = sender.send_request(request).await?;
    Ok(response.map(|body| DrivenBody {
        body,
        connection,
        task,
        sending,
        received: Arc::default(),
    }))
}

fn lock(connection: &SharedConnection) -> MutexGuard<'_, DrivenConnection> {
    connection.lock().unwrap_or_else(PoisonError::into_inner)
}

impl DrivenConnection {
    /// Drives the connection, and drops it when it has ended.
    fn drive(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let Some(running) = &mut self.running {
            ready!(running.as_mut().poll(context));
            self.running = None;
        }
        Poll::Ready(())
    }
}

impl DrivenBody {
    /// Makes each frame reset `received`, the count of a `HeadLimit`.
    pub(crate) fn reset_at_frames(self, received: Arc<AtomicUsize>) -> Self {
        Self { received, ..self }
    }

    fn next_frame(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if frame.is_ready() || self.sending.strong_count() > 0 {
            return frame;
        }
        self.task = None;
        let mut connection = lock(&self.connection);
        connection.has_reader = true;
        let _ = connection.drive(context);
        drop(connection);
        Pin::new(&mut self.body).poll_frame(context)
    }
}

impl Body for DrivenBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let frame = self.next_frame(context);
        if frame.is_ready() {
            self.received.store(0, Ordering::Relaxed);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
