//! Where guests run while a server answers: on threads of their own. Guests
//! that compute take turns of 10 ms each there, and so many of them would keep a
//! small question, or the word that one of them is cancelled, waiting for its
//! turn; the system's scheduler lets the threads of the protocol through.

use rmcp::model::ErrorData;
use tokio::runtime::{Builder, Runtime};
use tokio_util::task::AbortOnDropHandle;

/// The threads of the guests.
pub(crate) struct Calls(Option<Runtime>);

impl Calls {
    /// Starts as many threads as there are processors.
    pub(crate) fn start() -> std::io::Result<Self> {
        let threads = Builder::new_multi_thread()
            .enable_time()
            .thread_name("skillhost-call")
            .build()?;
        Ok(Self(Some(threads)))
    }

    /// Runs a call there. Dropping the future stops it at its next turn.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        call: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, ErrorData> {
        let ended = |why: &str| ErrorData::internal_error(why.to_owned(), None);
        let threads = self
            .0
            .as_ref()
            .ok_or_else(|| ended("the server is ending"))?;
        AbortOnDropHandle::new(threads.spawn(call))
            .await
            .map_err(|error| {
                tracing::error!("a call broke off: {error}");
                ended("the call broke off")
            })
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        // Not waited for: this may be dropped where waiting is not allowed.
        if let Some(threads) = self.0.take() {
            threads.shutdown_background();
        }
    }
}
