//! The protocol's own HTTP headers.

use axum::http::{HeaderMap, HeaderName, HeaderValue};

/// The session id of a client with a handshake.
pub(crate) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");

/// The method of a request, from clients of the revision 2026-07-28 on.
pub(crate) const METHOD: HeaderName = HeaderName::from_static("mcp-method");

/// The revision of the protocol.
pub(crate) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// The revision from which on a request names its method in a header.
pub(crate) const NAMES_METHOD: &str = "2026-07-28";

/// Returns the method that a request names in a header. None in a revision before that:
/// there, rmcp does not compare it with the message, so that it could be any.
pub(crate) fn method(headers: &HeaderMap) -> Option<&HeaderValue> {
    let version = headers.get(PROTOCOL_VERSION)?.to_str().ok()?;
    let method = headers.get(METHOD);
    method.filter(|_| version >= NAMES_METHOD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_is_believed_only_beside_a_revision_that_compares_it() {
        for (version, is_believed) in [
            (None, false),
            (Some("2025-11-25"), false),
            (Some("2026-07-27"), false),
            (Some("2026-07-28"), true),
            (Some("2027-01-01"), true),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(METHOD, HeaderValue::from_static("tools/call"));
            if let Some(version) = version {
                headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(version));
            }
            assert_eq!(method(&headers).is_some(), is_believed, "{version:?}");
        }
    }
}
