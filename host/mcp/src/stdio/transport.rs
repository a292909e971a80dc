//! The transport that rmcp reads from and writes to, and the handler that it calls.

use std::borrow::Cow;
use std::future::poll_fn;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorData, JsonRpcMessage,
    ProtocolVersion, ServerConfig, ServerJsonRpcMessage, ServerResult,
};
use rmcp::service::{NotificationContext, RequestContext, RoleServer, Service};
use rmcp::transport::Transport;
use skillhost::ConsentSession;
use tokio_util::sync::CancellationToken;

use super::in_flight::{InFlight, RequestSlot};
use super::reader::MessageReader;
use super::writer::MessageWriter;
use crate::Handler;
use crate::consent::ClientAsker;

/// The transport that rmcp reads from and writes to.
pub(crate) struct StdioTransport {
    /// The read of the next message. `None` at the end of the input.
    pending: Option<PendingRead>,
    in_flight: Arc<InFlight>,
    writer: MessageWriter,
    input_closed: CancellationToken,
}

/// A read of the next message, which gives the reader back. It outlives a call of
/// `receive`, because rmcp drops the future of `receive` whenever it has other work.
type PendingRead =
    Pin<Box<dyn Future<Output = (MessageReader, Option<ClientJsonRpcMessage>)> + Send>>;

impl StdioTransport {
    pub(crate) fn new(reader: MessageReader) -> Self {
        Self {
            in_flight: Arc::clone(&reader.in_flight),
            writer: reader.writer.clone(),
            input_closed: reader.input_closed.clone(),
            pending: Some(read_next(reader)),
        }
    }
}

fn read_next(mut reader: MessageReader) -> PendingRead {
    Box::pin(async move {
        let message = reader.next().await;
        (reader, message)
    })
}

impl Transport<RoleServer> for StdioTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let answered = match &message {
            JsonRpcMessage::Response(response) => self.in_flight.end(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref().and_then(|id| self.in_flight.end(id)),
            _ => None,
        };
        // A cancelled request gets no answer.
        let is_cancelled = answered.as_ref().is_some_and(RequestSlot::is_cancelled);
        let write = (!is_cancelled).then(|| self.writer.write(message, answered));
        async move {
            match write {
                Some(write) => write.await,
                None => Ok(()),
            }
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        if let Some(pending) = &mut self.pending {
            let (reader, message) = pending.await;
            self.pending = message.is_some().then(|| read_next(reader));
            if message.is_some() {
                return message;
            }
        }
        self.input_closed.cancel();
        self.in_flight.all_answered().await;
        None
    }

    async fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A handler that leaves cancellation to [`InFlight`] instead of rmcp. It answers each request,
/// even if the handler inside panics.
pub(crate) struct CancellableHandler {
    pub(crate) handler: Handler,
    pub(crate) in_flight: Arc<InFlight>,
    /// The decisions of the person behind the client. The process has one session.
    pub(crate) consent: OnceLock<Arc<ConsentSession>>,
    /// Cancelled when no more input is read.
    pub(crate) input_closed: CancellationToken,
}

impl Service<RoleServer> for CancellableHandler {
    async fn handle_request(
        &self,
        request: ClientRequest,
        mut context: RequestContext<RoleServer>,
    ) -> Result<ServerResult, ErrorData> {
        if let Some((cancelled, lease)) = self.in_flight.get(&context.id) {
            context.ct = cancelled;
            context.extensions.insert(lease);
        }
        let consent = self.consent.get_or_init(|| {
            let asker = ClientAsker::new(context.peer.clone(), self.input_closed.clone());
            Arc::new(ConsentSession::new(asker))
        });
        context.extensions.insert(Arc::clone(consent));
        let cancelled = context.ct.clone();
        let mut handling = pin!(self.handler.handle_request(request, context));
        match poll_fn(|task| poll_caught(handling.as_mut(), task)).await {
            // Nobody reads the error, and rmcp would log it.
            Err(_) if cancelled.is_cancelled() => Ok(ServerResult::empty(())),
            answer => answer,
        }
    }

    async fn handle_notification(
        &self,
        notification: ClientNotification,
        context: NotificationContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.handler
            .handle_notification(notification, context)
            .await
    }

    fn get_info(&self) -> ServerConfig {
        Service::get_info(&self.handler)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Service::supported_protocol_versions(&self.handler)
    }
}

/// Polls the handling of a request. Returns an error if it panics.
fn poll_caught(
    handling: Pin<&mut impl Future<Output = Result<ServerResult, ErrorData>>>,
    task: &mut Context<'_>,
) -> Poll<Result<ServerResult, ErrorData>> {
    // Unwind safe: nothing of a request that has panicked is used again.
    catch_unwind(AssertUnwindSafe(|| handling.poll(task))).unwrap_or_else(|_| {
        tracing::error!("the handler of a request panicked");
        let error = ErrorData::internal_error("the request failed: its handler panicked", None);
        Poll::Ready(Err(error))
    })
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[test]
    fn answers_request_whose_handler_panics() {
        let mut task = Context::from_waker(Waker::noop());
        let handling = pin!(async { panic!("on purpose") });
        let Poll::Ready(Err(error)) = poll_caught(handling, &mut task) else {
            panic!("no answer");
        };
        assert_eq!(error.message, "the request failed: its handler panicked");
    }
}
