//! `wasi:http`: the requests that a guest sends. The egress process sends those that the
//! component's grant allows; all others are denied.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use skillhost_egress::{EgressClient, FailureKind, Origin, Outcome, Target};
use tokio::time::Sleep;
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpHooks};

/// The maximum bytes of the fields of a request or response. Guards against: a guest that makes
/// many large ones, which the host holds.
pub(super) const MAX_FIELD_BYTES: usize = 32 << 10;

/// The bytes of a piece of a request's body that the host holds.
const CHUNK_BYTES: usize = 64 << 10;

/// The default wait for the head of a response, and between two pieces of its body.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// The limits of the requests of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestLimits {
    /// The maximum number of requests.
    pub requests: u64,
    /// The maximum bytes of all bodies that are sent.
    pub request_bytes: u64,
    /// The maximum bytes of all bodies that are received.
    pub response_bytes: u64,
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self {
            requests: 20,
            request_bytes: 16 << 20,
            response_bytes: 64 << 20,
        }
    }
}

/// A request of a call, for its audit record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestRecord {
    /// The method.
    pub method: String,
    /// The scheme, host and port; empty if the address is not valid.
    pub origin: String,
    /// The path and query.
    pub path: String,
    /// The status of the response, if there was one.
    pub status: Option<u16>,
    /// What became of the request.
    pub outcome: Outcome,
    /// The bytes of the body that were sent, and received.
    pub bytes: (u64, u64),
    /// The time from the request to the head of the response.
    pub time: Duration,
}

/// The requests of a call.
#[derive(Debug, Clone, Default)]
pub struct RequestLog(Arc<Mutex<Vec<RequestEntry>>>);

#[derive(Debug)]
struct RequestEntry {
    record: RequestRecord,
    sent: Arc<AtomicU64>,
    received: Arc<AtomicU64>,
}

impl RequestLog {
    /// Returns the requests so far.
    pub fn records(&self) -> Vec<RequestRecord> {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let record = |entry: &RequestEntry| RequestRecord {
            bytes: (
                entry.sent.load(Ordering::Relaxed),
                entry.received.load(Ordering::Relaxed),
            ),
            ..entry.record.clone()
        };
        entries.iter().map(record).collect()
    }

    fn begin(&self, record: RequestRecord) -> (usize, Arc<AtomicU64>, Arc<AtomicU64>) {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (sent, received) = (Arc::default(), Arc::default());
        entries.push(RequestEntry {
            record,
            sent: Arc::clone(&sent),
            received: Arc::clone(&received),
        });
        (entries.len() - 1, sent, received)
    }

    fn end(&self, index: usize, status: Option<u16>, outcome: Outcome, time: Duration) {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(RequestEntry { record, .. }) = entries.get_mut(index) {
            (record.status, record.outcome, record.time) = (status, outcome, time);
        }
    }
}

/// The requests that a call may send.
#[derive(Debug, Clone)]
pub struct RequestGate {
    /// The egress process.
    pub client: EgressClient,
    /// The component file, whose grant the process applies.
    pub component: Arc<str>,
    /// The placeholder of each secret in this call, by the secret's name.
    pub placeholders: BTreeMap<String, String>,
    /// The limits of the call's requests.
    pub limits: RequestLimits,
    /// The requests of the call.
    pub log: RequestLog,
}

/// The guest's access to HTTP. The default denies all requests.
#[derive(Debug, Default)]
pub(crate) struct HttpAccess {
    pub(crate) gate: Option<RequestGate>,
    sent: Arc<AtomicU64>,
    received: Arc<AtomicU64>,
    requests: u64,
}

type Sending = Box<dyn Future<Output = Result<(Response<WasiBody>, Connection), Error>> + Send>;
type Connection = Box<dyn Future<Output = Result<(), Error>> + Send>;

impl WasiHttpHooks for HttpAccess {
    fn send_request(
        &mut self,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
        _: Connection,
    ) -> Sending {
        let Some(gate) = self.gate.clone() else {
            return Box::new(async { Err(Error::HttpRequestDenied) });
        };
        self.requests += 1;
        if self.requests > gate.limits.requests {
            return Box::new(async { Err(Error::ConnectionLimitReached) });
        }
        let totals = (Arc::clone(&self.sent), Arc::clone(&self.received));
        Box::new(send(gate, totals, request, options.unwrap_or_default()))
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        CHUNK_BYTES
    }
}

async fn send(
    gate: RequestGate,
    (all_sent, all_received): (Arc<AtomicU64>, Arc<AtomicU64>),
    request: Request<WasiBody>,
    options: RequestOptions,
) -> Result<(Response<WasiBody>, Connection), Error> {
    let start = Instant::now();
    let target = Target::new(request.method(), request.uri());
    let record = RequestRecord {
        method: request.method().to_string(),
        origin: target.as_ref().map(Target::origin).unwrap_or_default(),
        path: target
            .as_ref()
            .map(Target::path_and_query)
            .unwrap_or_default(),
        ..RequestRecord::default()
    };
    let (index, sent, received) = gate.log.begin(record);
    let (limits, log) = (gate.limits, gate.log.clone());
    let request = request.map(|body| BoundedBody {
        body,
        own: sent,
        all: all_sent,
        max: limits.request_bytes,
        exceeded: |bytes| Error::HttpRequestBodySize(Some(bytes)),
        timeout: None,
    });
    let placeholders: Vec<(String, String)> = gate.placeholders.into_iter().collect();
    let origin = Origin {
        component: &gate.component,
        placeholders: &placeholders,
    };
    let timeout = options.first_byte_timeout.unwrap_or(DEFAULT_TIMEOUT);
    let answer = tokio::time::timeout(timeout, gate.client.send(origin, request)).await;
    let (response, outcome) = match answer {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => {
            tracing::error!("the egress process does not answer: {error}");
            log.end(index, None, Outcome::default(), start.elapsed());
            return Err(Error::ConnectionTerminated);
        }
        Err(_) => {
            log.end(index, None, Outcome::default(), start.elapsed());
            return Err(Error::ConnectionReadTimeout);
        }
    };
    let failure = outcome.failure.clone();
    let status = response.status().as_u16();
    let status = failure.is_none().then_some(status);
    log.end(index, status, outcome, start.elapsed());
    if let Some(failure) = failure {
        tracing::warn!("a request was not sent: {}", failure.why);
        return Err(error_for_guest(failure.kind));
    }
    let between = options.between_bytes_timeout.unwrap_or(DEFAULT_TIMEOUT);
    let response = response.map(|body| {
        let body = BoundedBody {
            body: body.map_err(Error::from),
            own: received,
            all: all_received,
            max: limits.response_bytes,
            exceeded: |bytes| Error::HttpResponseBodySize(Some(bytes)),
            timeout: Some((between, Box::pin(tokio::time::sleep(between)))),
        };
        body.boxed_unsync()
    });
    Ok((response, Box::new(async { Ok(()) })))
}

/// Returns what a guest learns of a failure. The operator's details stay in the log.
fn error_for_guest(kind: FailureKind) -> Error {
    match kind {
        FailureKind::Denied => Error::HttpRequestDenied,
        FailureKind::Name => Error::DnsError {
            rcode: None,
            info_code: None,
        },
        FailureKind::Connection => Error::ConnectionRefused,
        FailureKind::Timeout => Error::ConnectionTimeout,
        FailureKind::Certificate => Error::TlsCertificateError,
        FailureKind::Protocol => Error::HttpProtocolError,
        FailureKind::Secret => Error::HttpResponseIncomplete,
    }
}

/// A body whose bytes are counted, and that fails if the call's bodies exceed a limit or it
/// brings nothing for too long.
struct BoundedBody<B> {
    body: B,
    own: Arc<AtomicU64>,
    all: Arc<AtomicU64>,
    max: u64,
    exceeded: fn(u64) -> Error,
    timeout: Option<(Duration, Pin<Box<Sleep>>)>,
}

impl<B: Body<Data = bytes::Bytes, Error = Error> + Unpin> Body for BoundedBody<B> {
    type Data = bytes::Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<bytes::Bytes>, Error>>> {
        let this = &mut *self;
        let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) else {
            let Some((_, sleep)) = &mut this.timeout else {
                return Poll::Pending;
            };
            ready!(sleep.as_mut().poll(context));
            return Poll::Ready(Some(Err(Error::ConnectionReadTimeout)));
        };
        if let Some((time, sleep)) = &mut this.timeout {
            sleep.as_mut().reset(tokio::time::Instant::now() + *time);
        }
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            let bytes = data.len() as u64;
            this.own.fetch_add(bytes, Ordering::Relaxed);
            let all = this.all.fetch_add(bytes, Ordering::Relaxed) + bytes;
            if all > this.max {
                return Poll::Ready(Some(Err((this.exceeded)(all))));
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
