//! The protocol's own HTTP headers.

use axum::http::HeaderName;

/// The session id of a client with a handshake.
pub(super) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");

/// The method of a request, from clients of the revision 2026-07-28 on.
pub(super) const METHOD: HeaderName = HeaderName::from_static("mcp-method");

/// The revision of the protocol.
pub(super) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
