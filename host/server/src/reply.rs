//! Answers of the server itself: a status, and a line for people.

use axum::http::StatusCode;
use axum::http::header::{CONNECTION, HeaderValue, RETRY_AFTER};
use axum::response::{IntoResponse as _, Response};
use skillhost_identity::BudgetError;

/// The text for a request or connection too many.
pub(crate) const BUSY: &str = "the server is busy, try again\n";

/// The seconds after which the peer may try again.
pub(crate) const RETRY_AFTER_SECONDS: &str = "1";

/// Returns a refusal with a line of text.
pub(crate) fn refusal(status: StatusCode, text: impl Into<String>) -> Response {
    (status, text.into()).into_response()
}

/// Returns the refusal of a request too many.
pub(crate) fn busy() -> Response {
    let headers = [(RETRY_AFTER, RETRY_AFTER_SECONDS)];
    (StatusCode::SERVICE_UNAVAILABLE, headers, BUSY).into_response()
}

/// Returns the refusal of a request past its client's minute.
pub(crate) fn used_up(why: &BudgetError) -> Response {
    let headers = [(RETRY_AFTER, why.retry_after().to_string())];
    (StatusCode::TOO_MANY_REQUESTS, headers, format!("{why}\n")).into_response()
}

/// Returns the refusal of a request that the server's end breaks off, or that
/// arrives then.
pub(crate) fn ending() -> Response {
    let status = StatusCode::SERVICE_UNAVAILABLE;
    closing(refusal(status, "the server is ending\n"))
}

/// Closes the connection after an answer: what is left of the request would be
/// read as the next one, or waited for.
pub(crate) fn closing(mut answer: Response) -> Response {
    let close = HeaderValue::from_static("close");
    answer.headers_mut().insert(CONNECTION, close);
    answer
}
