//! The index's own thread: it updates the index, one update after another. Not here: an
//! update.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use skillhost::Catalog;

use crate::Shared;
use crate::update::update;

/// The niceness of the thread: calls go first.
const NICE: i32 = 5;

/// Longest pause after an update, which otherwise lasts twice as long as the update.
/// Guards against: a catalog that changes all the time and keeps a processor busy. A
/// change shows within a second.
const MAX_PAUSE: Duration = Duration::from_millis(400);

/// The thread, which starts when it is needed.
#[derive(Default)]
pub(crate) struct Worker {
    state: Arc<WorkerState>,
}

#[derive(Default)]
struct WorkerState {
    tasks: Mutex<Tasks>,
    changed: Condvar,
    stopped: AtomicBool,
}

#[derive(Default)]
struct Tasks {
    /// The catalog of the next update. A later one replaces it.
    next: Option<Arc<Catalog>>,
    /// True while an update runs.
    updating: bool,
    /// True if there is a thread.
    started: bool,
}

impl Worker {
    /// Updates the index from this catalog as soon as the present update has ended.
    pub(crate) fn update(&self, shared: &Arc<Shared>, catalog: &Arc<Catalog>) {
        let mut tasks = self.state.tasks();
        tasks.next = Some(Arc::clone(catalog));
        if !tasks.started {
            let (state, shared) = (Arc::clone(&self.state), Arc::clone(shared));
            let thread = std::thread::Builder::new().name("skill-index".to_owned());
            match thread.spawn(move || run(&state, &shared)) {
                Ok(_) => tasks.started = true,
                Err(error) => tracing::error!("cannot start the thread of the index: {error}"),
            }
        }
        drop(tasks);
        self.state.changed.notify_all();
    }

    /// Waits until nothing is left to update. Returns false after the timeout.
    pub(crate) fn wait_until_idle(&self, timeout: Duration) -> bool {
        let wait = self.state.changed.wait_timeout_while(
            self.state.tasks(),
            timeout,
            |tasks: &mut Tasks| tasks.updating || tasks.next.is_some(),
        );
        !wait.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.state.stopped.store(true, Ordering::Relaxed);
        // With the lock, so that the thread does not miss it between looking and waiting.
        let _tasks = self.state.tasks();
        self.state.changed.notify_all();
    }
}

impl WorkerState {
    fn tasks(&self) -> MutexGuard<'_, Tasks> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Waits for the next update. `None` at the end of the index.
    fn next(&self) -> Option<Arc<Catalog>> {
        let waits = |tasks: &mut Tasks| tasks.next.is_none() && !self.is_stopped();
        let tasks = self.changed.wait_while(self.tasks(), waits);
        let mut tasks = tasks.unwrap_or_else(PoisonError::into_inner);
        let next = tasks.next.take();
        tasks.updating = next.is_some();
        next.filter(|_| !self.is_stopped())
    }

    fn pause(&self, time: Duration) {
        let waits = |_: &mut Tasks| !self.is_stopped();
        let _ = self.changed.wait_timeout_while(self.tasks(), time, waits);
    }
}

fn run(state: &WorkerState, shared: &Shared) {
    // On Linux this is the niceness of the thread alone.
    if let Err(error) = rustix::process::setpriority_process(None, NICE) {
        tracing::debug!("the index's thread keeps its priority: {error}");
    }
    while let Some(catalog) = state.next() {
        let start = Instant::now();
        update(shared, &catalog, &|| state.is_stopped());
        // The pause must not keep the roots of a replaced catalog open.
        drop(catalog);
        state.tasks().updating = false;
        state.changed.notify_all();
        state.pause(MAX_PAUSE.min(start.elapsed() * 2));
    }
}
