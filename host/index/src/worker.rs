//! The index's own thread: it updates the index, one update after another. It has a low
//! priority, which it cannot raise again. So whoever waits for the index does the rest of
//! the work on the waiting thread. Not here: an update.

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
    /// The number of threads that wait for the index. The index's own leaves its work to
    /// them.
    waiting: usize,
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

    /// Updates the index until nothing is left to update. Returns false after the timeout.
    pub(crate) fn wait_until_idle(&self, shared: &Shared, timeout: Duration) -> bool {
        let state = &*self.state;
        let start = Instant::now();
        let is_late = || start.elapsed() >= timeout;
        let mut tasks = state.tasks();
        tasks.waiting += 1;
        while !is_late() && (tasks.updating || tasks.next.is_some()) {
            if tasks.updating {
                let left = timeout.saturating_sub(start.elapsed());
                let wait = state.changed.wait_timeout(tasks, left);
                tasks = wait.unwrap_or_else(PoisonError::into_inner).0;
            } else if let Some(catalog) = tasks.take() {
                drop(tasks);
                let is_done = update(shared, &catalog, &is_late);
                state.end(catalog, is_done);
                tasks = state.tasks();
            }
        }
        tasks.waiting -= 1;
        let is_idle = !tasks.updating && tasks.next.is_none();
        drop(tasks);
        state.changed.notify_all();
        is_idle
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

    /// Waits for the next update that no other thread does. `None` at the end of the index.
    fn next(&self) -> Option<Arc<Catalog>> {
        let waits = |tasks: &mut Tasks| {
            let is_free = tasks.next.is_some() && !tasks.updating && tasks.waiting == 0;
            !is_free && !self.is_stopped()
        };
        let tasks = self.changed.wait_while(self.tasks(), waits);
        let mut tasks = tasks.unwrap_or_else(PoisonError::into_inner);
        if self.is_stopped() {
            return None;
        }
        tasks.take()
    }

    /// Ends an update. One that was not done is the next one, unless there is a later one.
    fn end(&self, catalog: Arc<Catalog>, is_done: bool) {
        let mut tasks = self.tasks();
        tasks.updating = false;
        if !is_done && tasks.next.is_none() {
            tasks.next = Some(catalog);
        }
        drop(tasks);
        self.changed.notify_all();
    }

    /// Runs the next update on the index's own thread. Returns how long it took, or `None`
    /// at the end of the index.
    fn step(&self, update: impl FnOnce(&Catalog, &dyn Fn() -> bool) -> bool) -> Option<Duration> {
        let catalog = self.next()?;
        let start = Instant::now();
        let is_done = update(&catalog, &|| self.is_stopped() || self.tasks().waiting > 0);
        // A pause must not keep the roots of a replaced catalog open.
        self.end(catalog, is_done);
        Some(start.elapsed())
    }

    fn pause(&self, time: Duration) {
        let waits = |_: &mut Tasks| !self.is_stopped();
        let _ = self.changed.wait_timeout_while(self.tasks(), time, waits);
    }
}

impl Tasks {
    /// Begins the next update.
    fn take(&mut self) -> Option<Arc<Catalog>> {
        let next = self.next.take();
        self.updating = next.is_some();
        next
    }
}

fn run(state: &WorkerState, shared: &Shared) {
    // On Linux this is the niceness of the thread alone.
    if let Err(error) = rustix::process::setpriority_process(None, NICE) {
        tracing::debug!("the index's thread keeps its priority: {error}");
    }
    while let Some(time) = state.step(|catalog, stopped| update(shared, catalog, stopped)) {
        state.pause(MAX_PAUSE.min(time * 2));
    }
}

#[cfg(test)]
mod tests {
    use skillhost::SkillsRoot;

    use super::*;

    /// Longest time that a test waits.
    const LONG: Duration = Duration::from_secs(20);

    /// Returns a worker whose thread gets no processor, with an update to do.
    fn starved_worker() -> (Worker, Arc<Shared>, tempfile::TempDir) {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("tea")).unwrap();
        std::fs::write(root.path().join("tea/SKILL.md"), "Brews tea.").unwrap();
        let catalog = Catalog::open(&[SkillsRoot::new(root.path())], None).unwrap();
        let (worker, shared) = (Worker::default(), Arc::default());
        worker.state.tasks().started = true;
        worker.update(&shared, &Arc::new(catalog));
        (worker, shared, root)
    }

    #[test]
    fn reads_skills_on_the_thread_that_waits() {
        let (worker, shared, _root) = starved_worker();
        assert!(worker.wait_until_idle(&shared, LONG));
        assert_eq!(shared.read().report.skills, 1);
    }

    #[test]
    fn leaves_a_begun_update_to_who_waits() {
        let (worker, shared, _root) = starved_worker();
        let start = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // An update that gets no further.
                worker.state.step(|_, stopped| {
                    while !stopped() && start.elapsed() < LONG {
                        std::thread::yield_now();
                    }
                    false
                })
            });
            while !worker.state.tasks().updating {
                std::thread::yield_now();
            }
            assert!(worker.wait_until_idle(&shared, LONG / 2));
        });
        assert_eq!(shared.read().report.skills, 1);
    }

    #[test]
    fn leaves_the_rest_to_its_thread_after_a_timeout() {
        let (worker, shared, _root) = starved_worker();
        assert!(!worker.wait_until_idle(&shared, Duration::ZERO));
        let done = worker
            .state
            .step(|catalog, stopped| update(&shared, catalog, stopped));
        assert!(done.is_some());
        assert_eq!(shared.read().report.skills, 1);
    }
}
