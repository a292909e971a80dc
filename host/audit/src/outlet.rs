//! The places that checkpoints are sent to: a process that reads them from its standard
//! input, and a Unix socket. Both are opened at the start. Sending never waits: what a
//! reader does not take is kept up to a bound.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

/// The most bytes that wait for a reader. Guards against: one that does not read, and
/// takes the host's memory.
const WAITING_BYTES: usize = 64 << 10;

/// The longest that the end of the host waits for a reader. Guards against: one that
/// does not read, and keeps the host from ending.
const END_TIME: Duration = Duration::from_secs(2);

/// A place that checkpoints are sent to.
pub(crate) struct Outlet {
    /// Its name in messages.
    name: String,
    sink: Sink,
    waiting: Vec<u8>,
    is_broken: bool,
}

enum Sink {
    Process(Child, Option<ChildStdin>),
    Socket(UnixStream),
}

impl Outlet {
    /// Starts a program, without these variables of the environment.
    pub(crate) fn start(command: &[String], without: &[&str]) -> anyhow::Result<Self> {
        let (program, arguments) = command.split_first().context("there is no program")?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped());
        // The host's own output is its protocol's.
        command.stdout(Stdio::null());
        // A Ctrl-C is the host's, and the last checkpoint comes after it.
        command.process_group(0);
        for variable in without {
            command.env_remove(variable);
        }
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot start `{program}`"))?;
        let stdin = child.stdin.take().context("it has no standard input")?;
        do_not_wait(&stdin)?;
        Ok(Self {
            name: format!("`checkpoint_command` `{program}`"),
            sink: Sink::Process(child, Some(stdin)),
            waiting: Vec::new(),
            is_broken: false,
        })
    }

    /// Connects to a socket.
    pub(crate) fn connect(path: &Path) -> anyhow::Result<Self> {
        let socket = UnixStream::connect(path)
            .with_context(|| format!("cannot connect to `{}`", path.display()))?;
        socket.set_nonblocking(true)?;
        Ok(Self {
            name: format!("`checkpoint_socket` `{}`", path.display()),
            sink: Sink::Socket(socket),
            waiting: Vec::new(),
            is_broken: false,
        })
    }

    /// Sends a line, or keeps it until the reader takes it.
    pub(crate) fn send(&mut self, line: &[u8]) {
        if self.is_broken {
            tracing::error!("a checkpoint was not sent: {} has ended", self.name);
            return;
        }
        if self.waiting.len() + line.len() > WAITING_BYTES {
            tracing::error!("a checkpoint was not sent: {} does not read", self.name);
        } else {
            self.waiting.extend_from_slice(line);
        }
        self.flush();
    }

    /// Sends the bytes that wait, and logs an error if the reader does not take them in time.
    pub(crate) fn finish(&mut self) {
        let start = Instant::now();
        self.flush();
        while !self.waiting.is_empty()
            && !self.is_broken
            && let Some(left) = END_TIME.checked_sub(start.elapsed())
        {
            self.sink.wait(left);
            self.flush();
        }
        let left = std::mem::take(&mut self.waiting).len();
        if left > 0 {
            // A part of a line may have been sent, so nothing may follow it.
            self.is_broken = true;
            tracing::error!(
                "{left} bytes of checkpoints were not sent: {} is late",
                self.name
            );
        }
    }

    fn flush(&mut self) {
        while !self.waiting.is_empty() {
            match self.sink.write(&self.waiting) {
                Ok(written) => drop(self.waiting.drain(..written)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    tracing::error!("a checkpoint was not sent to {}: {error}", self.name);
                    self.is_broken = true;
                    return;
                }
            }
        }
    }
}

impl Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Process(_, Some(stdin)) => stdin.write(bytes),
            Self::Process(_, None) => Err(io::ErrorKind::BrokenPipe.into()),
            Self::Socket(socket) => socket.write(bytes),
        }
    }

    /// Waits until more can be written.
    fn wait(&self, time: Duration) {
        let fd = match self {
            Self::Process(_, Some(stdin)) => stdin.as_fd(),
            Self::Process(_, None) => return,
            Self::Socket(socket) => socket.as_fd(),
        };
        let mut ready = [PollFd::from_borrowed_fd(fd, PollFlags::OUT)];
        let time = Timespec::try_from(time).ok();
        let _ = poll(&mut ready, time.as_ref());
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        self.finish();
        if let Sink::Process(child, stdin) = &mut self.sink {
            // It reads the end of its input, and ends by itself, sooner or later.
            drop(stdin.take());
            let _ = child.try_wait();
        }
    }
}

fn do_not_wait(stdin: &ChildStdin) -> anyhow::Result<()> {
    let flags = fcntl_getfl(stdin)?;
    fcntl_setfl(stdin, flags | OFlags::NONBLOCK)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::net::UnixListener;
    use std::thread;

    use super::*;

    /// Returns an outlet and its reader.
    fn outlet() -> (Outlet, UnixStream) {
        let (socket, reader) = UnixStream::pair().unwrap();
        socket.set_nonblocking(true).unwrap();
        let outlet = Outlet {
            name: "a socket".to_owned(),
            sink: Sink::Socket(socket),
            waiting: Vec::new(),
            is_broken: false,
        };
        (outlet, reader)
    }

    fn line(number: usize) -> String {
        format!("{number:0999}\n")
    }

    #[test]
    fn a_late_reader_gets_whole_lines_up_to_a_bound() {
        let (mut outlet, mut reader) = outlet();
        for number in 0..2_000 {
            outlet.send(line(number).as_bytes());
        }
        let waiting = outlet.waiting.clone();
        assert!((WAITING_BYTES - 1_000..=WAITING_BYTES).contains(&waiting.len()));
        let read = thread::spawn(move || {
            let mut text = String::new();
            reader.read_to_string(&mut text).unwrap();
            text
        });
        // The end waits for the reader.
        let start = Instant::now();
        drop(outlet);
        assert!(start.elapsed() < END_TIME);
        let text = read.join().unwrap();
        assert!(text.as_bytes().ends_with(&waiting) && text.len() % 1_000 == 0);
        for (number, found) in text.split_inclusive('\n').enumerate() {
            assert_eq!(found, line(number));
        }
    }

    #[test]
    fn a_process_that_does_not_read_is_not_waited_for() {
        let mut outlet = Outlet::start(&["sleep".to_owned(), "60".to_owned()], &[]).unwrap();
        let (sender, sent) = std::sync::mpsc::channel();
        thread::spawn(move || {
            for number in 0..2_000 {
                outlet.send(line(number).as_bytes());
            }
            if let Sink::Process(child, _) = &mut outlet.sink {
                child.kill().unwrap();
            }
            sender.send(outlet.waiting.len())
        });
        let waiting = sent.recv_timeout(Duration::from_secs(10));
        assert!(waiting.expect("it waits for the process") > WAITING_BYTES - 1_000);
    }

    #[test]
    fn a_reader_that_has_gone_is_sent_nothing_more() {
        let (mut outlet, reader) = outlet();
        outlet.send(line(0).as_bytes());
        drop(reader);
        for number in 1..200 {
            outlet.send(line(number).as_bytes());
        }
        assert!(outlet.is_broken && outlet.waiting.len() <= 1_000);
        let start = Instant::now();
        drop(outlet);
        assert!(start.elapsed() < END_TIME);
    }

    #[test]
    fn a_socket_that_nobody_reads_holds_up_no_line_and_the_end_for_some_seconds() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        // Whoever listens on it is there, and does not read.
        let _listener = UnixListener::bind(&path).unwrap();
        let mut outlet = Outlet::connect(&path).unwrap();
        let (sender, moments) = std::sync::mpsc::channel();
        thread::spawn(move || {
            for number in 0..2_000 {
                outlet.send(line(number).as_bytes());
            }
            sender.send(Instant::now()).unwrap();
            drop(outlet);
            sender.send(Instant::now())
        });
        let moment = || moments.recv_timeout(Duration::from_secs(10));
        let sent = moment().expect("a line waits for the reader");
        let waited = moment().expect("the end waits for the reader") - sent;
        // A reader that is only late gets a second.
        assert!(waited >= Duration::from_secs(1), "{waited:?}");
    }
}
