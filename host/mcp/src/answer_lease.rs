//! Leases on the memory for answers, and turns for large JSON. A transport keeps a lease until its
//! client has read the answer.
//!
//! A method of the handler reserves memory before it serializes an answer. If too little is
//! left, it answers with an error.

use std::num::NonZero;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::thread::available_parallelism;

use http::request::Parts;
use rmcp::model::ErrorData;
use rmcp::service::{RequestContext, RoleServer};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::message_limits;

/// The smallest size of an answer that waits for a turn before it is serialized, in bytes of JSON.
/// One MiB takes some milliseconds. Guards against: large answers that occupy all threads while
/// small ones wait.
const LARGE_ANSWER: usize = 1 << 20;

/// The maximum number of bytes of JSON for one byte of an answer. Escapes make a byte at most seven
/// in a text that is JSON already, and six in structured content.
const MAX_JSON_PER_BYTE: usize = 16;

/// The turns in which large messages are parsed and large answers are serialized: one for every
/// two processors.
#[derive(Clone)]
pub struct JsonTurns {
    count: usize,
    /// The turns that all clients share.
    shared: Arc<Semaphore>,
    /// Limits the turns that this client holds or waits for. Guards against: a client that sends
    /// many messages at once, so that other clients wait for all of them.
    client_limit: Arc<Semaphore>,
}

/// One turn. It lasts until it is dropped.
pub struct JsonTurn {
    _shared: OwnedSemaphorePermit,
    _client_limit: OwnedSemaphorePermit,
}

/// A future that waits for a turn.
pub type TurnWait = Pin<Box<dyn Future<Output = Option<JsonTurn>> + Send>>;

impl Default for JsonTurns {
    fn default() -> Self {
        let processors = available_parallelism().map_or(1, NonZero::get);
        Self::new((processors / 2).max(1))
    }
}

impl JsonTurns {
    fn new(count: usize) -> Self {
        Self {
            count,
            shared: Arc::new(Semaphore::new(count)),
            client_limit: Arc::new(Semaphore::new(count)),
        }
    }

    /// Returns the same turns for another client.
    pub fn for_client(&self) -> Self {
        Self {
            client_limit: Arc::new(Semaphore::new(self.count)),
            ..self.clone()
        }
    }

    /// Waits for a turn.
    async fn acquire(&self) -> Option<JsonTurn> {
        // The semaphores are never closed.
        let client_limit = Arc::clone(&self.client_limit).acquire_owned().await.ok()?;
        let shared = Arc::clone(&self.shared).acquire_owned().await.ok()?;
        Some(JsonTurn {
            _shared: shared,
            _client_limit: client_limit,
        })
    }
}

/// The bytes that the answer to one request holds of the budget for all answers. They return to
/// the budget on drop.
pub struct AnswerLease {
    held: Mutex<HeldBytes>,
    /// True once a reservation has failed.
    is_refused: AtomicBool,
    /// The turn of the answer. `None` once the answer is serialized, or if its transport
    /// has no turns.
    turn: Mutex<Option<AnswerTurn>>,
}

/// The turn of one answer, until it is dropped.
struct AnswerTurn {
    turns: JsonTurns,
    /// `None` before the turn has come, and if the response is a stream.
    turn: Option<JsonTurn>,
    /// True if the response is a stream.
    is_stream: bool,
    /// True once a large answer was announced.
    is_large: bool,
}

struct HeldBytes {
    count: usize,
    /// The function that takes more bytes from the budget. It returns false if too few are left.
    take: Box<dyn FnMut(usize) -> bool + Send>,
}

impl AnswerLease {
    /// Returns a lease that holds nothing yet. `take` takes a number of bytes from a budget, or
    /// returns false if too few are left. Dropping `take` must return all its bytes to the budget.
    pub fn new(take: impl FnMut(usize) -> bool + Send + 'static) -> Arc<Self> {
        Arc::new(Self {
            held: Mutex::new(HeldBytes {
                count: 0,
                take: Box::new(take),
            }),
            is_refused: AtomicBool::new(false),
            turn: Mutex::new(None),
        })
    }

    /// Makes the request's message and the answer wait for one of these turns, if they are large.
    pub fn with_turns(self: Arc<Self>, turns: JsonTurns) -> Arc<Self> {
        *self.turn() = Some(AnswerTurn {
            turns,
            turn: None,
            is_stream: false,
            is_large: false,
        });
        self
    }

    /// Waits for a turn to parse the request's message. Returns `None` if the message is not large,
    /// or if the answer has its turn already.
    pub async fn turn_to_parse(&self, message: &[u8]) -> Option<JsonTurn> {
        let turns = self.turns_to_wait_for();
        let turns = turns.filter(|_| message_limits::is_large(message))?;
        turns.acquire().await
    }

    /// Ends the turn of the answer, which is serialized now.
    pub fn end_turn(&self) {
        *self.turn() = None;
    }

    /// Marks the response as a stream, and ends the turn of the answer. The stream takes a [turn
    /// for each message](Self::turn_for_message) instead. Guards against: a client that does not
    /// read earlier messages, so that the answer keeps its turn.
    pub fn begin_stream(&self) {
        if let Some(answer) = &mut *self.turn() {
            answer.turn = None;
            answer.is_stream = true;
        }
    }

    /// Marks that a large answer is coming.
    pub fn announce_large(&self) {
        if let Some(answer) = &mut *self.turn() {
            answer.is_large = true;
        }
    }

    /// Returns a future that waits for the turn in which the next message of a stream is
    /// serialized. Returns `None` if that message is not large.
    pub fn turn_for_message(&self) -> Option<TurnWait> {
        let answer = self.turn();
        let waiting = answer.as_ref();
        let waiting = waiting.filter(|answer| answer.is_stream && answer.is_large)?;
        let turns = waiting.turns.clone();
        Some(Box::pin(async move { turns.acquire().await }))
    }

    /// Returns the turns, if the answer needs one of them and has none yet.
    fn turns_to_wait_for(&self) -> Option<JsonTurns> {
        let turn = self.turn();
        let waiting = turn.as_ref().filter(|turn| turn.turn.is_none());
        waiting.map(|turn| turn.turns.clone())
    }

    fn turn(&self) -> MutexGuard<'_, Option<AnswerTurn>> {
        self.turn
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Grows the lease to at least this number of bytes. Returns false if too few are left:
    /// then the answer must not be kept.
    ///
    /// The lease never shrinks, so that a small progress report does not release the memory for
    /// the answer.
    pub fn reserve(&self, bytes: usize) -> bool {
        let mut held = self
            .held
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let missing = bytes.saturating_sub(held.count);
        let fits = missing == 0 || (held.take)(missing);
        if fits {
            held.count += missing;
        } else {
            self.is_refused.store(true, Ordering::Relaxed);
        }
        fits
    }

    /// Grows the lease to the size of a whole answer. Returns false if too few bytes are
    /// left, or if an earlier reservation failed: then the answer is only an error.
    pub fn reserve_answer(&self, bytes: u64) -> bool {
        !self.is_refused.load(Ordering::Relaxed)
            && usize::try_from(bytes).is_ok_and(|bytes| self.reserve(bytes))
    }
}

/// A request's access to the lease of its answer. `None` if its transport does not limit
/// the memory for answers.
#[derive(Clone)]
pub(crate) struct LeaseHandle(pub(crate) Option<Weak<AnswerLease>>);

impl LeaseHandle {
    /// Finds the lease that the transport put into a request's extensions.
    pub(crate) fn from_context(context: &RequestContext<RoleServer>) -> Self {
        // The HTTP transport's extensions are in the parts of the HTTP request.
        let parts = context.extensions.get::<Parts>();
        let http = parts.and_then(|parts| parts.extensions.get::<Weak<AnswerLease>>());
        let stdio = || context.extensions.get::<Weak<AnswerLease>>();
        Self(http.or_else(stdio).cloned())
    }

    /// Reserves memory for an answer with this many bytes of JSON, and waits for its turn.
    pub(crate) async fn reserve_and_wait(&self, bytes: usize) -> Result<(), ErrorData> {
        self.reserve(bytes)?;
        self.wait_for_turn(bytes).await;
        Ok(())
    }

    /// Reserves memory for the JSON of an answer whose texts have `bytes` bytes, and waits for its
    /// turn. Calls `json_bytes`, which counts the JSON, unless the answer is small or has no turns,
    /// such as over stdio. Without turns, reserves `bytes`.
    pub(crate) async fn reserve_json_and_wait(
        &self,
        bytes: usize,
        json_bytes: impl FnOnce() -> usize,
    ) -> Result<(), ErrorData> {
        if bytes < LARGE_ANSWER / MAX_JSON_PER_BYTE {
            return Ok(());
        }
        if self.lease().is_none_or(|lease| lease.turn().is_none()) {
            return self.reserve(bytes);
        }
        if bytes < LARGE_ANSWER {
            return self.reserve_and_wait(json_bytes()).await;
        }
        // Counting the JSON of a large text takes long, too.
        let turn = self.acquire_turn(bytes).await;
        self.reserve(json_bytes())?;
        self.keep_turn(turn);
        Ok(())
    }

    /// Waits for the turn of an answer with this many bytes of JSON, if it is large. The answer
    /// keeps its turn until its transport [ends](AnswerLease::end_turn) it.
    pub(crate) async fn wait_for_turn(&self, bytes: usize) {
        let turn = self.acquire_turn(bytes).await;
        self.keep_turn(turn);
    }

    /// Waits for a turn. Returns `None` if the answer is not large, or has its turn already.
    async fn acquire_turn(&self, bytes: usize) -> Option<JsonTurn> {
        if bytes < LARGE_ANSWER {
            return None;
        }
        // Holds no lease while waiting, so that a client that goes away frees its bytes.
        let turns = {
            let lease = self.lease()?;
            lease.announce_large();
            lease.turns_to_wait_for()?
        };
        turns.acquire().await
    }

    /// Gives the answer its turn. Drops the turn if the response is a stream.
    fn keep_turn(&self, turn: Option<JsonTurn>) {
        if let (Some(turn), Some(lease)) = (turn, self.lease())
            && let Some(answer) = &mut *lease.turn()
            && !answer.is_stream
        {
            answer.turn = Some(turn);
        }
    }

    fn lease(&self) -> Option<Arc<AnswerLease>> {
        self.0.as_ref().and_then(Weak::upgrade)
    }

    /// Reserves memory for an answer. Returns the error to send instead if too little is
    /// left, or if the client no longer waits for the answer.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<(), ErrorData> {
        let fits = self
            .0
            .as_ref()
            .is_none_or(|lease| lease.upgrade().is_some_and(|lease| lease.reserve(bytes)));
        if fits {
            return Ok(());
        }
        let why = "no memory is left for the answer: other answers are still unread; try again";
        Err(ErrorData::internal_error(why, None))
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn refuses_answer_without_memory_or_reader() {
        let lease = AnswerLease::new(|missing| missing <= 10);
        let handle = LeaseHandle(Some(Arc::downgrade(&lease)));
        assert!(handle.reserve(10).is_ok());
        let error = handle.reserve(21).unwrap_err();
        assert!(error.message.contains("no memory is left"), "{error}");
        drop(lease);
        assert!(handle.reserve(1).is_err());
        // A transport without leases limits answers by itself.
        assert!(LeaseHandle(None).reserve(usize::MAX).is_ok());
    }

    #[tokio::test]
    async fn reserves_memory_and_waits_for_turn() {
        let turns = JsonTurns::new(1);
        let lease = AnswerLease::new(|missing| missing <= LARGE_ANSWER).with_turns(turns.clone());
        let handle = LeaseHandle(Some(Arc::downgrade(&lease)));
        handle.reserve_and_wait(LARGE_ANSWER).await.unwrap();
        assert_eq!(turns.shared.available_permits(), 0);
        assert!(handle.reserve_and_wait(2 * LARGE_ANSWER + 1).await.is_err());
    }

    #[tokio::test]
    async fn json_of_answer_decides_about_its_turn() {
        const HALF: usize = LARGE_ANSWER / 2;
        for (bytes, json_bytes, takes_turn) in [
            (HALF, LARGE_ANSWER - 1, false),
            (HALF, LARGE_ANSWER, true),
            (LARGE_ANSWER, LARGE_ANSWER, true),
        ] {
            let turns = JsonTurns::new(1);
            let lease = AnswerLease::new(|missing| missing <= LARGE_ANSWER);
            let lease = lease.with_turns(turns.clone());
            let handle = LeaseHandle(Some(Arc::downgrade(&lease)));
            let waited = handle.reserve_json_and_wait(bytes, || json_bytes).await;
            assert!(waited.is_ok(), "{bytes} {json_bytes}");
            let has_turn = turns.shared.available_permits() == 0;
            assert_eq!(has_turn, takes_turn, "{bytes} {json_bytes}");
            // The memory is that of the JSON.
            let refused = handle.reserve_json_and_wait(bytes, || 3 * LARGE_ANSWER);
            assert!(refused.await.is_err(), "{bytes}");
        }
    }

    #[tokio::test]
    async fn counts_no_json_without_turns() {
        let lease = AnswerLease::new(|missing| missing <= LARGE_ANSWER);
        let handle = LeaseHandle(Some(Arc::downgrade(&lease)));
        for (bytes, fits) in [(LARGE_ANSWER, true), (2 * LARGE_ANSWER + 1, false)] {
            let reserved = handle.reserve_json_and_wait(bytes, || unreachable!());
            assert_eq!(reserved.await.is_ok(), fits, "{bytes}");
        }
    }

    #[tokio::test]
    async fn messages_of_stream_take_their_own_turns() {
        let turns = JsonTurns::new(1);
        let free = || turns.shared.available_permits();
        let lease = AnswerLease::new(|_| true).with_turns(turns.clone());
        let handle = LeaseHandle(Some(Arc::downgrade(&lease)));
        handle.wait_for_turn(LARGE_ANSWER).await;
        assert!(free() == 0 && lease.turn_for_message().is_none());
        lease.begin_stream();
        assert_eq!(free(), 1);
        handle.wait_for_turn(LARGE_ANSWER).await;
        assert_eq!(free(), 1);
        for _ in 0..2 {
            let turn = lease.turn_for_message().unwrap().await;
            assert!(turn.is_some() && free() == 0);
        }
        let small = AnswerLease::new(|_| true).with_turns(turns.clone());
        small.begin_stream();
        assert!(small.turn_for_message().is_none());
    }

    #[test]
    fn large_answers_take_turns() {
        let turns = JsonTurns::new(1);
        let leases = [(); 3].map(|()| AnswerLease::new(|_| true).with_turns(turns.clone()));
        let [first, second, ended] = leases
            .each_ref()
            .map(|lease| LeaseHandle(Some(Arc::downgrade(lease))));
        let mut task = Context::from_waker(Waker::noop());
        let mut is_ready =
            |mut wait: Pin<&mut dyn Future<Output = ()>>| wait.as_mut().poll(&mut task).is_ready();
        assert!(is_ready(pin!(first.wait_for_turn(LARGE_ANSWER))));
        // The first answer has its turn already.
        assert!(is_ready(pin!(first.wait_for_turn(LARGE_ANSWER))));
        let mut waiting = pin!(second.wait_for_turn(LARGE_ANSWER));
        assert!(!is_ready(waiting.as_mut()));
        leases[2].end_turn();
        assert!(is_ready(pin!(ended.wait_for_turn(LARGE_ANSWER))));
        assert!(is_ready(pin!(ended.wait_for_turn(LARGE_ANSWER - 1))));
        assert!(is_ready(pin!(
            LeaseHandle(None).wait_for_turn(LARGE_ANSWER)
        )));
        leases[0].end_turn();
        assert!(is_ready(waiting));
        // A client that goes away gives its turn back.
        assert_eq!(turns.shared.available_permits(), 0);
        drop(leases);
        assert_eq!(turns.shared.available_permits(), 1);
    }
}
