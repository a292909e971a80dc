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
    /// Returns a shutdown, and requests it at each SIGTERM and SIGINT (Ctrl-C).
    ///
    /// # Errors
    ///
    /// If the system refuses to deliver the signals.
    pub fn on_signals() -> io::Result<Self> {
        let shutdown = Self::default();
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let on_signal = shutdown.clone();
        tokio::spawn(async move {
            loop {
                let signalled = tokio::select! {
                    signalled = terminate.recv() => signalled,
                    signalled = interrupt.recv() => signalled,
                };
                match signalled {
                    Some(()) => on_signal.request(),
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

    /// Waits until the shutdown is requested.
    ///
    /// The caller must then end the handler's open streams, as MCP requires.
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
