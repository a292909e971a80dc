//! Requests that were taken and are not answered yet. Their number is bounded,
//! so that a client that asks and does not read waits, and the host's memory
//! does not fill with answers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use rmcp::model::{ClientRequest, RequestId};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// Requests in flight; while there are so many, no further line is read.
/// Guards against: a client that floods. More than run at a time, so that none waits
/// for the pipe.
const REQUESTS: u32 = 128;

/// Subscriptions, which stay in flight until they are cancelled. Guards against: a
/// client that subscribes again and again.
pub(crate) const SUBSCRIPTIONS: usize = 16;

/// The requests of a client.
pub(crate) struct InFlight {
    room: Arc<Semaphore>,
    subscriptions: Arc<Semaphore>,
    requests: Mutex<HashMap<RequestId, Place>>,
    /// Told when a cancelled request has ended.
    ended: Notify,
    gone: CancellationToken,
}

/// The place of a request in flight, until this is dropped.
pub(crate) struct Place {
    /// None once it is cancelled: it is not answered.
    room: Option<OwnedSemaphorePermit>,
    cancelled: CancellationToken,
}

impl Place {
    /// Whether nobody waits for the answer any more.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.is_cancelled()
    }
}

/// Why a request is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    SameId,
    TooManySubscriptions,
}

impl InFlight {
    /// No requests yet; all are cancelled by `gone`.
    pub(crate) fn new(gone: CancellationToken) -> Self {
        Self {
            room: Arc::new(Semaphore::new(REQUESTS as usize)),
            subscriptions: Arc::new(Semaphore::new(SUBSCRIPTIONS)),
            requests: Mutex::default(),
            ended: Notify::new(),
            gone,
        }
    }

    /// Gives a request a place. Waits until there is room, except for that of a
    /// subscription, and until a cancelled request with its id has ended. One
    /// request waits at a time.
    pub(crate) async fn begin(
        &self,
        id: &RequestId,
        request: &ClientRequest,
    ) -> Result<(), Refused> {
        let is_subscription = matches!(request, ClientRequest::SubscriptionsListenRequest(_));
        let room = match is_subscription {
            true => Arc::clone(&self.subscriptions).try_acquire_owned().ok(),
            false => Arc::clone(&self.room).acquire_owned().await.ok(),
        };
        loop {
            match self.requests().get(id) {
                None => break,
                Some(same) if same.is_cancelled() => {}
                Some(_) => return Err(Refused::SameId),
            }
            self.ended.notified().await;
        }
        let place = Place {
            room: Some(room.ok_or(Refused::TooManySubscriptions)?),
            cancelled: self.gone.child_token(),
        };
        self.requests().insert(id.clone(), place);
        Ok(())
    }

    /// Takes a place for the answer to a line that is no request. Waits until there
    /// is room.
    pub(crate) async fn place(&self) -> Option<Place> {
        let room = Arc::clone(&self.room).acquire_owned().await.ok()?;
        Some(Place {
            room: Some(room),
            cancelled: self.gone.child_token(),
        })
    }

    /// Returns what cancels a request.
    pub(crate) fn cancellation(&self, id: &RequestId) -> Option<CancellationToken> {
        let requests = self.requests();
        Some(requests.get(id)?.cancelled.clone())
    }

    /// Cancels a request. It gives its room up and keeps its id until it
    /// [ends](Self::end).
    pub(crate) fn cancel(&self, id: &RequestId) {
        if let Some(place) = self.requests().get_mut(id) {
            place.cancelled.cancel();
            place.room = None;
        }
    }

    /// Ends a request: its id is free, and its room once the place is dropped.
    pub(crate) fn end(&self, id: &RequestId) -> Option<Place> {
        let place = self.requests().remove(id)?;
        if place.is_cancelled() {
            self.ended.notify_one();
        }
        Some(place)
    }

    /// Waits until everything is answered, and what waits for room before that.
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

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use serde_json::json;

    use super::*;

    fn request(method: &str) -> ClientRequest {
        let params = json!({"notifications": {}});
        serde_json::from_value(json!({"method": method, "params": params})).unwrap()
    }

    #[tokio::test]
    async fn an_id_is_free_when_the_cancelled_request_that_has_it_has_ended() {
        let in_flight = InFlight::new(CancellationToken::new());
        let (id, ping) = (RequestId::Number(1), request("ping"));
        in_flight.begin(&id, &ping).await.unwrap();
        assert_eq!(in_flight.begin(&id, &ping).await, Err(Refused::SameId));
        let first = in_flight.cancellation(&id).unwrap();
        in_flight.cancel(&id);
        assert!(first.is_cancelled());
        let mut second = pin!(in_flight.begin(&id, &ping));
        let mut task = Context::from_waker(Waker::noop());
        assert!(second.as_mut().poll(&mut task).is_pending());
        assert!(in_flight.end(&id).unwrap().is_cancelled());
        second.await.unwrap();
        assert!(!in_flight.end(&id).unwrap().is_cancelled());
        in_flight.none().await;
    }

    #[tokio::test]
    async fn a_cancelled_subscription_makes_room_at_once() {
        let in_flight = InFlight::new(CancellationToken::new());
        let listen = request("subscriptions/listen");
        let ids = |number: usize| RequestId::String(number.to_string().into());
        for number in 0..SUBSCRIPTIONS {
            in_flight.begin(&ids(number), &listen).await.unwrap();
        }
        let next = ids(SUBSCRIPTIONS);
        let refused = in_flight.begin(&next, &listen).await;
        assert_eq!(refused, Err(Refused::TooManySubscriptions));
        in_flight.cancel(&ids(3));
        in_flight.begin(&next, &listen).await.unwrap();
    }
}
