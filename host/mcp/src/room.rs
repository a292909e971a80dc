//! Room for the answers of a transport that keeps them until their clients read
//! them. A request's room is found by whoever makes its answer, who gives a
//! large one up before it is made into JSON, if there is no room for it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use axum::http::request::Parts;
use rmcp::model::ErrorData;
use rmcp::service::{RequestContext, RoleServer};

/// What one request's answer has of the bytes that all answers may have.
pub(crate) struct Room {
    left: Arc<AtomicUsize>,
    own: Mutex<usize>,
    refused: AtomicBool,
}

impl Room {
    /// No room yet, of these bytes.
    pub(crate) fn new(left: &Arc<AtomicUsize>) -> Arc<Self> {
        Arc::new(Self {
            left: Arc::clone(left),
            own: Mutex::default(),
            refused: AtomicBool::new(false),
        })
    }

    /// Makes it the room for at least so many bytes. False if there is too little:
    /// the answer must not be kept. It never shrinks: a word on the way, a report
    /// of progress, must not give away the room of the answer behind it.
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

    /// Makes it the room for a whole answer, unless there was too little for what
    /// that was made of: then it is an error, which is small.
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

/// The room for the answer to a request, if its transport counts.
#[derive(Clone)]
pub(crate) struct AnswerRoom(Option<Weak<Room>>);

impl AnswerRoom {
    pub(crate) fn of(context: &RequestContext<RoleServer>) -> Self {
        let parts = context.extensions.get::<Parts>();
        Self(parts.and_then(|parts| parts.extensions.get::<Weak<Room>>().cloned()))
    }

    /// Takes room for what an answer is made of. An error instead of the answer
    /// if there is too little, or nobody waits for the answer any more.
    pub(crate) fn fit(&self, bytes: usize) -> Result<(), ErrorData> {
        let fits = self
            .0
            .as_ref()
            .is_none_or(|room| room.upgrade().is_some_and(|room| room.fit(bytes)));
        match fits {
            true => Ok(()),
            false => {
                let why = "there is no room for the answer now, try again";
                Err(ErrorData::internal_error(why, None))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_share_so_many_bytes_and_give_them_back_at_their_end() {
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
