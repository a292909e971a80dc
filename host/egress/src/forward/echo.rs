//! Keeps servers from sending secrets back to a guest.
//!
//! Finds a secret as it was sent, in the body or in trailers. Does not find one that the server
//! encoded or compressed, because an operator gives a secret only to hosts that they trust with it.

use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};

use crate::driven::DrivenBody;
use crate::secrets::SecretSearch;

/// The body of a response, searched for secrets.
///
/// It fails before it returns any part of a secret that its server may receive, and before it returns
/// the last part of any other secret.
pub(super) struct CheckedBody {
    body: DrivenBody,
    secrets: SecretSearch,
    /// The scheme, host and port, for the operator.
    origin: String,
    /// The end of the body so far, which can be the start of a secret.
    held: Bytes,
    /// The last returned bytes, which can contain the start of a secret.
    returned: Vec<u8>,
    /// The trailers, until the bytes before them are returned.
    trailers: Option<HeaderMap>,
    /// The error that ends the body, until the bytes before it are sent.
    error: Option<BoxError>,
    is_over: bool,
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl CheckedBody {
    pub(super) fn new(body: DrivenBody, secrets: SecretSearch, origin: String) -> Self {
        Self {
            body,
            secrets,
            origin,
            held: Bytes::new(),
            returned: Vec::new(),
            trailers: None,
            error: None,
            is_over: false,
        }
    }

    /// Checks data, and returns the bytes that can be passed on now.
    fn check_data(&mut self, data: Bytes) -> Result<Bytes, BoxError> {
        let mut data = if self.held.is_empty() {
            data
        } else {
            let mut joined = BytesMut::with_capacity(self.held.len() + data.len());
            joined.extend_from_slice(&self.held);
            joined.extend_from_slice(&data);
            joined.freeze()
        };
        self.fail_if_found(self.secrets.find(&data))?;
        self.fail_if_found(self.secrets.find_between(&self.returned, &data))?;
        self.held = data.split_off(data.len() - self.secrets.held_at_end(&data));
        let overlap = self.secrets.overlap();
        let start = data.len().saturating_sub(overlap);
        self.returned.extend_from_slice(&data[start..]);
        let excess = self.returned.len().saturating_sub(overlap);
        self.returned.drain(..excess);
        Ok(data)
    }

    /// Fails if a secret was found. Tells the operator, because the head of the response is sent
    /// already.
    fn fail_if_found(&self, found: Option<&str>) -> Result<(), BoxError> {
        let Some(name) = found else {
            return Ok(());
        };
        let origin = &self.origin;
        eprintln!("skillhost: cut off a response of `{origin}`: it contains the secret {name}");
        Err("the response contains a secret".into())
    }

    /// Returns the next frame, or `None` if all data of the body's next frame is held back.
    fn next(&mut self, frame: Option<Result<Frame<Bytes>, hyper::Error>>) -> Option<Next> {
        let Some(frame) = frame else {
            self.is_over = true;
            let held = mem::take(&mut self.held);
            return Some((!held.is_empty()).then(|| Ok(Frame::data(held))));
        };
        let checked = match frame.map(Frame::into_data) {
            Err(error) => Err(error.into()),
            Ok(Ok(data)) => match self.check_data(data) {
                Ok(data) if data.is_empty() => return None,
                checked => checked.map(Frame::data),
            },
            Ok(Err(frame)) => {
                let trailers = frame.into_trailers().unwrap_or_default();
                let refused = self.fail_if_found(self.secrets.find_in_headers(&trailers));
                refused.map(|()| match mem::take(&mut self.held) {
                    held if held.is_empty() => Frame::trailers(trailers),
                    held => {
                        self.trailers = Some(trailers);
                        Frame::data(held)
                    }
                })
            }
        };
        self.is_over |= checked.is_err();
        Some(Some(checked))
    }
}

type Next = Option<Result<Frame<Bytes>, BoxError>>;

impl Body for CheckedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Next> {
        if let Some(trailers) = self.trailers.take() {
            return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
        }
        if let Some(error) = self.error.take() {
            return Poll::Ready(Some(Err(error)));
        }
        while !self.is_over {
            let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
            match self.next(frame) {
                None => {}
                Some(Some(Err(error))) => {
                    // hyper closes the connection at an error. It sends buffered data, such as the
                    // head of the response, only while it waits for a frame of this body.
                    self.error = Some(error);
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Some(next) => return Poll::Ready(next),
            }
        }
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        self.held.is_empty()
            && self.trailers.is_none()
            && self.error.is_none()
            && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let held = self.held.len() as u64;
        let body = self.body.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(body.lower().saturating_add(held));
        if let Some(upper) = body.upper() {
            hint.set_upper(upper.saturating_add(held));
        }
        hint
    }
}
