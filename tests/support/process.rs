//! Processes that a test starts. Each is killed when its test ends. Every wait has a bound: a
//! process that takes too long is killed, which ends all reads of its output, and the test fails
//! with its command line. `watchdog.rs` measures the time.

use std::fs;
use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::watchdog;

/// Returns the descendants of a process that have this first argument.
pub(crate) fn descendants(process: u32, argument: &str) -> Vec<Pid> {
    let mut found = Vec::new();
    let mut all = children_of(process);
    while let Some(pid) = all.pop() {
        let id = pid.as_raw_nonzero();
        let line = fs::read_to_string(format!("/proc/{id}/cmdline")).unwrap_or_default();
        if line.split('\0').nth(1) == Some(argument) {
            found.push(pid);
        }
        all.extend(children_of(id.get().unsigned_abs()));
    }
    found
}

/// Returns the processes that a process has started. The list is empty if the process has ended.
fn children_of(process: u32) -> Vec<Pid> {
    let threads = fs::read_dir(format!("/proc/{process}/task"));
    let threads = threads.into_iter().flatten().flatten();
    let children =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let children: Vec<String> = children.collect();
    let numbers = children
        .iter()
        .flat_map(|list| list.split_ascii_whitespace());
    let pids = numbers.map(|number| Pid::from_raw(number.parse().unwrap()).unwrap());
    pids.collect()
}

/// A process of a test, killed on drop.
pub(crate) struct Process {
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) stdout: Option<ChildStdout>,
    pub(crate) stderr: Option<ChildStderr>,
    pub(crate) pid: u32,
    child: Arc<WatchedChild>,
}

/// A process that the watchdog kills if it takes too long.
pub(super) struct WatchedChild {
    /// The command line.
    pub(super) command: String,
    pub(super) started: Instant,
    child: Mutex<Child>,
    is_overdue: AtomicBool,
}

impl WatchedChild {
    /// Kills the process, because it takes too long.
    pub(super) fn kill_overdue(&self) {
        self.is_overdue.store(true, Ordering::SeqCst);
        // It is not an error if the process has already ended.
        let mut child = self.child.lock().unwrap();
        let _ = child.kill();
        let _ = child.wait();
    }

    pub(super) fn is_overdue(&self) -> bool {
        self.is_overdue.load(Ordering::SeqCst)
    }
}

impl Process {
    #[track_caller]
    pub(crate) fn start(command: &mut Command) -> Self {
        let started = Self::try_start(command);
        started.unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"))
    }

    /// Starts a process, or returns an error if the machine refuses.
    pub(crate) fn try_start(command: &mut Command) -> std::io::Result<Self> {
        let mut child = command.spawn()?;
        let child = Self {
            stdin: child.stdin.take(),
            stdout: child.stdout.take(),
            stderr: child.stderr.take(),
            pid: child.id(),
            child: Arc::new(WatchedChild {
                command: command_line(command),
                started: Instant::now(),
                child: Mutex::new(child),
                is_overdue: AtomicBool::new(false),
            }),
        };
        watchdog::watch_process(&child.child);
        Ok(child)
    }

    pub(crate) fn try_wait(&self) -> Option<ExitStatus> {
        self.child.child.lock().unwrap().try_wait().unwrap()
    }

    /// Waits for the end.
    #[track_caller]
    pub(crate) fn wait(&self) -> ExitStatus {
        loop {
            let ended = self.try_wait();
            assert!(
                !self.child.is_overdue(),
                "`{}` took longer than {:?} and was killed",
                self.child.command,
                watchdog::patience()
            );
            match ended {
                Some(status) => return status,
                None => thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    /// Closes the input, reads the rest of the output and waits for the end.
    #[track_caller]
    pub(crate) fn output(mut self) -> Output {
        drop(self.stdin.take());
        let (stdout, stderr) = (
            read_on_thread(self.stdout.take()),
            read_on_thread(self.stderr.take()),
        );
        let (stdout, stderr) = (stdout.join().unwrap(), stderr.join().unwrap());
        Output {
            status: self.wait(),
            stdout,
            stderr,
        }
    }

    /// Collects everything that the process prints to stderr from now on.
    pub(crate) fn collect_stderr(&mut self) -> Arc<Mutex<String>> {
        let collected = Arc::<Mutex<String>>::default();
        let (text, mut stderr) = (Arc::clone(&collected), self.stderr.take().unwrap());
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = stderr.read(&mut bytes) {
                let read = String::from_utf8_lossy(&bytes[..read]);
                text.lock().unwrap().push_str(&read);
            }
        });
        collected
    }

    /// Reads the first line of stdout, without the line break. Text right after it can be lost.
    #[track_caller]
    pub(crate) fn first_line(&mut self) -> String {
        let mut line = String::new();
        let stdout = self.stdout.as_mut().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        if line.pop() != Some('\n') {
            let stderr = read_on_thread(self.stderr.take()).join().unwrap();
            let stderr = String::from_utf8_lossy(&stderr);
            panic!("`{}` printed no line: {stderr}", self.child.command);
        }
        line
    }

    /// Returns the processes that this one has started.
    pub(crate) fn children(&self) -> Vec<Pid> {
        children_of(self.pid)
    }

    /// Returns the descendants of this process that have this first argument.
    pub(crate) fn descendants(&self, argument: &str) -> Vec<Pid> {
        descendants(self.pid, argument)
    }

    /// Returns whether a process ignores a signal.
    pub(crate) fn ignores(process: Pid, signal: Signal) -> bool {
        let status = format!("/proc/{}/status", process.as_raw_nonzero());
        let status = fs::read_to_string(status).unwrap();
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let ignored = u64::from_str_radix(ignored.unwrap().trim(), 16).unwrap();
        ignored >> (signal.as_raw() - 1) & 1 == 1
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let child = self.child.child.lock().unwrap();
        kill_process(Pid::from_child(&child), signal).unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let mut child = self.child.child.lock().unwrap();
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Runs a command to its end.
#[track_caller]
pub(crate) fn output(command: &mut Command) -> Output {
    use std::process::Stdio;

    command.stdin(Stdio::null());
    Process::start(command.stdout(Stdio::piped()).stderr(Stdio::piped())).output()
}

/// Reads a stream to its end on a thread.
fn read_on_thread(stream: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            stream.read_to_end(&mut bytes).unwrap();
        }
        bytes
    })
}

/// Returns a command line for people, without its environment, shortened if long.
fn command_line(command: &Command) -> String {
    let words = [command.get_program()]
        .into_iter()
        .chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    words.join(" ").chars().take(500).collect()
}
