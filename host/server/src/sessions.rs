//! Sessions of clients with a handshake. Such a client cancels a call with another request instead
//! of closing the connection. It gets a session id at its handshake and sends it with every
//! request, so that a cancellation finds the call. The server stores nothing else about a session,
//! and accepts requests without a session id.
//!
//! The session id of a client with a name ends with a mark of that client. So no other client can
//! use it, on any instance of the server.

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
use skillhost_identity::Client;
use skillhost_skills::text::raw_json::RawJson;
use tokio_util::sync::CancellationToken;

use crate::headers::{self, SESSION_ID};

/// The maximum number of bytes of a session id. Guards against: a peer that fills memory with large
/// ids.
const MAX_SESSION_ID_BYTES: usize = 64;

/// The number of hex digits of a session's label.
const LABEL_DIGITS: usize = 32;

/// The number of hex digits of the owner's mark, which follows the label.
const MARK_DIGITS: usize = 16;

/// The method that begins a session.
const HANDSHAKE: &str = "initialize";

/// The sessions of a server, with their requests in flight.
pub(crate) struct Sessions {
    secret: [u8; 32],
    issued: AtomicU64,
    in_flight: Mutex<HashMap<RequestKey, CancellationToken>>,
}

/// The session id and the id of a request.
type RequestKey = (Box<str>, RequestId);

/// The meaning of a message for its session.
pub(crate) enum MessageKind {
    /// The handshake. The response needs this session id.
    Handshake(HeaderValue),
    /// A request that the client can cancel.
    Request(CancellableRequest),
    /// Any other message.
    Other,
}

/// A request that the client can cancel until this is dropped.
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

    /// Registers a request so that the client can cancel it, or cancels the request that a
    /// cancellation names. Returns the kind of the message.
    ///
    /// In revisions without sessions, a header names the method. The body is then parsed only if
    /// the method is that of a handshake.
    pub(crate) fn process(
        self: &Arc<Self>,
        headers: &HeaderMap,
        body: &[u8],
        client: Option<&Client>,
    ) -> MessageKind {
        if headers::method(headers).is_some_and(|method| method != HANDSHAKE) {
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
            // A client that reconnects may still send the id of its earlier session.
            (_, Some(HANDSHAKE)) if names_version(message) => {
                MessageKind::Handshake(self.new_id(client))
            }
            (Some(session), Some(method)) if session.len() <= MAX_SESSION_ID_BYTES => {
                self.process_in_session(session, method, message)
            }
            _ => MessageKind::Other,
        }
    }

    fn process_in_session(
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
            // If two requests in flight have the same id, the id names only the first.
            Entry::Occupied(_) => MessageKind::Other,
            Entry::Vacant(entry) => {
                let cancelled = entry.insert(CancellationToken::new()).clone();
                MessageKind::Request(CancellableRequest {
                    sessions: Arc::clone(self),
                    key,
                    cancelled,
                })
            }
        }
    }

    /// Returns a new session id that cannot be guessed.
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

/// Returns whether the parameters of a message name a revision of the protocol. A handshake must
/// name one.
fn names_version(message: RawJson<'_>) -> bool {
    let params = message.member("params");
    let version = params.and_then(|params| params.member("protocolVersion"));
    version.is_some_and(|version| version.read::<String>().is_ok())
}

/// Returns whether this client may use the session id of a request. Returns true if the request
/// has none.
pub(crate) fn may_use_session(headers: &HeaderMap, client: &Client) -> bool {
    let mut ids = headers.get_all(SESSION_ID).iter();
    ids.all(|id| {
        let id = id.to_str().unwrap_or_default();
        match (client.name(), id.split_at_checked(LABEL_DIGITS)) {
            (Some(name), Some((label, mark))) => mark == owner_mark(label, name),
            (Some(_), None) => false,
            // The client without a name may use every id that has no mark.
            (None, _) => id.len() != LABEL_DIGITS + MARK_DIGITS,
        }
    })
}

/// Returns the mark of a session's owner. It is not a secret: the server accepts it only from that
/// owner.
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
    fn session_ids_of_two_servers_differ() {
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
