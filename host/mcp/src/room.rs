//! Room for answers: the bytes that a transport keeps until its clients read
//! them. A method of the handler takes room before it makes an answer into JSON,
//! and gives the answer up if there is too little.

use std::num::NonZero;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::thread::available_parallelism;

use http::request::Parts;
use rmcp::model::ErrorData;
use rmcp::service::{RequestContext, RoleServer};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The bytes from which on an answer waits for its turn to be made into JSON, which takes
/// a thread some milliseconds for each MiB. Guards against: large answers that keep all
/// threads from small ones.
const LARGE: usize = 1 << 20;

/// The turns in which large answers are made into JSON: half of the processors have one.
#[derive(Clone)]
pub struct JsonTurns(Arc<Semaphore>);

impl Default for JsonTurns {
    fn default() -> Self {
        let processors = available_parallelism().map_or(1, NonZero::get);
        Self(Arc::new(Semaphore::new((processors / 2).max(1))))
    }
}

/// The share that one request's answer has of the bytes of all answers.
pub struct Room {
    own: Mutex<TakenBytes>,
    refused: AtomicBool,
    /// None once the answer is JSON, or if its transport has no turns.
    turn: Mutex<Option<JsonTurn>>,
}

/// The turn of an answer, until this is dropped.
struct JsonTurn {
    turns: JsonTurns,
    permit: Option<OwnedSemaphorePermit>,
}

struct TakenBytes {
    count: usize,
    /// Takes more. Returns false if too few are left.
    take: Box<dyn FnMut(usize) -> bool + Send>,
}

impl Room {
    /// Returns an empty share. `take` takes bytes for it, and gives them back when it is
    /// dropped.
    pub fn new(take: impl FnMut(usize) -> bool + Send + 'static) -> Arc<Self> {
        Arc::new(Self {
            own: Mutex::new(TakenBytes {
                count: 0,
                take: Box::new(take),
            }),
            refused: AtomicBool::new(false),
            turn: Mutex::new(None),
        })
    }

    /// Lets a large answer wait for one of these turns.
    pub fn with_turns(self: Arc<Self>, turns: JsonTurns) -> Arc<Self> {
        let permit = None;
        *self.turn() = Some(JsonTurn { turns, permit });
        self
    }

    /// Ends the turn of the answer, which is JSON, or comes in parts that have none.
    pub fn end_turn(&self) {
        *self.turn() = None;
    }

    /// Returns the turns, if the answer needs one of them and has none yet.
    fn turns_to_wait_for(&self) -> Option<JsonTurns> {
        let turn = self.turn();
        let waiting = turn.as_ref().filter(|turn| turn.permit.is_none());
        waiting.map(|turn| turn.turns.clone())
    }

    fn turn(&self) -> MutexGuard<'_, Option<JsonTurn>> {
        self.turn
            .lock()
            .unwrap_or_else(|broken| broken.into_inner())
    }

    /// Grows to at least so many bytes. Returns false if too few are left: the
    /// answer must not be kept. It never shrinks, so that a report of progress
    /// does not give away the room of the answer behind it.
    pub fn fit(&self, bytes: usize) -> bool {
        let mut own = self.own.lock().unwrap_or_else(|broken| broken.into_inner());
        let more = bytes.saturating_sub(own.count);
        let fits = more == 0 || (own.take)(more);
        match fits {
            true => own.count += more,
            false => self.refused.store(true, Ordering::Relaxed),
        }
        fits
    }

    /// Grows to the size of a whole answer. Returns false if that does not fit, or
    /// if there was too little room before: then the answer is only an error.
    pub fn holds(&self, bytes: u64) -> bool {
        !self.refused.load(Ordering::Relaxed) && usize::try_from(bytes).is_ok_and(|it| self.fit(it))
    }
}

/// The room for the answer to a request, if its transport bounds answers.
#[derive(Clone)]
pub(crate) struct AnswerRoom(pub(crate) Option<Weak<Room>>);

impl AnswerRoom {
    pub(crate) fn of(context: &RequestContext<RoleServer>) -> Self {
        let own = || context.extensions.get::<Weak<Room>>();
        // What came with a request over HTTP lies in the parts of that.
        let parts = context.extensions.get::<Parts>();
        let of_http = parts.and_then(|parts| parts.extensions.get::<Weak<Room>>());
        Self(of_http.or_else(own).cloned())
    }

    /// Waits for the turn of an answer of so many bytes, if it is large. It has the turn
    /// until its transport [ends](Room::end_turn) it.
    pub(crate) async fn wait_for_turn(&self, bytes: usize) {
        let room = || self.0.as_ref().and_then(Weak::upgrade);
        let turns = room().and_then(|room| room.turns_to_wait_for());
        let Some(JsonTurns(turns)) = turns.filter(|_| bytes >= LARGE) else {
            return;
        };
        let permit = turns.acquire_owned().await.ok();
        if let Some(room) = room()
            && let Some(turn) = &mut *room.turn()
        {
            turn.permit = permit;
        }
    }

    /// Takes room for the bytes that an answer is made of. Returns an error to
    /// send in its place if there is too little room, or if nobody waits for the
    /// answer any more.
    pub(crate) fn fit(&self, bytes: usize) -> Result<(), ErrorData> {
        let fits = self
            .0
            .as_ref()
            .is_none_or(|room| room.upgrade().is_some_and(|room| room.fit(bytes)));
        match fits {
            true => Ok(()),
            false => {
                let why = "the server has no room for the answer now, try again";
                Err(ErrorData::internal_error(why, None))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::{Pin, pin};
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn an_answer_without_room_or_without_a_reader_is_an_error() {
        let room = Room::new(|more| more <= 10);
        let answer = AnswerRoom(Some(Arc::downgrade(&room)));
        assert!(answer.fit(10).is_ok());
        let error = answer.fit(21).unwrap_err();
        assert!(error.message.contains("no room"), "{error}");
        drop(room);
        assert!(answer.fit(1).is_err());
        // Another transport bounds them by itself.
        assert!(AnswerRoom(None).fit(usize::MAX).is_ok());
    }

    #[test]
    fn large_answers_take_turns_and_small_ones_do_not() {
        let turns = JsonTurns(Arc::new(Semaphore::new(1)));
        let rooms = [(); 3].map(|()| Room::new(|_| true).with_turns(turns.clone()));
        let [one, other, ended] = rooms
            .each_ref()
            .map(|room| AnswerRoom(Some(Arc::downgrade(room))));
        let mut task = Context::from_waker(Waker::noop());
        let mut is_ready =
            |mut wait: Pin<&mut dyn Future<Output = ()>>| wait.as_mut().poll(&mut task).is_ready();
        assert!(is_ready(pin!(one.wait_for_turn(LARGE))));
        // It has its turn already.
        assert!(is_ready(pin!(one.wait_for_turn(LARGE))));
        let mut second = pin!(other.wait_for_turn(LARGE));
        assert!(!is_ready(second.as_mut()));
        rooms[2].end_turn();
        assert!(is_ready(pin!(ended.wait_for_turn(LARGE))));
        assert!(is_ready(pin!(ended.wait_for_turn(LARGE - 1))));
        assert!(is_ready(pin!(AnswerRoom(None).wait_for_turn(LARGE))));
        rooms[0].end_turn();
        assert!(is_ready(second));
        // A client that is gone gives its turn back.
        assert_eq!(turns.0.available_permits(), 0);
        drop(rooms);
        assert_eq!(turns.0.available_permits(), 1);
    }
}
