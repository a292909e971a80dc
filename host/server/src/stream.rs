//! The stream of a connection: TCP, or a Unix socket.

use std::io::{self, IoSlice};
use std::os::fd::AsFd as _;
use std::pin::Pin;
use std::task::{Context, Poll};

use rustix::net::RecvFlags;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// The stream of a connection.
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    /// Waits for the first bytes, and looks at them without reading them.
    pub(crate) async fn peek(&self, start: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.peek(start).await,
            Self::Unix(stream) => {
                let look = || {
                    let (_, count) = rustix::net::recv(stream, &mut *start, RecvFlags::PEEK)?;
                    Ok(count)
                };
                stream.async_io(Interest::READABLE, look).await
            }
        }
    }

    /// Registers the stream with the current runtime.
    pub(crate) fn move_here(self) -> io::Result<Self> {
        Ok(match self {
            Self::Tcp(stream) => Self::Tcp(TcpStream::from_std(stream.into_std()?)?),
            Self::Unix(stream) => Self::Unix(UnixStream::from_std(stream.into_std()?)?),
        })
    }

    /// Sends each write at once.
    pub(crate) fn send_at_once(&self) {
        if let Self::Tcp(stream) = self {
            let _ = stream.set_nodelay(true);
        }
    }

    /// Returns a second handle, to watch the stream without reading.
    pub(crate) fn watch(&self) -> io::Result<Self> {
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

    /// Waits until the peer has closed its side. hyper does not notice that while
    /// bytes follow a request. Guards against: calls that go on when their peer is
    /// gone.
    pub(crate) async fn hung_up(&self) {
        // The connection reads the bytes; clear readiness to wait for more.
        let nothing = || io::Result::<()>::Err(io::ErrorKind::WouldBlock.into());
        loop {
            let ready = match self {
                Self::Tcp(stream) => stream.ready(Interest::READABLE).await,
                Self::Unix(stream) => stream.ready(Interest::READABLE).await,
            };
            match ready {
                Ok(seen) if !seen.is_read_closed() => {}
                _ => return,
            }
            let _ = match self {
                Self::Tcp(stream) => stream.try_io(Interest::READABLE, nothing),
                Self::Unix(stream) => stream.try_io(Interest::READABLE, nothing),
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
