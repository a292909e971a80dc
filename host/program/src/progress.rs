//! Shows what the program waits for: at once on a terminal, and otherwise only after a while.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use skillhost::{Compilation, Line};

use crate::terminal::{self, format_line};

/// The time after which work is reported, if stderr is not a terminal.
const THRESHOLD: Duration = Duration::from_secs(2);

/// The minimum time between two updates of [`ItemProgress`].
const UPDATE_INTERVAL: Duration = Duration::from_millis(100);

/// Returns a callback that shows which components are being compiled.
pub fn show_compilations() -> impl Fn(&str, Compilation) + Send + Sync + 'static {
    let progress = Progress::new("; not found in the cache", "compiling took");
    move |component, event| {
        let work = format!("compiling {component}");
        match event {
            Compilation::Started => progress.start(work),
            Compilation::Ended => progress.end(&work),
        }
    }
}

/// Shows a piece of work until the returned guard is dropped.
pub fn show(work: impl Into<String>) -> ShownWork {
    let work = work.into();
    let progress = Progress::new("", format!("{work} took"));
    progress.start(work.clone());
    ShownWork { progress, work }
}

/// Shows a piece of work until the returned guard is dropped, if stderr is a terminal.
pub fn show_on_terminal(work: impl Into<String>) -> Option<ShownWork> {
    terminal::is_interactive().then(|| show(work))
}

/// Work that is shown until this is dropped.
pub struct ShownWork {
    progress: Progress,
    work: String,
}

impl Drop for ShownWork {
    fn drop(&mut self) {
        self.progress.end(&self.work);
    }
}

/// The progress through many items, shown if stderr is a terminal, until this is dropped.
pub struct ItemProgress {
    /// The time of the last update, or of the creation before the first update. `None` if stderr is
    /// not a terminal.
    last_update: Option<Instant>,
}

impl ItemProgress {
    /// Creates progress that is not shown yet, so that nothing appears for short work.
    #[expect(clippy::new_without_default, reason = "it depends on stderr")]
    pub fn new() -> Self {
        let last_update = terminal::is_interactive().then(Instant::now);
        Self { last_update }
    }

    /// Shows a line if stderr is a terminal and the last update was at least `UPDATE_INTERVAL`
    /// ago.
    pub fn show(&mut self, line: impl FnOnce() -> Line) {
        let is_due = |last: Instant| last.elapsed() >= UPDATE_INTERVAL;
        if self.last_update.is_some_and(is_due) {
            terminal::show_progress(&line());
            self.last_update = Some(Instant::now());
        }
    }
}

impl Drop for ItemProgress {
    fn drop(&mut self) {
        if self.last_update.is_some() {
            terminal::show_progress(&Line::default());
        }
    }
}

/// Shows the work that the program waits for. Clones share the list of running work.
#[derive(Clone)]
struct Progress {
    is_interactive: bool,
    /// The text after the name of the work, in the report that the work still runs.
    remark: &'static str,
    /// The words before the duration, in the report that the work has ended.
    end_text: String,
    running: Arc<Mutex<RunningWork>>,
}

#[derive(Default)]
struct RunningWork {
    /// The running work, oldest first.
    work: Vec<String>,
    /// The sender that is dropped when the last piece of work has ended. Its receiver is in the
    /// thread that reports.
    end_signal: Option<mpsc::Sender<()>>,
}

impl Progress {
    fn new(remark: &'static str, end_text: impl Into<String>) -> Self {
        Self {
            is_interactive: terminal::is_interactive(),
            remark,
            end_text: end_text.into(),
            running: Arc::default(),
        }
    }

    fn start(&self, work: String) {
        let mut running = self.lock();
        running.work.push(work);
        if self.is_interactive {
            terminal::show_progress(&progress_line(&running.work));
        } else if running.end_signal.is_none() {
            let (end_signal, ended) = mpsc::channel();
            running.end_signal = Some(end_signal);
            let this = self.clone();
            // If no thread can start, nothing is reported.
            let _ = thread::Builder::new().spawn(move || this.report(&ended));
        }
    }

    fn end(&self, work: &str) {
        let mut running = self.lock();
        if let Some(index) = running.work.iter().position(|other| other == work) {
            running.work.remove(index);
        }
        if self.is_interactive {
            terminal::show_progress(&progress_line(&running.work));
        } else if running.work.is_empty() {
            running.end_signal = None;
        }
    }

    /// Reports the work that still runs after [`THRESHOLD`], and later that it has ended.
    fn report(&self, ended: &mpsc::Receiver<()>) {
        let start = Instant::now();
        if ended.recv_timeout(THRESHOLD) != Err(RecvTimeoutError::Timeout) {
            return;
        }
        let line = progress_line(&self.lock().work);
        terminal::complain(format_args!("{line}{}", self.remark));
        let _ = ended.recv();
        let seconds = start.elapsed().as_secs();
        terminal::complain(format_args!("{} {seconds} s", self.end_text));
    }

    fn lock(&self) -> MutexGuard<'_, RunningWork> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the line that names the running work.
fn progress_line(work: &[String]) -> Line {
    match work {
        [] => Line::default(),
        [one] => format_line!("{one}"),
        [one, others @ ..] => format_line!("{one} and {} more", others.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_names_oldest_work_and_counts_the_rest() {
        let progress = Progress {
            is_interactive: false,
            ..Progress::new("", "")
        };
        let line = || progress_line(&progress.lock().work).to_string();
        progress.start("one".to_owned());
        progress.start("two".to_owned());
        progress.start("two".to_owned());
        assert_eq!(line(), "one and 2 more");
        progress.end("two");
        progress.end("one");
        assert_eq!(line(), "two");
        assert!(progress.lock().end_signal.is_some());
        progress.end("two");
        assert_eq!(line(), "");
        // The thread for reports ends without a report.
        assert!(progress.lock().end_signal.is_none());
    }
}
