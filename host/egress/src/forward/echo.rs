//! Keeps servers from telling a guest the secrets that were sent to them.
//!
//! Finds a secret as it was sent, in a header, in the body or in trailers. Does not find one that
//! the server has encoded or compressed: an operator gives a secret only to hosts that they trust
//! with it.

use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use memchr::memmem::{self, Finder};

use super::SecretValue;
use crate::driven::DrivenBody;

/// The secrets that were sent in a request.
pub(super) struct SentSecrets(Vec<SentSecret>);

struct SentSecret {
    name: String,
    finder: Finder<'static>,
    /// The secret as it is in the name of a header.
    lower: Vec<u8>,
}

impl SentSecrets {
    pub(super) fn new(secrets: Vec<(String, SecretValue)>) -> Self {
        let secret = |(name, value): (String, SecretValue)| {
            // Spaces around a header's value are not part of it.
            let bytes = match value.0.trim_ascii() {
                [] => &*value.0,
                bytes => bytes,
            };
            SentSecret {
                name,
                finder: Finder::new(bytes).into_owned(),
                lower: bytes.to_ascii_lowercase(),
            }
        };
        Self(secrets.into_iter().map(secret).collect())
    }

    /// Returns the name of a secret that headers contain.
    pub(super) fn find_in_headers(&self, headers: &HeaderMap) -> Option<&str> {
        let is_in_name = |secret: &SentSecret| {
            let mut names = headers.keys().map(|name| name.as_str().as_bytes());
            names.any(|name| memmem::find(name, &secret.lower).is_some())
        };
        let in_value = headers
            .values()
            .find_map(|value| self.find(value.as_bytes()));
        in_value.or_else(|| {
            let mut secrets = self.0.iter();
            Some(&*secrets.find(|secret| is_in_name(secret))?.name)
        })
    }

    /// Returns the name of a secret that the bytes contain.
    fn find(&self, bytes: &[u8]) -> Option<&str> {
        let mut secrets = self.0.iter();
        let found = secrets.find(|secret| secret.finder.find(bytes).is_some());
        found.map(|secret| &*secret.name)
    }

    /// Returns the number of bytes at the end that may be the start of a secret.
    fn start_at_end(&self, bytes: &[u8]) -> usize {
        let start = |secret: &SentSecret| {
            let secret = secret.finder.needle();
            let longest = bytes.len().min(secret.len() - 1);
            let mut lengths = (1..=longest).rev();
            lengths.find(|length| bytes.ends_with(&secret[..*length]))
        };
        self.0.iter().filter_map(start).max().unwrap_or(0)
    }
}

/// The body of a response. It fails before it returns any part of a secret that was sent.
pub(super) struct CheckedBody {
    body: DrivenBody,
    secrets: SentSecrets,
    /// The scheme, host and port, for the operator.
    origin: String,
    /// The end of the body so far, if it may be the start of a secret.
    held: Bytes,
    /// The trailers, while the bytes before them are returned.
    trailers: Option<HeaderMap>,
    /// The error that ends the body, while what comes before it is sent.
    error: Option<BoxError>,
    is_over: bool,
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl CheckedBody {
    pub(super) fn new(body: DrivenBody, secrets: SentSecrets, origin: String) -> Self {
        Self {
            body,
            secrets,
            origin,
            held: Bytes::new(),
            trailers: None,
            error: None,
            is_over: false,
        }
    }

    /// Checks data, and returns what may be passed on now.
    fn check_data(&mut self, data: Bytes) -> Result<Bytes, BoxError> {
        let mut data = match self.held.is_empty() {
            true => data,
            false => {
                let mut joined = BytesMut::with_capacity(self.held.len() + data.len());
                joined.extend_from_slice(&self.held);
                joined.extend_from_slice(&data);
                joined.freeze()
            }
        };
        self.refuse(self.secrets.find(&data))?;
        self.held = data.split_off(data.len() - self.secrets.start_at_end(&data));
        Ok(data)
    }

    /// Fails if a secret was found. The head of the response is sent by then, so the operator is
    /// told here.
    fn refuse(&self, found: Option<&str>) -> Result<(), BoxError> {
        let Some(name) = found else {
            return Ok(());
        };
        let origin = &self.origin;
        eprintln!("skillhost: cut off a response of `{origin}`: it contains the secret `{name}`");
        Err("the response contains a secret".into())
    }

    /// Returns the next frame, or `None` if the data of the body's next frame is held.
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
                let refused = self.refuse(self.secrets.find_in_headers(&trailers));
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
                    // hyper closes the connection at an error, and sends what it has, such as the
                    // head of the response, only while it waits.
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
