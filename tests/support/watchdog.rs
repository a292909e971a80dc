//! A thread that bounds the time of all tests: it kills a process that a test waits for too long,
//! and ends the suite with the test's name if a test hangs nevertheless. Single waits also have
//! bounds, which give better messages.

use std::collections::HashMap;
use std::io::Write as _;
use std::sync::{Arc, Mutex, Once, Weak};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::{Duration, Instant};

use super::process::WatchedChild;

/// The maximum time of a test's process, and of a wait for one thing. Guards against: a server
/// that runs although a test expects it to refuse to start.
const PATIENCE: Duration = Duration::from_secs(300);

/// The maximum time of a test. Guards against: an unbounded wait.
const TEST_PATIENCE: Duration = Duration::from_secs(900);

/// The pause between two checks of a condition.
const POLL: Duration = Duration::from_millis(1);

/// The environment variable that replaces [`PATIENCE`], in milliseconds, in processes that hang on
/// purpose. A test gets twice this time.
pub(crate) const PATIENCE_VARIABLE: &str = "SKILLHOST_TEST_PATIENCE";

/// The running tests by their threads, which have the tests' names.
static TESTS: Mutex<Option<HashMap<ThreadId, RunningTest>>> = Mutex::new(None);

struct RunningTest {
    name: String,
    started: Instant,
    processes: Vec<Weak<WatchedChild>>,
}

/// Lives as long as the thread of a test.
struct Watched;

thread_local! {
    static WATCHED: Watched = start_watching();
}

impl Drop for Watched {
    fn drop(&mut self) {
        with_tests(|tests| tests.remove(&thread::current().id()));
    }
}

fn with_tests<T>(run: impl FnOnce(&mut HashMap<ThreadId, RunningTest>) -> T) -> T {
    let mut tests = TESTS.lock().unwrap_or_else(|error| error.into_inner());
    run(tests.get_or_insert_default())
}

fn start_watching() -> Watched {
    static CLOCK: Once = Once::new();
    CLOCK.call_once(|| {
        thread::spawn(|| {
            loop {
                thread::sleep(Duration::from_millis(100));
                with_tests(check);
            }
        });
    });
    let thread = thread::current();
    let name = thread.name().unwrap_or("a thread of a test").to_owned();
    let test = RunningTest {
        name,
        started: Instant::now(),
        processes: Vec::new(),
    };
    with_tests(|tests| tests.insert(thread.id(), test));
    Watched
}

/// Watches this thread's test until the thread ends. Shared helpers call this.
pub(super) fn watch() {
    WATCHED.with(|_| ());
}

/// Waits until a condition holds. `failure` says what is wrong if it never does.
#[track_caller]
pub(crate) fn wait_until(failure: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < patience(), "{failure}");
        thread::sleep(POLL);
    }
}

/// Like [`wait_until`], but other futures of this thread run meanwhile.
pub(crate) async fn until(failure: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < patience(), "{failure}");
        tokio::time::sleep(POLL).await;
    }
}

/// Watches a process of this thread's test.
pub(super) fn watch_process(process: &Arc<WatchedChild>) {
    watch();
    with_tests(|tests| {
        let test = tests.get_mut(&thread::current().id()).unwrap();
        test.processes.retain(|process| process.strong_count() > 0);
        test.processes.push(Arc::downgrade(process));
    });
}

/// Waits for the end of a thread.
#[track_caller]
pub(crate) fn join<T>(thread: JoinHandle<T>, what: &str) -> thread::Result<T> {
    wait_until(&format!("waited {:?} for {what}", patience()), || {
        thread.is_finished()
    });
    thread.join()
}

/// Returns the maximum wait for one thing.
pub(crate) fn patience() -> Duration {
    from_environment().unwrap_or(PATIENCE)
}

fn from_environment() -> Option<Duration> {
    let milliseconds = std::env::var(PATIENCE_VARIABLE).ok()?;
    Some(Duration::from_millis(milliseconds.parse().unwrap()))
}

fn check(tests: &mut HashMap<ThreadId, RunningTest>) {
    let processes = |test: &RunningTest| -> Vec<Arc<WatchedChild>> {
        test.processes.iter().filter_map(Weak::upgrade).collect()
    };
    for process in tests.values().flat_map(processes) {
        if process.started.elapsed() > patience() && !process.is_overdue() {
            process.kill_overdue();
        }
    }
    // A test whose process was killed gets time to fail by itself.
    let patience = from_environment().map_or(TEST_PATIENCE, |patience| 2 * patience);
    let Some(hung) = tests
        .values()
        .find(|test| test.started.elapsed() > patience)
    else {
        return;
    };
    let commands = processes(hung).into_iter();
    let commands: String = commands
        .map(|process| format!(" `{}`", process.command))
        .collect();
    // Not `eprintln`, because the test's captured output would swallow it.
    let _ = writeln!(
        std::io::stderr(),
        "test `{}` hangs: it did not end in {patience:?}; its processes:{commands}",
        hung.name,
    );
    tests
        .values()
        .flat_map(processes)
        .for_each(|process| process.kill_overdue());
    std::process::exit(101);
}
