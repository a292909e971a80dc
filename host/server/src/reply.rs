//! Responses of the server itself: a status and a line of text. At `/mcp` the text becomes the
//! message of a JSON-RPC error, which clients of MCP can read.

use axum::body::{Body, to_bytes};
use axum::http::StatusCode;
use axum::http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use axum::response::{IntoResponse as _, Response};
use rmcp::model::{ErrorCode, ErrorData};
use serde_json::{Value, json};
use skillhost_identity::BudgetError;
use skillhost_mcp::TRY_LATER;

use crate::accept::{JSON, is_json};

/// Returns the text of a response to a request or connection beyond a limit in `[http]`.
pub(crate) fn busy_text(limit: &str) -> String {
    format!("the server is busy: this peer gets no more of `{limit}` in `[http]`; try again\n")
}

/// The number of seconds after which a peer may try again.
pub(crate) const RETRY_AFTER_SECONDS: &str = "1";

/// The maximum number of bytes of a line of text that becomes an error. Lines of rmcp may repeat a
/// header, which has at most 32 KiB.
const MAX_TEXT: usize = 64 << 10;

/// Refuses a request with a line of text.
pub(crate) fn refusal(status: StatusCode, text: impl Into<String>) -> Response {
    (status, text.into()).into_response()
}

/// Refuses a request beyond a limit in `[http]`.
pub(crate) fn busy(limit: &str) -> Response {
    try_again(busy_text(limit))
}

/// Refuses a request that may succeed later.
pub(crate) fn try_again(text: impl Into<String>) -> Response {
    let headers = [(RETRY_AFTER, RETRY_AFTER_SECONDS)];
    (StatusCode::SERVICE_UNAVAILABLE, headers, text.into()).into_response()
}

/// Refuses a request of a client that has used up its budget.
pub(crate) fn over_budget(error: &BudgetError) -> Response {
    let headers = [(RETRY_AFTER, error.retry_after().to_string())];
    (StatusCode::TOO_MANY_REQUESTS, headers, format!("{error}\n")).into_response()
}

/// Answers with a JSON-RPC error, under the id of the request if it is known.
pub(crate) fn error_response(status: StatusCode, id: Option<Value>, error: &ErrorData) -> Response {
    let response = json!({"jsonrpc": "2.0", "id": id, "error": error});
    (status, [(CONTENT_TYPE, JSON)], response.to_string()).into_response()
}

/// Turns a refusal into a JSON-RPC error with the same status and headers, under the id of the
/// request if it is known. Returns any other response unchanged.
pub(crate) async fn refusal_into_error(
    response: Response,
    id: impl FnOnce() -> Option<Value>,
) -> Response {
    let status = response.status();
    let is_refusal = status.is_client_error() || status.is_server_error();
    if !is_refusal || is_json(response.headers()) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let text = to_bytes(body, MAX_TEXT).await.unwrap_or_default();
    let retry_after = parts.headers.get(RETRY_AFTER);
    let retry_after = retry_after.and_then(|seconds| seconds.to_str().ok()?.parse::<u64>().ok());
    let code = match status {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => TRY_LATER,
        _ if status.is_client_error() => ErrorCode::INVALID_REQUEST,
        _ => ErrorCode::INTERNAL_ERROR,
    };
    let text = String::from_utf8_lossy(text.trim_ascii_end()).into_owned();
    let data = retry_after.map(|seconds| json!({"retryAfter": seconds}));
    let error = error_response(status, id(), &ErrorData::new(code, text, data));
    let (error, body) = error.into_parts();
    parts.headers.remove(CONTENT_LENGTH);
    parts.headers.extend(error.headers);
    Response::from_parts(parts, Body::new(body))
}

/// Refuses a request because the server is shutting down.
pub(crate) fn shutting_down() -> Response {
    let status = StatusCode::SERVICE_UNAVAILABLE;
    and_close(refusal(status, "the server is shutting down\n"))
}

/// Closes the connection after a response. Otherwise the rest of the request would be read as the
/// next request, or waited for.
pub(crate) fn and_close(mut response: Response) -> Response {
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(CONNECTION, close);
    response
}
