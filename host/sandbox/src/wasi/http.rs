//! `wasi:http`: the requests that a guest sends. The egress process sends those that the
//! component's grant allows; all others are denied.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use http::{HeaderMap, Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use skillhost_egress::{
    ASK, EgressClient, Failure, FailureKind, NetworkGrant, Outcome, Requester, Target, TargetError,
    placeholder, secrets_in,
};
use tokio::time::Sleep;
use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi_http::p2::bindings::http::types::{HostOutgoingRequest as _, Method};
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpHooks, WasiHttpView as _};

use super::HasImportState;
use crate::engine::pauses::CallPauses;
use crate::tool::consent::{ConsentRules, ConsentSession, Question};
use crate::tool::limits::Limits;
use crate::tool::request::{RequestLog, RequestRecord};

/// The environment variable with the rules of the grant, one per line. Guests use it only in
/// messages, to say which requests would work.
const RULES_VARIABLE: &str = "SKILLHOST_NETWORK";

/// The maximum size of all fields of a request or response together, in bytes. Guards against: a
/// guest that makes the host hold many large fields.
pub(super) const MAX_FIELD_BYTES: usize = 32 << 10;

/// The maximum length of a method in bytes, and that of an authority, which has a host name and a
/// port. Registered methods have at most 17 bytes, and host names 253. Guards against: a guest that
/// makes the host hold many long names.
const MAX_METHOD_BYTES: usize = 64;
const MAX_AUTHORITY_BYTES: usize = 320;

/// The interface with the functions that `link` replaces, in the version of wasmtime-wasi-http.
const TYPES: &str = "wasi:http/types@0.2.12";

/// The maximum number of bytes of a request's body that the host holds at a time.
const CHUNK_BYTES: usize = 64 << 10;

/// The default time limit for the head of a response, and between two pieces of its body.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// The rule in the record of a request without a grant.
const NO_GRANT: &str = "no grant";

/// The gate for a call's requests. It sends those that are allowed, and logs the denied ones too.
#[derive(Debug, Clone)]
pub struct RequestGate {
    /// The component file, whose grant the egress process applies.
    component: Arc<str>,
    log: RequestLog,
    /// `None` if the component may send no request.
    sender: Option<Arc<RequestSender>>,
}

/// Sends the requests of a call.
#[derive(Debug)]
struct RequestSender {
    client: EgressClient,
    grant: Arc<NetworkGrant>,
    /// The names of secrets, and their placeholders in this call.
    placeholders: Vec<(String, String)>,
    consent: ConsentGate,
}

/// The means to get consent to a call's requests. Used only if the grant has `network = "ask"`.
#[derive(Debug)]
pub struct ConsentGate {
    /// The rules of the host.
    pub rules: Arc<ConsentRules>,
    /// The session in which a person may be asked.
    pub session: Option<Arc<ConsentSession>>,
    /// The question of the call, without method and origin.
    pub question: Question,
}

/// Links functions that limit the length of a method and of an authority. They replace those of
/// wasmtime-wasi-http, which accept any length.
pub(super) fn link<T: HasImportState>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    let mut types = linker.instance(TYPES)?;
    types.func_wrap(
        "[method]outgoing-request.set-method",
        |mut store: StoreContextMut<'_, T>, (request, method): (Resource<_>, Method)| {
            let is_long = matches!(&method, Method::Other(name) if name.len() > MAX_METHOD_BYTES);
            if is_long {
                return Ok((Err(()),));
            }
            let set = store
                .data_mut()
                .imports()
                .http()
                .set_method(request, method)?;
            Ok((set,))
        },
    )?;
    types.func_wrap(
        "[method]outgoing-request.set-authority",
        |mut store: StoreContextMut<'_, T>, (request, authority): (Resource<_>, Option<String>)| {
            let length = authority.as_ref().map_or(0, String::len);
            if length > MAX_AUTHORITY_BYTES {
                return Ok((Err(()),));
            }
            let mut http = store.data_mut().imports().http();
            Ok((http.set_authority(request, authority)?,))
        },
    )?;
    linker.allow_shadowing(false);
    Ok(())
}

impl RequestGate {
    /// Creates a gate that denies all requests.
    pub fn closed(component: &str, log: RequestLog) -> Self {
        Self {
            component: component.into(),
            log,
            sender: None,
        }
    }

    /// Lets the call send the requests that a grant allows, with new placeholders for its secrets.
    ///
    /// # Errors
    ///
    /// Fails if the system has no random numbers.
    pub fn open(
        self,
        client: &EgressClient,
        grant: &Arc<NetworkGrant>,
        consent: ConsentGate,
    ) -> io::Result<Self> {
        let new_placeholder = |name: &str| {
            let mut random = [0; 16];
            getrandom::fill(&mut random).map_err(io::Error::other)?;
            Ok((name.to_owned(), placeholder(random)))
        };
        let placeholders = grant.secret_names().map(new_placeholder);
        let sender = RequestSender {
            client: client.clone(),
            grant: Arc::clone(grant),
            placeholders: placeholders.collect::<io::Result<_>>()?,
            consent,
        };
        Ok(Self {
            sender: Some(Arc::new(sender)),
            ..self
        })
    }

    /// Returns the sender of a request, and what is known of its outcome: the rule or the consent, and
    /// the secrets. The egress process checks the request again once it has resolved the host.
    async fn permit(
        &self,
        target: Result<Target, TargetError>,
        method: &str,
        headers: &HeaderMap,
        pauses: &CallPauses,
    ) -> Result<(&RequestSender, Outcome), Denied> {
        let Some(sender) = &self.sender else {
            let mut denied = Denied::new("the component has no `network` grant");
            denied.outcome.rule = Some(NO_GRANT.to_owned());
            return Err(denied);
        };
        let target = target.map_err(Denied::new)?;
        let rule = sender
            .grant
            .allow(&target)
            .map_err(Denied::new)?
            .to_string();
        if let Err(why) = sender.grant.allow_unresolved(&target) {
            let mut denied = Denied::new(why);
            denied.outcome.rule = Some(rule);
            return Err(denied);
        }
        let consent = sender.consent(&target, method, pauses).await?;
        let known = Outcome {
            rule: Some(consent.unwrap_or(rule)),
            secrets: secrets_in(&sender.grant, &target, headers, &sender.placeholders),
            ..Outcome::default()
        };
        Ok((sender, known))
    }

    /// Returns the environment variables of a guest that may send requests: a placeholder for each
    /// secret, and the rules, one per line, or `ask`.
    pub(crate) fn environment(&self) -> Option<impl Iterator<Item = (String, String)>> {
        let sender = self.sender.as_ref()?;
        let rules: Vec<String> = if sender.grant.asks() {
            vec![ASK.to_owned()]
        } else {
            sender.grant.rules().map(ToString::to_string).collect()
        };
        let rules = (RULES_VARIABLE.to_owned(), rules.join("\n"));
        Some(sender.placeholders.iter().cloned().chain([rules]))
    }
}

impl RequestSender {
    /// Gets consent to a request, and returns it as text for the request log. Returns `None` if
    /// the request needs no consent.
    ///
    /// A request needs no consent if the grant has rules. The call is paused while a person decides.
    async fn consent(
        &self,
        target: &Target,
        method: &str,
        pauses: &CallPauses,
    ) -> Result<Option<String>, Denied> {
        if !self.grant.asks() {
            return Ok(None);
        }
        let ConsentGate {
            rules,
            session,
            question,
        } = &self.consent;
        let mut question = question.clone();
        question.origin = target.origin();
        method.clone_into(&mut question.method);
        let rule = format!("{method} {}/*", question.origin);
        let _pause = pauses.begin();
        match rules.decide(session.as_deref(), question).await {
            Ok(consent) => Ok(Some(consent.to_string())),
            Err(why) => {
                let why = format!("{why}; to allow the request, write `network = [\"{rule}\"]`");
                let mut denied = Denied::new(why);
                denied.missing_rule = Some(rule);
                Err(denied)
            }
        }
    }
}

/// A request that the host denies.
struct Denied {
    outcome: Outcome,
    /// The rule to grant, if the host denies the request because nobody consented to it.
    missing_rule: Option<String>,
}

impl Denied {
    fn new(why: impl ToString) -> Self {
        Self {
            outcome: failed_outcome(FailureKind::Denied, why),
            missing_rule: None,
        }
    }
}

/// The guest's access to HTTP. The default denies all requests, and costs a call nothing.
#[derive(Debug, Default)]
pub(crate) struct HttpAccess(Option<Box<GuestRequests>>);

/// The requests of a guest.
#[derive(Debug)]
struct GuestRequests {
    gate: RequestGate,
    /// The times during which a person decides about a request.
    pauses: CallPauses,
    limits: RequestLimits,
    sent: Arc<AtomicU64>,
    received: Arc<AtomicU64>,
    requests: usize,
}

/// The limits of a call that concern its requests; see [`Limits`].
#[derive(Debug, Clone, Copy)]
struct RequestLimits {
    requests: usize,
    request_bytes: usize,
    response_bytes: usize,
}

impl HttpAccess {
    /// Creates the access through a gate.
    pub(crate) fn new(gate: RequestGate, limits: &Limits) -> Self {
        Self(Some(Box::new(GuestRequests {
            gate,
            pauses: CallPauses::default(),
            limits: RequestLimits {
                requests: limits.requests,
                request_bytes: limits.request_bytes,
                response_bytes: limits.response_bytes,
            },
            sent: Arc::default(),
            received: Arc::default(),
            requests: 0,
        })))
    }

    /// Returns the pauses during which a person decides about a request. Returns `None` for a
    /// guest without a gate.
    pub(crate) fn pauses(&self) -> Option<&CallPauses> {
        self.0.as_ref().map(|requests| &requests.pauses)
    }
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
        let Some(guest) = &mut self.0 else {
            return Box::new(async { Err(Error::HttpRequestDenied) });
        };
        let (gate, limits) = (guest.gate.clone(), guest.limits);
        guest.requests += 1;
        if guest.requests > limits.requests {
            gate.log.count_beyond_limit();
            // Only the first of these requests is logged.
            if guest.requests == limits.requests + 1 {
                tracing::warn!(
                    "`{}` sends more requests in a call than `limits.requests` allows: {}",
                    gate.component,
                    limits.requests
                );
            }
            return Box::new(async { Err(Error::ConnectionLimitReached) });
        }
        let totals = (Arc::clone(&guest.sent), Arc::clone(&guest.received));
        let options = options.unwrap_or_default();
        let pauses = guest.pauses.clone();
        Box::new(send(gate, pauses, limits, totals, request, options))
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        CHUNK_BYTES
    }
}

async fn send(
    gate: RequestGate,
    pauses: CallPauses,
    limits: RequestLimits,
    (all_sent, all_received): (Arc<AtomicU64>, Arc<AtomicU64>),
    request: Request<WasiBody>,
    options: RequestOptions,
) -> Result<(Response<WasiBody>, Connection), Error> {
    let start = Instant::now();
    let target = Target::new(request.method(), request.uri());
    let method = request.method().to_string();
    let origin = target.as_ref().map(Target::origin).unwrap_or_default();
    let path = target.as_ref().map(Target::path_and_query);
    let record = RequestRecord {
        method: method.clone(),
        origin: origin.clone(),
        path: path.unwrap_or_default(),
        ..RequestRecord::default()
    };
    let what = format!("`{}` requested {method} {origin}", gate.component);
    let call_bytes = Arc::clone(&all_sent);
    let log = gate.log.clone();
    let (index, sent, received) = log.begin(record);
    let permitted = gate.permit(target, &method, request.headers(), &pauses);
    let (sender, mut known) = permitted.await.map_err(|denied| {
        let failure = denied.outcome.failure.clone();
        log.deny(index, denied.outcome, denied.missing_rule, start.elapsed());
        let why = failure.map(|failure| failure.why).unwrap_or_default();
        tracing::warn!("{what} and got no response: {why}");
        Error::HttpRequestDenied
    })?;
    let from = Requester {
        component: &gate.component,
        placeholders: &sender.placeholders,
    };
    // The request may be sent although the guest does not wait for the response.
    log.change(index, |record| record.outcome = Some(known.clone()));
    let request = request.map(|body| BoundedBody {
        body,
        own_bytes: sent,
        call_bytes: all_sent,
        max: limits.request_bytes as u64,
        exceeded: |bytes| Error::HttpRequestBodySize(Some(bytes)),
        timeout: None,
        on_error: |_: &Error| {},
    });
    let timeout = options.first_byte_timeout.unwrap_or(DEFAULT_TIMEOUT);
    let answer = tokio::time::timeout(timeout, sender.client.send(from, request)).await;
    let (response, mut outcome) = match answer {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => {
            let bytes = call_bytes.load(Ordering::Relaxed);
            let Some(why) = body_failure(&error, bytes, limits.request_bytes) else {
                log.end(index, None, Some(known), start.elapsed());
                tracing::error!("the egress process does not answer: {error}");
                return Err(Error::ConnectionTerminated);
            };
            tracing::warn!("{what} and got no response: {why}");
            known.failure = Some(Failure::new(FailureKind::Body, why));
            log.end(index, None, Some(known), start.elapsed());
            return Err(Error::HttpRequestBodySize(Some(bytes)));
        }
        Err(_) => {
            let why = format!("the server did not answer in {timeout:?}");
            tracing::warn!("{what} and got no response: {why}");
            known.failure = Some(Failure::new(FailureKind::Timeout, why));
            log.end(index, None, Some(known), start.elapsed());
            return Err(Error::ConnectionReadTimeout);
        }
    };
    outcome.rule = known.rule;
    let failure = outcome.failure.clone();
    let status = failure.is_none().then(|| response.status().as_u16());
    log.end(index, status, Some(outcome), start.elapsed());
    if let Some(failure) = failure {
        tracing::warn!("{what} and got no response: {}", failure.why);
        return Err(error_for_guest(failure.kind));
    }
    let response = response.map(|body| {
        let timeout = options.between_bytes_timeout.unwrap_or(DEFAULT_TIMEOUT);
        BoundedBody {
            body: body.map_err(Error::from),
            own_bytes: received,
            call_bytes: all_received,
            max: limits.response_bytes as u64,
            exceeded: |bytes| Error::HttpResponseBodySize(Some(bytes)),
            timeout: Some((timeout, Box::pin(tokio::time::sleep(timeout)))),
            on_error: move |error: &Error| {
                log.change(index, |record| record.is_incomplete = true);
                tracing::warn!("{what} and got only a part of the response: {error}");
            },
        }
        .boxed_unsync()
    });
    Ok((response, Box::new(async { Ok(()) })))
}

/// Returns why the guest's body ended a request. Returns `None` if another error ended it. `bytes`
/// is the size of the bodies of all requests of the call so far.
fn body_failure(error: &io::Error, bytes: u64, max: usize) -> Option<String> {
    let first = error.get_ref().map(|error| error as &dyn std::error::Error);
    let mut causes = std::iter::successors(first, |error| error.source());
    let error = causes.find_map(|cause| cause.downcast_ref::<Error>())?;
    Some(if bytes > max as u64 {
        format!("the bodies of the call's requests exceed `limits.request_bytes`: {max}")
    } else {
        format!("the request's body is incomplete: {error}")
    })
}

fn failed_outcome(kind: FailureKind, why: impl ToString) -> Outcome {
    Outcome {
        failure: Some(Failure::new(kind, why)),
        ..Outcome::default()
    }
}

/// Returns the error that a guest gets for a failure. Details for the operator stay in the log.
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
        FailureKind::Body => Error::HttpRequestBodySize(None),
    }
}

/// A body that counts its bytes. Fails if the call's bodies exceed a limit, or if no bytes
/// arrive for too long.
struct BoundedBody<B, F> {
    body: B,
    /// The bytes of this body.
    own_bytes: Arc<AtomicU64>,
    /// The bytes of all bodies of the call in the same direction.
    call_bytes: Arc<AtomicU64>,
    max: u64,
    exceeded: fn(u64) -> Error,
    timeout: Option<(Duration, Pin<Box<Sleep>>)>,
    /// Called when an error ends the body.
    on_error: F,
}

impl<B: Body<Data = bytes::Bytes, Error = Error> + Unpin, F> BoundedBody<B, F> {
    fn next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<bytes::Bytes>, Error>>> {
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) else {
            let Some((_, sleep)) = &mut self.timeout else {
                return Poll::Pending;
            };
            ready!(sleep.as_mut().poll(context));
            return Poll::Ready(Some(Err(Error::ConnectionReadTimeout)));
        };
        if let Some((time, sleep)) = &mut self.timeout {
            sleep.as_mut().reset(tokio::time::Instant::now() + *time);
        }
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            let bytes = data.len() as u64;
            self.own_bytes.fetch_add(bytes, Ordering::Relaxed);
            let all = self.call_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
            if all > self.max {
                return Poll::Ready(Some(Err((self.exceeded)(all))));
            }
        }
        Poll::Ready(frame)
    }
}

impl<B, F> Body for BoundedBody<B, F>
where
    B: Body<Data = bytes::Bytes, Error = Error> + Unpin,
    F: FnMut(&Error) + Unpin,
{
    type Data = bytes::Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<bytes::Bytes>, Error>>> {
        let next = ready!(self.next(context));
        if let Some(Err(error)) = &next {
            (self.on_error)(error);
        }
        Poll::Ready(next)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
