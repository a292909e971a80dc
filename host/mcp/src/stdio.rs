//! Serving one client on standard input and output, one JSON-RPC message a
//! line. rmcp runs the session; this is the [`Transport`] that it reads from and
//! writes to, because its own leaves open what a hostile client can use.
//!
//! rmcp's loop calls `Stdio::receive`, gives each request to the handler in a
//! task of its own, and calls `Stdio::send` with the answer. Nothing is queued
//! here. What holds:
//!
//! - A line has a bound, and is read only when the one before it has its place:
//!   128 requests and refused lines are in flight at most, from the line to the
//!   written answer.
//! - A request that rmcp is given is in `InFlight` under its id, alone. It
//!   leaves when rmcp hands its answer to `Stdio::send`, and each request gets
//!   exactly one, those that are cancelled or panic too. So an answer is never
//!   taken for that of a later request with the same id.
//! - `notifications/cancelled` ends here and does not reach rmcp, which would
//!   forget the id before the handler has ended. `Answering` gives the handler
//!   the token that is cancelled.
//! - `Stdio::receive` ends when the input has ended, or is not to be read any
//!   more, and no request is in flight. rmcp would wait five seconds.
//! - A message is written whole, whoever gives up waiting for that, and no task
//!   waits for the client with a thread of the protocol.

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
use frame::Lines;
use in_flight::InFlight;
use reader::Reader;
use stream::{Input, Output};
use writer::Writer;

/// How long calls in flight may go on when the process is told to end.
const GRACE: Duration = Duration::from_secs(2);

/// Serves the client on this process's standard input and output, like
/// [`serve`]. Calls in flight are stopped when nobody reads the output.
pub async fn serve_process(server: Handler, end: CancellationToken) -> anyhow::Result<()> {
    let (input, output) = (io::stdin(), io::stdout());
    let hung_up = hang_up::hung_up(&output)?.cancelled_owned();
    serve_until(server, input, output, hung_up, end).await
}

/// Serves one client until its input ends, or until `end` is cancelled. Calls
/// in flight are answered first; at `end` they have two seconds for it. Wants a
/// runtime of several threads, with time, input and output.
pub async fn serve(
    server: Handler,
    input: impl AsFd,
    output: impl AsFd,
    end: CancellationToken,
) -> anyhow::Result<()> {
    serve_until(server, input, output, std::future::pending(), end).await
}

async fn serve_until(
    server: Handler,
    input: impl AsFd,
    output: impl AsFd,
    hung_up: impl Future<Output = ()>,
    end: CancellationToken,
) -> anyhow::Result<()> {
    // Cancelled when answers are of no use any more.
    let gone = CancellationToken::new();
    let _gone = gone.clone().drop_guard();
    let closing = end.child_token();
    // Nothing more is read once nobody waits for this.
    let _closing = closing.clone().drop_guard();
    let live = Arc::clone(server.live());
    let in_flight = Arc::new(InFlight::new(gone.clone()));
    let writer = Writer::new(Output::new(output)?, gone.clone());
    let reader = Reader {
        lines: Lines::new(Input::new(input)?),
        in_flight: Arc::clone(&in_flight),
        writer: writer.clone(),
        closing: closing.clone(),
        opened: false,
    };
    let transport = Stdio {
        reading: Some(reading(reader)),
        in_flight: Arc::clone(&in_flight),
        writer: writer.clone(),
        closing: closing.clone(),
    };
    let ending = async {
        closing.cancelled().await;
        // Subscriptions are answered, too.
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
                tracing::warn!("the client does not take what it is answered");
            }
        }
        gone.cancel();
        std::future::pending().await
    };
    // Boxed: the type of all that a session awaits is too deep for what awaits
    // this to be compiled.
    let session: Pin<Box<dyn Future<Output = anyhow::Result<()>> + Send>> = Box::pin(session(
        Answering { server, in_flight },
        transport,
        gone.clone(),
    ));
    let ended = tokio::select! {
        ended = session => ended,
        () = ending => Ok(()),
        () = losing => Ok(()),
    };
    // The last messages are on their way, unless nobody takes them.
    tokio::select! {
        () = writer.finish() => {}
        () = gone.cancelled() => {}
        () = writer.stalled() => {}
    }
    ended
}

async fn session(
    service: Answering,
    transport: Stdio,
    gone: CancellationToken,
) -> anyhow::Result<()> {
    // Of its own: rmcp cancels it when the session ends, and what is written
    // then is still of use.
    let ended = gone.child_token();
    match serve_server_with_ct(service, transport, ended).await {
        Ok(service) => match service.waiting().await? {
            QuitReason::JoinError(error) => Err(error.into()),
            _ => Ok(()),
        },
        // The input ended, or the process was told to, before a session.
        Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        Err(_) if gone.is_cancelled() => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// rmcp's view of the two streams.
struct Stdio {
    /// None once nothing more comes.
    reading: Option<Reading>,
    in_flight: Arc<InFlight>,
    writer: Writer,
    closing: CancellationToken,
}

/// The reader at work, which comes back with the next message. Kept, because
/// rmcp drops what it receives by whenever it has something else to do.
type Reading = Pin<Box<dyn Future<Output = (Reader, Option<ClientJsonRpcMessage>)> + Send>>;

fn reading(mut reader: Reader) -> Reading {
    Box::pin(async move {
        let message = reader.next().await;
        (reader, message)
    })
}

impl Transport<RoleServer> for Stdio {
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
        // Nobody waits for the answer to what was cancelled.
        let due = !answered.as_ref().is_some_and(|it| it.is_cancelled());
        let written = due.then(|| self.writer.write(message, answered));
        async move {
            match written {
                Some(written) => written.await,
                None => Ok(()),
            }
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        if let Some(kept) = &mut self.reading {
            let (reader, message) = kept.await;
            self.reading = message.is_some().then(|| reading(reader));
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

/// The handler, with the cancellation of [`InFlight`] in place of rmcp's, and an
/// answer even where it panics.
struct Answering {
    server: Handler,
    in_flight: Arc<InFlight>,
}

impl Service<RoleServer> for Answering {
    async fn handle_request(
        &self,
        request: ClientRequest,
        mut context: RequestContext<RoleServer>,
    ) -> Result<ServerResult, ErrorData> {
        if let Some(cancelled) = self.in_flight.cancellation(&context.id) {
            context.ct = cancelled;
        }
        let cancelled = context.ct.clone();
        let mut answer = pin!(self.server.handle_request(request, context));
        let answer = poll_fn(|task| turn_of(answer.as_mut(), task)).await;
        match answer {
            // It goes nowhere, and rmcp would log an error as one.
            Err(_) if cancelled.is_cancelled() => Ok(ServerResult::empty(())),
            answer => answer,
        }
    }

    async fn handle_notification(
        &self,
        notification: ClientNotification,
        context: NotificationContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.server.handle_notification(notification, context).await
    }

    fn get_info(&self) -> ServerConfig {
        Service::get_info(&self.server)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Service::supported_protocol_versions(&self.server)
    }
}

/// A turn of what answers a request, which is lost if it panics.
fn turn_of(
    answer: Pin<&mut impl Future<Output = Result<ServerResult, ErrorData>>>,
    task: &mut Context<'_>,
) -> Poll<Result<ServerResult, ErrorData>> {
    match catch_unwind(AssertUnwindSafe(|| answer.poll(task))) {
        Ok(turn) => turn,
        Err(_) => {
            tracing::error!("what answers a request panicked");
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
    fn what_panics_is_answered() {
        let mut here = Context::from_waker(Waker::noop());
        let answer = pin!(async { panic!("on purpose") });
        let Poll::Ready(Err(error)) = turn_of(answer, &mut here) else {
            panic!("no answer");
        };
        assert_eq!(error.message, "the request broke off");
    }
}
