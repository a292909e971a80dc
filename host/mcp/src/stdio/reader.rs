//! Reading messages, by a thread that waits for them, and answering requests
//! where they were read: each change of threads takes as long as a small call.
//!
//! A request has one turn on that thread, and most are answered in it. What is
//! not goes on elsewhere, and so do sessions and subscriptions, which rmcp
//! takes care of. A thread that does not come back from a turn, because a file
//! system or the client makes it wait, is relieved: another one reads on.

use std::future::poll_fn;
use std::io::{self, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorData, GetExtensions as _,
    GetMeta as _, JsonRpcMessage, ProtocolVersion, RequestId, ServerResult,
};
use rmcp::service::{Peer, RequestContext, RoleServer, Service as _};
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::frame::{self, Line, Lines, NoMessage};
use super::in_flight::{self, InFlight, Refused};
use super::outgoing::Outgoing;
use super::pulse::{Beat, Pulse};
use super::writer::Writer;
use crate::Server;

/// How long a thread may be kept before it is relieved. Longer than a guest's
/// turn.
const PATIENCE: Duration = Duration::from_millis(20);

/// How often nothing has happened when no more is looked whether something
/// does.
const REST: u32 = 50;

/// What reads the input of a session.
pub(crate) struct Reader {
    input: Mutex<Input>,
    /// Where messages go that are not answered here.
    inbox: mpsc::Sender<ClientJsonRpcMessage>,
    server: Server,
    /// The client, once there is a session.
    peer: OnceLock<Peer<RoleServer>>,
    in_flight: Arc<InFlight>,
    writer: Writer,
    runtime: Handle,
    /// Whether somebody looks whether threads are kept.
    watched: AtomicBool,
    watch: Notify,
    /// The input has ended, or is not read any more.
    closing: CancellationToken,
    /// Answers are of no use any more.
    gone: CancellationToken,
}

struct Input {
    lines: Lines<Box<dyn Read + Send>>,
    /// Whether a session, or a request that needs none, has come.
    opened: bool,
}

type Answer = Result<ServerResult, ErrorData>;

impl Reader {
    pub(crate) fn new(
        server: Server,
        input: impl Read + Send + 'static,
        writer: Writer,
        inbox: mpsc::Sender<ClientJsonRpcMessage>,
        closing: CancellationToken,
        gone: CancellationToken,
    ) -> Self {
        Self {
            input: Mutex::new(Input {
                lines: Lines::new(Box::new(input)),
                opened: false,
            }),
            inbox,
            server,
            peer: OnceLock::new(),
            in_flight: Arc::default(),
            writer,
            runtime: Handle::current(),
            watched: AtomicBool::new(false),
            watch: Notify::new(),
            closing,
            gone,
        }
    }

    /// The requests that are being answered, wherever.
    pub(crate) fn in_flight(&self) -> &Arc<InFlight> {
        &self.in_flight
    }

    /// From here on requests of this client are answered where they are read.
    pub(crate) fn answer(&self, peer: Peer<RoleServer>) {
        let _ = self.peer.set(peer);
    }

    /// Reads, until nobody waits for this any more. A thread that waits for
    /// input then stays until that ends.
    pub(crate) async fn read(self: Arc<Self>) -> io::Result<()> {
        let (read, may) = channel();
        let mut answering = self.start(may)?;
        let _ = read.send(());
        loop {
            self.watch.notified().await;
            let mut quiet = 0;
            while quiet < REST {
                let before = answering.beat();
                sleep(PATIENCE).await;
                let alike = answering.beat() == before;
                quiet = if alike { quiet + 1 } else { 0 };
                if alike && before.is_at_work() {
                    answering = self.relieve(answering, before);
                    quiet = 0;
                }
                if quiet == REST {
                    self.watched.store(false, Ordering::SeqCst);
                    // What had begun before that was stored told nobody.
                    if answering.beat() != before {
                        self.watched.store(true, Ordering::SeqCst);
                        quiet = 0;
                    }
                }
            }
        }
    }

    /// Has another thread read on, if there can be one and the one that is kept
    /// has not come back. Never two of them read: what they read would overtake
    /// each other.
    fn relieve(self: &Arc<Self>, kept: Arc<Pulse>, since: Beat) -> Arc<Pulse> {
        let (read, may) = channel();
        match self.start(may) {
            Ok(answering) if kept.relieve(since) => {
                tracing::debug!("a request keeps the thread that read it");
                let _ = read.send(());
                answering
            }
            Ok(_) => kept,
            Err(error) => {
                tracing::error!("nothing is read until a request is answered: {error}");
                kept
            }
        }
    }

    /// Starts a thread that reads once it may, and ends if it never does.
    fn start(self: &Arc<Self>, may: Receiver<()>) -> io::Result<Arc<Pulse>> {
        let (reader, answering) = (Arc::clone(self), Arc::<Pulse>::default());
        let mine = Arc::clone(&answering);
        thread::Builder::new()
            .name("skillhost-reader".to_owned())
            .spawn(move || {
                if may.recv().is_err() {
                    return;
                }
                let _runtime = reader.runtime.enter();
                while !mine.is_relieved()
                    && let Some(message) = reader.next()
                {
                    reader.hand_on(message, &mine);
                }
            })?;
        Ok(answering)
    }

    /// The next message that may come now.
    fn next(&self) -> Option<ClientJsonRpcMessage> {
        let mut input = self
            .input
            .lock()
            .unwrap_or_else(|broken| broken.into_inner());
        let Input { lines, opened } = &mut *input;
        loop {
            let line = lines.next();
            if self.closing.is_cancelled() {
                return None;
            }
            match line {
                Line::End => {
                    self.closing.cancel();
                    return None;
                }
                Line::TooLong => {
                    let limit = frame::MAX_LINE;
                    tracing::warn!("a message of more than {limit} bytes was skipped");
                    let why = format!("a message is {limit} bytes at most");
                    self.refuse(ErrorData::invalid_request(why, None), None);
                }
                Line::Text => match frame::read(lines.text()) {
                    Ok(message) if self.may_come(&message, opened) => return Some(message),
                    Ok(_) => {}
                    Err(NoMessage {
                        answered,
                        id,
                        code,
                        message,
                    }) => {
                        tracing::warn!("a line that is no message was skipped: {message}");
                        if answered {
                            self.refuse(ErrorData::new(code, message, None), id);
                        }
                    }
                },
            }
        }
    }

    /// Whether rmcp bears a message at this time: before a session it ends the
    /// server at anything but a request.
    fn may_come(&self, message: &ClientJsonRpcMessage, opened: &mut bool) -> bool {
        match message {
            JsonRpcMessage::Request(request) => {
                *opened = *opened || opens(&request.request);
                true
            }
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.in_flight.cancel(id);
                }
                if !*opened {
                    tracing::warn!("a notification before the session was skipped");
                }
                *opened
            }
            _ => {
                if !*opened {
                    tracing::warn!("an answer before the session was skipped");
                }
                *opened
            }
        }
    }

    /// Has a message dealt with: a request here, as far as that goes.
    fn hand_on(self: &Arc<Self>, message: ClientJsonRpcMessage, answering: &Pulse) {
        let request = match message {
            JsonRpcMessage::Request(request) => request,
            message => {
                // An error says that the session is over.
                let _ = self.inbox.blocking_send(message);
                return;
            }
        };
        let id = request.id.clone();
        // Kept from here on: at the end somebody else waits for all the room.
        let room = self.in_flight.room_now(&request.request);
        let room = room.or_else(|| {
            let room = self.in_flight.room(&request.request);
            self.runtime.block_on(room)
        });
        let cancelled = self.gone.child_token();
        match self.in_flight.begin(&id, room, cancelled.clone()) {
            Ok(()) => {}
            Err(Refused::SameId) => {
                tracing::warn!("a request with the id of one in flight was skipped");
                let why = format!("a request with the id {} is in flight", shown(&id));
                // With the id, this would pass for the other one's answer.
                self.refuse(ErrorData::invalid_request(why, None), None);
                return;
            }
            Err(Refused::TooManySubscriptions) => {
                tracing::warn!("a subscription beyond the limit was refused");
                let limit = in_flight::SUBSCRIPTIONS;
                let why = format!("a client has {limit} subscriptions at most");
                self.refuse(ErrorData::invalid_request(why, None), Some(id));
                return;
            }
        }
        match self.peer.get() {
            Some(peer) if is_answered_here(&request.request) => {
                let mut context = RequestContext::new(id, peer.clone());
                context.ct = cancelled;
                self.watched(answering, || self.try_to_answer(request.request, context));
            }
            _ => {
                let sent = self.inbox.blocking_send(JsonRpcMessage::Request(request));
                if sent.is_err() {
                    self.in_flight.end(&id);
                }
            }
        }
    }

    /// Lets a request have its turn here, while it is looked whether that keeps
    /// the thread.
    fn watched(&self, answering: &Pulse, work: impl FnOnce()) {
        answering.during(|| {
            if !self.watched.swap(true, Ordering::SeqCst) {
                self.watch.notify_one();
            }
            work();
        });
    }

    fn try_to_answer(
        self: &Arc<Self>,
        mut request: ClientRequest,
        mut context: RequestContext<RoleServer>,
    ) {
        let (server, id) = (self.server.clone(), context.id.clone());
        let own = context.ct.clone();
        context.meta = std::mem::take(request.get_meta_mut());
        context.extensions = std::mem::take(request.extensions_mut());
        let mut answer = Box::pin(async move { server.handle_request(request, context).await });
        let mut here = Context::from_waker(Waker::noop());
        match turn_of(answer.as_mut(), &mut here) {
            Poll::Ready(answer) => {
                let message = self.message(&id, answer);
                let answered = self.in_flight.end_own(&id, &own);
                if answered.is_some() && !self.writer.write_here(&message) {
                    self.runtime.spawn(self.writer.write(message, answered));
                }
            }
            Poll::Pending => {
                let reader = Arc::clone(self);
                self.runtime.spawn(async move {
                    let answer = poll_fn(|task| turn_of(answer.as_mut(), task)).await;
                    let message = reader.message(&id, answer);
                    let answered = reader.in_flight.end_own(&id, &own);
                    if answered.is_some() {
                        let _ = reader.writer.write(message, answered).await;
                    }
                });
            }
        }
    }

    fn message(&self, id: &RequestId, answer: Answer) -> Outgoing {
        let message = match answer {
            Ok(result) => JsonRpcMessage::response(result, id.clone()),
            Err(error) => JsonRpcMessage::error(error, Some(id.clone())),
        };
        Outgoing::from(message)
    }

    /// Answers what is not handed on.
    fn refuse(&self, error: ErrorData, id: Option<RequestId>) {
        let message = Outgoing::from(JsonRpcMessage::error(error, id));
        if !self.writer.write_here(&message) {
            let _ = self.runtime.block_on(self.writer.write(message, None));
        }
    }
}

/// A turn of what answers a request, which is lost if it panics.
fn turn_of(answer: Pin<&mut impl Future<Output = Answer>>, task: &mut Context<'_>) -> Poll<Answer> {
    match catch_unwind(AssertUnwindSafe(|| answer.poll(task))) {
        Ok(turn) => turn,
        Err(_) => {
            tracing::error!("what answers a request panicked");
            let error = ErrorData::internal_error("the request broke off", None);
            Poll::Ready(Err(error))
        }
    }
}

/// Whether rmcp need not see a request: those that it does see open a session,
/// or stay open themselves.
fn is_answered_here(request: &ClientRequest) -> bool {
    !matches!(
        request,
        ClientRequest::InitializeRequest(_)
            | ClientRequest::DiscoverRequest(_)
            | ClientRequest::SubscriptionsListenRequest(_)
    )
}

/// Whether rmcp takes this for the start of a session.
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

#[cfg(test)]
mod tests {
    use std::pin::pin;

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
