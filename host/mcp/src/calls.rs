//! The threads that run guests. Guests that compute take turns of 10 ms each; on
//! the protocol's threads, many of them would delay a small request or a
//! cancellation. On threads of their own, the system's scheduler lets the
//! protocol's threads through. Calls of built-in tools have other threads than
//! those of strangers' guests, for the same reason.
//!
//! A call that is alone is polled once on the thread that read its message, and
//! most calls end there: two changes of threads would take as long as the call.
//! At most one thread of the protocol is busy with that.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll};
use std::time::Duration;

use rmcp::model::ErrorData;
use skillhost::internal::processors;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

/// The longest time that stopping waits for calls. A guest is stopped at its next
/// turn, within 10 ms. Guards against: a file system that does not answer.
const STOP_TIME: Duration = Duration::from_secs(1);

/// The origin of a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guest {
    /// The component comes with the host.
    BuiltIn,
    /// The component is any other.
    Stranger,
}

/// The calls that run, and their threads.
pub(crate) struct Calls {
    built_in: Option<Runtime>,
    strangers: Option<Runtime>,
    running: TaskTracker,
    /// Held by the call that is polled on a thread of the protocol.
    inline: Mutex<()>,
    stop: CancellationToken,
}

impl Calls {
    /// Starts as many threads as there are processors, of each kind.
    pub(crate) fn start() -> std::io::Result<Self> {
        let threads = |name: &str| {
            let mut threads = Builder::new_multi_thread();
            // tokio would count in the process sandbox, which hides the limits of a container.
            threads.worker_threads(processors());
            threads.enable_time().thread_name(name).build()
        };
        Ok(Self {
            built_in: Some(threads("skillhost-own")?),
            strangers: Some(threads("skillhost-call")?),
            running: TaskTracker::new(),
            inline: Mutex::default(),
            stop: CancellationToken::new(),
        })
    }

    /// Stops all calls, and waits until they are recorded.
    pub(crate) async fn stop(&self) {
        self.stop.cancel();
        self.running.close();
        if timeout(STOP_TIME, self.running.wait()).await.is_err() {
            tracing::warn!("{} calls did not stop in time", self.running.len());
        }
    }

    /// Runs a call. Dropping the future stops it at its next turn.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        guest: Guest,
        call: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, ErrorData> {
        let threads = self.threads(guest)?;
        let alone = self.running.is_empty();
        let call = self.stop.clone().run_until_cancelled_owned(call);
        let mut call = Box::pin(self.running.track_future(call));
        if alone {
            let polled = poll_fn(|task| Poll::Ready(self.poll_inline(call.as_mut(), task)));
            if let Some(done) = polled.await {
                let done = done.map_err(|_| broken(&"it panicked"))?;
                return done.ok_or_else(ending);
            }
        }
        RunningCall(AbortOnDropHandle::new(threads.spawn(call)))
            .end()
            .await
    }

    /// Begins a call of built-in tools beside others, on a thread of its own.
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
            Guest::Stranger => &self.strangers,
        };
        threads.as_ref().ok_or_else(ending)
    }

    /// Polls a call once on this thread, unless another call is polled there.
    /// Returns its outcome if it ended.
    fn poll_inline<T>(
        &self,
        call: Pin<&mut impl Future<Output = T>>,
        task: &mut Context<'_>,
    ) -> Option<std::thread::Result<T>> {
        let _inline = self.inline.try_lock().ok()?;
        // Unwind safe: nothing of a call that has panicked is used again.
        match catch_unwind(AssertUnwindSafe(|| call.poll(task))) {
            Ok(Poll::Pending) => None,
            Ok(Poll::Ready(done)) => Some(Ok(done)),
            Err(panicked) => Some(Err(panicked)),
        }
    }
}

/// A call that has begun. Dropping it stops the call at its next turn.
pub(crate) struct RunningCall<T>(AbortOnDropHandle<Option<T>>);

impl<T> RunningCall<T> {
    /// Waits for the end.
    pub(crate) async fn end(self) -> Result<T, ErrorData> {
        let done = self.0.await.map_err(|error| broken(&error))?;
        done.ok_or_else(ending)
    }
}

/// Returns the error of a call when the server ends.
fn ending() -> ErrorData {
    ErrorData::internal_error("the server is ending", None)
}

/// Returns the error of a call that panicked.
fn broken(why: &dyn std::fmt::Display) -> ErrorData {
    tracing::error!("a call broke off: {why}");
    ErrorData::internal_error("the call broke off", None)
}

impl Drop for Calls {
    fn drop(&mut self) {
        // Without waiting: a runtime may not wait where this is dropped.
        for threads in [self.built_in.take(), self.strangers.take()] {
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

    async fn here() -> ThreadId {
        thread::current().id()
    }

    #[tokio::test]
    async fn runs_a_short_call_that_is_alone_on_the_same_thread() {
        let calls = Calls::start().unwrap();
        assert_eq!(
            calls.run(Guest::Stranger, here()).await.unwrap(),
            thread::current().id()
        );
    }

    #[tokio::test]
    async fn moves_a_call_that_goes_on_to_another_thread() {
        let calls = Calls::start().unwrap();
        let call = async {
            let first = here().await;
            yield_now().await;
            (first, here().await)
        };
        let (first, second) = calls.run(Guest::Stranger, call).await.unwrap();
        assert_eq!(first, thread::current().id());
        assert_ne!(second, first);
    }

    #[tokio::test]
    async fn runs_a_call_beside_another_on_another_thread() {
        let calls = Calls::start().unwrap();
        let (end, ended) = oneshot::channel();
        let beside = async {
            let thread = calls.run(Guest::Stranger, here()).await.unwrap();
            end.send(()).unwrap();
            thread
        };
        let (first, second) = tokio::join!(calls.run(Guest::Stranger, ended), beside);
        assert!(first.unwrap().is_ok());
        assert_ne!(second, thread::current().id());
        assert_eq!(
            calls.run(Guest::Stranger, here()).await.unwrap(),
            thread::current().id()
        );
    }

    #[tokio::test]
    async fn runs_a_built_in_call_beside_strangers_that_block_every_thread() {
        let calls = Calls::start().unwrap();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let ended = std::sync::Arc::new(Mutex::new(ended));
        let strangers: Vec<_> = (0..64)
            .map(|_| {
                let ended = std::sync::Arc::clone(&ended);
                let wait = move || ended.lock().unwrap().recv();
                let call = async move {
                    yield_now().await;
                    wait().unwrap_err();
                };
                let threads = calls.strangers.as_ref().unwrap();
                threads.spawn(calls.running.track_future(call))
            })
            .collect();
        let answer = calls.run(Guest::BuiltIn, async {
            yield_now().await;
            7
        });
        assert_eq!(timeout(STOP_TIME, answer).await.unwrap().unwrap(), 7);
        drop(end);
        for stranger in strangers {
            stranger.await.unwrap();
        }
    }

    #[tokio::test]
    async fn answers_a_call_that_panics_on_any_thread() {
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
            let error = calls.run(Guest::Stranger, call).await.unwrap_err();
            assert_eq!(error.message, "the call broke off");
            assert_eq!(calls.run(Guest::Stranger, async { 7 }).await.unwrap(), 7);
        }
    }
}
