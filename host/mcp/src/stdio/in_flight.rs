//! Requests that were taken and are not answered yet. Their number is bounded,
//! so that a client that asks and does not read waits, and the host's memory
//! does not fill with answers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use rmcp::model::{ClientRequest, RequestId};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// Requests in flight; while there are so many, no further line is read.
/// Meets: a client that floods. More than run at a time, so that none waits
/// for the pipe.
pub(crate) const REQUESTS: u32 = 128;

/// Subscriptions, which stay in flight until they are cancelled. Meets: a
/// client that subscribes again and again.
pub(crate) const SUBSCRIPTIONS: usize = 16;

/// The requests of a client.
pub(crate) struct InFlight {
    room: Arc<Semaphore>,
    subscriptions: Arc<Semaphore>,
    requests: Mutex<HashMap<RequestId, Place>>,
}

/// The place of a request in flight, until this is dropped.
pub(crate) struct Place {
    _room: OwnedSemaphorePermit,
    /// Cancelled when nobody waits for the answer any more.
    pub(crate) cancelled: CancellationToken,
}

/// Why a request is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    SameId,
    TooManySubscriptions,
}

impl Default for InFlight {
    fn default() -> Self {
        Self {
            room: Arc::new(Semaphore::new(REQUESTS as usize)),
            subscriptions: Arc::new(Semaphore::new(SUBSCRIPTIONS)),
            requests: Mutex::default(),
        }
    }
}

impl InFlight {
    /// Room for a request, if there is some.
    pub(crate) fn room_now(&self, request: &ClientRequest) -> Option<OwnedSemaphorePermit> {
        let room = match is_subscription(request) {
            true => &self.subscriptions,
            false => &self.room,
        };
        Arc::clone(room).try_acquire_owned().ok()
    }

    /// Waits until there is room for a request; not for that of a subscription.
    pub(crate) async fn room(&self, request: &ClientRequest) -> Option<OwnedSemaphorePermit> {
        if is_subscription(request) {
            return None;
        }
        Arc::clone(&self.room).acquire_owned().await.ok()
    }

    /// Counts a request, with the room that it has.
    pub(crate) fn begin(
        &self,
        id: &RequestId,
        room: Option<OwnedSemaphorePermit>,
        cancelled: CancellationToken,
    ) -> Result<(), Refused> {
        let mut requests = self.requests();
        if requests.contains_key(id) {
            return Err(Refused::SameId);
        }
        let place = Place {
            _room: room.ok_or(Refused::TooManySubscriptions)?,
            cancelled,
        };
        requests.insert(id.clone(), place);
        Ok(())
    }

    /// Ends a request: it is answered once its place is dropped.
    pub(crate) fn end(&self, id: &RequestId) -> Option<Place> {
        self.requests().remove(id)
    }

    /// Ends a request that nobody waits for any more, all at once: its id is
    /// another's when it is used again.
    pub(crate) fn cancel(&self, id: &RequestId) {
        let mut requests = self.requests();
        if let Some(place) = requests.remove(id) {
            place.cancelled.cancel();
        }
    }

    /// Ends the request that was [begun](Self::begin) with this token, unless it
    /// was cancelled: then what has its id is another.
    pub(crate) fn end_own(&self, id: &RequestId, own: &CancellationToken) -> Option<Place> {
        let mut requests = self.requests();
        let found = requests.get(id)?;
        // Both are at the end of all.
        let same = found.cancelled.is_cancelled() == own.is_cancelled();
        same.then(|| requests.remove(id)).flatten()
    }

    /// Waits until everything is answered.
    pub(crate) async fn none(&self) {
        let _ = self.room.acquire_many(REQUESTS).await;
        let _ = self.subscriptions.acquire_many(SUBSCRIPTIONS as u32).await;
    }

    fn requests(&self) -> MutexGuard<'_, HashMap<RequestId, Place>> {
        self.requests
            .lock()
            .unwrap_or_else(|broken| broken.into_inner())
    }
}

fn is_subscription(request: &ClientRequest) -> bool {
    matches!(request, ClientRequest::SubscriptionsListenRequest(_))
}
