//! The sockets on which a server listens: one, or one for each loopback address. They are
//! bound before the server runs, because a process that has confined itself binds none.

use std::io;
use std::net::{self, Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::Context as _;
use rustix::io::Errno;
use tokio::net::{TcpListener, TcpStream};

/// The most connections that wait to be accepted.
const BACKLOG: i32 = 1024;

/// Sockets that are bound.
#[derive(Debug)]
pub struct Sockets {
    first: net::TcpListener,
    second: Option<net::TcpListener>,
}

impl Sockets {
    /// Listens at an address.
    ///
    /// # Errors
    ///
    /// If the system refuses.
    pub fn bind(address: SocketAddr) -> anyhow::Result<Self> {
        let first = bind(address).with_context(|| format!("cannot serve at `{address}`"))?;
        Ok(Self {
            first,
            second: None,
        })
    }

    /// Listens on both loopback addresses, 127.0.0.1 and ::1, which `localhost` may
    /// stand for. Asks no resolver. On a machine without IPv6 it listens on
    /// 127.0.0.1 alone.
    ///
    /// # Errors
    ///
    /// If the system refuses. Another program that listens on one of the two is an
    /// error: it would get a part of the clients.
    pub fn bind_localhost(port: u16) -> anyhow::Result<Self> {
        let mut sockets = Self::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
        let port = sockets.first.local_addr()?.port();
        let second = SocketAddr::from((Ipv6Addr::LOCALHOST, port));
        match bind(second) {
            Ok(listener) => sockets.second = Some(listener),
            Err(error) if is_without_address(&error) => {}
            Err(error) => {
                let cannot = format!("cannot serve at `{second}`");
                return Err(anyhow::Error::from(error).context(cannot));
            }
        }
        Ok(sockets)
    }

    /// Returns the address, with the port that the system chose for port 0. For
    /// localhost it is that of IPv4.
    ///
    /// # Errors
    ///
    /// If the system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.first.local_addr()
    }
}

fn bind(address: SocketAddr) -> io::Result<net::TcpListener> {
    let listener = net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    rustix::net::listen(&listener, BACKLOG)?;
    Ok(listener)
}

/// The sockets of a server that runs.
pub(super) struct Listeners {
    first: TcpListener,
    second: Option<TcpListener>,
}

impl Listeners {
    /// Registers the sockets with the current runtime.
    pub(super) fn new(sockets: Sockets) -> io::Result<Self> {
        let second = sockets.second.map(TcpListener::from_std);
        Ok(Self {
            first: TcpListener::from_std(sockets.first)?,
            second: second.transpose()?,
        })
    }

    /// Accepts the next connection.
    pub(super) async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let Some(second) = &self.second else {
            return self.first.accept().await;
        };
        tokio::select! {
            accepted = self.first.accept() => accepted,
            accepted = second.accept() => accepted,
        }
    }
}

/// Checks whether the machine has no such address, such as one of IPv6.
fn is_without_address(error: &io::Error) -> bool {
    let known = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(known, Some(Errno::ADDRNOTAVAIL | Errno::AFNOSUPPORT))
}
