//! The stream of a connection: TCP, or a Unix socket.

use std::io::{self, IoSlice};
use std::os::fd::AsFd as _;
use std::pin::Pin;
use std::task::{Context, Poll};

use rustix::net::{RecvFlags, SendFlags};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};
use tokio::net::{TcpStream, UnixStream};

/// The stream of a connection.
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    /// Waits for the first bytes, and copies them without consuming them.
    pub(crate) async fn peek(&self, start: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.peek(start).await,
            Self::Unix(stream) => {
                let peek = || {
                    let (_, count) = rustix::net::recv(stream, &mut *start, RecvFlags::PEEK)?;
                    Ok(count)
                };
                stream.async_io(Interest::READABLE, peek).await
            }
        }
    }

    /// Registers the stream with the current runtime.
    pub(crate) fn register_here(self) -> io::Result<Self> {
        Ok(match self {
            Self::Tcp(stream) => Self::Tcp(TcpStream::from_std(stream.into_std()?)?),
            Self::Unix(stream) => Self::Unix(UnixStream::from_std(stream.into_std()?)?),
        })
    }

    /// Makes the system send small writes without delay.
    pub(crate) fn set_no_delay(&self) {
        if let Self::Tcp(stream) = self {
            let _ = stream.set_nodelay(true);
        }
    }

    /// Returns a second handle of the same connection.
    pub(crate) fn second_handle(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Tcp(stream) => {
                let handle = stream.as_fd().try_clone_to_owned()?;
                Self::Tcp(TcpStream::from_std(handle.into())?)
            }
            Self::Unix(stream) => {
                let handle = stream.as_fd().try_clone_to_owned()?;
                Self::Unix(UnixStream::from_std(handle.into())?)
            }
        })
    }

    /// Sends as many bytes as fit without waiting, and returns their number. Ignores the readiness
    /// of this handle, because waiting clears it.
    pub(crate) fn send_now(&self, bytes: &[u8]) -> rustix::io::Result<usize> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match self {
            Self::Tcp(stream) => rustix::net::send(stream, bytes, flags),
            Self::Unix(stream) => rustix::net::send(stream, bytes, flags),
        }
    }

    /// Waits until the peer has closed its sending side. Unlike hyper, reads nothing, so it notices
    /// the close even if unread bytes follow a request.
    pub(crate) async fn read_closed(&self) {
        self.reached(Interest::READABLE, Ready::is_read_closed)
            .await;
    }

    /// Waits until the peer can receive nothing more.
    pub(crate) async fn write_closed(&self) {
        self.reached(Interest::WRITABLE, Ready::is_write_closed)
            .await;
    }

    /// Waits until the stream is in this state, or has failed.
    async fn reached(&self, interest: Interest, is_reached: fn(Ready) -> bool) {
        // Another handle reads and writes. Clear the readiness to wait for the next event.
        let clear = || io::Result::<()>::Err(io::ErrorKind::WouldBlock.into());
        loop {
            let ready = match self {
                Self::Tcp(stream) => stream.ready(interest).await,
                Self::Unix(stream) => stream.ready(interest).await,
            };
            if ready.map_or(true, is_reached) {
                return;
            }
            let _ = match self {
                Self::Tcp(stream) => stream.try_io(interest, clear),
                Self::Unix(stream) => stream.try_io(interest, clear),
            };
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Unix(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(context, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write_vectored(context, bytes),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(context),
            Self::Unix(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
