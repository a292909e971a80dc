//! The requests that are not answered yet. Their number is bounded, and the bytes of their
//! answers. So a client that asks and does not read has to wait, and answers do not fill the
//! host's memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use rmcp::model::{ClientRequest, RequestId};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::room::Room;

/// The most requests in flight; with so many, no further line is read. Guards
/// against: a client that floods. It is more than run at a time, so that no call waits
/// for the pipe.
const REQUESTS: u32 = 128;

/// The most bytes of answers that are not written yet. Guards against: a client that asks
/// for large files and does not read them.
const ANSWER_BYTES: usize = 256 << 20;

/// The most subscriptions, which stay in flight until they are cancelled. Guards
/// against: a client that subscribes again and again.
pub(crate) const SUBSCRIPTIONS: usize = 16;

/// The requests of a client.
pub(crate) struct InFlight {
    slots: Arc<Semaphore>,
    subscriptions: Arc<Semaphore>,
    answer_bytes: Arc<Semaphore>,
    requests: Mutex<HashMap<RequestId, RequestSlot>>,
    /// Notified when a cancelled request has ended.
    ended: Notify,
    gone: CancellationToken,
}

/// The slot of a request in flight, until it is dropped.
pub(crate) struct RequestSlot {
    /// None once a cancelled request has ended, because it is not answered.
    permit: Option<OwnedSemaphorePermit>,
    cancelled: CancellationToken,
    /// The room of its answer, until that is written.
    room: Arc<Room>,
}

impl RequestSlot {
    /// Returns whether the request is cancelled: it gets no answer.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.is_cancelled()
    }
}

/// The reason why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BeginError {
    SameId,
    TooManySubscriptions,
}

impl InFlight {
    /// Starts without requests. `gone` cancels all that will come.
    pub(crate) fn new(gone: CancellationToken) -> Self {
        Self {
            slots: Arc::new(Semaphore::new(REQUESTS as usize)),
            subscriptions: Arc::new(Semaphore::new(SUBSCRIPTIONS)),
            answer_bytes: Arc::new(Semaphore::new(ANSWER_BYTES)),
            requests: Mutex::default(),
            ended: Notify::new(),
            gone,
        }
    }

    /// Gives a request a slot. Waits until one is free, for a subscription only while a
    /// cancelled request ends, and until a cancelled request with the same id has ended.
    /// One request waits at a time.
    pub(crate) async fn begin(
        &self,
        id: &RequestId,
        request: &ClientRequest,
    ) -> Result<(), BeginError> {
        let is_subscription = matches!(request, ClientRequest::SubscriptionsListenRequest(_));
        let permit = match is_subscription {
            true => self.subscription().await,
            false => Arc::clone(&self.slots).acquire_owned().await.ok(),
        };
        loop {
            match self.requests().get(id) {
                None => break,
                Some(same) if same.is_cancelled() => {}
                Some(_) => return Err(BeginError::SameId),
            }
            self.ended.notified().await;
        }
        let slot = self.slot_of(permit.ok_or(BeginError::TooManySubscriptions)?);
        self.requests().insert(id.clone(), slot);
        Ok(())
    }

    async fn subscription(&self) -> Option<OwnedSemaphorePermit> {
        loop {
            let is_ending = self.requests().values().any(RequestSlot::is_cancelled);
            let permit = Arc::clone(&self.subscriptions).try_acquire_owned().ok();
            if permit.is_some() || !is_ending {
                return permit;
            }
            self.ended.notified().await;
        }
    }

    /// Takes a slot for the answer to a line that is not a request. Waits until one is
    /// free.
    pub(crate) async fn slot(&self) -> Option<RequestSlot> {
        let permit = Arc::clone(&self.slots).acquire_owned().await.ok()?;
        Some(self.slot_of(permit))
    }

    fn slot_of(&self, permit: OwnedSemaphorePermit) -> RequestSlot {
        let bytes = Arc::clone(&self.answer_bytes);
        let mut taken = Vec::new();
        let room = Room::new(move |more| {
            let more = u32::try_from(more).ok();
            let more = more.and_then(|it| Arc::clone(&bytes).try_acquire_many_owned(it).ok());
            let fits = more.is_some();
            taken.extend(more);
            fits
        });
        RequestSlot {
            permit: Some(permit),
            cancelled: self.gone.child_token(),
            room,
        }
    }

    /// Returns the token that cancels a request, and the room of its answer.
    pub(crate) fn of(&self, id: &RequestId) -> Option<(CancellationToken, Weak<Room>)> {
        let requests = self.requests();
        let slot = requests.get(id)?;
        Some((slot.cancelled.clone(), Arc::downgrade(&slot.room)))
    }

    /// Cancels a request. Its slot and its id are free when it [ends](Self::end): what it
    /// has sent by then may wait for a client that does not read.
    pub(crate) fn cancel(&self, id: &RequestId) {
        if let Some(slot) = self.requests().get(id) {
            slot.cancelled.cancel();
        }
    }

    /// Ends a request: its id is free. Its slot is free once the returned value is
    /// dropped, and at once if the request is cancelled.
    pub(crate) fn end(&self, id: &RequestId) -> Option<RequestSlot> {
        let mut slot = self.requests().remove(id)?;
        if slot.is_cancelled() {
            slot.permit = None;
            self.ended.notify_one();
        }
        Some(slot)
    }

    /// Waits until all requests are answered, with those that wait for a slot now.
    pub(crate) async fn none(&self) {
        let _ = self.slots.acquire_many(REQUESTS).await;
        let _ = self.subscriptions.acquire_many(SUBSCRIPTIONS as u32).await;
    }

    fn requests(&self) -> MutexGuard<'_, HashMap<RequestId, RequestSlot>> {
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
    async fn frees_the_id_of_a_cancelled_request_when_it_ends() {
        let in_flight = InFlight::new(CancellationToken::new());
        let (id, ping) = (RequestId::Number(1), request("ping"));
        in_flight.begin(&id, &ping).await.unwrap();
        assert_eq!(in_flight.begin(&id, &ping).await, Err(BeginError::SameId));
        let (first, _) = in_flight.of(&id).unwrap();
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
    async fn the_end_waits_for_every_answer() {
        let in_flight = InFlight::new(CancellationToken::new());
        let id = RequestId::Number(1);
        for method in ["ping", "subscriptions/listen"] {
            in_flight.begin(&id, &request(method)).await.unwrap();
            let mut none = pin!(in_flight.none());
            let mut task = Context::from_waker(Waker::noop());
            assert!(none.as_mut().poll(&mut task).is_pending(), "{method}");
            // It is answered once the slot is dropped, not before.
            let slot = in_flight.end(&id);
            assert!(none.as_mut().poll(&mut task).is_pending(), "{method}");
            drop(slot);
            none.await;
        }
    }

    #[tokio::test]
    async fn frees_the_slot_of_a_cancelled_subscription_when_it_ends() {
        let in_flight = InFlight::new(CancellationToken::new());
        let listen = request("subscriptions/listen");
        let ids = |number: usize| RequestId::String(number.to_string().into());
        for number in 0..SUBSCRIPTIONS {
            in_flight.begin(&ids(number), &listen).await.unwrap();
        }
        let next = ids(SUBSCRIPTIONS);
        let refused = in_flight.begin(&next, &listen).await;
        assert_eq!(refused, Err(BeginError::TooManySubscriptions));
        // It may have sent what the client does not read.
        in_flight.cancel(&ids(3));
        let mut waiting = pin!(in_flight.begin(&next, &listen));
        let mut task = Context::from_waker(Waker::noop());
        assert!(waiting.as_mut().poll(&mut task).is_pending());
        in_flight.end(&ids(3));
        waiting.await.unwrap();
    }

    #[tokio::test]
    async fn answers_share_bytes_and_give_them_back_when_they_are_written() {
        let in_flight = InFlight::new(CancellationToken::new());
        let [one, other] = [1, 2].map(RequestId::Number);
        for id in [&one, &other] {
            in_flight.begin(id, &request("ping")).await.unwrap();
        }
        let fits = |id, bytes| in_flight.of(id).unwrap().1.upgrade().unwrap().fit(bytes);
        assert!(fits(&one, 1) && fits(&one, ANSWER_BYTES - 10));
        assert!(fits(&other, 10) && !fits(&other, 11) && !fits(&other, usize::MAX));
        let written = in_flight.end(&one);
        assert!(!fits(&other, 11));
        drop(written);
        assert!(fits(&other, ANSWER_BYTES));
    }
}
