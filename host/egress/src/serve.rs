//! Receives requests in the process that sends them to servers. The host passes a socket for each
//! request, and speaks HTTP over that socket.

use std::convert::Infallible;
use std::io::{self, ErrorKind, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::pin::pin;
use std::sync::Arc;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustix::net::sockopt::set_socket_send_buffer_size;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Semaphore;

use crate::forward::Sender;
use crate::resolve::Resolve;

/// The maximum number of guests' requests at the same time. Further ones wait in the host.
pub(crate) const MAX_REQUESTS: u32 = 256;

/// The maximum size of the head of a request from the host, in bytes.
const MAX_HEAD_BYTES: usize = 512 << 10;

/// The maximum number of headers of a request from the host.
const MAX_HEADERS: usize = 1_024;

/// The size of the buffer for a response to the host. The system can choose a smaller one.
///
/// With the default of 208 KiB, a body of 100 MiB takes 1.4 times as long.
const SEND_BUFFER_BYTES: usize = 1 << 20;

/// Sends requests until the other end of the socket is closed, or `ended` completes. Then waits for
/// the current requests.
pub(crate) async fn serve<R: Resolve>(
    control: UnixStream,
    sender: Sender<R>,
    ended: impl Future,
) -> io::Result<()> {
    serve_at_most(MAX_REQUESTS, control, sender, ended).await
}

/// Sends requests like [`serve`], with at most `max` requests of guests at the same time.
pub(crate) async fn serve_at_most<R: Resolve>(
    max: u32,
    control: UnixStream,
    sender: Sender<R>,
    ended: impl Future,
) -> io::Result<()> {
    control.set_nonblocking(true)?;
    let control = tokio::net::UnixStream::from_std(control)?;
    // One more for each issuer, so that guests cannot block fetches of keys.
    let issuers = u32::try_from(sender.issuers.resolvers.len()).map_err(io::Error::other)?;
    let max = max + issuers;
    let sender = Arc::new(sender);
    let slots = Arc::new(Semaphore::new(max as usize));
    let mut ended = pin!(ended);
    loop {
        let next = async {
            let slot = Arc::clone(&slots).acquire_owned().await;
            let slot = slot.map_err(io::Error::other)?;
            io::Result::Ok(receive(&control).await?.map(|stream| (stream, slot)))
        };
        let next = tokio::select! {
            biased;
            _ = &mut ended => None,
            next = next => next?,
        };
        let Some((stream, slot)) = next else {
            let _ = slots.acquire_many(max).await;
            return Ok(());
        };
        let sender = Arc::clone(&sender);
        tokio::spawn(async move {
            // An error concerns only this request, and the host sees that it ended.
            let _ = serve_one(stream, &sender).await;
            drop(slot);
        });
    }
}

/// Serves one request until the host closes the socket, which cancels the request.
async fn serve_one<R: Resolve>(stream: UnixStream, sender: &Sender<R>) -> io::Result<()> {
    // hyper notices only by reading that the host has closed the socket. It does not read while a
    // server accepts no more of a request's body.
    #[expect(
        deprecated,
        reason = "the new function is unsafe, for types whose descriptor changes"
    )]
    let watched = AsyncFd::with_interest(stream.try_clone()?, Interest::PRIORITY)?;
    let mut closed = pin!(watched.ready(Interest::PRIORITY));
    let stream = tokio::net::UnixStream::from_std(stream)?;
    let answer =
        service_fn(|request| async move { Ok::<_, Infallible>(sender.answer(request).await) });
    let mut builder = http1::Builder::new();
    builder
        .keep_alive(false)
        // A response has only the headers of its server.
        .auto_date_header(false)
        .max_buf_size(MAX_HEAD_BYTES)
        .max_headers(MAX_HEADERS);
    tokio::select! {
        _ = &mut closed => return Ok(()),
        _ = builder.serve_connection(TokioIo::new(stream), answer) => {}
    }
    // Does not close the socket yet: the host may still be sending a body, and would then miss the
    // response.
    watched.get_ref().shutdown(Shutdown::Write)?;
    closed.await.map(drop)
}

/// Receives the socket of a request. Returns `None` if the other end is closed.
async fn receive(control: &tokio::net::UnixStream) -> io::Result<Option<UnixStream>> {
    loop {
        control.readable().await?;
        match control.try_io(Interest::READABLE, || receive_now(control.as_fd())) {
            Ok(Some(stream)) => {
                // Escaped code can send a descriptor of another kind.
                let prepared = stream
                    .set_nonblocking(true)
                    .and_then(|()| Ok(set_socket_send_buffer_size(&stream, SEND_BUFFER_BYTES)?));
                if prepared.is_ok() {
                    return Ok(Some(stream));
                }
            }
            Ok(None) => return Ok(None),
            // Nothing has arrived yet, or a byte without a socket.
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::InvalidData) => {}
            Err(error) => return Err(error),
        }
    }
}

fn receive_now(control: BorrowedFd<'_>) -> io::Result<Option<UnixStream>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut bytes = [IoSliceMut::new(&mut byte)];
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received = rustix::net::recvmsg(control, &mut bytes, &mut ancillary, flags)?;
    if received.bytes == 0 {
        return Ok(None);
    }
    let mut sockets = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(rights) => Some(rights),
        _ => None,
    });
    let socket = sockets.find_map(|mut rights| rights.next());
    socket
        .map(|socket| Some(UnixStream::from(socket)))
        .ok_or(ErrorKind::InvalidData.into())
}
