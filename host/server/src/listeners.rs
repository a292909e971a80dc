//! The sockets that a server listens on: one for a TCP address, two for `localhost`, or one Unix
//! socket. They are bound before the server runs, because a confined process cannot bind any.

use std::fmt;
use std::io;
use std::net::{self, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use rustix::io::Errno;
use skillhost::{Peer, Trust};
use tokio::net::TcpListener;

use crate::stream::Stream;
use crate::unix_socket;

/// The maximum number of connections that wait to be accepted.
const BACKLOG: i32 = 1024;

/// The bound sockets of a server.
#[derive(Debug)]
pub struct Sockets(Bound);

#[derive(Debug)]
enum Bound {
    Tcp {
        address: SocketAddr,
        first: net::TcpListener,
        second: Option<net::TcpListener>,
    },
    Unix {
        path: PathBuf,
        listener: UnixListener,
    },
}

impl Sockets {
    /// Listens at an address.
    ///
    /// # Errors
    ///
    /// If the system refuses.
    pub fn bind(address: SocketAddr) -> anyhow::Result<Self> {
        let cannot = || format!("cannot serve at `{address}`");
        let first = bind(address).with_context(cannot)?;
        Ok(Self(Bound::Tcp {
            address: first.local_addr().with_context(cannot)?,
            first,
            second: None,
        }))
    }

    /// Listens on both addresses that `localhost` can mean: 127.0.0.1 and ::1.
    ///
    /// Uses no resolver. On a machine without IPv6, listens on 127.0.0.1 alone.
    ///
    /// # Errors
    ///
    /// If the system refuses, or if another program listens on one of the two addresses. Some
    /// clients would reach that program.
    pub fn bind_localhost(port: u16) -> anyhow::Result<Self> {
        let mut sockets = Self::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
        if let Self(Bound::Tcp {
            address, second, ..
        }) = &mut sockets
        {
            let other = SocketAddr::from((Ipv6Addr::LOCALHOST, address.port()));
            match bind(other) {
                Ok(listener) => *second = Some(listener),
                Err(error) if is_missing_address(&error) => {}
                Err(error) => {
                    let cannot = format!("cannot serve at `{other}`");
                    return Err(anyhow::Error::from(error).context(cannot));
                }
            }
        }
        Ok(sockets)
    }

    /// Listens on a Unix socket, and gives its file this mode. Replaces a socket that nobody
    /// listens on.
    ///
    /// # Errors
    ///
    /// If another process listens at the path, if another file is there, if users other than those
    /// in `trust` may change the path, or if the system refuses.
    pub fn bind_unix(path: &Path, mode: u32, trust: &Trust) -> anyhow::Result<Self> {
        let listener = unix_socket::bind(path, mode, BACKLOG, trust);
        let listener =
            listener.with_context(|| format!("cannot serve at `unix:{}`", path.display()))?;
        Ok(Self(Bound::Unix {
            path: path.to_owned(),
            listener,
        }))
    }

    /// Returns the address, with the port that the system chose for port 0. For localhost this is
    /// the IPv4 address. Returns `None` for a Unix socket.
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.0 {
            Bound::Tcp { address, .. } => Some(*address),
            Bound::Unix { .. } => None,
        }
    }

    /// Returns the path of a Unix socket, or `None` for TCP.
    pub(crate) fn path(&self) -> Option<&Path> {
        match &self.0 {
            Bound::Tcp { .. } => None,
            Bound::Unix { path, .. } => Some(path),
        }
    }
}

impl fmt::Display for Sockets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Bound::Tcp { address, .. } => address.fmt(f),
            Bound::Unix { path, .. } => write!(f, "unix:{}", path.display()),
        }
    }
}

fn bind(address: SocketAddr) -> io::Result<net::TcpListener> {
    let listener = net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    rustix::net::listen(&listener, BACKLOG)?;
    Ok(listener)
}

/// The sockets of a running server.
pub(crate) enum Listeners {
    Tcp(TcpListener, Option<TcpListener>),
    Unix(tokio::net::UnixListener),
}

impl Listeners {
    /// Registers the sockets with the current runtime.
    pub(crate) fn new(sockets: Sockets) -> io::Result<Self> {
        Ok(match sockets.0 {
            Bound::Tcp { first, second, .. } => {
                let second = second.map(TcpListener::from_std).transpose()?;
                Self::Tcp(TcpListener::from_std(first)?, second)
            }
            Bound::Unix { listener, .. } => {
                Self::Unix(tokio::net::UnixListener::from_std(listener)?)
            }
        })
    }

    /// Accepts the next connection.
    pub(crate) async fn accept(&self) -> io::Result<(Stream, Peer)> {
        let (stream, address) = match self {
            Self::Tcp(first, None) => first.accept().await?,
            Self::Tcp(first, Some(second)) => tokio::select! {
                accepted = first.accept() => accepted?,
                accepted = second.accept() => accepted?,
            },
            Self::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                let peer = stream.peer_cred()?;
                let peer = Peer::Process {
                    user: peer.uid(),
                    // A process outside this process's PID namespace has no number here.
                    process: peer.pid().map_or(0, i32::cast_unsigned),
                };
                return Ok((Stream::Unix(stream), peer));
            }
        };
        Ok((Stream::Tcp(stream), Peer::Address(address)))
    }
}

/// Returns whether an error says that the machine does not have the address. A machine without IPv6
/// does not have `::1`.
fn is_missing_address(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::ADDRNOTAVAIL | Errno::AFNOSUPPORT))
}
