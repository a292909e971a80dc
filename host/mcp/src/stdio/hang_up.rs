//! Notices that the client has closed the output before there is something to
//! write: the calls of a client that has ended can be stopped.

use std::io;
use std::os::fd::AsFd;
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;

/// Returns a token that is cancelled when the other end of this pipe or socket is
/// closed. A file never is. The thread that waits stays until the process ends.
pub(crate) fn hung_up(output: impl AsFd) -> io::Result<CancellationToken> {
    let output = output.as_fd().try_clone_to_owned()?;
    let hung_up = CancellationToken::new();
    let closed = hung_up.clone();
    thread::Builder::new()
        .name("skillhost-output".to_owned())
        .spawn(move || {
            loop {
                // Without requested events, the kernel reports errors and hang-ups.
                let mut waited = [PollFd::new(&output, PollFlags::empty())];
                match poll(&mut waited, None) {
                    Err(Errno::INTR) => {}
                    Ok(_) => return closed.cancel(),
                    Err(_) => return,
                }
            }
        })?;
    Ok(hung_up)
}
