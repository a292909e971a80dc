//! Reads messages, and gives each request its slot among those in flight.

use std::future::poll_fn;
use std::mem;
use std::sync::Arc;
use std::task::Poll;

use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorData, GetMeta as _,
    JsonRpcMessage, ProtocolVersion, RequestId,
};
use tokio_util::sync::CancellationToken;

use super::in_flight::{self, BeginError, InFlight};
use super::line_reader::{LineReader, NextLine};
use super::parse::{BadLine, parse};
use super::writer::MessageWriter;

/// The reader of a session's input.
pub(crate) struct MessageReader {
    pub(crate) lines: LineReader,
    pub(crate) in_flight: Arc<InFlight>,
    pub(crate) writer: MessageWriter,
    /// Cancelled when no more input is read.
    pub(crate) input_closed: CancellationToken,
    /// True once a session has begun, or a request that needs no session has arrived.
    pub(crate) is_open: bool,
    /// True once the client has sent `notifications/initialized`.
    pub(crate) is_initialized: bool,
    /// True once the client has sent a header of another protocol.
    pub(crate) has_headers: bool,
}

impl MessageReader {
    /// Waits for the next message for rmcp, and gives a request its slot.
    pub(crate) async fn next(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            let line = tokio::select! {
                biased;
                () = self.input_closed.cancelled() => NextLine::End,
                line = self.lines.next() => line,
            };
            let message = match line {
                NextLine::End => return None,
                NextLine::TooLong => Err(BadLine::too_long()),
                NextLine::Text(line) => parse(line),
            };
            match message {
                Ok(message) => {
                    if self.admit(&message).await {
                        return Some(message);
                    }
                }
                // One error is enough for all headers.
                Err(bad) if bad.is_header && mem::replace(&mut self.has_headers, true) => {}
                Err(bad) => self.refuse_line(bad).await,
            }
        }
    }

    /// Answers a line that is not a message with an error, unless it is a notification.
    async fn refuse_line(&self, bad: BadLine) {
        tracing::warn!("skipped a line that is not a message: {}", bad.message);
        if !bad.is_notification {
            // With the id of a request in flight, the client would mistake the error for the
            // response to that request.
            let id = bad.id.filter(|id| self.in_flight.get(id).is_none());
            self.refuse(ErrorData::new(bad.code, bad.message, None), id)
                .await;
        }
    }

    /// Returns whether rmcp gets a message. Gives a request its slot, and handles a cancellation
    /// itself. Before a session, anything but a request would make rmcp end the server.
    async fn admit(&mut self, message: &ClientJsonRpcMessage) -> bool {
        let kind = match message {
            JsonRpcMessage::Request(request) => {
                return self.begin(&request.id, &request.request).await;
            }
            JsonRpcMessage::Notification(notification) => {
                match &notification.notification {
                    ClientNotification::CancelledNotification(cancelled) => {
                        if let Some(id) = &cancelled.params.request_id {
                            self.in_flight.cancel(id);
                        }
                        return false;
                    }
                    // Guards against: a client that sends it many times, and would get each
                    // notification of a change as many times.
                    ClientNotification::InitializedNotification(_) if self.is_open => {
                        return !mem::replace(&mut self.is_initialized, true);
                    }
                    _ => "a notification",
                }
            }
            _ => "a response",
        };
        if !self.is_open {
            tracing::warn!("skipped {kind} before the session");
        }
        self.is_open
    }

    /// Gives a request its slot, or answers it with an error. Returns whether it has a slot.
    async fn begin(&mut self, id: &RequestId, request: &ClientRequest) -> bool {
        self.is_open = self.is_open || opens_session(request);
        let (message, answered_id) = match self.in_flight.begin(id, request).await {
            Ok(()) => return true,
            Err(BeginError::DuplicateId) => {
                tracing::warn!("refused a request with the id of a request in flight");
                let shown: String = id.to_string().chars().take(64).collect();
                // With the id, the client would mistake the error for the response to the
                // request in flight.
                (
                    format!("the id `{shown}` belongs to a request in flight"),
                    None,
                )
            }
            Err(BeginError::TooManySubscriptions) => {
                tracing::warn!("refused a subscription: the client has too many");
                let max = in_flight::MAX_SUBSCRIPTIONS;
                let message = format!(
                    "a client may have at most {max} subscriptions: cancel one, then subscribe \
                     again"
                );
                (message, Some(id.clone()))
            }
        };
        let error = ErrorData::invalid_request(message, None);
        self.refuse(error, answered_id).await;
        false
    }

    /// Answers a line that rmcp does not get.
    ///
    /// Reading continues before the answer is written, because a client may write all its
    /// lines before it reads. The answer takes a slot as a request does, which limits the
    /// number of such answers.
    async fn refuse(&self, error: ErrorData, id: Option<RequestId>) {
        let Some(slot) = self.in_flight.slot().await else {
            return;
        };
        let message = JsonRpcMessage::error(error, id);
        let mut writing = Box::pin(self.writer.write(message, Some(slot)));
        // The first poll decides the position of the message among the others.
        let first = poll_fn(|task| Poll::Ready(writing.as_mut().poll(task))).await;
        if first.is_pending() {
            tokio::spawn(writing);
        }
    }
}

/// Returns whether rmcp begins a session with this request.
fn opens_session(request: &ClientRequest) -> bool {
    match request {
        ClientRequest::InitializeRequest(_) => true,
        ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_) => false,
        request => {
            let meta = request.get_meta();
            let missing = meta.missing_required_keys(&ProtocolVersion::V_2026_07_28);
            let version = meta.protocol_version();
            missing.is_empty()
                && version.is_some_and(|version| ProtocolVersion::KNOWN_VERSIONS.contains(&version))
        }
    }
}
