//! Where guests run while a server answers: on threads of their own. Guests
//! that compute take turns of 10 ms each there, and so many of them would keep a
//! small question, or the word that one of them is cancelled, waiting for its
//! turn; the system's scheduler lets the threads of the protocol through. It does
//! the same for those of the built-in tools' calls, which are others than those
//! of strangers' guests.
//!
//! A call that is alone has its first turn where its message was read, and most
//! calls end in it: two changes of threads would take as long as they do. One
//! thread of the protocol is kept by it at most.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll};
use std::time::Duration;

use rmcp::model::ErrorData;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

/// Longest that stopping waits for calls. A guest is stopped at its next turn,
/// in 10 ms. Meets: a file system that does not answer.
const LAST: Duration = Duration::from_secs(1);

/// Whose guest runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guest {
    /// It comes with the host.
    BuiltIn,
    Stranger,
}

/// The threads of the guests.
pub(crate) struct Calls {
    built_in: Option<Runtime>,
    strangers: Option<Runtime>,
    running: TaskTracker,
    /// Held by the call that has its turn on a thread of the protocol.
    here: Mutex<()>,
    stop: CancellationToken,
}

impl Calls {
    /// Starts as many threads as there are processors, of each kind.
    pub(crate) fn start() -> std::io::Result<Self> {
        let threads = |name: &str| {
            let mut threads = Builder::new_multi_thread();
            threads.enable_time().thread_name(name).build()
        };
        Ok(Self {
            built_in: Some(threads("skillhost-own")?),
            strangers: Some(threads("skillhost-call")?),
            running: TaskTracker::new(),
            here: Mutex::default(),
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

    /// Runs a call. Dropping the future stops it at its next turn.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        guest: Guest,
        call: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, ErrorData> {
        let error = |why: &str| ErrorData::internal_error(why.to_owned(), None);
        let ending = || error("the server is ending");
        let broken = |why: &dyn std::fmt::Display| {
            tracing::error!("a call broke off: {why}");
            error("the call broke off")
        };
        let threads = match guest {
            Guest::BuiltIn => &self.built_in,
            Guest::Stranger => &self.strangers,
        };
        let threads = threads.as_ref().ok_or_else(ending)?;
        let alone = self.running.is_empty();
        let call = self.stop.clone().run_until_cancelled_owned(call);
        let mut call = Box::pin(self.running.track_future(call));
        if alone {
            let turn = poll_fn(|task| Poll::Ready(self.first_turn(call.as_mut(), task)));
            if let Some(done) = turn.await {
                let done = done.map_err(|_| broken(&"it panicked"))?;
                return done.ok_or_else(ending);
            }
        }
        let done = AbortOnDropHandle::new(threads.spawn(call)).await;
        done.map_err(|error| broken(&error))?.ok_or_else(ending)
    }

    /// Lets a call have a turn on this thread, unless another one has it.
    /// Nothing, if it did not end in it.
    fn first_turn<T>(
        &self,
        call: Pin<&mut impl Future<Output = T>>,
        task: &mut Context<'_>,
    ) -> Option<std::thread::Result<T>> {
        let _here = self.here.try_lock().ok()?;
        // Of a call that has panicked, nothing is used any more.
        match catch_unwind(AssertUnwindSafe(|| call.poll(task))) {
            Ok(Poll::Pending) => None,
            Ok(Poll::Ready(done)) => Some(Ok(done)),
            Err(panicked) => Some(Err(panicked)),
        }
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        // Not waited for: this may be dropped where waiting is not allowed.
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
    async fn a_call_alone_that_ends_in_its_first_turn_changes_no_thread() {
        let calls = Calls::start().unwrap();
        assert_eq!(
            calls.run(Guest::Stranger, here()).await.unwrap(),
            thread::current().id()
        );
    }

    #[tokio::test]
    async fn a_call_that_goes_on_after_its_first_turn_does_so_elsewhere() {
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
    async fn a_call_beside_another_has_no_turn_on_a_thread_of_the_protocol() {
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
    async fn a_call_of_a_built_in_tool_runs_beside_strangers_that_let_nothing_through() {
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
        assert_eq!(timeout(LAST, answer).await.unwrap().unwrap(), 7);
        drop(end);
        for stranger in strangers {
            stranger.await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_call_that_panics_is_answered_wherever_it_runs() {
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
