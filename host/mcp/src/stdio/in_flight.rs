//! The requests that are not answered yet.
//!
//! Their number and the bytes of their answers are limited: a client that sends requests without
//! reading must wait, and its answers do not fill the host's memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use rmcp::model::{ClientRequest, RequestId};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::answer_lease::AnswerLease;

/// The maximum number of requests in flight. At this limit, the server reads no further line.
/// Guards against: an endless series of requests. The limit is above the number of calls that
/// run at a time, so the next call has always been read.
const MAX_REQUESTS: u32 = 128;

/// The maximum number of bytes of answers that are not written yet. Guards against: a client that
/// asks for large files and does not read them.
const MAX_ANSWER_BYTES: usize = 256 << 20;

/// The maximum number of subscriptions, which stay in flight until they are cancelled. Guards
/// against: a client that subscribes again and again.
pub(crate) const MAX_SUBSCRIPTIONS: u32 = 16;

/// The requests of a client.
pub(crate) struct InFlight {
    slots: Arc<Semaphore>,
    subscriptions: Arc<Semaphore>,
    answer_bytes: Arc<Semaphore>,
    requests: Mutex<HashMap<RequestId, RequestSlot>>,
    /// Notified when a cancelled request has ended.
    ended: Notify,
    client_gone: CancellationToken,
}

/// The slot of a request in flight. Dropping it frees the slot.
pub(crate) struct RequestSlot {
    /// `None` once a cancelled request has ended, because it gets no answer.
    permit: Option<OwnedSemaphorePermit>,
    cancelled: CancellationToken,
    /// The memory for the request's answer, until the answer is written.
    lease: Arc<AnswerLease>,
}

impl RequestSlot {
    /// Returns whether the request is cancelled, and so gets no answer.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.is_cancelled()
    }
}

/// The reason why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BeginError {
    DuplicateId,
    TooManySubscriptions,
}

impl InFlight {
    /// Returns an empty set of requests. `client_gone` cancels every request.
    pub(crate) fn new(client_gone: CancellationToken) -> Self {
        Self {
            slots: Arc::new(Semaphore::new(MAX_REQUESTS as usize)),
            subscriptions: Arc::new(Semaphore::new(MAX_SUBSCRIPTIONS as usize)),
            answer_bytes: Arc::new(Semaphore::new(MAX_ANSWER_BYTES)),
            requests: Mutex::default(),
            ended: Notify::new(),
            client_gone,
        }
    }

    /// Gives a request a slot. Must be called for one request at a time.
    ///
    /// Waits until a slot is free; a subscription waits only for cancelled requests to end.
    /// Also waits until a cancelled request with the same id has ended.
    pub(crate) async fn begin(
        &self,
        id: &RequestId,
        request: &ClientRequest,
    ) -> Result<(), BeginError> {
        let is_subscription = matches!(request, ClientRequest::SubscriptionsListenRequest(_));
        let permit = if is_subscription {
            self.subscription_permit().await
        } else {
            Arc::clone(&self.slots).acquire_owned().await.ok()
        };
        loop {
            match self.requests().get(id) {
                None => break,
                Some(earlier) if earlier.is_cancelled() => {}
                Some(_) => return Err(BeginError::DuplicateId),
            }
            self.ended.notified().await;
        }
        let permit = permit.ok_or(BeginError::TooManySubscriptions)?;
        let slot = self.new_slot(permit);
        self.requests().insert(id.clone(), slot);
        Ok(())
    }

    async fn subscription_permit(&self) -> Option<OwnedSemaphorePermit> {
        loop {
            // Checked first: if a cancelled request ends after this check, its permit is found
            // free below.
            let has_cancelled = self.requests().values().any(RequestSlot::is_cancelled);
            let permit = Arc::clone(&self.subscriptions).try_acquire_owned().ok();
            if permit.is_some() || !has_cancelled {
                return permit;
            }
            self.ended.notified().await;
        }
    }

    /// Returns a slot for the answer to a line that is not a request. Waits until one is free.
    pub(crate) async fn slot(&self) -> Option<RequestSlot> {
        let permit = Arc::clone(&self.slots).acquire_owned().await.ok()?;
        Some(self.new_slot(permit))
    }

    fn new_slot(&self, permit: OwnedSemaphorePermit) -> RequestSlot {
        let budget = Arc::clone(&self.answer_bytes);
        let mut permits = Vec::new();
        let lease = AnswerLease::new(move |bytes| {
            let bytes = u32::try_from(bytes).ok();
            let permit =
                bytes.and_then(|bytes| Arc::clone(&budget).try_acquire_many_owned(bytes).ok());
            let fits = permit.is_some();
            permits.extend(permit);
            fits
        });
        RequestSlot {
            permit: Some(permit),
            cancelled: self.client_gone.child_token(),
            lease,
        }
    }

    /// Returns the token that cancels a request, and the lease of its answer. Returns `None`
    /// if no request with this id is in flight.
    pub(crate) fn get(&self, id: &RequestId) -> Option<(CancellationToken, Weak<AnswerLease>)> {
        let requests = self.requests();
        let slot = requests.get(id)?;
        Some((slot.cancelled.clone(), Arc::downgrade(&slot.lease)))
    }

    /// Cancels a request. It keeps its slot and its id until it [ends](Self::end), because
    /// its messages may still wait for a client that does not read.
    pub(crate) fn cancel(&self, id: &RequestId) {
        if let Some(slot) = self.requests().get(id) {
            slot.cancelled.cancel();
        }
    }

    /// Ends a request, and frees its id. Its slot becomes free when the returned value is
    /// dropped, or at once if the request was cancelled.
    pub(crate) fn end(&self, id: &RequestId) -> Option<RequestSlot> {
        let mut slot = self.requests().remove(id)?;
        if slot.is_cancelled() {
            slot.permit = None;
            self.ended.notify_one();
        }
        Some(slot)
    }

    /// Waits until all requests are answered, including those that wait for a slot now.
    pub(crate) async fn all_answered(&self) {
        let _ = self.slots.acquire_many(MAX_REQUESTS).await;
        let _ = self.subscriptions.acquire_many(MAX_SUBSCRIPTIONS).await;
    }

    fn requests(&self) -> MutexGuard<'_, HashMap<RequestId, RequestSlot>> {
        self.requests
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
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
    async fn cancelled_request_keeps_id_until_it_ends() {
        let in_flight = InFlight::new(CancellationToken::new());
        let (id, ping) = (RequestId::Number(1), request("ping"));
        in_flight.begin(&id, &ping).await.unwrap();
        assert_eq!(
            in_flight.begin(&id, &ping).await,
            Err(BeginError::DuplicateId)
        );
        let (cancelled, _) = in_flight.get(&id).unwrap();
        in_flight.cancel(&id);
        assert!(cancelled.is_cancelled());
        let mut again = pin!(in_flight.begin(&id, &ping));
        let mut task = Context::from_waker(Waker::noop());
        assert!(again.as_mut().poll(&mut task).is_pending());
        assert!(in_flight.end(&id).unwrap().is_cancelled());
        again.await.unwrap();
        assert!(!in_flight.end(&id).unwrap().is_cancelled());
        in_flight.all_answered().await;
    }

    #[tokio::test]
    async fn all_answered_waits_for_every_answer() {
        let in_flight = InFlight::new(CancellationToken::new());
        let id = RequestId::Number(1);
        for method in ["ping", "subscriptions/listen"] {
            in_flight.begin(&id, &request(method)).await.unwrap();
            let mut all_answered = pin!(in_flight.all_answered());
            let mut task = Context::from_waker(Waker::noop());
            assert!(
                all_answered.as_mut().poll(&mut task).is_pending(),
                "{method}"
            );
            // The request is answered once its slot is dropped.
            let slot = in_flight.end(&id);
            assert!(
                all_answered.as_mut().poll(&mut task).is_pending(),
                "{method}"
            );
            drop(slot);
            all_answered.await;
        }
    }

    #[tokio::test]
    async fn cancelled_subscription_keeps_slot_until_it_ends() {
        let in_flight = InFlight::new(CancellationToken::new());
        let listen = request("subscriptions/listen");
        let ids = |number: u32| RequestId::String(number.to_string().into());
        for number in 0..MAX_SUBSCRIPTIONS {
            in_flight.begin(&ids(number), &listen).await.unwrap();
        }
        let next = ids(MAX_SUBSCRIPTIONS);
        let refused = in_flight.begin(&next, &listen).await;
        assert_eq!(refused, Err(BeginError::TooManySubscriptions));
        // The cancelled subscription may have sent notifications that the client does not
        // read.
        in_flight.cancel(&ids(3));
        let mut waiting = pin!(in_flight.begin(&next, &listen));
        let mut task = Context::from_waker(Waker::noop());
        assert!(waiting.as_mut().poll(&mut task).is_pending());
        in_flight.end(&ids(3));
        waiting.await.unwrap();
    }

    #[tokio::test]
    async fn written_answers_return_their_bytes() {
        let in_flight = InFlight::new(CancellationToken::new());
        let [first, second] = [1, 2].map(RequestId::Number);
        for id in [&first, &second] {
            in_flight.begin(id, &request("ping")).await.unwrap();
        }
        let reserve = |id, bytes| {
            in_flight
                .get(id)
                .unwrap()
                .1
                .upgrade()
                .unwrap()
                .reserve(bytes)
        };
        assert!(reserve(&first, 1) && reserve(&first, MAX_ANSWER_BYTES - 10));
        assert!(reserve(&second, 10) && !reserve(&second, 11) && !reserve(&second, usize::MAX));
        let written = in_flight.end(&first);
        assert!(!reserve(&second, 11));
        drop(written);
        assert!(reserve(&second, MAX_ANSWER_BYTES));
    }
}
