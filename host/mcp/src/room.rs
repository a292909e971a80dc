//! Room for answers: the bytes that a transport keeps until its clients read
//! them. A method of the handler takes room before it makes an answer into JSON,
//! and gives the answer up if there is too little.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use axum::http::request::Parts;
use rmcp::model::ErrorData;
use rmcp::service::{RequestContext, RoleServer};

/// The share that one request's answer has of the bytes of all answers.
pub(crate) struct Room {
    left: Arc<AtomicUsize>,
    own: Mutex<usize>,
    refused: AtomicBool,
}

impl Room {
    /// Returns an empty share of these bytes.
    pub(crate) fn new(left: &Arc<AtomicUsize>) -> Arc<Self> {
        Arc::new(Self {
            left: Arc::clone(left),
            own: Mutex::default(),
            refused: AtomicBool::new(false),
        })
    }

    /// Grows to at least so many bytes. Returns false if too few are left: the
    /// answer must not be kept. It never shrinks, so that a report of progress
    /// does not give away the room of the answer behind it.
    pub(crate) fn fit(&self, bytes: usize) -> bool {
        let mut own = self.own.lock().unwrap_or_else(|broken| broken.into_inner());
        let more = bytes.saturating_sub(*own);
        let take = |left: usize| left.checked_sub(more);
        let taken = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        match taken {
            Ok(_) => *own += more,
            Err(_) => self.refused.store(true, Ordering::Relaxed),
        }
        taken.is_ok()
    }

    /// Grows to the size of a whole answer. Returns false if that does not fit, or
    /// if there was too little room before: then the answer is only an error.
    pub(crate) fn holds(&self, bytes: u64) -> bool {
        !self.refused.load(Ordering::Relaxed) && usize::try_from(bytes).is_ok_and(|it| self.fit(it))
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let own = self
            .own
            .get_mut()
            .unwrap_or_else(|broken| broken.into_inner());
        self.left.fetch_add(*own, Ordering::Relaxed);
    }
}

/// The room for the answer to a request, if its transport bounds answers.
#[derive(Clone)]
pub(crate) struct AnswerRoom(Option<Weak<Room>>);

impl AnswerRoom {
    pub(crate) fn of(context: &RequestContext<RoleServer>) -> Self {
        let parts = context.extensions.get::<Parts>();
        Self(parts.and_then(|parts| parts.extensions.get::<Weak<Room>>().cloned()))
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
    fn answers_share_bytes_and_give_them_back() {
        let left = Arc::new(AtomicUsize::new(100));
        let (one, other) = (Room::new(&left), Room::new(&left));
        assert!(one.fit(60) && other.fit(40));
        assert!(!other.fit(41));
        assert!(!other.holds(1) && one.holds(60));
        assert!(one.fit(10) && !other.fit(90));
        assert!(!one.fit(usize::MAX));
        drop(other);
        assert!(one.fit(100));
        drop(one);
        assert_eq!(left.load(Ordering::Relaxed), 100);
    }
}
