//! Noticing that nobody reads the output any more, before there is something
//! to write: a client that is ended in the middle of a call has no use for it.

use std::io;
use std::os::fd::AsFd;
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;

/// Cancelled when the other end of this pipe or socket is closed. What is
/// neither, a file say, is never hung up. The thread that waits for it stays
/// until the process ends.
pub(crate) fn hung_up(output: impl AsFd) -> io::Result<CancellationToken> {
    let output = output.as_fd().try_clone_to_owned()?;
    let hung_up = CancellationToken::new();
    let told = hung_up.clone();
    thread::Builder::new()
        .name("skillhost-output".to_owned())
        .spawn(move || {
            loop {
                // Asked for nothing, the kernel tells of errors and hang-ups.
                let mut waited = [PollFd::new(&output, PollFlags::empty())];
                match poll(&mut waited, None) {
                    Err(Errno::INTR) => {}
                    Ok(_) => return told.cancel(),
                    Err(_) => return,
                }
            }
        })?;
    Ok(hung_up)
}
