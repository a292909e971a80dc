//! Clients of protocol revisions with a handshake. Such a client cancels a call
//! by a request of its own, and not by closing the call's connection; so it is
//! given a label at its handshake, which it shows with every request, and by
//! which the one finds the other. That is all that a label does: nothing is
//! kept between requests, none is needed, and no request is refused for it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io::{self, Read as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use rmcp::model::RequestId;
use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

/// The header that carries the label.
pub(super) const LABEL: HeaderName = HeaderName::from_static("mcp-session-id");

/// Longest label that is looked at. Meets: a peer that makes keys of headers.
const LABEL_BYTES: usize = 64;

/// Requests in flight, by the label and the id that their client gave.
pub(super) struct Sessions {
    secret: [u8; 32],
    given: AtomicU64,
    in_flight: Mutex<HashMap<Key, CancellationToken>>,
}

type Key = (Box<str>, RequestId);

/// What a message is to the client's session.
pub(super) enum Asked {
    /// Its beginning: the answer carries the label.
    Handshake(HeaderValue),
    /// A request that its client can cancel.
    Request(InFlight),
    /// Neither.
    Other,
}

/// A request that can be cancelled, for as long as this is kept.
pub(super) struct InFlight {
    sessions: Arc<Sessions>,
    key: Key,
    pub(super) cancelled: CancellationToken,
}

/// What is read of a message here; the protocol reads it whole.
#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Cancelled {
    #[serde(rename = "requestId")]
    id: RequestId,
}

impl Sessions {
    pub(super) fn new() -> io::Result<Arc<Self>> {
        let mut secret = [0; 32];
        File::open("/dev/urandom")?.read_exact(&mut secret)?;
        Ok(Arc::new(Self {
            secret,
            given: AtomicU64::new(0),
            in_flight: Mutex::default(),
        }))
    }

    /// Looks at a message: a cancellation is passed on to the request that it
    /// is of. A message of a revision without sessions names its method in a
    /// header, and is not looked at.
    pub(super) fn look(self: &Arc<Self>, headers: &HeaderMap, body: &[u8]) -> Asked {
        if headers.contains_key(super::endpoint::METHOD) {
            return Asked::Other;
        }
        let label = headers.get(LABEL).and_then(|label| label.to_str().ok());
        let Ok(head) = serde_json::from_slice::<Head<'_>>(body) else {
            return Asked::Other;
        };
        match (label, head.method.as_deref()) {
            (None, Some("initialize")) => Asked::Handshake(self.label()),
            (Some(label), Some(method)) if label.len() <= LABEL_BYTES => {
                self.asked(label, method, &head)
            }
            _ => Asked::Other,
        }
    }

    fn asked(self: &Arc<Self>, label: &str, method: &str, head: &Head<'_>) -> Asked {
        let key = |id| (label.into(), id);
        if method == "notifications/cancelled" {
            let cancelled = head.params.map(RawValue::get);
            let cancelled = cancelled.and_then(|params| serde_json::from_str(params).ok());
            if let Some(Cancelled { id }) = cancelled
                && let Some(request) = self.in_flight().get(&key(id))
            {
                request.cancel();
            }
            return Asked::Other;
        }
        let id = head.id.and_then(|id| serde_json::from_str(id.get()).ok());
        let Some(key) = id.map(key) else {
            return Asked::Other;
        };
        match self.in_flight().entry(key.clone()) {
            // An id that is used twice at a time names neither for certain.
            Entry::Occupied(_) => Asked::Other,
            Entry::Vacant(free) => {
                let cancelled = free.insert(CancellationToken::new()).clone();
                Asked::Request(InFlight {
                    sessions: Arc::clone(self),
                    key,
                    cancelled,
                })
            }
        }
    }

    /// A label that nobody has had and nobody can guess.
    fn label(&self) -> HeaderValue {
        let number = self.given.fetch_add(1, Ordering::Relaxed);
        let digest = Sha256::new()
            .chain_update(self.secret)
            .chain_update(number.to_le_bytes())
            .finalize();
        let hex: String = digest[..16]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        HeaderValue::try_from(hex).unwrap_or(HeaderValue::from_static(""))
    }

    fn in_flight(&self) -> MutexGuard<'_, HashMap<Key, CancellationToken>> {
        let in_flight = self.in_flight.lock();
        in_flight.unwrap_or_else(|broken| broken.into_inner())
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.sessions.in_flight().remove(&self.key);
    }
}
