//! The sockets on which a server listens: one, or one for each loopback address.

use std::io;
use std::net::SocketAddr;

use rustix::io::Errno;
use tokio::net::{TcpListener, TcpStream};

/// The sockets.
pub(super) struct Listeners {
    first: TcpListener,
    pub(super) second: Option<TcpListener>,
}

impl Listeners {
    pub(super) fn new(first: TcpListener) -> Self {
        Self {
            first,
            second: None,
        }
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
pub(super) fn is_without_address(error: &io::Error) -> bool {
    let known = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(known, Some(Errno::ADDRNOTAVAIL | Errno::AFNOSUPPORT))
}
