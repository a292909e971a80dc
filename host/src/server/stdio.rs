//! Messages on standard input and output, one JSON-RPC message a line. What
//! rmcp's own transport for this leaves open is settled here: a line that is no
//! message is answered, a message before the session is opened does not end the
//! server, no more requests are taken than are being answered, and the end of
//! the input waits for the answers.

mod frame;
mod hang_up;
mod in_flight;
mod writer;

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorData, GetMeta as _,
    JsonRpcMessage, ProtocolVersion, RequestId, ServerJsonRpcMessage,
};
use rmcp::service::{QuitReason, RoleServer, ServerInitializeError, serve_server_with_ct};
use rmcp::transport::Transport;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use super::Server;
use frame::{Line, Lines, NoMessage, read};
use in_flight::{InFlight, Refused};
use writer::Writer;

/// How long calls in flight may go on when the process is told to end.
const GRACE: Duration = Duration::from_secs(2);

/// Serves the client on this process's standard input and output, like
/// [`serve`]. Calls in flight are stopped when nobody reads the output.
pub async fn serve_process(server: Server, end: CancellationToken) -> anyhow::Result<()> {
    let (input, output) = rmcp::transport::stdio_pipes();
    let stdout = io::stdout().as_fd().try_clone_to_owned()?;
    let hung_up = hang_up::hung_up(stdout.try_clone()?)?.cancelled_owned();
    serve_until(server, input, (output, Some(stdout.into())), hung_up, end).await
}

/// Serves one client until its input ends, or until `end` is cancelled. Calls
/// in flight are answered first; at `end` they have two seconds for it.
pub async fn serve(
    server: Server,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
    end: CancellationToken,
) -> anyhow::Result<()> {
    serve_until(server, input, (output, None), std::future::pending(), end).await
}

async fn serve_until(
    server: Server,
    input: impl AsyncRead + Send + Unpin + 'static,
    (output, waited): (impl AsyncWrite + Send + Unpin + 'static, Option<File>),
    hung_up: impl Future<Output = ()>,
    end: CancellationToken,
) -> anyhow::Result<()> {
    // Cancelled when answers are of no use any more.
    let gone = CancellationToken::new();
    let closing = end.child_token();
    let live = Arc::clone(server.live());
    let (writer, written) = Writer::start(output, waited, closing.clone(), gone.clone());
    let transport = Stdio {
        lines: Lines::new(input),
        writer,
        in_flight: InFlight::default(),
        opened: false,
        reply: None,
        held: None,
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
        hung_up.await;
        tracing::warn!("the client is gone");
        gone.cancel();
        std::future::pending().await
    };
    // Boxed: the type of all that a session awaits is too deep for what awaits
    // this to be compiled.
    let session: Pin<Box<dyn Future<Output = anyhow::Result<()>> + Send>> =
        Box::pin(session(server, transport, gone.clone()));
    let ended = tokio::select! {
        ended = session => ended,
        () = ending => Ok(()),
        () = losing => Ok(()),
    };
    // The last messages are on their way, unless nobody takes them.
    let _ = written.await;
    ended
}

async fn session(
    server: Server,
    transport: impl Transport<RoleServer> + 'static,
    gone: CancellationToken,
) -> anyhow::Result<()> {
    match serve_server_with_ct(server, transport, gone.clone()).await {
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
struct Stdio<R> {
    lines: Lines<R>,
    writer: Writer,
    in_flight: InFlight,
    /// Whether a session, or a request that needs none, has come.
    opened: bool,
    /// An answer that this gives itself, waiting for its turn.
    reply: Option<ServerJsonRpcMessage>,
    /// A request that waits for others to be answered.
    held: Option<ClientJsonRpcMessage>,
    /// The input has ended, or is not read any more.
    closing: CancellationToken,
}

impl<R: AsyncRead + Send + Unpin + 'static> Transport<RoleServer> for Stdio<R> {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        // The request counts as in flight until its answer is written.
        let answered = match &message {
            JsonRpcMessage::Response(response) => self.in_flight.end(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref().and_then(|id| self.in_flight.end(id)),
            _ => None,
        };
        self.writer.write(message, answered)
    }

    /// The next message. Whatever is waited for here can be waited for again:
    /// rmcp gives up in the middle whenever it has something else to do.
    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            if let Some(reply) = self.reply.clone() {
                self.writer.write(reply, None).await.ok()?;
                self.reply = None;
            }
            if let Some(held) = &self.held {
                self.in_flight.room(held).await;
                if let Some(message) = self.held.take().and_then(|held| self.admit(held)) {
                    return Some(message);
                }
                continue;
            }
            let line = tokio::select! {
                biased;
                () = self.closing.cancelled() => Line::End,
                line = self.lines.next() => line,
            };
            match line {
                Line::End => {
                    self.closing.cancel();
                    self.in_flight.none().await;
                    return None;
                }
                Line::TooLong => {
                    let limit = frame::MAX_LINE;
                    tracing::warn!("a message of more than {limit} bytes was skipped");
                    self.reply_without_id(ErrorData::invalid_request(
                        format!("a message is {limit} bytes at most"),
                        None,
                    ));
                }
                Line::Text => match read(self.lines.text()) {
                    Ok(message) => self.take(message),
                    Err(line) => {
                        let NoMessage {
                            id, code, message, ..
                        } = line;
                        tracing::warn!("a line that is no message was skipped: {message}");
                        if line.answered {
                            let error = ErrorData::new(code, message, None);
                            self.reply = Some(JsonRpcMessage::error(error, id));
                        }
                    }
                },
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<R> Stdio<R> {
    /// Keeps a message to be handed on, if it may come now.
    fn take(&mut self, message: ClientJsonRpcMessage) {
        match &message {
            JsonRpcMessage::Request(request) => {
                self.opened = self.opened || opens(&request.request);
            }
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    // Nobody answers it any more.
                    drop(self.in_flight.end(id));
                }
                if !self.opened {
                    tracing::warn!("a notification before the session was skipped");
                    return;
                }
            }
            _ if !self.opened => {
                tracing::warn!("an answer before the session was skipped");
                return;
            }
            _ => {}
        }
        self.held = Some(message);
    }

    /// Counts a request as in flight; nothing else is counted.
    fn admit(&mut self, message: ClientJsonRpcMessage) -> Option<ClientJsonRpcMessage> {
        let JsonRpcMessage::Request(request) = &message else {
            return Some(message);
        };
        match self.in_flight.begin(&request.id, &request.request) {
            Ok(()) => Some(message),
            Err(Refused::SameId) => {
                tracing::warn!("a request with the id of one in flight was skipped");
                // With the id, this would pass for the other one's answer.
                self.reply_without_id(ErrorData::invalid_request(
                    format!("a request with the id {} is in flight", shown(&request.id)),
                    None,
                ));
                None
            }
            Err(Refused::TooManySubscriptions) => {
                tracing::warn!("a subscription beyond the limit was refused");
                let error = ErrorData::invalid_request(
                    format!(
                        "a client has {} subscriptions at most",
                        in_flight::SUBSCRIPTIONS
                    ),
                    None,
                );
                self.reply = Some(JsonRpcMessage::error(error, Some(request.id.clone())));
                None
            }
        }
    }

    fn reply_without_id(&mut self, error: ErrorData) {
        self.reply = Some(JsonRpcMessage::error(error, None));
    }
}

/// Whether rmcp takes this for the start of a session. Until then it ends the
/// server at anything but a request.
fn opens(request: &ClientRequest) -> bool {
    match request {
        ClientRequest::InitializeRequest(_) => true,
        ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_) => false,
        request => {
            let meta = request.get_meta();
            let complete = meta.missing_required_keys(&ProtocolVersion::V_2026_07_28);
            let version = meta.protocol_version();
            complete.is_empty()
                && version.is_some_and(|found| ProtocolVersion::KNOWN_VERSIONS.contains(&found))
        }
    }
}

fn shown(id: &RequestId) -> String {
    id.to_string().chars().take(64).collect()
}
