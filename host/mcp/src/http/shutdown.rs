//! The end of a server: asked for once, in order; asked for twice, at once.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Tells a server to end. Cheap to clone; all clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    begun: CancellationToken,
    hurried: CancellationToken,
}

impl Shutdown {
    /// One that is asked for by the signals SIGTERM and SIGINT (Ctrl-C).
    pub fn on_signals() -> io::Result<Self> {
        let shutdown = Self::default();
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let asked = shutdown.clone();
        tokio::spawn(async move {
            loop {
                let signalled = tokio::select! {
                    signalled = terminate.recv() => signalled,
                    signalled = interrupt.recv() => signalled,
                };
                match signalled {
                    Some(()) => asked.ask(),
                    None => return,
                }
            }
        });
        Ok(shutdown)
    }

    /// Asks for the end: requests in flight are finished first. Asked for
    /// again, they are broken off.
    pub fn ask(&self) {
        if self.begun.is_cancelled() {
            self.hurried.cancel();
        }
        self.begun.cancel();
    }

    /// Waits until the end is asked for. A handler that keeps a stream open for
    /// as long as the server is there ends it then, in the protocol's words.
    pub async fn asked(&self) {
        self.begun.cancelled().await;
    }

    pub(super) fn begun(&self) -> &CancellationToken {
        &self.begun
    }

    pub(super) fn hurried(&self) -> &CancellationToken {
        &self.hurried
    }
}
