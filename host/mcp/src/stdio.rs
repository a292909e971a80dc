//! Serves one client on standard input and output, one JSON-RPC message a line.
//! rmcp runs the session. This is the [`Transport`] that it reads from and writes
//! to: rmcp's own has no bounds against a hostile client.
//!
//! rmcp's loop calls `StdioTransport::receive`, gives each request to the handler in
//! a task of its own, and calls `StdioTransport::send` with the answer. Nothing is
//! queued here. The invariants:
//!
//! - A line has a bound. It is read only when the one before it has its slot: at most
//!   128 requests and refused lines are in flight, from the line to the written
//!   answer. What those have for an answer takes 256 MiB together.
//! - Each request that rmcp gets is in `InFlight` under its id, and no other has that
//!   id. It leaves when rmcp hands its answer to `StdioTransport::send`. Each request
//!   gets exactly one answer, even if it is cancelled or panics. So no answer passes
//!   for that of a later request with the same id.
//! - `notifications/cancelled` ends here. rmcp would forget the id before the handler
//!   has ended. `CancellableHandler` gives the handler the token that is cancelled.
//! - `StdioTransport::receive` ends when the input has ended or is closed, and no
//!   request is in flight. rmcp would wait five seconds.
//! - A message is written whole, even if its sender stops waiting. Waiting for the
//!   client holds no thread of the protocol. An answer that is too large for the client
//!   becomes an error with its id.

mod frame;
mod hang_up;
mod in_flight;
mod reader;
mod stream;
mod writer;

use std::borrow::Cow;
use std::future::poll_fn;
use std::io;
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorData, JsonRpcMessage,
    ProtocolVersion, ServerConfig, ServerJsonRpcMessage, ServerResult,
};
use rmcp::service::{
    NotificationContext, QuitReason, RequestContext, RoleServer, ServerInitializeError, Service,
    serve_server_with_ct,
};
use rmcp::transport::Transport;
use tokio_util::sync::CancellationToken;

use crate::Handler;
use frame::LineReader;
use in_flight::{InFlight, RequestSlot};
use reader::MessageReader;
pub use skillhost::config::StdioLimits;
use stream::{InputStream, OutputStream};
use writer::MessageWriter;

/// The time that calls in flight have when the process is asked to end.
const GRACE: Duration = Duration::from_secs(2);

/// Serves the client on this process's standard input and output, like
/// [`serve`]. Stops the calls in flight when the client closes the output.
pub async fn serve_process(
    server: Handler,
    limits: StdioLimits,
    end: CancellationToken,
) -> anyhow::Result<()> {
    let (input, output) = (io::stdin(), io::stdout());
    let hung_up = hang_up::hung_up(&output)?.cancelled_owned();
    serve_until(server, limits, input, output, hung_up, end).await
}

/// Serves one client until its input ends, or until `end` is cancelled. It answers
/// calls in flight first; after `end` they have two seconds. It needs a runtime of
/// several threads, with time, input and output.
pub async fn serve(
    server: Handler,
    limits: StdioLimits,
    input: impl AsFd,
    output: impl AsFd,
    end: CancellationToken,
) -> anyhow::Result<()> {
    serve_until(server, limits, input, output, std::future::pending(), end).await
}

async fn serve_until(
    server: Handler,
    limits: StdioLimits,
    input: impl AsFd,
    output: impl AsFd,
    hung_up: impl Future<Output = ()>,
    end: CancellationToken,
) -> anyhow::Result<()> {
    // Cancelled when nobody can be answered any more.
    let gone = CancellationToken::new();
    let _gone = gone.clone().drop_guard();
    let closing = end.child_token();
    // Reading ends when the caller drops this future.
    let _closing = closing.clone().drop_guard();
    let live = Arc::clone(server.live());
    let in_flight = Arc::new(InFlight::new(gone.clone()));
    let output = OutputStream::new(output)?;
    let writer = MessageWriter::new(output, limits.message, gone.clone());
    let reader = MessageReader {
        lines: LineReader::new(InputStream::new(input)?),
        in_flight: Arc::clone(&in_flight),
        writer: writer.clone(),
        closing: closing.clone(),
        opened: false,
    };
    let transport = StdioTransport {
        pending: Some(read_next(reader)),
        in_flight: Arc::clone(&in_flight),
        writer: writer.clone(),
        closing: closing.clone(),
    };
    let ending = async {
        closing.cancelled().await;
        // Ends subscriptions, so that they are answered.
        live.close();
        end.cancelled().await;
        tokio::time::sleep(GRACE).await;
        gone.cancel();
        std::future::pending().await
    };
    let losing = async {
        tokio::select! {
            () = hung_up => tracing::warn!("the client is gone"),
            () = async { closing.cancelled().await; writer.stalled().await } => {
                tracing::warn!("the client does not read its answers");
            }
        }
        gone.cancel();
        std::future::pending().await
    };
    // Boxed: the unboxed type is so deep that its callers do not compile.
    let session: Pin<Box<dyn Future<Output = anyhow::Result<()>> + Send>> = Box::pin(session(
        CancellableHandler {
            server,
            in_flight,
            is_initialized: AtomicBool::new(false),
        },
        transport,
        gone.clone(),
    ));
    let ended = tokio::select! {
        ended = session => ended,
        () = ending => Ok(()),
        () = losing => Ok(()),
    };
    // Waits for the last messages, unless the client does not read them.
    tokio::select! {
        () = writer.finish() => {}
        () = gone.cancelled() => {}
        () = writer.stalled() => {}
    }
    ended
}

async fn session(
    service: CancellableHandler,
    transport: StdioTransport,
    gone: CancellationToken,
) -> anyhow::Result<()> {
    // A child token: rmcp cancels it when the session ends, and messages are still
    // written then.
    let ended = gone.child_token();
    match serve_server_with_ct(service, transport, ended).await {
        Ok(service) => match service.waiting().await? {
            QuitReason::JoinError(error) => Err(error.into()),
            _ => Ok(()),
        },
        // The input or the process ended before a session began.
        Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        Err(_) if gone.is_cancelled() => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The transport that rmcp reads from and writes to.
struct StdioTransport {
    /// The read of the next message. None at the end of the input.
    pending: Option<PendingRead>,
    in_flight: Arc<InFlight>,
    writer: MessageWriter,
    closing: CancellationToken,
}

/// A read of the next message, which gives the reader back. It outlives a call of
/// `receive`, because rmcp drops that future whenever another is ready.
type PendingRead =
    Pin<Box<dyn Future<Output = (MessageReader, Option<ClientJsonRpcMessage>)> + Send>>;

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
        self.closing.cancel();
        self.in_flight.none().await;
        None
    }

    async fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The handler, cancelled by [`InFlight`] instead of rmcp. It answers even if it
/// panics.
struct CancellableHandler {
    server: Handler,
    in_flight: Arc<InFlight>,
    /// True once the client has said that it is ready. Guards against: one that says so a
    /// million times, each of which would be told of every change.
    is_initialized: AtomicBool,
}

impl Service<RoleServer> for CancellableHandler {
    async fn handle_request(
        &self,
        request: ClientRequest,
        mut context: RequestContext<RoleServer>,
    ) -> Result<ServerResult, ErrorData> {
        if let Some((cancelled, room)) = self.in_flight.of(&context.id) {
            context.ct = cancelled;
            context.extensions.insert(room);
        }
        let cancelled = context.ct.clone();
        let mut answer = pin!(self.server.handle_request(request, context));
        let answer = poll_fn(|task| poll_caught(answer.as_mut(), task)).await;
        match answer {
            // Nobody reads it, and rmcp would log the error.
            Err(_) if cancelled.is_cancelled() => Ok(ServerResult::empty(())),
            answer => answer,
        }
    }

    async fn handle_notification(
        &self,
        notification: ClientNotification,
        context: NotificationContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if matches!(notification, ClientNotification::InitializedNotification(_))
            && self.is_initialized.swap(true, Ordering::Relaxed)
        {
            return Ok(());
        }
        self.server.handle_notification(notification, context).await
    }

    fn get_info(&self) -> ServerConfig {
        Service::get_info(&self.server)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Service::supported_protocol_versions(&self.server)
    }
}

/// Polls the handler of a request. If it panics, the request gets an error.
fn poll_caught(
    answer: Pin<&mut impl Future<Output = Result<ServerResult, ErrorData>>>,
    task: &mut Context<'_>,
) -> Poll<Result<ServerResult, ErrorData>> {
    match catch_unwind(AssertUnwindSafe(|| answer.poll(task))) {
        Ok(poll) => poll,
        Err(_) => {
            tracing::error!("the handler of a request panicked");
            let error = ErrorData::internal_error("the request broke off", None);
            Poll::Ready(Err(error))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[test]
    fn answers_a_request_whose_handler_panics() {
        let mut here = Context::from_waker(Waker::noop());
        let answer = pin!(async { panic!("on purpose") });
        let Poll::Ready(Err(error)) = poll_caught(answer, &mut here) else {
            panic!("no answer");
        };
        assert_eq!(error.message, "the request broke off");
    }
}
