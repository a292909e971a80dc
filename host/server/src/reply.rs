//! Answers of the server itself: a status and a line of text.

use axum::http::StatusCode;
use axum::http::header::{CONNECTION, HeaderValue, RETRY_AFTER};
use axum::response::{IntoResponse as _, Response};
use skillhost_identity::BudgetError;

/// The text of an answer to a request or connection beyond a limit.
pub(crate) const BUSY: &str = "the server is busy, try again\n";

/// The number of seconds after which a peer may try again.
pub(crate) const RETRY_AFTER_SECONDS: &str = "1";

/// Refuses a request with a line of text.
pub(crate) fn refusal(status: StatusCode, text: impl Into<String>) -> Response {
    (status, text.into()).into_response()
}

/// Refuses a request beyond a limit.
pub(crate) fn busy() -> Response {
    let headers = [(RETRY_AFTER, RETRY_AFTER_SECONDS)];
    (StatusCode::SERVICE_UNAVAILABLE, headers, BUSY).into_response()
}

/// Refuses a request of a client that has used up its budget.
pub(crate) fn over_budget(error: &BudgetError) -> Response {
    let headers = [(RETRY_AFTER, error.retry_after().to_string())];
    (StatusCode::TOO_MANY_REQUESTS, headers, format!("{error}\n")).into_response()
}

/// Refuses a request because the server is shutting down.
pub(crate) fn shutting_down() -> Response {
    let status = StatusCode::SERVICE_UNAVAILABLE;
    and_close(refusal(status, "the server is ending\n"))
}

/// Closes the connection after an answer. Otherwise the rest of the request would be read as the
/// next request, or waited for.
pub(crate) fn and_close(mut answer: Response) -> Response {
    let close = HeaderValue::from_static("close");
    answer.headers_mut().insert(CONNECTION, close);
    answer
}
