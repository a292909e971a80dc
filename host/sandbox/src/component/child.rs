//! Child processes that parse third-party components. A component that makes its parser run
//! forever or use up memory only affects this process.

use std::ffi::OsStr;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail};
use rustix::process::{Resource, Rlimit, Signal};

use skillhost_skills::broker::{self, ChildHandle};

/// The maximum address space of a child. Compiling an honest component made from Python
/// takes a quarter of it.
const MEMORY: u64 = 8 << 30;

/// The maximum bytes of a child's error message.
const MAX_MESSAGE: u64 = 4096;

/// A child process of this program with one task.
pub struct ChildProcess<'a> {
    /// The program to start.
    pub program: &'a Path,
    /// The argument that names the task.
    pub argument: &'a str,
    /// The environment variables.
    pub environment: Vec<(&'a str, &'a OsStr)>,
    /// The task's name in messages, such as `compiling`.
    pub purpose: &'a str,
    /// The time limit.
    pub time: Duration,
    /// The maximum bytes of its output.
    pub max_output: u64,
}

impl ChildProcess<'_> {
    /// Runs the child with some input, and returns its output.
    pub fn run(&self, input: &[u8]) -> anyhow::Result<Vec<u8>> {
        let Self {
            program, purpose, ..
        } = self;
        let (input_end, mut to_child) = io::pipe()?;
        let (output, output_end) = io::pipe()?;
        let (errors, errors_end) = io::pipe()?;
        let streams = [input_end.into(), output_end.into(), errors_end.into()];
        let child = self
            .start(streams)
            .with_context(|| format!("cannot start `{}` for {purpose} it", program.display()))?;
        let child = Arc::new(Mutex::new(child));
        let watchdog = Watchdog::start(Arc::clone(&child), self.time);
        let (answer, message) = thread::scope(|scope| {
            // A failed child does not read its input. Its exit status shows the failure.
            scope.spawn(move || to_child.write_all(input));
            let message = scope.spawn(move || read_up_to(errors, MAX_MESSAGE));
            let answer = read_up_to(output, self.max_output.saturating_add(1));
            if answer.len() as u64 > self.max_output {
                kill(&child);
            }
            (answer, message.join().unwrap_or_default())
        });
        let status = wait(&child)?;
        if watchdog.stop() {
            bail!("{purpose} it took longer than {:?}", self.time);
        }
        // It may have succeeded before it was killed.
        if answer.len() as u64 > self.max_output {
            bail!(
                "the {purpose} process wrote more than {} bytes",
                self.max_output
            );
        }
        match status.code() {
            Some(0) => Ok(answer),
            Some(_) if message.is_empty() => bail!("the {purpose} process failed: {status}"),
            Some(_) => bail!("{}", String::from_utf8_lossy(&message).trim_end()),
            None => bail!("the {purpose} process exceeded its limits: {status}"),
        }
    }

    /// Starts the child directly, or through the broker if this process is confined.
    fn start(&self, streams: [OwnedFd; 3]) -> io::Result<Box<dyn ChildHandle>> {
        let environment = self.environment.iter();
        let Some(broker) = broker::get() else {
            let [input, output, errors] = streams.map(Stdio::from);
            let child = skillhost_helper::command(self.program)
                .arg(self.argument)
                .envs(environment.copied())
                .stdin(input)
                .stdout(output)
                .stderr(errors)
                .spawn()?;
            return Ok(Box::new(child));
        };
        let environment = environment.map(|(name, value)| {
            let value = value.to_str().ok_or(io::ErrorKind::InvalidInput)?;
            Ok(((*name).to_owned(), value.to_owned()))
        });
        broker.start(
            self.argument,
            environment.collect::<io::Result<_>>()?,
            streams,
        )
    }
}

/// Kills a process at its time limit, unless it has ended.
struct Watchdog {
    done: mpsc::Sender<()>,
    thread: thread::JoinHandle<bool>,
}

impl Watchdog {
    fn start(child: Arc<Mutex<Box<dyn ChildHandle>>>, time: Duration) -> Self {
        let (done, wait) = mpsc::channel();
        let thread = thread::spawn(move || {
            let late = wait.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
            if late {
                kill(&child);
            }
            late
        });
        Self { done, thread }
    }

    /// Stops the watchdog. Returns whether it killed the process.
    fn stop(self) -> bool {
        let _ = self.done.send(());
        self.thread.join().unwrap_or(true)
    }
}

/// Waits for a process that has closed its output. Does not hold the lock, so that the
/// watchdog can still kill a process that closes its output and continues.
fn wait(child: &Mutex<Box<dyn ChildHandle>>) -> io::Result<ExitStatus> {
    loop {
        if let Some(status) = lock(child).try_wait()? {
            return Ok(status);
        }
        thread::sleep(Duration::from_millis(1));
    }
}

fn kill(child: &Mutex<Box<dyn ChildHandle>>) {
    // An error means that the process has ended already.
    let _ = lock(child).kill();
}

fn lock(child: &Mutex<Box<dyn ChildHandle>>) -> MutexGuard<'_, Box<dyn ChildHandle>> {
    child.lock().unwrap_or_else(|broken| broken.into_inner())
}

fn read_up_to(from: impl io::Read, limit: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    // The exit status shows whether the output is complete.
    let _ = from.take(limit).read_to_end(&mut bytes);
    bytes
}

/// Limits this process before it reads input. `largest_file` is the maximum bytes of a file
/// that it may write.
pub fn limit_this_process(largest_file: u64) -> anyhow::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    for (resource, limit) in [
        (Resource::As, MEMORY),
        (Resource::Core, 0),
        (Resource::Fsize, largest_file),
    ] {
        // The inherited limit may be lower already.
        let inherited = rustix::process::getrlimit(resource).maximum;
        let limit = Some(inherited.map_or(limit, |inherited| inherited.min(limit)));
        let limit = Rlimit {
            current: limit,
            maximum: limit,
        };
        rustix::process::setrlimit(resource, limit)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_process_has_bounded_time_and_says_a_bounded_number_of_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        let run = |text: &str, time| {
            std::fs::write(&script, text).unwrap();
            let child = ChildProcess {
                program: Path::new("/bin/sh"),
                argument: script.to_str().unwrap(),
                environment: Vec::new(),
                purpose: "reading",
                time,
                max_output: 5,
            };
            match child.run(b"some input") {
                Ok(answer) => String::from_utf8(answer).unwrap(),
                Err(error) => format!("{error:#}"),
            }
        };
        let start = Instant::now();
        let long = Duration::from_secs(60);
        let too_much = "the reading process wrote more than 5 bytes";
        for (text, expected) in [
            ("head -c 4", "some"),
            ("printf 12345", "12345"),
            ("printf 123456", too_much),
            ("printf 123456; exec sleep 100", too_much),
            ("exec yes", too_much),
            (
                "exec yes '' >&2",
                "the reading process exceeded its limits: signal: 13 (SIGPIPE)",
            ),
            ("echo why >&2; exit 3", "why"),
            (
                "kill -9 $$",
                "the reading process exceeded its limits: signal: 9 (SIGKILL)",
            ),
        ] {
            assert_eq!(run(text, long), expected, "{text}");
        }
        let late = "reading it took longer than 300ms";
        for text in ["exec sleep 100", "exec >&- 2>&-; exec sleep 100"] {
            assert_eq!(run(text, Duration::from_millis(300)), late, "{text}");
        }
        let message = run("head -c 9000 /dev/zero | tr '\\0' x >&2; exit 1", long);
        assert_eq!(message.len() as u64, MAX_MESSAGE);
        assert!(start.elapsed() < Duration::from_secs(30));
    }
}
