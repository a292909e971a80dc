//! The caller of a request, as the audit log records it. Nothing here decides whether the caller
//! may call a tool.

use std::sync::Arc;

use http::request::Parts;
use rmcp::service::{RequestContext, RoleServer};
use skillhost::{Caller, ConsentSession, Peer, TraceId, Transport};
use skillhost_identity::Client;

/// The HTTP header of a trace, for clients that do not write it into the message.
const TRACEPARENT: &str = "traceparent";

/// Returns the caller of a request, with the request's id.
pub(crate) fn from_context(context: &RequestContext<RoleServer>) -> Caller {
    let parts = context.extensions.get::<Parts>();
    let transport = match parts {
        Some(_) => Transport::Http,
        None => Transport::Stdio,
    };
    let mut caller = Caller::new(transport).id(context.id.to_string());
    let peer = parts.and_then(|parts| parts.extensions.get::<Peer>());
    if let Some(peer) = peer {
        caller = caller.peer(*peer);
    }
    if let Some(session) = context.extensions.get::<Arc<ConsentSession>>() {
        caller = caller.consent(Arc::clone(session));
    }
    let client = parts.and_then(|parts| parts.extensions.get::<Arc<Client>>());
    if let Some(client) = client {
        caller = match client.name() {
            Some(name) => caller.client(Arc::clone(name)),
            None if client.has_budget() => caller.unnamed_client(),
            None => caller,
        };
    }
    let header = || parts?.headers.get(TRACEPARENT)?.to_str().ok();
    let trace = context.meta.get_traceparent().or_else(header);
    if let Some(trace) = trace.and_then(TraceId::from_traceparent) {
        caller = caller.trace(trace);
    }
    caller
}
