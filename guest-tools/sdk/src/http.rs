//! HTTP requests. The host sends those that the operator's grant for the tool allows, and denies
//! all others. Only components with the feature `http` contain this module.
//!
//! ```no_run
//! use skillhost_guest::{Failure, http, variable};
//!
//! fn forecast(place: &str) -> Result<String, Failure> {
//!     let token = variable("WEATHER_TOKEN").unwrap_or_default();
//!     let response = http::get("https://api.example.org/v1/forecast")
//!         .query("place", place)
//!         .header("authorization", &format!("Bearer {token}"))
//!         .send()?;
//!     if response.status() != 200 {
//!         return Err(Failure::failed(format!("the service answered {}", response.status())));
//!     }
//!     Ok(response.text()?)
//! }
//! ```
//!
//! A variable for a secret has a placeholder in the sandbox. The host replaces the placeholder with
//! the secret, in the header and for the host names of the grant. Redirects are not followed: a
//! tool reads the header `location`.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use wasip2::http::outgoing_handler;
use wasip2::http::types::{
    ErrorCode, Fields, FutureIncomingResponse, IncomingBody, IncomingResponse, Method,
    OutgoingBody, OutgoingRequest, RequestOptions, Scheme, http_error_code,
};
pub use wasip2::io::poll::{Pollable, poll};
use wasip2::io::streams::{InputStream, OutputStream, StreamError};

use crate::Failure;

/// The maximum size of a body that [`Response::bytes`], [`Response::text`] and [`Response::json`]
/// read.
pub const MAX_BODY_BYTES: usize = 16 << 20;

/// The maximum size of a chunk of a streamed body.
const CHUNK_BYTES: u64 = 64 << 10;

/// Creates a GET request.
pub fn get(url: &str) -> Request {
    request("GET", url)
}

/// Creates a POST request.
pub fn post(url: &str) -> Request {
    request("POST", url)
}

/// Creates a request with any method.
pub fn request(method: &str, url: &str) -> Request {
    let url = url.split('#').next().unwrap_or_default();
    Request {
        method: method.to_owned(),
        url: url.to_owned(),
        headers: Vec::new(),
        body: None,
        timeout: None,
    }
}

/// A request that is not sent yet.
#[derive(Debug, Clone)]
pub struct Request {
    method: String,
    url: String,
    headers: Vec<(String, Vec<u8>)>,
    body: Option<Vec<u8>>,
    timeout: Option<Duration>,
}

impl Request {
    /// Adds a header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// Adds a parameter to the address, percent-encoded.
    pub fn query(mut self, name: &str, value: &str) -> Self {
        self.url
            .push(if self.url.contains('?') { '&' } else { '?' });
        encode(name, &mut self.url);
        self.url.push('=');
        encode(value, &mut self.url);
        self
    }

    /// Sets the body.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// Sets a body of JSON, and its content type.
    pub fn json(self, value: &impl Serialize) -> Self {
        self.header("content-type", "application/json")
            .body(crate::output::to_json(value))
    }

    /// Sets the maximum time to connect, to wait for the response, and between two chunks of its
    /// body.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sends the request, and waits for the head of the response.
    pub fn send(self) -> Result<Response, HttpError> {
        let mut exchange = self.start()?;
        loop {
            if let Some(response) = exchange.advance()? {
                return Ok(response);
            }
            let pollables = exchange.pollables();
            poll(&pollables.iter().collect::<Vec<_>>());
        }
    }

    /// Begins to send the request. For several requests at a time: [`poll`] waits for the
    /// [`pollables`](Exchange::pollables) of all of them.
    pub fn start(self) -> Result<Exchange, HttpError> {
        let fail = |kind| HttpError::new(kind, &self.method, &self.url);
        let invalid = |()| fail(HttpErrorKind::Protocol);
        let address = Address::new(&self.url).ok_or_else(|| invalid(()))?;
        let fields = Fields::new();
        let append = |name: &str, value: &[u8]| {
            let appended = fields.append(name, value);
            appended.map_err(|_| invalid(()))
        };
        for (name, value) in &self.headers {
            append(name, value)?;
        }
        if let Some(body) = &self.body {
            append("content-length", body.len().to_string().as_bytes())?;
        }
        let request = OutgoingRequest::new(fields);
        let set = request
            .set_method(&method(&self.method))
            .and_then(|()| request.set_scheme(Some(&address.scheme)))
            .and_then(|()| request.set_authority(Some(address.authority)))
            .and_then(|()| request.set_path_with_query(Some(&address.path)));
        set.map_err(invalid)?;
        let sending = match self.body {
            Some(bytes) => {
                // Cannot fail: nothing has taken the body or its stream before.
                let body = request.body().map_err(invalid)?;
                let stream = body.write().map_err(invalid)?;
                Some(Sending {
                    stream,
                    body,
                    bytes,
                    sent: 0,
                })
            }
            None => None,
        };
        let future = outgoing_handler::handle(request, self.timeout.map(options));
        Ok(Exchange {
            future: future.map_err(|code| fail(HttpErrorKind::new(&code)))?,
            sending,
            method: self.method,
            url: self.url,
        })
    }
}

/// A request that is being sent, or that waits for its response.
#[derive(Debug)]
pub struct Exchange {
    sending: Option<Sending>,
    future: FutureIncomingResponse,
    method: String,
    url: String,
}

/// The rest of the body of a request, which is not sent yet.
#[derive(Debug)]
struct Sending {
    // Dropped before the body.
    stream: OutputStream,
    body: OutgoingBody,
    bytes: Vec<u8>,
    sent: usize,
}

impl Exchange {
    /// Returns what this exchange waits for.
    pub fn pollables(&self) -> Vec<Pollable> {
        let stream = self.sending.as_ref();
        let stream = stream.map(|sending| sending.stream.subscribe());
        stream
            .into_iter()
            .chain([self.future.subscribe()])
            .collect()
    }

    /// Continues without waiting. Returns the response once its head has arrived.
    pub fn advance(&mut self) -> Result<Option<Response>, HttpError> {
        if let Some(mut sending) = self.sending.take() {
            match sending.write() {
                Ok(false) => self.sending = Some(sending),
                Ok(true) => {
                    drop(sending.stream);
                    let _ = OutgoingBody::finish(sending.body, None);
                }
                // The response says why.
                Err(_) => {}
            }
        }
        let Some(result) = self.future.get() else {
            return Ok(None);
        };
        let fail = |kind| HttpError::new(kind, &self.method, &self.url);
        // Cannot fail: nothing has taken the response before.
        let response = result.map_err(|()| fail(HttpErrorKind::Other))?;
        let response = response.map_err(|code| fail(HttpErrorKind::new(&code)))?;
        Ok(Some(Response {
            status: response.status(),
            headers: response.headers().entries(),
            method: self.method.clone(),
            url: self.url.clone(),
            response,
        }))
    }
}

impl Sending {
    /// Writes what the host accepts without waiting. Returns whether it accepted all.
    fn write(&mut self) -> Result<bool, StreamError> {
        while let rest @ [_, ..] = &self.bytes[self.sent..] {
            let capacity = usize::try_from(self.stream.check_write()?).unwrap_or(usize::MAX);
            if capacity == 0 {
                return Ok(false);
            }
            let chunk = &rest[..capacity.min(rest.len())];
            self.stream.write(chunk)?;
            self.sent += chunk.len();
        }
        self.stream.flush()?;
        Ok(true)
    }
}

/// A response.
#[derive(Debug)]
pub struct Response {
    status: u16,
    headers: Vec<(String, Vec<u8>)>,
    method: String,
    url: String,
    response: IncomingResponse,
}

impl Response {
    /// Returns the status, such as 200.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Returns the first value of a header. `name` is in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut named = self.headers().filter(|(header, _)| *header == name);
        named.find_map(|(_, value)| core::str::from_utf8(value).ok())
    }

    /// Returns all headers. Their names are in lower case.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_slice()))
    }

    /// Returns the body. Fails if it has more than [`MAX_BODY_BYTES`].
    pub fn bytes(self) -> Result<Vec<u8>, HttpError> {
        let mut stream = self.stream()?;
        let mut bytes = Vec::new();
        while let Some(chunk) = stream.next()? {
            if bytes.len() + chunk.len() > MAX_BODY_BYTES {
                return Err(stream.fail(HttpErrorKind::Limit));
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }

    /// Returns the body as text. Replaces invalid UTF-8. Fails as [`Response::bytes`] does.
    pub fn text(self) -> Result<String, HttpError> {
        Ok(String::from_utf8_lossy(&self.bytes()?).into_owned())
    }

    /// Parses the body as JSON. Fails as [`Response::bytes`] does, and if the body is not JSON or
    /// does not fit `T`.
    pub fn json<T: DeserializeOwned>(self) -> Result<T, HttpError> {
        let mut error = HttpError::new(HttpErrorKind::Protocol, &self.method, &self.url);
        serde_json::from_slice(&self.bytes()?).map_err(|cause| {
            error.message = format!("{}: unexpected JSON: {cause}", error.request());
            error
        })
    }

    /// Returns the body, of any size, as a stream of chunks.
    pub fn stream(self) -> Result<Stream, HttpError> {
        let error = || HttpError::new(HttpErrorKind::Other, &self.method, &self.url);
        // Cannot fail: nothing has taken the body before.
        let body = self.response.consume().map_err(|()| error())?;
        let input = body.stream().map_err(|()| error())?;
        Ok(Stream {
            input,
            _body: body,
            method: self.method,
            url: self.url,
        })
    }
}

/// The body of a response.
#[derive(Debug)]
pub struct Stream {
    // Dropped before the body.
    input: InputStream,
    _body: IncomingBody,
    method: String,
    url: String,
}

impl Stream {
    /// Waits for the next chunk. Returns `None` at the end.
    #[expect(clippy::should_implement_trait, reason = "a chunk may fail")]
    pub fn next(&mut self) -> Result<Option<Vec<u8>>, HttpError> {
        self.read(InputStream::blocking_read)
    }

    /// Returns the bytes that have arrived, or `None` at the end. They may be empty.
    pub fn ready(&mut self) -> Result<Option<Vec<u8>>, HttpError> {
        self.read(InputStream::read)
    }

    /// Returns what this stream waits for.
    pub fn pollable(&self) -> Pollable {
        self.input.subscribe()
    }

    fn read(
        &mut self,
        read: impl Fn(&InputStream, u64) -> Result<Vec<u8>, StreamError>,
    ) -> Result<Option<Vec<u8>>, HttpError> {
        match read(&self.input, CHUNK_BYTES) {
            Ok(chunk) => Ok(Some(chunk)),
            Err(StreamError::Closed) => Ok(None),
            Err(StreamError::LastOperationFailed(error)) => {
                let code = http_error_code(&error);
                let kind = code.as_ref().map(HttpErrorKind::new);
                Err(self.fail(kind.unwrap_or(HttpErrorKind::Connection)))
            }
        }
    }

    fn fail(&self, kind: HttpErrorKind) -> HttpError {
        HttpError::new(kind, &self.method, &self.url)
    }
}

/// The error of a request, or of reading its response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpError {
    kind: HttpErrorKind,
    message: String,
}

impl HttpError {
    fn new(kind: HttpErrorKind, method: &str, url: &str) -> Self {
        // The parameters may be long.
        let address = url.split('?').next().unwrap_or_default();
        Self {
            kind,
            message: format!("{method} {address}: {}", kind.reason()),
        }
    }

    /// Returns the part of the message before the reason.
    fn request(&self) -> &str {
        self.message
            .strip_suffix(self.kind.reason())
            .and_then(|start| start.strip_suffix(": "))
            .unwrap_or_default()
    }

    /// Returns the kind of error.
    pub fn kind(&self) -> HttpErrorKind {
        self.kind
    }
}

impl fmt::Display for HttpError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl core::error::Error for HttpError {}

impl From<HttpError> for Failure {
    fn from(error: HttpError) -> Self {
        match error.kind {
            HttpErrorKind::Denied => Self::refused(error.message),
            _ => Self::failed(error.message),
        }
    }
}

/// The kind of an [`HttpError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpErrorKind {
    /// The operator's grant does not allow the request.
    Denied,
    /// The host name has no address.
    Name,
    /// No connection, or it ended early.
    Connection,
    /// No answer in time.
    Timeout,
    /// The server's certificate is not valid.
    Certificate,
    /// An invalid address, request or response.
    Protocol,
    /// More requests or bytes than a call may have.
    Limit,
    /// Another error.
    Other,
}

impl HttpErrorKind {
    fn new(code: &ErrorCode) -> Self {
        match code {
            ErrorCode::HttpRequestDenied | ErrorCode::DestinationIpProhibited => Self::Denied,
            ErrorCode::DnsTimeout | ErrorCode::DnsError(_) | ErrorCode::DestinationNotFound => {
                Self::Name
            }
            ErrorCode::DestinationUnavailable
            | ErrorCode::DestinationIpUnroutable
            | ErrorCode::ConnectionRefused
            | ErrorCode::ConnectionTerminated => Self::Connection,
            ErrorCode::ConnectionTimeout
            | ErrorCode::ConnectionReadTimeout
            | ErrorCode::ConnectionWriteTimeout
            | ErrorCode::HttpResponseTimeout => Self::Timeout,
            ErrorCode::TlsProtocolError
            | ErrorCode::TlsCertificateError
            | ErrorCode::TlsAlertReceived(_) => Self::Certificate,
            ErrorCode::ConnectionLimitReached
            | ErrorCode::HttpRequestBodySize(_)
            | ErrorCode::HttpRequestUriTooLong
            | ErrorCode::HttpRequestHeaderSectionSize(_)
            | ErrorCode::HttpRequestHeaderSize(_)
            | ErrorCode::HttpRequestTrailerSectionSize(_)
            | ErrorCode::HttpRequestTrailerSize(_)
            | ErrorCode::HttpResponseHeaderSectionSize(_)
            | ErrorCode::HttpResponseHeaderSize(_)
            | ErrorCode::HttpResponseBodySize(_)
            | ErrorCode::HttpResponseTrailerSectionSize(_)
            | ErrorCode::HttpResponseTrailerSize(_) => Self::Limit,
            ErrorCode::HttpRequestLengthRequired
            | ErrorCode::HttpRequestMethodInvalid
            | ErrorCode::HttpRequestUriInvalid
            | ErrorCode::HttpResponseIncomplete
            | ErrorCode::HttpResponseTransferCoding(_)
            | ErrorCode::HttpResponseContentCoding(_)
            | ErrorCode::HttpUpgradeFailed
            | ErrorCode::HttpProtocolError => Self::Protocol,
            ErrorCode::LoopDetected
            | ErrorCode::ConfigurationError
            | ErrorCode::InternalError(_) => Self::Other,
        }
    }

    /// Returns the name that the kits of all languages use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Denied => "denied",
            Self::Name => "name",
            Self::Connection => "connection",
            Self::Timeout => "timeout",
            Self::Certificate => "certificate",
            Self::Protocol => "protocol",
            Self::Limit => "limit",
            Self::Other => "other",
        }
    }

    fn reason(self) -> &'static str {
        match self {
            Self::Denied => "network access is not granted for this address",
            Self::Name => "the host name has no address",
            Self::Connection => "cannot connect, or the connection ended early",
            Self::Timeout => "no answer in time",
            Self::Certificate => "the server's certificate is not valid",
            Self::Protocol => "invalid address, request or response",
            Self::Limit => "more requests or bytes than a call may have",
            Self::Other => "the request failed",
        }
    }
}

/// The parts of an address.
struct Address<'a> {
    scheme: Scheme,
    authority: &'a str,
    path: String,
}

impl<'a> Address<'a> {
    fn new(url: &'a str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            _ => return None,
        };
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let slash = if path.starts_with('/') { "" } else { "/" };
        Some(Self {
            scheme,
            authority,
            path: format!("{slash}{path}"),
        })
    }
}

fn method(name: &str) -> Method {
    match name {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        "PUT" => Method::Put,
        "DELETE" => Method::Delete,
        "OPTIONS" => Method::Options,
        "PATCH" => Method::Patch,
        _ => Method::Other(name.to_owned()),
    }
}

fn options(timeout: Duration) -> RequestOptions {
    let nanoseconds = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
    let options = RequestOptions::new();
    // A host that does not support one of these timeouts uses its default.
    let _ = options.set_connect_timeout(Some(nanoseconds));
    let _ = options.set_first_byte_timeout(Some(nanoseconds));
    let _ = options.set_between_bytes_timeout(Some(nanoseconds));
    options
}

/// Appends a text to a query, percent-encoded.
fn encode(text: &str, url: &mut String) {
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                url.push(char::from(byte));
            }
            _ => url.push_str(&format!("%{byte:02X}")),
        }
    }
}
