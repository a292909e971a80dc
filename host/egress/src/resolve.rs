//! The addresses of host names.

use std::io;
use std::net::SocketAddr;

/// A resolver of host names. Tests have one of their own.
pub(crate) trait Resolve: Send + Sync + 'static {
    /// Returns the addresses of a host name.
    fn resolve(
        &self,
        name: &str,
        port: u16,
    ) -> impl Future<Output = io::Result<Vec<SocketAddr>>> + Send;
}

/// The resolver of the machine's C library.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SystemResolver;

impl Resolve for SystemResolver {
    async fn resolve(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        Ok(tokio::net::lookup_host((name, port)).await?.collect())
    }
}
