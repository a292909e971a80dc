//! The threads that run guests.
//!
//! Guests that compute take turns of 10 ms each. On the protocol's threads, many such guests would
//! delay a small request or a cancellation. So guests run on separate threads, and the operating
//! system schedules the protocol's threads in between. For the same reason, calls of third-party
//! tools run on other threads than calls of built-in tools.
//!
//! If no other call is running, a call is polled once on the thread that read its message. Most
//! calls end in this poll, which saves two changes of thread: they would take as long as the call.
//! At most one protocol thread at a time polls a call.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll};
use std::time::Duration;

use rmcp::model::ErrorData;
use skillhost_sandbox::engine::processors;
use skillhost_skills::text::count::count;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

/// The longest time that [`Calls::stop`] waits for running calls. A guest is stopped at its next
/// turn, within 10 ms. Guards against: a file system that does not answer.
const MAX_STOP_TIME: Duration = Duration::from_secs(1);

/// The kind of a guest: built-in or third-party.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GuestKind {
    /// A component that comes with the host.
    BuiltIn,
    /// Any other component.
    ThirdParty,
}

/// The running calls, and their threads.
pub(crate) struct Calls {
    built_in: Option<Runtime>,
    third_party: Option<Runtime>,
    running: TaskTracker,
    /// Locked while a call is polled on one of the protocol's threads.
    inline: Mutex<()>,
    stop: CancellationToken,
}

impl Calls {
    /// Starts one thread per processor for built-in tools, and as many for third-party tools.
    pub(crate) fn start() -> std::io::Result<Self> {
        let start_threads = |name: &str| {
            let mut builder = Builder::new_multi_thread();
            // By itself, tokio would ignore a container's limits, because the process sandbox hides
            // the files from which tokio reads them.
            builder.worker_threads(processors());
            // Requests of a guest go through a socket.
            builder.enable_io().enable_time();
            builder.thread_name(name).build()
        };
        Ok(Self {
            built_in: Some(start_threads("built-in-calls")?),
            third_party: Some(start_threads("other-calls")?),
            running: TaskTracker::new(),
            inline: Mutex::default(),
            stop: CancellationToken::new(),
        })
    }

    /// Stops all calls, and waits until they are recorded.
    pub(crate) async fn stop(&self) {
        self.stop.cancel();
        self.running.close();
        if timeout(MAX_STOP_TIME, self.running.wait()).await.is_err() {
            tracing::warn!(
                "{} did not stop within {MAX_STOP_TIME:?}",
                count(self.running.len(), "call")
            );
        }
    }

    /// Runs a call. If the future is dropped, the call stops at its next turn.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        guest: GuestKind,
        call: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, ErrorData> {
        let runtime = self.runtime(guest)?;
        let is_alone = self.running.is_empty();
        let call = self.stop.clone().run_until_cancelled_owned(call);
        let mut call = Box::pin(self.running.track_future(call));
        if is_alone {
            let polling =
                poll_fn(|task| Poll::Ready(self.poll_inline(runtime, call.as_mut(), task)));
            if let Some(outcome) = polling.await {
                let outcome = outcome.map_err(|_| log_failure(&"it panicked"))?;
                return outcome.ok_or_else(shutting_down);
            }
        }
        RunningCall(AbortOnDropHandle::new(runtime.spawn(call)))
            .finish()
            .await
    }

    /// Begins a call on a thread for built-in tools, and does not wait for the call's end.
    pub(crate) fn begin<T: Send + 'static>(
        &self,
        call: impl Future<Output = T> + Send + 'static,
    ) -> Result<RunningCall<T>, ErrorData> {
        let call = self.stop.clone().run_until_cancelled_owned(call);
        let call = self.running.track_future(call);
        let task = self.runtime(GuestKind::BuiltIn)?.spawn(call);
        Ok(RunningCall(AbortOnDropHandle::new(task)))
    }

    fn runtime(&self, guest: GuestKind) -> Result<&Runtime, ErrorData> {
        let runtime = match guest {
            GuestKind::BuiltIn => &self.built_in,
            GuestKind::ThirdParty => &self.third_party,
        };
        runtime.as_ref().ok_or_else(shutting_down)
    }

    /// Polls a call once on this thread, unless another call is polled inline. Returns the call's
    /// outcome if the call ends. Sockets, timers and tasks that the call creates belong to
    /// `runtime`, where the call continues.
    fn poll_inline<T>(
        &self,
        runtime: &Runtime,
        call: Pin<&mut impl Future<Output = T>>,
        task: &mut Context<'_>,
    ) -> Option<std::thread::Result<T>> {
        let _inline = self.inline.try_lock().ok()?;
        let _entered = runtime.enter();
        // Unwind safe: nothing of a call that has panicked is used again.
        match catch_unwind(AssertUnwindSafe(|| call.poll(task))) {
            Ok(Poll::Pending) => None,
            Ok(Poll::Ready(outcome)) => Some(Ok(outcome)),
            Err(panicked) => Some(Err(panicked)),
        }
    }
}

/// A call that has begun. If it is dropped, the call stops at its next turn.
pub(crate) struct RunningCall<T>(AbortOnDropHandle<Option<T>>);

impl<T> RunningCall<T> {
    /// Waits for the end of the call.
    pub(crate) async fn finish(self) -> Result<T, ErrorData> {
        let outcome = self.0.await.map_err(|error| log_failure(&error))?;
        outcome.ok_or_else(shutting_down)
    }
}

/// Returns the error for a request that is stopped because the server shuts down.
pub(crate) fn shutting_down() -> ErrorData {
    ErrorData::internal_error("the server is shutting down", None)
}

/// Logs that a call panicked. Returns the error to send.
fn log_failure(why: &dyn std::fmt::Display) -> ErrorData {
    tracing::error!("a call failed inside the host: {why}");
    ErrorData::internal_error("the call failed inside the host", None)
}

impl Drop for Calls {
    fn drop(&mut self) {
        // Does not wait for the threads, because asynchronous code may drop this value.
        for runtime in [self.built_in.take(), self.third_party.take()] {
            runtime.into_iter().for_each(Runtime::shutdown_background);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread::{self, ThreadId};

    use tokio::sync::oneshot;
    use tokio::task::yield_now;

    use super::*;

    async fn current_thread() -> ThreadId {
        thread::current().id()
    }

    #[tokio::test]
    async fn runs_short_lone_call_on_same_thread() {
        let calls = Calls::start().unwrap();
        assert_eq!(
            calls
                .run(GuestKind::ThirdParty, current_thread())
                .await
                .unwrap(),
            thread::current().id()
        );
    }

    #[tokio::test]
    async fn moves_longer_call_to_another_thread() {
        let calls = Calls::start().unwrap();
        let call = async {
            let first = current_thread().await;
            yield_now().await;
            (first, current_thread().await)
        };
        let (first, second) = calls.run(GuestKind::ThirdParty, call).await.unwrap();
        assert_eq!(first, thread::current().id());
        assert_ne!(second, first);
    }

    #[tokio::test]
    async fn runs_second_call_on_another_thread() {
        let calls = Calls::start().unwrap();
        let (end, ended) = oneshot::channel();
        let second_call = async {
            let thread = calls
                .run(GuestKind::ThirdParty, current_thread())
                .await
                .unwrap();
            end.send(()).unwrap();
            thread
        };
        let (first, second) = tokio::join!(calls.run(GuestKind::ThirdParty, ended), second_call);
        assert!(first.unwrap().is_ok());
        assert_ne!(second, thread::current().id());
        assert_eq!(
            calls
                .run(GuestKind::ThirdParty, current_thread())
                .await
                .unwrap(),
            thread::current().id()
        );
    }

    #[tokio::test]
    async fn blocked_third_party_threads_delay_no_built_in_call() {
        let calls = Calls::start().unwrap();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let ended = std::sync::Arc::new(Mutex::new(ended));
        let blocking: Vec<_> = (0..64)
            .map(|_| {
                let ended = std::sync::Arc::clone(&ended);
                let block = move || ended.lock().unwrap().recv();
                let call = async move {
                    yield_now().await;
                    block().unwrap_err();
                };
                let runtime = calls.third_party.as_ref().unwrap();
                runtime.spawn(calls.running.track_future(call))
            })
            .collect();
        let answer = calls.run(GuestKind::BuiltIn, async {
            yield_now().await;
            7
        });
        assert_eq!(timeout(MAX_STOP_TIME, answer).await.unwrap().unwrap(), 7);
        drop(end);
        for call in blocking {
            call.await.unwrap();
        }
    }

    async fn panic_after(turns: u32) {
        for _ in 0..turns {
            yield_now().await;
        }
        panic!("on purpose");
    }

    #[tokio::test]
    async fn reports_call_that_panics_on_any_thread() {
        let calls = Calls::start().unwrap();
        for turns in [0, 1] {
            let call = panic_after(turns);
            let error = calls.run(GuestKind::ThirdParty, call).await.unwrap_err();
            assert_eq!(error.message, "the call failed inside the host");
            assert_eq!(
                calls.run(GuestKind::ThirdParty, async { 7 }).await.unwrap(),
                7
            );
        }
    }
}
