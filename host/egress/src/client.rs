//! The host's handle to the egress process, through which the host sends requests.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use tokio::sync::Semaphore;

use crate::driven::{self, DrivenBody};
use crate::message::{GRANT, ISSUER, OUTCOME, Outcome, PLACEHOLDER};

/// The maximum size of the head of a response, with the server's headers and the outcome, in bytes.
const MAX_HEAD_BYTES: usize = 512 << 10;

/// The maximum number of headers of a response.
const MAX_HEADERS: usize = 1_024;

/// The maximum number of requests of a component at the same time; further ones wait.
///
/// It is lower than the maximum for all components together. Guards against: a component that keeps
/// others from sending.
pub(crate) const MAX_COMPONENT_REQUESTS: usize = 64;

/// The maximum time to fetch keys, from name resolution to the last byte. Guards against: an issuer
/// that answers slowly or never.
const KEYS_TIMEOUT: Duration = Duration::from_secs(10);

/// A handle to the egress process.
#[derive(Debug, Clone)]
pub struct EgressClient {
    control: Arc<OwnedFd>,
    /// The free slots of each component for requests, by component file.
    slots: Arc<Mutex<BTreeMap<String, Arc<Semaphore>>>>,
    /// The free slots of all components together. Fetching keys needs none of them.
    all_slots: Arc<Semaphore>,
    /// The process ends when this is closed.
    _lifetime: Arc<OwnedFd>,
}

/// The component that sends a request, and its placeholders.
#[derive(Debug, Clone, Copy)]
pub struct Requester<'a> {
    /// The component file whose grant covers the request.
    pub component: &'a str,
    /// The names of secrets, and their placeholders in this call.
    pub placeholders: &'a [(String, String)],
}

impl EgressClient {
    /// Creates a handle.
    ///
    /// `control` is the socket of the process. The process ends when `lifetime` is closed. Guests send
    /// at most `max_requests` at the same time.
    pub(crate) fn new(control: OwnedFd, lifetime: OwnedFd, max_requests: usize) -> Self {
        Self {
            control: Arc::new(control),
            slots: Arc::default(),
            all_slots: Arc::new(Semaphore::new(max_requests)),
            _lifetime: Arc::new(lifetime),
        }
    }

    /// Sends a request, and returns the response and the outcome.
    ///
    /// The request ends when the response is dropped.
    ///
    /// # Errors
    ///
    /// If the process cannot be reached or ends.
    pub async fn send<B>(
        &self,
        requester: Requester<'_>,
        mut request: Request<B>,
    ) -> io::Result<(Response<DrivenBody>, Outcome)>
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let announced = announce_body(&mut request).await;
        announced.map_err(io::Error::other)?;
        let header =
            |text: &str| HeaderValue::from_bytes(text.as_bytes()).map_err(io::Error::other);
        request
            .headers_mut()
            .insert(GRANT, header(requester.component)?);
        request.headers_mut().remove(ISSUER);
        request.headers_mut().remove(OUTCOME);
        request.headers_mut().remove(PLACEHOLDER);
        for (name, placeholder) in requester.placeholders {
            let pair = header(&format!("{name}={placeholder}"))?;
            request.headers_mut().append(PLACEHOLDER, pair);
        }
        let slots = self.component_slots(requester.component);
        let slot = slots.acquire_owned().await.map_err(io::Error::other)?;
        let shared_slot = Arc::clone(&self.all_slots).acquire_owned().await;
        let shared_slot = shared_slot.map_err(io::Error::other)?;
        self.exchange(request, (slot, shared_slot)).await
    }

    /// Fetches the keys of an issuer from their address.
    ///
    /// # Errors
    ///
    /// If the process was started without this issuer or has ended, or the issuer does not send
    /// the keys in time or sends more than `max_bytes` bytes.
    pub async fn fetch_keys(&self, address: &str, max_bytes: usize) -> anyhow::Result<Vec<u8>> {
        self.fetch_keys_within(KEYS_TIMEOUT, address, max_bytes)
            .await
    }

    pub(crate) async fn fetch_keys_within(
        &self,
        time: Duration,
        address: &str,
        max_bytes: usize,
    ) -> anyhow::Result<Vec<u8>> {
        let fetching = self.fetch_keys_without_timeout(address, max_bytes);
        let fetched = tokio::time::timeout(time, fetching).await;
        fetched.unwrap_or_else(|_| bail!("the issuer took longer than {time:?}"))
    }

    async fn fetch_keys_without_timeout(
        &self,
        address: &str,
        max_bytes: usize,
    ) -> anyhow::Result<Vec<u8>> {
        let mut request = Request::new(Empty::new());
        let address = HeaderValue::try_from(address)?;
        request.headers_mut().insert(ISSUER, address);
        let answer = self.exchange(request, ()).await;
        let (response, outcome) = answer.context("the egress process does not answer")?;
        if let Some(failure) = outcome.failure {
            bail!("{}", failure.why);
        }
        let (head, mut body) = response.into_parts();
        let status = head.status;
        ensure!(
            status == StatusCode::OK,
            "the issuer answered with status {status}"
        );
        let mut keys = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.context("the issuer's response was cut off")?;
            // Ignores a frame with trailers.
            if let Ok(data) = frame.into_data() {
                ensure!(
                    keys.len() + data.len() <= max_bytes,
                    "the issuer's response is over the limit of {max_bytes} bytes"
                );
                keys.extend_from_slice(&data);
            }
        }
        Ok(keys)
    }

    /// Returns whether the sender and the supervisor have both ended.
    ///
    /// A confined host cannot start them again.
    pub fn has_ended(&self) -> bool {
        let mut polled = [PollFd::new(&self.control, PollFlags::empty())];
        let polled_now = poll(&mut polled, Some(&Timespec::default()));
        polled_now.is_ok() && polled[0].revents().contains(PollFlags::HUP)
    }

    /// Sends a request on a new socket. Frees `slots` when the request is over.
    async fn exchange<B>(
        &self,
        request: Request<B>,
        slots: impl Send + 'static,
    ) -> io::Result<(Response<DrivenBody>, Outcome)>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let stream = tokio::net::UnixStream::from_std(self.open_socket()?)?;
        let mut builder = http1::Builder::new();
        builder
            .max_buf_size(MAX_HEAD_BYTES)
            .max_headers(MAX_HEADERS);
        let response = driven::exchange(&builder, TokioIo::new(stream), request, slots).await;
        let mut response = response.map_err(io::Error::other)?;
        let outcome = Outcome::take(response.headers_mut());
        let outcome = outcome.ok_or_else(|| io::Error::other("the response has no outcome"))?;
        Ok((response, outcome))
    }

    fn component_slots(&self, component: &str) -> Arc<Semaphore> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Arc::new(Semaphore::new(MAX_COMPONENT_REQUESTS));
        let slots = slots.entry(component.to_owned()).or_insert_with(new);
        Arc::clone(slots)
    }

    /// Opens a socket for a request to the process.
    pub(crate) fn open_socket(&self) -> io::Result<UnixStream> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let rights = [theirs.as_fd()];
        ancillary.push(SendAncillaryMessage::ScmRights(&rights));
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        rustix::net::sendmsg(&self.control, &[IoSlice::new(&[0])], &mut ancillary, flags)?;
        Ok(ours)
    }
}

/// Makes the process see the body of a GET or HEAD request, so that it denies the request. hyper
/// does not send such a body if its length is unknown.
///
/// Waits for the first byte of the body, or for its end.
async fn announce_body<B>(request: &mut Request<B>) -> Result<(), B::Error>
where
    B: Body<Data = Bytes> + Unpin,
{
    let has_length = request.body().size_hint().exact().is_some()
        || request.headers().contains_key(CONTENT_LENGTH);
    if has_length || ![Method::GET, Method::HEAD].contains(request.method()) {
        return Ok(());
    }
    while let Some(frame) = request.body_mut().frame().await {
        if frame?.data_ref().is_some_and(|data| !data.is_empty()) {
            let chunked = HeaderValue::from_static("chunked");
            request.headers_mut().insert(TRANSFER_ENCODING, chunked);
            break;
        }
    }
    Ok(())
}
