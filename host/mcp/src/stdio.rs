//! Messages on standard input and output, one JSON-RPC message a line. What
//! rmcp's own transport for this leaves open is settled here: a line that is no
//! message is answered, a message before the session is opened does not end the
//! server, no more requests are taken than are being answered, and the end of
//! the input waits for the answers.
//!
//! rmcp keeps the session, and sees notifications and subscriptions; all other
//! requests are answered where they are read, by the same handler.

mod frame;
mod hang_up;
mod in_flight;
mod outgoing;
mod pulse;
mod reader;
mod waiting;
mod writer;

use std::io::{self, Read, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::service::{QuitReason, RoleServer, ServerInitializeError, serve_server_with_ct};
use rmcp::transport::Transport;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Server;
use in_flight::InFlight;
use reader::Reader;
use waiting::Waiting;
use writer::Writer;

/// How long calls in flight may go on when the process is told to end.
const GRACE: Duration = Duration::from_secs(2);

/// Serves the client on this process's standard input and output, like
/// [`serve`]. Calls in flight are stopped when nobody reads the output.
pub async fn serve_process(server: Server, end: CancellationToken) -> anyhow::Result<()> {
    let (input, output) = (io::stdin(), io::stdout());
    let hung_up = hang_up::hung_up(&output)?.cancelled_owned();
    let (input, output) = (Waiting::new(input)?, Waiting::new(output)?);
    serve_until(server, input, output, hung_up, end).await
}

/// Serves one client until its input ends, or until `end` is cancelled. Calls
/// in flight are answered first; at `end` they have two seconds for it. Threads
/// of their own read and write, and wait for both; the one that reads stays
/// until its input ends.
pub async fn serve(
    server: Server,
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
    end: CancellationToken,
) -> anyhow::Result<()> {
    serve_until(server, input, output, std::future::pending(), end).await
}

async fn serve_until(
    server: Server,
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
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
    let (writer, written) = Writer::start(output, gone.clone())?;
    let (inbox, messages) = mpsc::channel(1);
    let reader = Arc::new(Reader::new(
        server.clone(),
        input,
        writer.clone(),
        inbox,
        closing.clone(),
        gone.clone(),
    ));
    let transport = Stdio {
        messages,
        in_flight: Arc::clone(reader.in_flight()),
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
    let session: Pin<Box<dyn Future<Output = anyhow::Result<()>> + Send>> =
        Box::pin(session(server, transport, &reader, gone.clone()));
    let ended = tokio::select! {
        ended = session => ended,
        failed = Arc::clone(&reader).read() => failed.map_err(anyhow::Error::from),
        () = ending => Ok(()),
        () = losing => Ok(()),
    };
    // The last messages are on their way, unless nobody takes them.
    let last = async {
        writer.finish().await;
        let _ = written.await;
    };
    tokio::select! {
        () = last => {}
        () = gone.cancelled() => {}
        () = writer.stalled() => {}
    }
    ended
}

async fn session(
    server: Server,
    transport: impl Transport<RoleServer> + 'static,
    reader: &Reader,
    gone: CancellationToken,
) -> anyhow::Result<()> {
    // Of its own: rmcp cancels it when the session ends, and what is written
    // then is still of use.
    let ended = gone.child_token();
    match serve_server_with_ct(server, transport, ended).await {
        Ok(service) => {
            reader.answer(service.peer().clone());
            match service.waiting().await? {
                QuitReason::JoinError(error) => Err(error.into()),
                _ => Ok(()),
            }
        }
        // The input ended, or the process was told to, before a session.
        Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        Err(_) if gone.is_cancelled() => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// rmcp's view of the two streams.
struct Stdio {
    /// What the reader leaves to rmcp.
    messages: mpsc::Receiver<ClientJsonRpcMessage>,
    in_flight: Arc<InFlight>,
    writer: Writer,
    /// The input has ended, or is not read any more.
    closing: CancellationToken,
}

impl Transport<RoleServer> for Stdio {
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
        self.writer.write(message.into(), answered)
    }

    /// The next message. Whatever is waited for here can be waited for again:
    /// rmcp gives up in the middle whenever it has something else to do.
    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        let message = tokio::select! {
            biased;
            message = self.messages.recv() => message,
            () = self.closing.cancelled() => {
                // What was handed in before this is still there.
                self.messages.close();
                self.messages.recv().await
            }
        };
        if message.is_none() {
            self.in_flight.none().await;
        }
        message
    }

    async fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}
