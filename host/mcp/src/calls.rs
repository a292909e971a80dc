//! The threads that run guests.
//!
//! Guests that compute take turns of 10 ms each. On the protocol's threads, many of them
//! would delay a small request or a cancellation. So they have threads of their own, and the
//! operating system schedules the protocol's threads in between. Calls of built-in tools
//! have other threads than those of third-party tools, for the same reason.
//!
//! If no other call is running, a call is polled once on the thread that read its message. Most
//! calls end there: changing threads twice would take as long as the call. This happens on at most
//! one protocol thread at a time.

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

/// The origin of a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guest {
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
            // tokio would ignore a container's limits, which the process sandbox hides.
            builder.worker_threads(processors());
            // Requests of a guest go through a socket.
            builder.enable_io().enable_time();
            builder.thread_name(name).build()
        };
        Ok(Self {
            built_in: Some(start_threads("skillhost-own")?),
            third_party: Some(start_threads("skillhost-call")?),
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
        guest: Guest,
        call: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, ErrorData> {
        let threads = self.threads(guest)?;
        let is_alone = self.running.is_empty();
        let call = self.stop.clone().run_until_cancelled_owned(call);
        let mut call = Box::pin(self.running.track_future(call));
        if is_alone {
            let polling =
                poll_fn(|task| Poll::Ready(self.poll_inline(threads, call.as_mut(), task)));
            if let Some(outcome) = polling.await {
                let outcome = outcome.map_err(|_| log_failure(&"it panicked"))?;
                return outcome.ok_or_else(shutting_down);
            }
        }
        RunningCall(AbortOnDropHandle::new(threads.spawn(call)))
            .finish()
            .await
    }

    /// Begins a call of built-in tools on another thread, and does not wait for it.
    pub(crate) fn begin<T: Send + 'static>(
        &self,
        call: impl Future<Output = T> + Send + 'static,
    ) -> Result<RunningCall<T>, ErrorData> {
        let call = self.stop.clone().run_until_cancelled_owned(call);
        let call = self.running.track_future(call);
        let task = self.threads(Guest::BuiltIn)?.spawn(call);
        Ok(RunningCall(AbortOnDropHandle::new(task)))
    }

    fn threads(&self, guest: Guest) -> Result<&Runtime, ErrorData> {
        let threads = match guest {
            Guest::BuiltIn => &self.built_in,
            Guest::ThirdParty => &self.third_party,
        };
        threads.as_ref().ok_or_else(shutting_down)
    }

    /// Polls a call once on this thread, unless another call is polled inline. Returns its
    /// outcome if it ends. What the call opens and spawns belongs to `threads`, where the call
    /// continues.
    fn poll_inline<T>(
        &self,
        threads: &Runtime,
        call: Pin<&mut impl Future<Output = T>>,
        task: &mut Context<'_>,
    ) -> Option<std::thread::Result<T>> {
        let _inline = self.inline.try_lock().ok()?;
        let _threads = threads.enter();
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
        for threads in [self.built_in.take(), self.third_party.take()] {
            threads.into_iter().for_each(Runtime::shutdown_background);
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
                .run(Guest::ThirdParty, current_thread())
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
        let (first, second) = calls.run(Guest::ThirdParty, call).await.unwrap();
        assert_eq!(first, thread::current().id());
        assert_ne!(second, first);
    }

    #[tokio::test]
    async fn runs_second_call_on_another_thread() {
        let calls = Calls::start().unwrap();
        let (end, ended) = oneshot::channel();
        let second_call = async {
            let thread = calls
                .run(Guest::ThirdParty, current_thread())
                .await
                .unwrap();
            end.send(()).unwrap();
            thread
        };
        let (first, second) = tokio::join!(calls.run(Guest::ThirdParty, ended), second_call);
        assert!(first.unwrap().is_ok());
        assert_ne!(second, thread::current().id());
        assert_eq!(
            calls
                .run(Guest::ThirdParty, current_thread())
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
                let threads = calls.third_party.as_ref().unwrap();
                threads.spawn(calls.running.track_future(call))
            })
            .collect();
        let answer = calls.run(Guest::BuiltIn, async {
            yield_now().await;
            7
        });
        assert_eq!(timeout(MAX_STOP_TIME, answer).await.unwrap().unwrap(), 7);
        drop(end);
        for call in blocking {
            call.await.unwrap();
        }
    }

    #[tokio::test]
    async fn reports_call_that_panics_on_any_thread() {
        let calls = Calls::start().unwrap();
        for turns in [0, 1] {
            let call = async move {
                for _ in 0..turns {
                    yield_now().await;
                }
                if turns < 2 {
                    panic!("on purpose");
                }
            };
            let error = calls.run(Guest::ThirdParty, call).await.unwrap_err();
            assert_eq!(error.message, "the call failed inside the host");
            assert_eq!(calls.run(Guest::ThirdParty, async { 7 }).await.unwrap(), 7);
        }
    }
}
