//! Runs blocking work, such as reading many files, for an async task.
//!
//! Dropping the task abandons its work: work that has not started never starts, and loops over
//! folders and skills end early. The work keeps its lease until it ends, so that a budget also
//! bounds abandoned work.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};

use tokio::task::{AbortHandle, JoinError, spawn_blocking};

thread_local! {
    /// The work that this thread is doing.
    static CURRENT: RefCell<Option<Arc<Work>>> = const { RefCell::new(None) };
}

/// One piece of work.
#[derive(Default)]
struct Work {
    is_abandoned: AtomicBool,
    /// The thread that does the work, once it has started.
    thread: Mutex<Option<Thread>>,
}

/// Runs work on a thread for blocking work. The work holds the lease until it ends, even if
/// this future is dropped.
///
/// # Errors
///
/// If the work panics, or the runtime is shutting down.
pub async fn run<T: Send + 'static>(
    lease: impl Send + 'static,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    let state = Arc::new(Work::default());
    let current = Arc::clone(&state);
    let running = spawn_blocking(move || {
        // Dropped before `run` returns, because the caller may need the lease for its next work.
        let _lease = lease;
        let _current = CurrentWork::begin(current);
        work()
    });
    let _waiting = WaitingTask {
        work: state,
        handle: running.abort_handle(),
    };
    running.await
}

/// Returns whether the work of this thread is abandoned.
///
/// Abandoned work should end soon. Its result is dropped, so it can be incomplete. Do not cache
/// it.
pub fn is_abandoned() -> bool {
    CURRENT.with_borrow(|current| {
        let current = current.as_ref();
        current.is_some_and(|work| work.is_abandoned.load(Ordering::Relaxed))
    })
}

impl Work {
    fn thread(&self) -> MutexGuard<'_, Option<Thread>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Marks the work that this thread is doing. Dropping it removes the mark.
struct CurrentWork;

impl CurrentWork {
    fn begin(work: Arc<Work>) -> Self {
        *work.thread() = Some(thread::current());
        CURRENT.set(Some(work));
        Self
    }
}

impl Drop for CurrentWork {
    fn drop(&mut self) {
        if let Some(work) = CURRENT.take() {
            *work.thread() = None;
        }
    }
}

/// A task that waits for work. Dropping it abandons the work.
struct WaitingTask {
    work: Arc<Work>,
    handle: AbortHandle,
}

impl Drop for WaitingTask {
    fn drop(&mut self) {
        self.handle.abort();
        self.work.is_abandoned.store(true, Ordering::Relaxed);
        // Work that begins after this takes the same lock, so it sees the store above.
        if let Some(thread) = &*self.work.thread() {
            thread.unpark();
        }
    }
}

/// Starts work, and abandons it once `wait` returns.
#[cfg(test)]
pub(crate) async fn abandon<T: Send + 'static>(
    lease: impl Send + 'static,
    work: impl FnOnce() -> T + Send + 'static,
    wait: impl FnOnce(),
) {
    let mut running = std::pin::pin!(run(lease, work));
    let is_pending = std::future::poll_fn(|task| {
        std::task::Poll::Ready(running.as_mut().poll(task).is_pending())
    });
    assert!(is_pending.await);
    wait();
}

/// Starts work, abandons it, and only then runs its body. Returns the result.
#[cfg(test)]
pub(crate) async fn run_abandoned<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let (start, started) = std::sync::mpsc::channel();
    let (end, ended) = std::sync::mpsc::channel();
    let work = move || {
        start.send(()).unwrap();
        while !is_abandoned() {
            thread::park();
        }
        end.send(work()).unwrap();
    };
    abandon((), work, || started.recv().unwrap()).await;
    ended.recv().unwrap()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Runs a test on a runtime with one thread for blocking work.
    fn on_one_thread(test: impl Future<Output = ()>) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.max_blocking_threads(1).build().unwrap();
        runtime.block_on(test);
    }

    #[test]
    fn wakes_abandoned_work_and_keeps_its_lease() {
        on_one_thread(async {
            // `released` disconnects when the work drops its lease.
            let (lease, released) = mpsc::channel::<()>();
            let (report, reported) = mpsc::channel();
            let (end, ended) = mpsc::channel::<()>();
            let (start, started) = mpsc::channel();
            let work = move || {
                start.send(is_abandoned()).unwrap();
                while !is_abandoned() {
                    thread::park();
                }
                report.send(()).unwrap();
                ended.recv().unwrap_err();
            };
            abandon(lease, work, || assert!(!started.recv().unwrap())).await;
            reported.recv().unwrap();
            assert_eq!(released.try_recv(), Err(mpsc::TryRecvError::Empty));
            drop(end);
            assert!(released.recv().is_err());
            // The next work of the thread is not abandoned.
            assert!(!run((), is_abandoned).await.unwrap());
        });
    }

    #[test]
    fn never_starts_abandoned_work_that_waits_for_thread() {
        on_one_thread(async {
            let (end, ended) = mpsc::channel::<()>();
            abandon((), move || ended.recv(), || ()).await;
            let (lease, released) = mpsc::channel::<()>();
            abandon(lease, || panic!("started"), || ()).await;
            drop(end);
            assert!(released.recv().is_err());
            assert_eq!(run((), || 7).await.unwrap(), 7);
        });
    }

    #[test]
    fn releases_lease_before_it_returns() {
        on_one_thread(async {
            let (lease, released) = mpsc::channel::<()>();
            run(lease, || ()).await.unwrap();
            assert_eq!(released.try_recv(), Err(mpsc::TryRecvError::Disconnected));
        });
    }
}
