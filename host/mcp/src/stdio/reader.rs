//! Reads messages, and gives each request its slot among those in flight.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorData, GetMeta as _,
    JsonRpcMessage, ProtocolVersion, RequestId,
};
use tokio_util::sync::CancellationToken;

use super::frame::{self, BadLine, LineReader, NextLine};
use super::in_flight::{self, BeginError, InFlight};
use super::writer::MessageWriter;

/// The reader of a session's input.
pub(crate) struct MessageReader {
    pub(crate) lines: LineReader,
    pub(crate) in_flight: Arc<InFlight>,
    pub(crate) writer: MessageWriter,
    /// Cancelled when no more input is read.
    pub(crate) closing: CancellationToken,
    /// True once a session has begun, or a request that needs none has come.
    pub(crate) opened: bool,
}

impl MessageReader {
    /// Waits for the next message that rmcp may get. A request has its slot by then.
    pub(crate) async fn next(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            let line = tokio::select! {
                biased;
                () = self.closing.cancelled() => NextLine::End,
                line = self.lines.next() => line,
            };
            match line {
                NextLine::End => return None,
                NextLine::TooLong => {
                    let limit = frame::MAX_LINE;
                    tracing::warn!("a message of more than {limit} bytes was skipped");
                    let why = format!("a message is {limit} bytes at most");
                    self.refuse(ErrorData::invalid_request(why, None), None)
                        .await;
                }
                NextLine::Text => match frame::read(self.lines.text()) {
                    Ok(message) => {
                        if self.admits(&message).await {
                            return Some(message);
                        }
                    }
                    Err(BadLine {
                        answered,
                        id,
                        code,
                        message,
                    }) => {
                        tracing::warn!("a line that is not a message was skipped: {message}");
                        if answered {
                            // With it, the client would take this for the answer to a
                            // request in flight.
                            let id = id.filter(|id| self.in_flight.of(id).is_none());
                            self.refuse(ErrorData::new(code, message, None), id).await;
                        }
                    }
                },
            }
        }
    }

    /// Returns whether rmcp gets a message. Before a session, anything but a request
    /// would make rmcp end the server.
    async fn admits(&mut self, message: &ClientJsonRpcMessage) -> bool {
        let what = match message {
            JsonRpcMessage::Request(request) => {
                return self.begin(&request.id, &request.request).await;
            }
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                {
                    if let Some(id) = &cancelled.params.request_id {
                        self.in_flight.cancel(id);
                    }
                    return false;
                }
                "a notification"
            }
            _ => "an answer",
        };
        if !self.opened {
            tracing::warn!("{what} before the session was skipped");
        }
        self.opened
    }

    /// Gives a request its slot, or refuses it.
    async fn begin(&mut self, id: &RequestId, request: &ClientRequest) -> bool {
        self.opened = self.opened || opens(request);
        let (why, answered) = match self.in_flight.begin(id, request).await {
            Ok(()) => return true,
            Err(BeginError::SameId) => {
                tracing::warn!("a request with the id of one in flight was skipped");
                let shown: String = id.to_string().chars().take(64).collect();
                // With the id, the client would take this for the other answer.
                (format!("a request with the id {shown} is in flight"), None)
            }
            Err(BeginError::TooManySubscriptions) => {
                tracing::warn!("a subscription beyond the limit was refused");
                let limit = in_flight::SUBSCRIPTIONS;
                let why = format!("a client has {limit} subscriptions at most");
                (why, Some(id.clone()))
            }
        };
        self.refuse(ErrorData::invalid_request(why, None), answered)
            .await;
        false
    }

    /// Answers a line that rmcp does not get. Reading goes on before the answer is
    /// written: a client may write all its lines before it reads. The answer takes a
    /// slot like a request, so that their number is bounded.
    async fn refuse(&self, error: ErrorData, id: Option<RequestId>) {
        let Some(slot) = self.in_flight.slot().await else {
            return;
        };
        let message = JsonRpcMessage::error(error, id);
        let mut written = Box::pin(self.writer.write(message, Some(slot)));
        // Its first poll decides its place in the order of messages.
        let first = poll_fn(|task| Poll::Ready(written.as_mut().poll(task))).await;
        if first.is_pending() {
            tokio::spawn(written);
        }
    }
}

/// Returns whether rmcp takes this for the start of a session.
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
