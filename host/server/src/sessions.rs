//! Sessions of clients with a handshake. Such a client cancels a call by another
//! request, and not by closing the connection. It gets a session id at its
//! handshake and sends it with every request, so that a cancellation finds the
//! call. Nothing else is kept: no request needs a session id.
//!
//! The id of a client with a name says whose it is, so that no other client can use
//! it, whichever instance of the server it asks.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io::{self, Read as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use axum::http::{HeaderMap, HeaderValue};
use rmcp::model::RequestId;
use sha2::{Digest as _, Sha256};
use skillhost::internal::RawJson;
use skillhost_identity::Client;
use tokio_util::sync::CancellationToken;

use crate::headers::{self, SESSION_ID};

/// The most bytes of a session id. Guards against: a peer that makes keys of large
/// headers.
const SESSION_ID_BYTES: usize = 64;

/// The digits of a session id, and of the mark of its owner behind them.
const LABEL_DIGITS: usize = 32;
const MARK_DIGITS: usize = 16;

/// The requests in flight, by session id and request id.
pub(crate) struct Sessions {
    secret: [u8; 32],
    issued: AtomicU64,
    in_flight: Mutex<HashMap<RequestKey, CancellationToken>>,
}

type RequestKey = (Box<str>, RequestId);

/// The meaning of a message for its session.
pub(crate) enum MessageKind {
    /// Its beginning. The answer carries this session id.
    Handshake(HeaderValue),
    /// A request that the client can cancel.
    Request(CancellableRequest),
    /// Any other message.
    Other,
}

/// A request that can be cancelled until this is dropped.
pub(crate) struct CancellableRequest {
    sessions: Arc<Sessions>,
    key: RequestKey,
    pub(crate) cancelled: CancellationToken,
}

impl Sessions {
    pub(crate) fn new() -> io::Result<Arc<Self>> {
        let mut secret = [0; 32];
        File::open("/dev/urandom")?.read_exact(&mut secret)?;
        Ok(Arc::new(Self {
            secret,
            issued: AtomicU64::new(0),
            in_flight: Mutex::default(),
        }))
    }

    /// Classifies a message. A cancellation is passed on to its request. A message
    /// of a revision without sessions names its method in a header and is not read.
    pub(crate) fn classify(
        self: &Arc<Self>,
        headers: &HeaderMap,
        body: &[u8],
        client: Option<&Client>,
    ) -> MessageKind {
        if headers::method(headers).is_some() {
            return MessageKind::Other;
        }
        let session = headers.get(SESSION_ID).and_then(|id| id.to_str().ok());
        let text = str::from_utf8(body).ok();
        let Some(message) = text.and_then(|text| RawJson::new(text).ok()) else {
            return MessageKind::Other;
        };
        let method = message.member("method");
        let method: Option<Cow<'_, str>> = method.and_then(|method| method.read().ok());
        match (session, method.as_deref()) {
            (None, Some("initialize")) => MessageKind::Handshake(self.new_id(client)),
            (Some(session), Some(method)) if session.len() <= SESSION_ID_BYTES => {
                self.classify_in(session, method, message)
            }
            _ => MessageKind::Other,
        }
    }

    fn classify_in(
        self: &Arc<Self>,
        session: &str,
        method: &str,
        message: RawJson<'_>,
    ) -> MessageKind {
        let key = |id| (session.into(), id);
        if method == "notifications/cancelled" {
            let params = message.member("params");
            let id = params.and_then(|params| params.member("requestId"));
            if let Some(id) = id.and_then(|id| id.read().ok())
                && let Some(request) = self.in_flight().get(&key(id))
            {
                request.cancel();
            }
            return MessageKind::Other;
        }
        let id = message.member("id").and_then(|id| id.read().ok());
        let Some(key) = id.map(key) else {
            return MessageKind::Other;
        };
        match self.in_flight().entry(key.clone()) {
            // An id that is used twice at a time names the first request alone.
            Entry::Occupied(_) => MessageKind::Other,
            Entry::Vacant(free) => {
                let cancelled = free.insert(CancellationToken::new()).clone();
                MessageKind::Request(CancellableRequest {
                    sessions: Arc::clone(self),
                    key,
                    cancelled,
                })
            }
        }
    }

    /// Returns a session id that is new and cannot be guessed.
    fn new_id(&self, client: Option<&Client>) -> HeaderValue {
        let number = self.issued.fetch_add(1, Ordering::Relaxed);
        let digest = Sha256::new()
            .chain_update(self.secret)
            .chain_update(number.to_le_bytes())
            .finalize();
        let mut id = hex(&digest[..LABEL_DIGITS / 2]);
        if let Some(name) = client.and_then(Client::name) {
            id.push_str(&owner_mark(&id, name));
        }
        HeaderValue::try_from(id).unwrap_or(HeaderValue::from_static(""))
    }

    fn in_flight(&self) -> MutexGuard<'_, HashMap<RequestKey, CancellationToken>> {
        let in_flight = self.in_flight.lock();
        in_flight.unwrap_or_else(|broken| broken.into_inner())
    }
}

/// Checks that the session id of a request, if it has one, can be that of this client.
pub(crate) fn has_own(headers: &HeaderMap, client: &Client) -> bool {
    let mut ids = headers.get_all(SESSION_ID).iter();
    ids.all(|id| {
        let id = id.to_str().unwrap_or_default();
        match (client.name(), id.split_at_checked(LABEL_DIGITS)) {
            (Some(name), Some((label, mark))) => mark == owner_mark(label, name),
            (Some(_), None) => false,
            // Without a name, it is only a label, but none of a client with a name.
            (None, _) => id.len() != LABEL_DIGITS + MARK_DIGITS,
        }
    })
}

/// Returns what a session id says of the client whose it is. It is no secret: a client
/// can make only marks of its own that the server takes.
fn owner_mark(label: &str, name: &str) -> String {
    let digest = Sha256::new()
        .chain_update("session")
        .chain_update(label)
        .chain_update(name)
        .finalize();
    hex(&digest[..MARK_DIGITS / 2])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Drop for CancellableRequest {
    fn drop(&mut self) {
        self.sessions.in_flight().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_tell_nothing_of_those_of_another_server() {
        let first_ids = || {
            let sessions = Sessions::new().unwrap();
            [(); 8].map(|()| sessions.new_id(None))
        };
        let (own, others) = (first_ids(), first_ids());
        for (number, id) in own.iter().enumerate() {
            assert!(!others.contains(id), "{id:?}");
            assert!(!own[..number].contains(id), "{id:?}");
        }
    }
}
