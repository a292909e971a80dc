//! Where guests run while a server answers: on threads of their own. Guests
//! that compute take turns of 10 ms each there, and so many of them would keep a
//! small question, or the word that one of them is cancelled, waiting for its
//! turn; the system's scheduler lets the threads of the protocol through.

use std::time::Duration;

use rmcp::model::ErrorData;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

/// Longest that stopping waits for calls. A guest is stopped at its next turn,
/// in 10 ms. Meets: a file system that does not answer.
const LAST: Duration = Duration::from_secs(1);

/// The threads of the guests.
pub(crate) struct Calls {
    threads: Option<Runtime>,
    running: TaskTracker,
    stop: CancellationToken,
}

impl Calls {
    /// Starts as many threads as there are processors.
    pub(crate) fn start() -> std::io::Result<Self> {
        let threads = Builder::new_multi_thread()
            .enable_time()
            .thread_name("skillhost-call")
            .build()?;
        Ok(Self {
            threads: Some(threads),
            running: TaskTracker::new(),
            stop: CancellationToken::new(),
        })
    }

    /// Stops what runs, and waits until it is recorded.
    pub(crate) async fn stop(&self) {
        self.stop.cancel();
        self.running.close();
        if timeout(LAST, self.running.wait()).await.is_err() {
            tracing::warn!("{} calls did not stop in time", self.running.len());
        }
    }

    /// Runs a call there. Dropping the future stops it at its next turn.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        call: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, ErrorData> {
        let ended = |why: &str| ErrorData::internal_error(why.to_owned(), None);
        let ending = || ended("the server is ending");
        let threads = self.threads.as_ref().ok_or_else(ending)?;
        let call = self.stop.clone().run_until_cancelled_owned(call);
        let call = threads.spawn(self.running.track_future(call));
        match AbortOnDropHandle::new(call).await {
            Ok(answer) => answer.ok_or_else(ending),
            Err(error) => {
                tracing::error!("a call broke off: {error}");
                Err(ended("the call broke off"))
            }
        }
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        // Not waited for: this may be dropped where waiting is not allowed.
        if let Some(threads) = self.threads.take() {
            threads.shutdown_background();
        }
    }
}
