//! Checkpoint sinks: a process that reads checkpoints from its stdin, and a Unix socket.
//!
//! Both are opened when the host starts. Sending does not wait for the reader of a sink: the sink
//! buffers unread bytes, up to a limit.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use skillhost::Trust;
use skillhost::config::CheckpointCommand;
use skillhost_skills::search_path::SearchPath;

/// The maximum number of bytes that are buffered for a reader. Guards against: a slow reader
/// that fills the host's memory with unread lines.
const MAX_BUFFERED_BYTES: usize = 64 << 10;

/// The longest time that a host waits for a reader before the host ends. Guards against: a
/// reader that does not read, and so keeps the host from ending.
const MAX_FINISH_TIME: Duration = Duration::from_secs(2);

/// A receiver of checkpoints.
pub(crate) struct CheckpointSink {
    /// The sink's name in messages.
    name: String,
    stream: SinkStream,
    buffer: Vec<u8>,
    /// True if nothing more can be sent.
    is_broken: bool,
}

enum SinkStream {
    Process(Child, Option<ChildStdin>),
    Socket(UnixStream),
}

impl CheckpointSink {
    /// Starts a program as a sink. Fails if a user outside `trust` could replace the program.
    /// Removes `removed_variables` from the program's environment.
    pub(crate) fn start(
        configured: &CheckpointCommand,
        trust: &Trust,
        removed_variables: &[&str],
    ) -> anyhow::Result<Self> {
        let program = configured.program.path.display();
        let failed = || format!("cannot start `{program}` of `checkpoint_command`");
        let search_path = SearchPath::from_environment();
        let file = find_program(&configured.program.path, &search_path, trust);
        let mut command = Command::new(file.with_context(failed)?);
        command.args(&configured.arguments).stdin(Stdio::piped());
        search_path.set_for(&mut command);
        // The host's stdout carries only its answers or its protocol.
        command.stdout(Stdio::null());
        // Ctrl-C must not end the program, because the host sends its last checkpoint afterwards.
        command.process_group(0);
        for variable in removed_variables {
            command.env_remove(variable);
        }
        let mut child = command.spawn().with_context(failed)?;
        let stdin = child.stdin.take();
        let stdin = stdin.with_context(|| format!("`{program}` has no stdin"))?;
        set_nonblocking(&stdin).with_context(|| format!("cannot use the stdin of `{program}`"))?;
        let name = format!("`checkpoint_command` `{program}`");
        Ok(Self::new(name, SinkStream::Process(child, Some(stdin))))
    }

    /// Connects to a socket as a sink. Fails at once if the listener accepts no connections.
    pub(crate) fn connect(path: &Path) -> anyhow::Result<Self> {
        let connect = || {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
            rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
            Ok(socket)
        };
        let socket = connect().map_err(|error| match error {
            Errno::AGAIN => anyhow::anyhow!("its listener accepts no connections"),
            error => io::Error::from(error).into(),
        });
        let socket = socket.with_context(|| format!("cannot connect to `{}`", path.display()))?;
        let name = format!("`checkpoint_socket` `{}`", path.display());
        Ok(Self::new(name, SinkStream::Socket(socket.into())))
    }

    fn new(name: String, stream: SinkStream) -> Self {
        Self {
            name,
            stream,
            buffer: Vec::new(),
            is_broken: false,
        }
    }

    /// Sends a line, or buffers it until the reader is ready.
    pub(crate) fn send(&mut self, line: &[u8]) {
        let name = &self.name;
        if self.is_broken {
            tracing::error!("cannot send a checkpoint to {name}: an earlier one could not be sent");
            return;
        }
        if self.buffer.len() + line.len() > MAX_BUFFERED_BYTES {
            tracing::error!("cannot send a checkpoint to {name}: its reader does not read");
        } else {
            self.buffer.extend_from_slice(line);
        }
        self.flush();
    }

    /// Sends the buffered bytes. Logs an error if the reader does not read them within
    /// [`MAX_FINISH_TIME`].
    pub(crate) fn finish(&mut self) {
        let start = Instant::now();
        self.flush();
        while !self.buffer.is_empty()
            && !self.is_broken
            && let Some(left) = MAX_FINISH_TIME.checked_sub(start.elapsed())
        {
            self.stream.wait_until_writable(left);
            self.flush();
        }
        let unsent = std::mem::take(&mut self.buffer).len();
        if unsent > 0 {
            // Perhaps the reader has received only a part of a line, so nothing must follow it.
            self.is_broken = true;
            let name = &self.name;
            tracing::error!(
                "cannot send {unsent} bytes of checkpoints to {name}: its reader is too slow"
            );
        }
    }

    fn flush(&mut self) {
        while !self.buffer.is_empty() {
            match self.stream.write(&self.buffer) {
                Ok(written) => drop(self.buffer.drain(..written)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    tracing::error!("cannot send a checkpoint to {}: {error}", self.name);
                    self.is_broken = true;
                    return;
                }
            }
        }
    }
}

impl SinkStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Process(_, Some(stdin)) => stdin.write(bytes),
            Self::Process(_, None) => Err(io::ErrorKind::BrokenPipe.into()),
            Self::Socket(socket) => socket.write(bytes),
        }
    }

    fn wait_until_writable(&self, time: Duration) {
        let Some(fd) = self.fd() else {
            return;
        };
        let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::OUT)];
        let timeout = Timespec::try_from(time).ok();
        let _ = poll(&mut fds, timeout.as_ref());
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Process(_, stdin) => stdin.as_ref().map(AsFd::as_fd),
            Self::Socket(socket) => Some(socket.as_fd()),
        }
    }
}

impl Drop for CheckpointSink {
    fn drop(&mut self) {
        self.finish();
        if let SinkStream::Process(child, stdin) = &mut self.stream {
            // End of input tells the process to exit.
            drop(stdin.take());
            let _ = child.try_wait();
        }
    }
}

/// Finds a program: in the PATH if it is a name without a slash, and otherwise at its own path.
/// Fails if a user outside `trust` could replace it.
fn find_program(
    program: &Path,
    search_path: &SearchPath,
    trust: &Trust,
) -> anyhow::Result<PathBuf> {
    let name = program.to_str().filter(|name| !name.contains('/'));
    let file = match name {
        Some(name) => search_path.find(name).next(),
        None => Some(program.to_owned()),
    };
    let file = file.context("not found on the PATH; relative folders on the PATH are ignored")?;
    trust.check(&file)?;
    Ok(file)
}

fn set_nonblocking(stdin: &ChildStdin) -> anyhow::Result<()> {
    let flags = fcntl_getfl(stdin)?;
    fcntl_setfl(stdin, flags | OFlags::NONBLOCK)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::net::UnixListener;
    use std::thread;

    use skillhost::Principal;
    use skillhost::config::ConfiguredPath;

    use super::*;

    /// Returns a sink and its reader.
    fn sink() -> (CheckpointSink, UnixStream) {
        let (socket, reader) = UnixStream::pair().unwrap();
        socket.set_nonblocking(true).unwrap();
        let stream = SinkStream::Socket(socket);
        (CheckpointSink::new("a socket".to_owned(), stream), reader)
    }

    fn line(number: usize) -> String {
        format!("{number:0999}\n")
    }

    #[test]
    fn buffers_whole_lines_for_a_late_reader() {
        let (mut sink, mut reader) = sink();
        for number in 0..2_000 {
            sink.send(line(number).as_bytes());
        }
        let buffered = sink.buffer.clone();
        assert!((MAX_BUFFERED_BYTES - 1_000..=MAX_BUFFERED_BYTES).contains(&buffered.len()));
        let read = thread::spawn(move || {
            let mut text = String::new();
            reader.read_to_string(&mut text).unwrap();
            text
        });
        // Dropping the sink waits for the reader.
        drop(sink);
        let text = read.join().unwrap();
        assert!(text.as_bytes().ends_with(&buffered) && text.len() % 1_000 == 0);
        for (number, received) in text.split_inclusive('\n').enumerate() {
            assert_eq!(received, line(number));
        }
    }

    #[test]
    fn does_not_wait_for_a_process_that_does_not_read() {
        let command = CheckpointCommand {
            program: ConfiguredPath {
                path: "sleep".into(),
                place: String::new(),
            },
            arguments: vec!["60".to_owned()],
        };
        let everyone = Trust::new().and(Principal::Everyone);
        let mut sink = CheckpointSink::start(&command, &everyone, &[]).unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        thread::spawn(move || {
            for number in 0..2_000 {
                sink.send(line(number).as_bytes());
            }
            if let SinkStream::Process(child, _) = &mut sink.stream {
                child.kill().unwrap();
            }
            sender.send(sink.buffer.len())
        });
        let buffered = receiver.recv_timeout(Duration::from_secs(10));
        assert!(buffered.expect("sending waits for the process") > MAX_BUFFERED_BYTES - 1_000);
    }

    #[test]
    fn sends_nothing_more_to_a_closed_reader() {
        let (mut sink, reader) = sink();
        sink.send(line(0).as_bytes());
        drop(reader);
        for number in 1..200 {
            sink.send(line(number).as_bytes());
        }
        assert!(sink.is_broken && sink.buffer.len() <= 1_000);
        let start = Instant::now();
        drop(sink);
        assert!(start.elapsed() < MAX_FINISH_TIME);
    }

    #[test]
    fn does_not_wait_for_a_listener_that_accepts_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let flags = SocketFlags::CLOEXEC;
        let listener = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
        rustix::net::bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        rustix::net::listen(&listener, 1).unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        thread::spawn(move || {
            let mut waiting = Vec::new();
            while waiting.len() < 100 {
                match CheckpointSink::connect(&path) {
                    Ok(sink) => waiting.push(sink),
                    Err(error) => return sender.send(format!("{error:#}")),
                }
            }
            sender.send("connected".to_owned())
        });
        let error = receiver.recv_timeout(Duration::from_secs(10)).unwrap();
        assert!(
            error.ends_with("its listener accepts no connections"),
            "{error}"
        );
    }

    #[test]
    fn waits_for_reader_only_when_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        // The listener never reads.
        let _listener = UnixListener::bind(&path).unwrap();
        let mut sink = CheckpointSink::connect(&path).unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        thread::spawn(move || {
            for number in 0..2_000 {
                sink.send(line(number).as_bytes());
            }
            sender.send(Instant::now()).unwrap();
            drop(sink);
            sender.send(Instant::now())
        });
        let time = || receiver.recv_timeout(Duration::from_secs(10));
        let sent = time().expect("sending waits for the reader");
        let waited = time().expect("dropping the sink waits too long") - sent;
        // Dropping waits for about `MAX_FINISH_TIME`. The test requires only half of it.
        assert!(waited >= Duration::from_secs(1), "{waited:?}");
    }
}
