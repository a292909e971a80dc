//! Lines on stderr, written in bounded time. A reader that does not read must not stop the
//! host.

use std::io;
use std::os::fd::AsFd;
use std::sync::Mutex;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::wait_limit::WaitLimit;

/// The bytes that are written at a time: a pipe that is ready takes as many.
const PIECE_BYTES: usize = 4096;

/// The state of stderr, which the whole process shares.
static STDERR: Mutex<LineWriter> = Mutex::new(LineWriter::new());

/// Writes a line, with its line feed, to stderr.
///
/// # Errors
///
/// If the reader does not take it in time, or has gone. A line that was written in part is
/// ended before the next one.
pub fn write_stderr_line(line: &[u8]) -> io::Result<()> {
    let mut writer = STDERR.lock().unwrap_or_else(|broken| broken.into_inner());
    // Without the lock of `io::stderr`, for which there is no bounded wait.
    writer.write(io::stderr(), line)
}

/// Writes lines to a stream whose reader may be slow.
struct LineWriter {
    wait: WaitLimit,
    /// True if the last line was written in part.
    is_torn: bool,
}

impl LineWriter {
    const fn new() -> Self {
        Self {
            wait: WaitLimit::new(),
            is_torn: false,
        }
    }

    fn write(&mut self, stream: impl AsFd, line: &[u8]) -> io::Result<()> {
        let deadline = Instant::now() + self.wait.time();
        if self.is_torn {
            self.write_part(&stream, b"\n", deadline)?;
            self.is_torn = false;
        }
        for piece in line.chunks(PIECE_BYTES) {
            self.write_part(&stream, piece, deadline)?;
            self.is_torn = true;
        }
        self.is_torn = false;
        self.wait.restore();
        Ok(())
    }

    /// Writes at most [`PIECE_BYTES`] bytes.
    fn write_part(
        &mut self,
        stream: &impl AsFd,
        mut bytes: &[u8],
        deadline: Instant,
    ) -> io::Result<()> {
        while !bytes.is_empty() {
            self.wait.observe(wait_until_writable(stream, deadline))?;
            match rustix::io::write(stream, bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    bytes = &bytes[written..];
                    self.is_torn |= !bytes.is_empty();
                }
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// Waits until a stream takes more bytes, or has no reader.
fn wait_until_writable(stream: &impl AsFd, deadline: Instant) -> io::Result<()> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
        let mut ready = [PollFd::new(stream, PollFlags::OUT)];
        match poll(&mut ready, Some(&timeout)) {
            Ok(0) => {
                let reason = "its reader has stopped reading";
                return Err(io::Error::new(io::ErrorKind::TimedOut, reason));
            }
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn waits_once_for_a_reader_that_does_not_read() {
        let (mut reader, pipe) = io::pipe().unwrap();
        let mut writer = LineWriter::new();
        let line = |number: usize| format!("{number:09999}\n");
        let start = Instant::now();
        let written = (0..).find(|number| writer.write(&pipe, line(*number).as_bytes()).is_err());
        let written = written.unwrap();
        assert!(writer.is_torn && written > 0);
        for number in written..written + 100 {
            let error = writer.write(&pipe, line(number).as_bytes()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        }
        // On a busy machine the short waits take longer, but far less than a hundred long ones.
        assert!(start.elapsed() < WaitLimit::new().time() * 30);
        // The reader reads again: the torn line ends, and the next one is whole.
        let read = std::thread::spawn(move || {
            let mut text = String::new();
            reader.read_to_string(&mut text).unwrap();
            text
        });
        // It may be too slow for the short wait.
        while writer.write(&pipe, line(written).as_bytes()).is_err() {}
        drop(pipe);
        let text = read.join().unwrap();
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        for (number, found) in lines[..written].iter().enumerate() {
            assert_eq!(*found, line(number));
        }
        assert!(lines[written].len() < 10_000, "it was torn");
        assert_eq!(*lines.last().unwrap(), line(written));
    }

    #[test]
    fn fails_without_a_reader() {
        let (reader, pipe) = io::pipe().unwrap();
        drop(reader);
        let error = LineWriter::new().write(&pipe, b"line\n").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
