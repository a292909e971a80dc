//! The thread that updates the index, one update after another.
//!
//! The thread has a low priority, which it cannot raise again. So a thread that waits for
//! the index runs the updates itself. `update.rs` does a single update.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use skillhost::Catalog;

use crate::Shared;
use crate::update::update;

/// The niceness of the thread: calls go first.
const THREAD_NICENESS: i32 = 5;

/// The longest pause after a short update. If an update takes less time than this, a change
/// shows within a second.
const SHORT_PAUSE: Duration = Duration::from_millis(400);

/// Returns the pause after an update that took this time: twice as long, at most
/// [`SHORT_PAUSE`], but never shorter than the update. Guards against: a catalog that changes
/// all the time and keeps a processor busy.
fn pause_after(took: Duration) -> Duration {
    SHORT_PAUSE.min(took * 2).max(took)
}

/// The thread of an index. It starts with the first update.
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
    /// The catalog of the next update. A later catalog replaces it.
    next: Option<Arc<Catalog>>,
    /// True while an update runs.
    is_updating: bool,
    /// The number of threads that wait for the index. They run the updates themselves.
    waiting: usize,
    /// True once the thread has started.
    has_thread: bool,
}

impl Worker {
    /// Updates the index from this catalog when the current update has ended.
    pub(crate) fn update(&self, shared: &Arc<Shared>, catalog: &Arc<Catalog>) {
        let mut tasks = self.state.tasks();
        tasks.next = Some(Arc::clone(catalog));
        if !tasks.has_thread {
            let (state, shared) = (Arc::clone(&self.state), Arc::clone(shared));
            let thread = std::thread::Builder::new().name("skill-index".to_owned());
            match thread.spawn(move || run(&state, &shared)) {
                Ok(_) => tasks.has_thread = true,
                Err(error) => tracing::error!("cannot start the thread of the index: {error}"),
            }
        }
        drop(tasks);
        self.state.changed.notify_all();
    }

    /// Updates the index on this thread until no update is left. Returns `false` after the
    /// timeout.
    pub(crate) fn wait_until_idle(&self, shared: &Shared, timeout: Duration) -> bool {
        let state = &*self.state;
        let start = Instant::now();
        let is_late = || start.elapsed() >= timeout;
        let mut tasks = state.tasks();
        tasks.waiting += 1;
        while !is_late() && (tasks.is_updating || tasks.next.is_some()) {
            if tasks.is_updating {
                let remaining = timeout.saturating_sub(start.elapsed());
                let wait = state.changed.wait_timeout(tasks, remaining);
                tasks = wait.unwrap_or_else(PoisonError::into_inner).0;
            } else if let Some(catalog) = tasks.start_next() {
                drop(tasks);
                let is_done = update(shared, &catalog, &is_late);
                state.end_update(catalog, is_done);
                tasks = state.tasks();
            }
        }
        tasks.waiting -= 1;
        let is_idle = !tasks.is_updating && tasks.next.is_none();
        drop(tasks);
        state.changed.notify_all();
        is_idle
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.state.stopped.store(true, Ordering::Relaxed);
        // The lock ensures that the thread is not between its check and its wait.
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

    /// Waits for an update that no other thread runs, and starts it. Returns `None` once
    /// the index is dropped.
    fn wait_for_update(&self) -> Option<Arc<Catalog>> {
        let must_wait = |tasks: &mut Tasks| {
            let is_free = tasks.next.is_some() && !tasks.is_updating && tasks.waiting == 0;
            !is_free && !self.is_stopped()
        };
        let tasks = self.changed.wait_while(self.tasks(), must_wait);
        let mut tasks = tasks.unwrap_or_else(PoisonError::into_inner);
        if self.is_stopped() {
            return None;
        }
        tasks.start_next()
    }

    /// Ends an update. An unfinished update runs again, unless there is a later catalog.
    fn end_update(&self, catalog: Arc<Catalog>, is_done: bool) {
        let mut tasks = self.tasks();
        tasks.is_updating = false;
        if !is_done && tasks.next.is_none() {
            tasks.next = Some(catalog);
        }
        drop(tasks);
        self.changed.notify_all();
    }

    /// Runs the next update on the index's thread, and returns how long it took. Returns
    /// `None` once the index is dropped.
    fn run_next_update(
        &self,
        update: impl FnOnce(&Catalog, &dyn Fn() -> bool) -> bool,
    ) -> Option<Duration> {
        let catalog = self.wait_for_update()?;
        let start = Instant::now();
        let is_done = update(&catalog, &|| self.is_stopped() || self.tasks().waiting > 0);
        // Ends before the pause, so that a replaced catalog does not stay open.
        self.end_update(catalog, is_done);
        Some(start.elapsed())
    }

    fn pause(&self, time: Duration) {
        let must_wait = |_: &mut Tasks| !self.is_stopped();
        let _ = self
            .changed
            .wait_timeout_while(self.tasks(), time, must_wait);
    }
}

impl Tasks {
    /// Starts the next update, and returns its catalog.
    fn start_next(&mut self) -> Option<Arc<Catalog>> {
        let next = self.next.take();
        self.is_updating = next.is_some();
        next
    }
}

/// Runs updates until the index is dropped.
fn run(state: &WorkerState, shared: &Shared) {
    // On Linux this sets the niceness of this thread only.
    if let Err(error) = rustix::process::setpriority_process(None, THREAD_NICENESS) {
        tracing::debug!("cannot lower the priority of the index's thread: {error}");
    }
    while let Some(time) =
        state.run_next_update(|catalog, is_stopped| update(shared, catalog, is_stopped))
    {
        state.pause(pause_after(time));
    }
}

#[cfg(test)]
mod tests {
    use skillhost::SkillsRoot;

    use super::*;

    /// The longest time that a test waits.
    const TIMEOUT: Duration = Duration::from_secs(20);

    /// Returns a worker that has an update to run and no thread.
    fn starved_worker() -> (Worker, Arc<Shared>, tempfile::TempDir) {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("tea")).unwrap();
        std::fs::write(root.path().join("tea/SKILL.md"), "Brews tea.").unwrap();
        let catalog = Catalog::open(&[SkillsRoot::new(root.path())], None).unwrap();
        let (worker, shared) = (Worker::default(), Arc::default());
        worker.state.tasks().has_thread = true;
        worker.update(&shared, &Arc::new(catalog));
        (worker, shared, root)
    }

    #[test]
    fn pauses_at_least_as_long_as_the_update_took() {
        for (took, pause) in [
            (0, 0),
            (1, 2),
            (199, 398),
            (201, 400),
            (400, 400),
            (2000, 2000),
        ] {
            let pause = Duration::from_millis(pause);
            assert_eq!(pause_after(Duration::from_millis(took)), pause, "{took}");
        }
    }

    #[test]
    fn updates_on_the_waiting_thread() {
        let (worker, shared, _root) = starved_worker();
        assert!(worker.wait_until_idle(&shared, TIMEOUT));
        assert_eq!(shared.read().report.skills, 1);
    }

    #[test]
    fn hands_running_update_to_the_waiting_thread() {
        let (worker, shared, _root) = starved_worker();
        let start = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // An update that makes no progress.
                worker.state.run_next_update(|_, is_stopped| {
                    while !is_stopped() && start.elapsed() < TIMEOUT {
                        std::thread::yield_now();
                    }
                    false
                })
            });
            while !worker.state.tasks().is_updating {
                std::thread::yield_now();
            }
            assert!(worker.wait_until_idle(&shared, TIMEOUT / 2));
        });
        assert_eq!(shared.read().report.skills, 1);
    }

    #[test]
    fn leaves_the_update_to_its_thread_after_timeout() {
        let (worker, shared, _root) = starved_worker();
        assert!(!worker.wait_until_idle(&shared, Duration::ZERO));
        let done = worker
            .state
            .run_next_update(|catalog, is_stopped| update(&shared, catalog, is_stopped));
        assert!(done.is_some());
        assert_eq!(shared.read().report.skills, 1);
    }
}
