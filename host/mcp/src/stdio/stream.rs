//! Streams to read from and write to: pipes, sockets, terminals and files.
//!
//! Other processes share a stream's non-blocking flag. So this module neither changes that flag nor
//! relies on it: it asks the kernel before it reads or writes.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionread;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, Interest, ReadBuf};
use tokio::task::coop::poll_proceed;

/// The maximum number of bytes that are written without a thread for blocking work. An empty pipe
/// has space for them, and so has a socket that is ready.
const MAX_DIRECT_WRITE: usize = 16 << 10;

/// A stream to read from.
pub(crate) enum InputStream {
    Polled(AsyncFd<File>),
    /// A stream that the kernel does not poll, such as a file. Reading it never waits.
    Ready(File),
}

/// A stream to write to.
pub(crate) struct OutputStream(File);

impl InputStream {
    /// Opens a copy of a stream's descriptor. Needs a runtime with I/O.
    pub(crate) fn new(stream: impl AsFd) -> io::Result<Self> {
        Ok(match register(duplicate(&stream)?, Interest::READABLE)? {
            Ok(polled) => Self::Polled(polled),
            Err(file) => Self::Ready(file),
        })
    }
}

impl AsyncRead for InputStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = match &mut *self {
            Self::Ready(file) => {
                // Lets other futures of this task run, such as the one that ends the server.
                ready!(poll_proceed(task)).made_progress();
                return Poll::Ready(read(file, buffer));
            }
            Self::Polled(polled) => polled,
        };
        loop {
            let mut ready = ready!(polled.poll_read_ready_mut(task))?;
            if is_ready(ready.get_inner(), PollFlags::IN)? {
                match read(ready.get_inner_mut(), buffer) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    result => return Poll::Ready(result),
                }
            }
            ready.clear_ready();
        }
    }
}

fn read(file: &mut File, buffer: &mut ReadBuf<'_>) -> io::Result<()> {
    let bytes = file.read(buffer.initialize_unfilled())?;
    buffer.advance(bytes);
    Ok(())
}

impl OutputStream {
    /// Opens a copy of a stream's descriptor.
    pub(crate) fn new(stream: impl AsFd) -> io::Result<Self> {
        Ok(Self(duplicate(&stream)?))
    }

    /// Returns whether this number of bytes can be written without waiting.
    pub(crate) fn can_write_without_blocking(&self, bytes: usize) -> bool {
        bytes <= MAX_DIRECT_WRITE
            && is_ready(&self.0, PollFlags::OUT).unwrap_or(false)
            // The pipe may hold unread bytes, of this process or another.
            && ioctl_fionread(&self.0).is_ok_and(|unread| unread == 0)
    }

    /// Writes all bytes, and waits until the stream has accepted them.
    pub(crate) fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.0.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    poll(&mut [PollFd::new(&self.0, PollFlags::OUT)], None)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Waits until the other end of a pipe or socket is closed, so that the calls of a client that
/// has ended can stop before the next write. Waits forever on a stream that the kernel does not
/// poll, such as a file. Needs a runtime with I/O.
pub(crate) async fn wait_for_hang_up(stream: impl AsFd) -> io::Result<()> {
    // The kernel always reports errors and hang-ups too. So this waits for an event that clients
    // never cause.
    let Ok(polled) = register(duplicate(&stream)?, Interest::PRIORITY)? else {
        return std::future::pending().await;
    };
    loop {
        let mut ready = polled.ready(Interest::PRIORITY | Interest::ERROR).await?;
        if is_ready(polled.get_ref(), PollFlags::empty())? {
            return Ok(());
        }
        ready.clear_ready();
    }
}

fn duplicate(stream: &impl AsFd) -> io::Result<File> {
    Ok(stream.as_fd().try_clone_to_owned()?.into())
}

/// Registers a stream with the runtime. Returns the file if the kernel does not poll it.
fn register(file: File, interest: Interest) -> io::Result<Result<AsyncFd<File>, File>> {
    #[expect(
        deprecated,
        reason = "its replacement is unsafe, for types that may close their descriptor; a file \
                  does not"
    )]
    let polled = AsyncFd::try_with_interest(file, interest);
    polled.map(Ok).or_else(|error| {
        let (file, error) = error.into_parts();
        match error.kind() {
            io::ErrorKind::PermissionDenied => Ok(Err(file)),
            _ => Err(error),
        }
    })
}

/// Returns whether a stream has one of these events, or has ended.
fn is_ready(stream: &File, wanted: PollFlags) -> io::Result<bool> {
    let now = Timespec::default();
    let ready = poll(&mut [PollFd::new(stream, wanted)], Some(&now))?;
    Ok(ready > 0)
}

#[cfg(test)]
mod tests {
    use std::io::{PipeReader, PipeWriter};
    use std::os::unix::net::UnixStream;
    use std::pin::pin;
    use std::task::Waker;
    use std::thread;
    use std::time::Duration;

    use rustix::fs::{OFlags, fcntl_setfl};
    use tokio::io::AsyncReadExt as _;
    use tokio::time::timeout;

    use super::*;

    const LARGE: usize = 1 << 20;

    fn pipe(flags: OFlags) -> (PipeReader, PipeWriter) {
        let (reader, writer) = io::pipe().unwrap();
        fcntl_setfl(&reader, flags).unwrap();
        fcntl_setfl(&writer, flags).unwrap();
        (reader, writer)
    }

    #[tokio::test]
    async fn waits_for_blocking_and_non_blocking_streams() {
        for flags in [OFlags::NONBLOCK, OFlags::empty()] {
            let (reader, writer) = pipe(flags);
            let mut input = InputStream::new(reader).unwrap();
            let mut bytes = [0; 1];
            let mut first = Box::pin(input.read(&mut bytes));
            // The first read starts before the write.
            let mut task = Context::from_waker(Waker::noop());
            assert!(first.as_mut().poll(&mut task).is_pending());
            let writing =
                thread::spawn(move || OutputStream::new(writer).unwrap().write(&[7; LARGE]));
            assert_eq!(first.await.unwrap(), 1);
            let mut rest = Vec::new();
            input.read_to_end(&mut rest).await.unwrap();
            writing.join().unwrap().unwrap();
            assert_eq!((bytes, rest), ([7], vec![7; LARGE - 1]));
        }
    }

    #[tokio::test]
    async fn endless_input_lets_other_work_run() {
        let mut input = InputStream::new(File::open("/dev/zero").unwrap()).unwrap();
        let mut bytes = [0; 1000];
        let other = tokio::spawn(async {});
        for _ in 0..100_000 {
            let _ = input.read(&mut bytes).await.unwrap();
            if other.is_finished() {
                return;
            }
        }
        panic!("nothing else has run");
    }

    #[tokio::test]
    async fn tells_which_writes_would_wait() {
        let (_reader, writer) = io::pipe().unwrap();
        let mut output = OutputStream::new(writer).unwrap();
        assert!(output.can_write_without_blocking(MAX_DIRECT_WRITE));
        assert!(!output.can_write_without_blocking(MAX_DIRECT_WRITE + 1));
        output.write(b"unread").unwrap();
        assert!(!output.can_write_without_blocking(1));
    }

    #[tokio::test]
    async fn reads_file_to_its_end() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"text").unwrap();
        rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(0)).unwrap();
        let mut input = InputStream::new(file).unwrap();
        let mut bytes = Vec::new();
        input.read_to_end(&mut bytes).await.unwrap();
        assert_eq!(bytes, b"text");
    }

    /// Checks that the hang-up is noticed when the other end is closed, and not before.
    async fn expect_hang_up(ours: impl AsFd, mut theirs: impl io::Read) {
        let mut output = OutputStream::new(&ours).unwrap();
        let mut hang_up = pin!(wait_for_hang_up(&ours));
        let mut is_open = async || {
            let waited = timeout(Duration::from_millis(20), hang_up.as_mut()).await;
            waited.is_err()
        };
        assert!(is_open().await);
        output.write(b"x").unwrap();
        assert!(is_open().await);
        theirs.read_exact(&mut [0]).unwrap();
        assert!(is_open().await);
        drop(theirs);
        hang_up.await.unwrap();
    }

    #[tokio::test]
    async fn notices_hang_up_of_pipe_and_socket() {
        let (reader, writer) = io::pipe().unwrap();
        expect_hang_up(writer, reader).await;
        let (ours, theirs) = UnixStream::pair().unwrap();
        expect_hang_up(ours, theirs).await;
    }

    #[tokio::test]
    async fn file_never_hangs_up() {
        let file = tempfile::tempfile().unwrap();
        let waited = timeout(Duration::from_millis(20), wait_for_hang_up(file)).await;
        assert!(waited.is_err());
    }
}
