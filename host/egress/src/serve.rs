//! The process that sends requests. It gets a socket for each request, over which the host
//! speaks HTTP with it.

use std::io::{self, ErrorKind, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::pin::pin;
use std::sync::Arc;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use tokio::io::Interest;
use tokio::sync::Semaphore;

use crate::forward::Sender;
use crate::resolve::Resolve;

/// The maximum number of requests at the same time. Further ones wait in the socket.
const MAX_REQUESTS: usize = 256;

/// The maximum bytes of the head of a request from the host.
const MAX_HEAD_BYTES: usize = 512 << 10;

/// The maximum number of headers of a request from the host.
const MAX_HEADERS: usize = 1_024;

/// Sends requests until the other end of the socket is closed, or `ended` completes. Then waits for
/// the requests that it has.
pub(crate) async fn serve<R: Resolve>(
    control: UnixStream,
    sender: Sender<R>,
    ended: impl Future,
) -> io::Result<()> {
    control.set_nonblocking(true)?;
    let control = tokio::net::UnixStream::from_std(control)?;
    let sender = Arc::new(sender);
    let slots = Arc::new(Semaphore::new(MAX_REQUESTS));
    let mut ended = pin!(ended);
    loop {
        let slot = Arc::clone(&slots).acquire_owned().await;
        let slot = slot.map_err(io::Error::other)?;
        let stream = tokio::select! {
            biased;
            _ = &mut ended => None,
            stream = receive(&control) => stream?,
        };
        let Some(stream) = stream else {
            drop(slot);
            let all = u32::try_from(MAX_REQUESTS).map_err(io::Error::other)?;
            let _ = slots.acquire_many(all).await;
            return Ok(());
        };
        let sender = Arc::clone(&sender);
        tokio::spawn(async move {
            let stream = tokio::net::UnixStream::from_std(stream);
            if let Ok(stream) = stream {
                let answer = service_fn(|request| {
                    let sender = Arc::clone(&sender);
                    async move { Ok::<_, std::convert::Infallible>(sender.answer(request).await) }
                });
                let mut builder = http1::Builder::new();
                builder
                    .keep_alive(false)
                    .max_buf_size(MAX_HEAD_BYTES)
                    .max_headers(MAX_HEADERS);
                // If the host has closed the socket, the request is cancelled.
                let _ = builder.serve_connection(TokioIo::new(stream), answer).await;
            }
            drop(slot);
        });
    }
}

/// Receives the socket of a request. Returns `None` if the other end is closed.
async fn receive(control: &tokio::net::UnixStream) -> io::Result<Option<UnixStream>> {
    loop {
        control.readable().await?;
        match control.try_io(Interest::READABLE, || receive_now(control.as_fd())) {
            Ok(Some(stream)) => {
                stream.set_nonblocking(true)?;
                return Ok(Some(stream));
            }
            Ok(None) => return Ok(None),
            // Nothing yet, or a byte without a socket.
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
