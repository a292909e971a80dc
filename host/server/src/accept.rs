//! The forms of a response that a client accepts: JSON, or a stream with one event.
//!
//! The protocol asks clients to accept both. Many HTTP clients send `*/*` or no `Accept` at all.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use http_body::Frame;

pub(crate) const JSON: &str = "application/json";
pub(crate) const EVENT_STREAM: &str = "text/event-stream";

/// The forms that a client accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AcceptedForms {
    pub(crate) json: bool,
    pub(crate) event_stream: bool,
}

impl AcceptedForms {
    /// Reads the header `Accept`. Without one, a client accepts both forms.
    pub(crate) fn read(headers: &HeaderMap) -> Self {
        let mut values = headers.get_all(ACCEPT).iter();
        let is_any = values.all(|value| value.as_bytes().trim_ascii().is_empty());
        let accepts = |media_type| is_any || is_accepted(headers, media_type) == Some(true);
        Self {
            json: accepts(JSON),
            event_stream: accepts(EVENT_STREAM),
        }
    }

    /// Returns whether the client accepts no form.
    pub(crate) fn is_none(self) -> bool {
        !self.json && !self.event_stream
    }

    /// Wraps a JSON response in an event if the client accepts only event streams. An HTTP error
    /// stays JSON.
    pub(crate) fn apply(self, response: Response) -> Response {
        if self.json || response.status() != StatusCode::OK || !is_json(response.headers()) {
            return response;
        }
        let (mut parts, body) = response.into_parts();
        let stream = HeaderValue::from_static(EVENT_STREAM);
        parts.headers.insert(CONTENT_TYPE, stream);
        let no_cache = HeaderValue::from_static("no-cache");
        parts.headers.insert(CACHE_CONTROL, no_cache);
        let event = EventBody {
            before: Some(Bytes::from_static(b"data: ")),
            json: body,
            after: Some(Bytes::from_static(b"\n\n")),
        };
        Response::from_parts(parts, Body::new(event))
    }
}

/// Returns whether a client names event streams in its header `Accept`, as it must to get the
/// stream of changes, which stays open. A range such as `*/*` does not count: it also comes from
/// clients that expect the response to end.
pub(crate) fn names_event_stream(headers: &HeaderMap) -> bool {
    ranges(headers).any(|(range, accepted)| accepted && range.eq_ignore_ascii_case(EVENT_STREAM))
}

/// Returns whether the headers say that the body is JSON.
pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    let media_type = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let essence = media_type.and_then(|value| value.split(';').next());
    essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case(JSON))
}

/// Returns whether the most precise range that covers a media type accepts it. Returns `None` if no
/// range covers it.
fn is_accepted(headers: &HeaderMap, media_type: &str) -> Option<bool> {
    let kind = media_type.split('/').next().unwrap_or_default();
    let kind = format!("{kind}/*");
    [media_type, &kind, "*/*"].iter().find_map(|wanted| {
        ranges(headers)
            .filter(|(range, _)| range.eq_ignore_ascii_case(wanted))
            .map(|(_, accepted)| accepted)
            .reduce(|any, accepted| any || accepted)
    })
}

/// Returns the media ranges of the header `Accept`, and whether each is accepted. Only a weight of
/// zero excludes a range.
fn ranges(headers: &HeaderMap) -> impl Iterator<Item = (&str, bool)> {
    let values = headers.get_all(ACCEPT).iter();
    let entries = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    entries.map(|entry| {
        let mut parts = entry.split(';');
        let range = parts.next().unwrap_or_default().trim();
        let is_excluded = parts.any(|parameter| {
            parameter.split_once('=').is_some_and(|(name, weight)| {
                let weight = weight.trim().parse::<f32>();
                name.trim().eq_ignore_ascii_case("q") && weight.is_ok_and(|weight| weight <= 0.0)
            })
        });
        (range, !is_excluded)
    })
}

/// The body of a JSON response, wrapped in an event.
struct EventBody {
    before: Option<Bytes>,
    json: Body,
    after: Option<Bytes>,
}

impl HttpBody for EventBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Some(before) = self.before.take() {
            return Poll::Ready(Some(Ok(Frame::data(before))));
        }
        let frame = ready!(Pin::new(&mut self.json).poll_frame(context));
        let frame = frame.or_else(|| self.after.take().map(|after| Ok(Frame::data(after))));
        Poll::Ready(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(values: &[&'static str]) -> HeaderMap {
        let values = values.iter();
        let values = values.map(|value| (ACCEPT, HeaderValue::from_static(value)));
        let mut headers = HeaderMap::new();
        values.for_each(|(name, value)| {
            headers.append(name, value);
        });
        headers
    }

    #[test]
    fn finds_accepted_forms() {
        for (values, json, event_stream) in [
            (&[][..], true, true),
            (&[""], true, true),
            (&["application/json, text/event-stream"], true, true),
            (&["application/json", "text/event-stream"], true, true),
            (&["Application/JSON;charset=utf-8"], true, false),
            (&["text/event-stream"], false, true),
            (&["*/*"], true, true),
            (&["text/html, */*;q=0.1"], true, true),
            (&["application/*"], true, false),
            (&["text/*"], false, true),
            (&["application/json;q=x"], true, false),
            (&["application/json;q=0.001"], true, false),
            (&["application/json;q=0, */*"], false, true),
            (&["*/*, application/json; Q=0.000"], false, true),
            (&["text/*;q=0, */*"], true, false),
            (&["text/event-stream;q=0, text/*"], false, false),
            (&["*/*;q=0"], false, false),
            (&["*/*;q=0, application/json"], true, false),
            (&["text/html"], false, false),
            (&["application/jsonx, nonsense"], false, false),
        ] {
            let forms = AcceptedForms::read(&headers(values));
            let expected = AcceptedForms { json, event_stream };
            assert_eq!(forms, expected, "{values:?}");
            assert_eq!(forms.is_none(), !json && !event_stream, "{values:?}");
        }
        let mut unreadable = HeaderMap::new();
        unreadable.insert(ACCEPT, HeaderValue::from_bytes(b"\xff").unwrap());
        assert!(AcceptedForms::read(&unreadable).is_none());
    }

    #[test]
    fn only_named_event_stream_opens_stream() {
        for (values, is_named) in [
            (&["text/html, Text/Event-Stream"][..], true),
            (&["text/event-stream;q=0.5"], true),
            (&["text/event-stream;q=0"], false),
            (&["*/*"], false),
            (&["text/*"], false),
            (&[], false),
        ] {
            assert_eq!(names_event_stream(&headers(values)), is_named, "{values:?}");
        }
    }
}
