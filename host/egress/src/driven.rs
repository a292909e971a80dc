//! Sends a request over a connection that the reader of its response drives.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::rt::{Read, Write};
use tokio::task::JoinHandle;

/// The body of a response. Its request ends when this is dropped.
///
/// A task drives the connection until the request is sent and the body is read. Then the reader
/// does. Otherwise each piece of the body would wake the task, and the task the reader.
pub struct DrivenBody {
    body: Incoming,
    connection: SharedConnection,
    task: Option<EndedOnDrop>,
    /// Lives as long as the body of the request.
    sending: Weak<()>,
}

type SharedConnection = Arc<Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>>;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A task that ends when this is dropped.
struct EndedOnDrop(JoinHandle<()>);

impl Drop for EndedOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Sends a request on a connection of its own, and returns the response. `held` is dropped when the
/// request is over.
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
    let connection: SharedConnection = Arc::new(Mutex::new(Some(Box::pin(async move {
        // The reader of the response learns of errors.
        let _ = connection.await;
        drop(held);
    }))));
    let driven = Arc::clone(&connection);
    let task = tokio::spawn(poll_fn(move |context| drive(&driven, context)));
    let task = Some(EndedOnDrop(task));
    let response = sender.send_request(request).await?;
    Ok(response.map(|body| DrivenBody {
        body,
        connection,
        task,
        sending,
    }))
}

/// Drives a connection, and drops it when it has ended.
fn drive(connection: &SharedConnection, context: &mut Context<'_>) -> Poll<()> {
    let mut connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(running) = &mut *connection {
        ready!(running.as_mut().poll(context));
        *connection = None;
    }
    Poll::Ready(())
}

impl Body for DrivenBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if frame.is_ready() || self.sending.strong_count() > 0 {
            return frame;
        }
        self.task = None;
        let _ = drive(&self.connection, context);
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
