//! Streams that whoever reads or writes them waits for.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, poll};

/// A stream of this process. Another process that has it too may have made it
/// one not to wait for; it is waited for all the same.
pub(crate) struct Waiting(File);

impl Waiting {
    pub(crate) fn new(stream: impl AsFd) -> io::Result<Self> {
        Ok(Self(stream.as_fd().try_clone_to_owned()?.into()))
    }

    fn when_ready<T>(
        &mut self,
        ready: PollFlags,
        mut attempt: impl FnMut(&mut File) -> io::Result<T>,
    ) -> io::Result<T> {
        loop {
            match attempt(&mut self.0) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    poll(&mut [PollFd::new(&self.0, ready)], None)?;
                }
                done => return done,
            }
        }
    }
}

impl Read for Waiting {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.when_ready(PollFlags::IN, |file| file.read(into))
    }
}

impl Write for Waiting {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.when_ready(PollFlags::OUT, |file| file.write(from))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{PipeReader, PipeWriter};
    use std::thread;
    use std::time::Duration;

    use rustix::fs::{OFlags, fcntl_setfl};

    use super::*;

    const LARGE: usize = 1 << 20;

    /// A pipe that is not waited for, in as many ways as it has ends.
    fn pipe() -> (PipeReader, PipeWriter) {
        let (reader, writer) = io::pipe().unwrap();
        fcntl_setfl(&reader, OFlags::NONBLOCK).unwrap();
        fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
        (reader, writer)
    }

    #[test]
    fn streams_made_not_to_be_waited_for_are_waited_for() {
        let (reader, writer) = pipe();
        let written = thread::spawn(move || {
            // The reader is there first and finds nothing.
            thread::sleep(Duration::from_millis(20));
            Waiting::new(writer).unwrap().write_all(&[7; LARGE])
        });
        let mut read = Vec::new();
        Waiting::new(reader)
            .unwrap()
            .read_to_end(&mut read)
            .unwrap();
        written.join().unwrap().unwrap();
        assert_eq!(read, [7; LARGE]);
    }
}
