//! The thread that accepts connections and answers probes. MCP requests run elsewhere:
//! serializing a large response takes longer than a load balancer waits for a probe.

use std::io;
use std::sync::mpsc::channel;
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinError;
use tokio_util::task::AbortOnDropHandle;

/// The thread and its runtime. Dropping this ends the thread and drops its tasks.
pub(crate) struct IoThread {
    runtime: Handle,
    _end: oneshot::Sender<()>,
}

impl IoThread {
    pub(crate) fn start() -> io::Result<Self> {
        let (runtime_sender, runtime_receiver) = channel();
        let (end, ended) = oneshot::channel::<()>();
        // The thread creates and drops the runtime, because a runtime must not be dropped in
        // asynchronous code.
        thread::Builder::new()
            .name("skillhost-http".to_owned())
            .spawn(
                move || match Builder::new_current_thread().enable_all().build() {
                    Ok(runtime) => {
                        let _ = runtime_sender.send(Ok(runtime.handle().clone()));
                        let _ = runtime.block_on(ended);
                    }
                    Err(error) => drop(runtime_sender.send(Err(error))),
                },
            )?;
        let runtime = runtime_receiver.recv().map_err(io::Error::other)??;
        Ok(Self { runtime, _end: end })
    }

    /// Runs a future on the thread, until it ends or the returned future is dropped.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, JoinError> {
        AbortOnDropHandle::new(self.runtime.spawn(future)).await
    }
}
