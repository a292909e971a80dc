//! A pipe, socket, terminal or file of this process. It shares its non-blocking
//! flag with other processes. So this neither changes that flag nor relies on it,
//! and asks the kernel before it reads or writes.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionread;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::yield_now;

/// The most bytes that are written without a thread that may wait: an empty pipe
/// takes them, and so does a socket that takes anything.
const AT_ONCE: usize = 16 << 10;

/// A stream that is read.
pub(crate) enum InputStream {
    Polled(AsyncFd<File>),
    /// A stream that the kernel does not poll, such as a file. Reading it never waits.
    Ready(File),
}

/// A stream that is written.
pub(crate) struct OutputStream(File);

impl InputStream {
    /// Makes one of a stream that stays open. Needs a runtime with input and output.
    pub(crate) fn new(stream: impl AsFd) -> io::Result<Self> {
        let file = own(&stream)?;
        #[expect(
            deprecated,
            reason = "its replacement is unsafe, for types that may close their descriptor; a \
                      file does not"
        )]
        let polled = AsyncFd::try_with_interest(file, Interest::READABLE);
        match polled {
            Ok(polled) => Ok(Self::Polled(polled)),
            Err(error) => {
                let (file, error) = error.into_parts();
                match error.kind() {
                    io::ErrorKind::PermissionDenied => Ok(Self::Ready(file)),
                    _ => Err(error),
                }
            }
        }
    }

    /// Reads the bytes that are ready. If dropped before it returns, it has read nothing.
    pub(crate) async fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let polled = match self {
            Self::Ready(file) => {
                // Others of this task, such as the end of the server, have their turn.
                yield_now().await;
                return file.read(into);
            }
            Self::Polled(polled) => polled,
        };
        loop {
            let mut ready = polled.readable_mut().await?;
            if is_ready(ready.get_inner(), PollFlags::IN)? {
                match ready.get_inner_mut().read(into) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    read => return read,
                }
            }
            ready.clear_ready();
        }
    }
}

impl OutputStream {
    /// Makes one of a stream that stays open.
    pub(crate) fn new(stream: impl AsFd) -> io::Result<Self> {
        own(&stream).map(Self)
    }

    /// Returns whether so many bytes can be written without waiting.
    pub(crate) fn takes(&self, bytes: usize) -> bool {
        bytes <= AT_ONCE
            && is_ready(&self.0, PollFlags::OUT).unwrap_or(false)
            // The pipe may hold unread bytes, of this process or another.
            && ioctl_fionread(&self.0).is_ok_and(|unread| unread == 0)
    }

    /// Writes all bytes, and waits if it has to.
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

fn own(stream: &impl AsFd) -> io::Result<File> {
    Ok(stream.as_fd().try_clone_to_owned()?.into())
}

/// Returns whether a stream has one of these events, or has ended.
fn is_ready(stream: &File, wanted: PollFlags) -> io::Result<bool> {
    let at_once = Timespec::default();
    let ready = poll(&mut [PollFd::new(stream, wanted)], Some(&at_once))?;
    Ok(ready > 0)
}

#[cfg(test)]
mod tests {
    use std::io::{PipeReader, PipeWriter};
    use std::thread;
    use std::time::Duration;

    use rustix::fs::{OFlags, fcntl_setfl};

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
            let written = thread::spawn(move || {
                // The reader is there first and finds nothing.
                thread::sleep(Duration::from_millis(20));
                OutputStream::new(writer).unwrap().write(&[7; LARGE])
            });
            let mut input = InputStream::new(reader).unwrap();
            let (mut read, mut part) = (Vec::new(), [0; 1000]);
            while let bytes @ 1.. = input.read(&mut part).await.unwrap() {
                read.extend_from_slice(&part[..bytes]);
            }
            written.join().unwrap().unwrap();
            assert_eq!(read, [7; LARGE]);
        }
    }

    #[tokio::test]
    async fn gives_others_their_turn_at_input_without_end() {
        let mut input = InputStream::new(File::open("/dev/zero").unwrap()).unwrap();
        let mut part = [0; 1000];
        let endless = async {
            for _ in 0..100_000 {
                input.read(&mut part).await.unwrap();
            }
        };
        let ended = tokio::time::timeout(Duration::from_millis(1), endless).await;
        assert!(ended.is_err());
    }

    #[tokio::test]
    async fn says_which_writes_would_wait() {
        let (_reader, writer) = io::pipe().unwrap();
        let mut output = OutputStream::new(writer).unwrap();
        assert!(output.takes(AT_ONCE));
        assert!(!output.takes(AT_ONCE + 1));
        output.write(b"unread").unwrap();
        assert!(!output.takes(1));
    }

    #[tokio::test]
    async fn reads_a_file_to_its_end() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"text").unwrap();
        rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(0)).unwrap();
        let mut input = InputStream::new(file).unwrap();
        let mut part = [0; 10];
        assert_eq!(input.read(&mut part).await.unwrap(), 4);
        assert_eq!(input.read(&mut part).await.unwrap(), 0);
    }
}
