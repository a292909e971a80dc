//! Shutdown: graceful when it is requested once, immediate when it is requested twice.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// A handle that requests the shutdown of a server. Cheap to clone; all clones request the same
/// shutdown.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    begun: CancellationToken,
    forced: CancellationToken,
}

impl Shutdown {
    /// Returns a shutdown that SIGTERM and SIGINT (Ctrl-C) request.
    ///
    /// # Errors
    ///
    /// If the system refuses to deliver the signals.
    pub fn on_signals() -> io::Result<Self> {
        let shutdown = Self::default();
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let requested = shutdown.clone();
        tokio::spawn(async move {
            loop {
                let signalled = tokio::select! {
                    signalled = terminate.recv() => signalled,
                    signalled = interrupt.recv() => signalled,
                };
                match signalled {
                    Some(()) => requested.request(),
                    None => return,
                }
            }
        });
        Ok(shutdown)
    }

    /// Requests the shutdown. The first time, requests in flight are finished; the second time,
    /// they are aborted.
    pub fn request(&self) {
        if self.begun.is_cancelled() {
            self.forced.cancel();
        }
        self.begun.cancel();
    }

    /// Waits until the shutdown is requested. A handler then ends its open streams, as the protocol
    /// requires.
    pub async fn requested(&self) {
        self.begun.cancelled().await;
    }

    pub(crate) fn begun(&self) -> &CancellationToken {
        &self.begun
    }

    pub(crate) fn forced(&self) -> &CancellationToken {
        &self.forced
    }
}
