//! Requests that were taken and are not answered yet. Their number is bounded,
//! so that a client that asks and does not read waits, and the host's memory
//! does not fill with answers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use rmcp::model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage, RequestId};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

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
pub(crate) type Place = OwnedSemaphorePermit;

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
    /// Waits until there is room for a message.
    pub(crate) async fn room(&self, message: &ClientJsonRpcMessage) {
        let counts = matches!(message, JsonRpcMessage::Request(request)
            if !is_subscription(&request.request));
        if counts {
            // Given back at once: only one waits, and it is the one that takes.
            let _ = self.room.acquire().await;
        }
    }

    /// Counts a request, for which there is room.
    pub(crate) fn begin(&self, id: &RequestId, request: &ClientRequest) -> Result<(), Refused> {
        let mut requests = self.requests();
        if requests.contains_key(id) {
            return Err(Refused::SameId);
        }
        let room = match is_subscription(request) {
            true => &self.subscriptions,
            false => &self.room,
        };
        let place = Arc::clone(room).try_acquire_owned();
        let place = place.map_err(|_| Refused::TooManySubscriptions)?;
        requests.insert(id.clone(), place);
        Ok(())
    }

    /// Ends a request: it is answered once its place is dropped.
    pub(crate) fn end(&self, id: &RequestId) -> Option<Place> {
        self.requests().remove(id)
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
