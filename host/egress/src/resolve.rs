//! Resolves host names to IP addresses.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// A resolver of host names. Tests have another implementation.
pub(crate) trait Resolve: Send + Sync + 'static {
    /// Returns the addresses of a host name.
    fn resolve(
        &self,
        name: &str,
        port: u16,
    ) -> impl Future<Output = io::Result<Vec<SocketAddr>>> + Send;
}

/// The resolver of the machine's C library.
#[derive(Debug)]
pub(crate) struct SystemResolver {
    /// The free slots for names. The C library cannot be interrupted, so a name keeps its slot even
    /// after its request has ended.
    pub(crate) slots: Arc<Semaphore>,
}

impl SystemResolver {
    /// Creates a resolver of at most `max` names at the same time. The runtime needs a blocking
    /// thread for each.
    pub(crate) fn new(max: usize) -> Self {
        let slots = Arc::new(Semaphore::new(max));
        Self { slots }
    }
}

impl Resolve for SystemResolver {
    async fn resolve(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let slot = Arc::clone(&self.slots).acquire_owned().await;
        let slot = slot.map_err(io::Error::other)?;
        let host = (name.to_owned(), port);
        let resolved = spawn_blocking(move || {
            let _slot = slot;
            Ok(host.to_socket_addrs()?.collect())
        });
        resolved.await.map_err(io::Error::other)?
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn resolvers_do_not_wait_for_each_other() {
        let (busy, free) = (SystemResolver::new(1), SystemResolver::new(1));
        let slot = busy.slots.acquire().await.unwrap();
        let waiting = busy.resolve("localhost", 1);
        let waited = tokio::time::timeout(Duration::from_millis(50), waiting).await;
        assert!(waited.is_err());
        let resolved = tokio::time::timeout(Duration::from_secs(60), free.resolve("localhost", 1));
        let addresses = resolved.await.unwrap().unwrap();
        assert!(addresses.iter().all(|address| address.ip().is_loopback()));
        drop(slot);
        assert_eq!(busy.resolve("localhost", 1).await.unwrap(), addresses);
    }
}
