//! The HTTP headers of MCP.

use axum::http::{HeaderMap, HeaderName, HeaderValue};

/// The session id of a client that begins with the handshake `initialize`.
pub(crate) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");

/// The method of a request, since revision 2026-07-28.
pub(crate) const METHOD: HeaderName = HeaderName::from_static("mcp-method");

/// The revision of the protocol that the client speaks.
pub(crate) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// The first revision whose requests name their method in a header.
pub(crate) const FIRST_REVISION_WITH_METHOD: &str = "2026-07-28";

/// Returns the method that a request names in a header. Returns `None` in older revisions: there,
/// rmcp does not compare the header with the message, so it may be wrong.
pub(crate) fn method(headers: &HeaderMap) -> Option<&HeaderValue> {
    let version = headers.get(PROTOCOL_VERSION)?.to_str().ok()?;
    let method = headers.get(METHOD);
    method.filter(|_| version >= FIRST_REVISION_WITH_METHOD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignores_method_header_of_older_revisions() {
        for (version, is_used) in [
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
            assert_eq!(method(&headers).is_some(), is_used, "{version:?}");
        }
    }
}
