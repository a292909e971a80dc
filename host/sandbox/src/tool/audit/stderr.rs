//! Writes lines to stderr in bounded time. A reader that stops reading must not stop the host.
//!
//! A thread writes them, because a stream that is ready can still block: a terminal counts as
//! ready while it has space for one byte.

use std::io;
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::ensure;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FileType, OFlags, fcntl_getfl, fstat, makedev};
use rustix::io::Errno;

use super::wait_limit::WaitLimit;

/// The writer of the whole process. `None` if its thread could not be started.
static STDERR: OnceLock<Option<Mutex<LineWriter>>> = OnceLock::new();

/// Starts the thread that writes to stderr, unless it runs already. Earlier lines are written
/// directly, because a process has one thread until it is confined. No call waits for these lines.
pub fn start_stderr_thread() {
    STDERR.get_or_init(|| LineWriter::start(io::stderr()).map(Mutex::new).ok());
}

/// Fails if stderr was closed when the program started.
///
/// Rust's runtime then opens `/dev/null` as stderr, and every record would be lost. The runtime
/// opens it for reading and writing, but a shell with `2>/dev/null` only for writing.
pub(super) fn check_is_open() -> anyhow::Result<()> {
    let stderr = io::stderr();
    let found = fstat(&stderr)?;
    let is_null = FileType::from_raw_mode(found.st_mode) == FileType::CharacterDevice
        && found.st_rdev == makedev(1, 3);
    ensure!(
        !(is_null && fcntl_getfl(&stderr)?.contains(OFlags::RDWR)),
        "stderr is closed, or is `/dev/null` open for reading and writing; `2>/dev/null` discards \
         the records"
    );
    Ok(())
}

/// Writes a line, with its line feed, to stderr.
///
/// # Errors
///
/// Fails if the reader does not read it in time, or has closed the stream. The next line then
/// starts on a new line, even if a part of this line was written.
pub fn write_stderr_line(line: &[u8]) -> io::Result<()> {
    match STDERR.get() {
        Some(Some(writer)) => {
            let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
            writer.write(line)
        }
        // Does not take the lock of `io::stderr`, because another thread can hold it forever.
        _ => write_all(&io::stderr(), line, &mut false),
    }
}

/// A writer of lines to a stream, in a thread because the reader may be slow.
struct LineWriter {
    lines: Sender<Vec<u8>>,
    results: Receiver<io::Result<()>>,
    /// True while the thread writes a line whose caller no longer waits.
    is_behind: bool,
    wait: WaitLimit,
}

impl LineWriter {
    fn start(stream: impl AsFd + Send + 'static) -> io::Result<Self> {
        let (lines, to_write) = channel::<Vec<u8>>();
        let (done, results) = channel();
        let write_lines = move || {
            let mut is_torn = false;
            for mut line in to_write {
                if is_torn {
                    line.insert(0, b'\n');
                }
                let written = write_all(&stream, &line, &mut is_torn);
                if done.send(written).is_err() {
                    return;
                }
            }
        };
        let name = "stderr".to_owned();
        thread::Builder::new().name(name).spawn(write_lines)?;
        Ok(Self {
            lines,
            results,
            is_behind: false,
            wait: WaitLimit::new(),
        })
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        let deadline = Instant::now() + self.wait.time();
        if self.is_behind {
            // An error belongs to the earlier line.
            let _ = self.result(deadline)?;
        }
        // If the thread has ended, waiting for the result reports it.
        let _ = self.lines.send(line.to_owned());
        let written = self.result(deadline)?;
        self.wait.restore();
        written
    }

    /// Waits for the thread to write its line, and returns the result.
    ///
    /// # Errors
    ///
    /// The outer error means that the thread did not write the line in time.
    fn result(&mut self, deadline: Instant) -> io::Result<io::Result<()>> {
        let left = deadline.saturating_duration_since(Instant::now());
        let result = self
            .results
            .recv_timeout(left)
            .map_err(|error| match error {
                RecvTimeoutError::Timeout => {
                    let reason = "the reader of the stream has stopped reading";
                    io::Error::new(io::ErrorKind::TimedOut, reason)
                }
                RecvTimeoutError::Disconnected => io::ErrorKind::BrokenPipe.into(),
            });
        self.is_behind = result.is_err();
        self.wait.observe(result)
    }
}

/// Writes a whole line, however long that takes. `is_torn` becomes true if only a part of it
/// could be written.
fn write_all(stream: &impl AsFd, mut line: &[u8], is_torn: &mut bool) -> io::Result<()> {
    while !line.is_empty() {
        match rustix::io::write(stream, line) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                line = &line[written..];
                *is_torn = !line.is_empty();
            }
            Err(Errno::INTR) => {}
            // Another process has made the stream nonblocking.
            Err(Errno::AGAIN) => {
                let _ = poll(&mut [PollFd::new(stream, PollFlags::OUT)], None);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn waits_once_for_stopped_reader() {
        let (mut reader, pipe) = io::pipe().unwrap();
        let mut writer = LineWriter::start(pipe).unwrap();
        let line = |number: usize| format!("{number:09999}\n");
        let start = Instant::now();
        let written = (0..).find(|number| writer.write(line(*number).as_bytes()).is_err());
        let written = written.unwrap();
        assert!(writer.is_behind && written > 0);
        for number in written..written + 100 {
            let error = writer.write(line(number + 1).as_bytes()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        }
        // On a busy machine the short waits take longer, but far less than a hundred long ones.
        assert!(start.elapsed() < WaitLimit::new().time() * 30);
        // Now the reader reads again. It must get the begun line in full, and then the next one.
        let read = thread::spawn(move || {
            let mut text = String::new();
            reader.read_to_string(&mut text).unwrap();
            text
        });
        // The reader may be too slow for the short wait, but each line is written later.
        while writer.write(b"last\n").is_err() {}
        drop(writer);
        let text = read.join().unwrap();
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let (whole, last) = lines.split_at(written + 1);
        for (number, found) in whole.iter().enumerate() {
            assert_eq!(*found, line(number));
        }
        assert!(!last.is_empty() && last.iter().all(|line| *line == "last\n"));
    }

    #[test]
    fn fails_without_a_reader() {
        let (reader, pipe) = io::pipe().unwrap();
        drop(reader);
        let mut writer = LineWriter::start(pipe).unwrap();
        for _ in 0..2 {
            let error = writer.write(b"line\n").unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        }
    }
}
