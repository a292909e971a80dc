//! Room for answers: the bytes that a transport keeps until its clients read
//! them. A method of the handler takes room before it makes an answer into JSON,
//! and gives the answer up if there is too little.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use axum::http::request::Parts;
use rmcp::model::ErrorData;
use rmcp::service::{RequestContext, RoleServer};

/// The share that one request's answer has of the bytes of all answers.
pub(crate) struct Room {
    own: Mutex<TakenBytes>,
    refused: AtomicBool,
}

struct TakenBytes {
    count: usize,
    /// Takes more. Returns false if too few are left.
    take: Box<dyn FnMut(usize) -> bool + Send>,
}

impl Room {
    /// Returns an empty share. `take` takes bytes for it, and gives them back when it is
    /// dropped.
    pub(crate) fn new(take: impl FnMut(usize) -> bool + Send + 'static) -> Arc<Self> {
        Arc::new(Self {
            own: Mutex::new(TakenBytes {
                count: 0,
                take: Box::new(take),
            }),
            refused: AtomicBool::new(false),
        })
    }

    /// Grows to at least so many bytes. Returns false if too few are left: the
    /// answer must not be kept. It never shrinks, so that a report of progress
    /// does not give away the room of the answer behind it.
    pub(crate) fn fit(&self, bytes: usize) -> bool {
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
    pub(crate) fn holds(&self, bytes: u64) -> bool {
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
}
