//! Serves one client on standard input and output, with one JSON-RPC message per line.
//!
//! rmcp runs the session. Its loop calls `StdioTransport::receive`, handles each request in
//! a task of its own, and calls `StdioTransport::send` with the response. rmcp's own transport
//! limits the length of a line, but nothing else that a hostile client can do. Nothing is
//! queued here. The invariants:
//!
//! - The length of a line is limited. A line is read only when the previous message has its slot.
//!   At most 128 requests and refused lines have a slot at a time. They keep it until the response
//!   is written. Their responses share 256 MiB.
//! - `InFlight` has each request that rmcp handles under its id, and no two have the same id. A
//!   request leaves it when rmcp hands its response to `StdioTransport::send`. rmcp sends exactly
//!   one response for each request, even if the request is cancelled or its handler panics. So no
//!   client mistakes a response for that of a later request with the same id.
//! - `notifications/cancelled` does not reach rmcp, which would forget the id before the
//!   handler has ended. `CancellableHandler` gives the handler the token that is cancelled.
//! - `StdioTransport::receive` ends when the input has ended or is closed, and no request is
//!   in flight. rmcp itself would wait at most five seconds.
//! - A message is written whole, even if its sender stops waiting. No protocol thread waits
//!   for the client. A response that is too large for the client becomes an error with its
//!   id.

mod in_flight;
mod limits;
mod line_reader;
mod parse;
mod reader;
mod stream;
mod transport;
mod writer;

use std::future::pending;
use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rmcp::service::{QuitReason, ServerInitializeError, serve_server_with_ct};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::{Handler, LiveHost};
use in_flight::InFlight;
pub use limits::StdioLimits;
use line_reader::LineReader;
use reader::MessageReader;
use stream::{InputStream, OutputStream};
use transport::{CancellableHandler, StdioTransport};
use writer::MessageWriter;

/// The time in which calls in flight can still finish after a shutdown begins.
const GRACE: Duration = Duration::from_secs(2);

/// Serves the client on this process's standard input and output, as [`serve`] does. Stops
/// the calls in flight when the client closes the output.
///
/// # Errors
///
/// The errors of [`serve`].
pub async fn serve_process(
    handler: Handler,
    limits: StdioLimits,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let (input, output) = (io::stdin(), io::stdout());
    let hang_up = async {
        if let Err(error) = stream::wait_for_hang_up(&output).await {
            tracing::warn!("cannot notice when the client closes the output: {error}");
            pending::<()>().await;
        }
    };
    serve_until(handler, limits, &input, &output, hang_up, shutdown).await
}

/// Serves one client until its input ends, or until `shutdown` is cancelled. Answers the
/// calls in flight first; after `shutdown` they have two seconds. Needs a runtime of several
/// threads, with time and I/O.
///
/// # Errors
///
/// If the streams cannot be used, or the session fails.
pub async fn serve(
    handler: Handler,
    limits: StdioLimits,
    input: impl AsFd,
    output: impl AsFd,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    serve_until(handler, limits, input, output, pending(), shutdown).await
}

/// The events that end a session.
#[derive(Clone)]
struct SessionEnd {
    /// Cancelled by the caller, to end the server.
    shutdown: CancellationToken,
    /// Cancelled when no more input is read.
    input_closed: CancellationToken,
    /// Cancelled when the client can no longer be answered.
    client_gone: CancellationToken,
}

async fn serve_until(
    handler: Handler,
    limits: StdioLimits,
    input: impl AsFd,
    output: impl AsFd,
    hang_up: impl Future<Output = ()>,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let end = SessionEnd {
        input_closed: shutdown.child_token(),
        client_gone: CancellationToken::new(),
        shutdown,
    };
    // If the caller drops this future, reading and all calls end.
    let _input_guard = end.input_closed.clone().drop_guard();
    let _client_guard = end.client_gone.clone().drop_guard();
    let live = Arc::clone(handler.live());
    live.limit_messages(limits.message);
    let in_flight = Arc::new(InFlight::new(end.client_gone.clone()));
    let writer = MessageWriter::new(
        OutputStream::new(output)?,
        limits.message,
        end.client_gone.clone(),
    );
    let transport = StdioTransport::new(MessageReader {
        lines: LineReader::new(InputStream::new(input)?),
        in_flight: Arc::clone(&in_flight),
        writer: writer.clone(),
        input_closed: end.input_closed.clone(),
        is_open: false,
        is_initialized: false,
        has_headers: false,
    });
    let service = CancellableHandler {
        handler,
        in_flight,
        consent: OnceLock::new(),
        input_closed: end.input_closed.clone(),
    };
    // Boxed: the unboxed type is so deep that its callers do not compile.
    let mut session: Pin<Box<dyn Future<Output = anyhow::Result<()>> + Send>> =
        Box::pin(run_session(service, transport, end.client_gone.clone()));
    let result = tokio::select! {
        result = &mut session => result,
        () = client_lost(&end, &live, &writer, hang_up) => {
            end.client_gone.cancel();
            session.await
        }
    };
    // Waits for the last messages, unless the client does not read them.
    tokio::select! {
        () = writer.finish() => {}
        () = end.client_gone.cancelled() => {}
        () = writer.stalled() => {}
    }
    result
}

/// Waits until the client can no longer be answered: it has closed the output, it does not read its
/// last answers, or its calls have not ended in time after a shutdown.
async fn client_lost(
    end: &SessionEnd,
    live: &LiveHost,
    writer: &MessageWriter,
    hang_up: impl Future<Output = ()>,
) {
    let closing = async {
        end.input_closed.cancelled().await;
        // Ends subscriptions, so that their requests are answered.
        live.close();
        let grace = async {
            end.shutdown.cancelled().await;
            sleep(GRACE).await;
        };
        tokio::select! {
            () = grace => {}
            () = writer.stalled() => tracing::warn!("the client does not read its answers"),
        }
    };
    tokio::select! {
        () = closing => {}
        () = hang_up => tracing::warn!("the client is gone"),
    }
}

async fn run_session(
    service: CancellableHandler,
    transport: StdioTransport,
    client_gone: CancellationToken,
) -> anyhow::Result<()> {
    // A child token: rmcp cancels it when the session ends, but messages are still written after
    // that.
    let session_end = client_gone.child_token();
    match serve_server_with_ct(service, transport, session_end).await {
        Ok(service) => match service.waiting().await? {
            QuitReason::JoinError(error) => Err(error.into()),
            _ => Ok(()),
        },
        // The input or the process ended before a session began.
        Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        Err(_) if client_gone.is_cancelled() => Ok(()),
        Err(error) => Err(error.into()),
    }
}
