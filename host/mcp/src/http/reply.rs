//! Answers that are not the protocol's: a status and a line for people.

use axum::http::StatusCode;
use axum::http::header::{CONNECTION, HeaderValue, RETRY_AFTER};
use axum::response::{IntoResponse as _, Response};

/// What a peer is told that comes too many: the same at every place.
pub(super) const BUSY: &str = "the server is busy, try again\n";

/// Seconds after which it may come again.
pub(super) const RETRY_AFTER_SECONDS: &str = "1";

/// A refusal, in a line.
pub(super) fn refusal(status: StatusCode, text: impl Into<String>) -> Response {
    (status, text.into()).into_response()
}

/// More requests than there is room for.
pub(super) fn busy() -> Response {
    let headers = [(RETRY_AFTER, RETRY_AFTER_SECONDS)];
    (StatusCode::SERVICE_UNAVAILABLE, headers, BUSY).into_response()
}

/// A request that the server's end breaks off, or that comes then.
pub(super) fn ending() -> Response {
    let status = StatusCode::SERVICE_UNAVAILABLE;
    closing(refusal(status, "the server is ending\n"))
}

/// The same answer, after which the connection is closed: what is left of the
/// request would be taken for the next one, or waited for.
pub(super) fn closing(mut answer: Response) -> Response {
    let close = HeaderValue::from_static("close");
    answer.headers_mut().insert(CONNECTION, close);
    answer
}
