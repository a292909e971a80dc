//! The broker: a process that starts before the process sandbox and stays outside it.
//!
//! The confined process asks the broker, over a pair of sockets, for what its sandbox cannot
//! allow: opening a folder that replaced a configured one, starting a compiling process, and
//! writing the new folder of `--output-dir`. The policy is fixed before the sandbox is applied,
//! and the broker checks each request against it. `process` is the broker's side.
//!
//! A request is one `SOCK_SEQPACKET` message: JSON, with descriptors beside it. The answer is
//! four bytes, little-endian: a number, or a negated error code. A descriptor may come with it.

mod process;

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use serde::{Deserialize, Serialize};

pub use process::run;

/// The argument that starts the program as a broker.
pub const ARGUMENT: &str = "--broker";

/// The maximum size of a message, just below what the kernel sends at once. Guards against: a
/// confined process that fills the broker's memory.
const MAX_MESSAGE: usize = 160 << 10;

/// The maximum number of descriptors in a message: three streams and a socket.
const MAX_DESCRIPTORS: usize = 4;

/// The requests that the broker grants. It is the first message to the broker.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct BrokerPolicy {
    /// The folders and files that the broker opens and watches.
    pub paths: Vec<AllowedPath>,
    /// The new folder that the broker creates and writes files into.
    pub output: Option<EncodedPath>,
    /// The audit log that the broker opens.
    pub log: Option<EncodedPath>,
    /// The Unix socket that the broker removes at the end.
    pub socket: Option<EncodedPath>,
    /// The task of child processes, which is their only argument.
    pub child_task: String,
    /// The environment variables that child processes may get.
    pub child_variables: Vec<String>,
    /// The maximum time that a child process may run.
    pub child_time: Duration,
}

/// A path that is serialized as bytes.
#[derive(Debug, Serialize, Deserialize)]
pub struct EncodedPath(#[serde(with = "bytes")] pub PathBuf);

/// A folder or file that the broker opens and watches.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AllowedPath {
    /// The path. It is resolved anew at each request.
    #[serde(with = "bytes")]
    pub path: PathBuf,
    /// True if the broker also opens what symlinks in the folder lead to.
    pub follows_links: bool,
    /// The depth down to which such symlinks are searched.
    pub depth: usize,
    /// The folder that the path must lead into, without symlinks. `/` allows any target.
    #[serde(with = "bytes")]
    pub within: PathBuf,
}

/// Serializes paths as bytes, because not all paths are UTF-8.
mod bytes {
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
    use std::path::{Path, PathBuf};

    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    pub(super) fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        path.as_os_str().as_bytes().serialize(to)
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<PathBuf, D::Error> {
        let bytes = Vec::<u8>::deserialize(from)?;
        Ok(OsString::from_vec(bytes).into())
    }
}

/// A request to the broker.
#[derive(Debug, Serialize, Deserialize)]
enum Request {
    /// Open the file of the `O_PATH` descriptor in the message.
    Open,
    /// Watch the folder of the second descriptor with the inotify descriptor, the first.
    Watch { events: u32 },
    /// Open or create the audit log.
    OpenLog,
    /// Start a child process. The descriptors are its three streams and its control socket.
    Start { environment: Vec<(String, String)> },
    /// Create the output folder.
    CreateOutputFolder,
    /// Create a file in the output folder.
    CreateOutputFile { path: String },
}

/// The confined process's connection to the broker.
#[derive(Debug)]
pub struct BrokerClient {
    socket: Mutex<OwnedFd>,
}

/// A child process that the broker started.
#[derive(Debug)]
pub struct BrokeredChild {
    /// The control socket. It receives the exit status. Closing it kills the process.
    control: Option<OwnedFd>,
}

impl BrokerClient {
    /// Starts the broker process. `program` must call [`run`] when its only argument is
    /// [`ARGUMENT`].
    ///
    /// # Errors
    ///
    /// Fails if the process cannot be started, or the policy is too large for one message.
    pub fn start(program: &Path, policy: &BrokerPolicy) -> anyhow::Result<Self> {
        let start = || -> anyhow::Result<OwnedFd> {
            let (own_end, broker_end) = rustix::net::socketpair(
                AddressFamily::UNIX,
                SocketType::SEQPACKET,
                SocketFlags::CLOEXEC,
                None,
            )?;
            skillhost_helper::command(program)
                .arg(ARGUMENT)
                .stdin(Stdio::from(broker_end))
                .stdout(Stdio::null())
                // Ctrl-C on a terminal must reach only the confined process.
                .process_group(0)
                .spawn()?;
            let message = serde_json::to_vec(policy)?;
            ensure!(
                message.len() <= MAX_MESSAGE,
                "the paths of {} folders are too long for one message",
                policy.paths.len()
            );
            send(own_end.as_fd(), &message, &[])?;
            Ok(own_end)
        };
        let socket =
            start().context("cannot start the broker process; `--confine off` runs without it")?;
        Ok(Self {
            socket: Mutex::new(socket),
        })
    }

    /// Opens a file or folder for reading, given an `O_PATH` descriptor of it.
    ///
    /// # Errors
    ///
    /// Fails if it is in no allowed folder or cannot be opened.
    pub fn open(&self, handle: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        self.request_file(&Request::Open, &[handle])
    }

    /// Watches a folder. Returns the number of the watch.
    ///
    /// # Errors
    ///
    /// Fails if it is in no allowed folder or cannot be watched.
    pub fn watch(
        &self,
        inotify: BorrowedFd<'_>,
        folder: BorrowedFd<'_>,
        events: u32,
    ) -> io::Result<i32> {
        self.request(&Request::Watch { events }, &[inotify, folder])
            .map(|(number, _)| number)
    }

    /// Opens the audit log for reading and appending, or creates it.
    ///
    /// # Errors
    ///
    /// Fails if the policy has no audit log, or it cannot be opened.
    pub fn open_log(&self) -> io::Result<OwnedFd> {
        self.request_file(&Request::OpenLog, &[])
    }

    /// Starts a child process with these streams as its stdin, stdout and stderr.
    ///
    /// # Errors
    ///
    /// Fails if the policy forbids a variable, too many processes run, or it cannot be started.
    pub fn start_child(
        &self,
        environment: Vec<(String, String)>,
        streams: [OwnedFd; 3],
    ) -> io::Result<BrokeredChild> {
        let (control, broker_end) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )?;
        let [stdin, stdout, stderr] = &streams;
        let descriptors = [
            stdin.as_fd(),
            stdout.as_fd(),
            stderr.as_fd(),
            broker_end.as_fd(),
        ];
        self.request(&Request::Start { environment }, &descriptors)?;
        Ok(BrokeredChild {
            control: Some(control),
        })
    }

    /// Creates the output folder.
    ///
    /// # Errors
    ///
    /// Fails if the policy has no output folder, or it cannot be created.
    pub fn create_output_folder(&self) -> io::Result<()> {
        self.request(&Request::CreateOutputFolder, &[]).map(drop)
    }

    /// Creates a file in the output folder, and opens it for writing.
    ///
    /// # Errors
    ///
    /// Fails if the path leads out of the folder, or the file cannot be created.
    pub fn create_output_file(&self, path: &str) -> io::Result<OwnedFd> {
        let path = path.to_owned();
        self.request_file(&Request::CreateOutputFile { path }, &[])
    }

    /// Sends a request whose answer has a descriptor, and returns that.
    fn request_file(
        &self,
        request: &Request,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<OwnedFd> {
        let (_, opened) = self.request(request, descriptors)?;
        opened.ok_or_else(|| Errno::BADMSG.into())
    }

    /// Sends a request, and returns the number and the descriptor of the answer.
    fn request(
        &self,
        request: &Request,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<(i32, Option<OwnedFd>)> {
        let message = serde_json::to_vec(request)?;
        let name_ended_broker = |error: io::Error| match Errno::from_io_error(&error) {
            Some(Errno::PIPE | Errno::CONNRESET) => broker_ended(),
            _ => error,
        };
        let socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        send(socket.as_fd(), &message, descriptors).map_err(name_ended_broker)?;
        let (answer, mut opened) = receive(socket.as_fd()).map_err(name_ended_broker)?;
        match <[u8; 4]>::try_from(&*answer).map(i32::from_le_bytes) {
            Ok(number @ 0..) => Ok((number, opened.pop())),
            Ok(code) => Err(io::Error::from_raw_os_error(-code)),
            Err(_) => Err(broker_ended()),
        }
    }
}

/// Returns the error of requests after the broker has ended.
fn broker_ended() -> io::Error {
    io::Error::other("the broker process has ended; restart skillhost")
}

impl BrokeredChild {
    /// Returns the exit status, or `None` while the process runs.
    ///
    /// # Errors
    ///
    /// Fails if the broker has ended.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        let Some(control) = &self.control else {
            return Ok(Some(ExitStatus::from_raw(libc::SIGKILL)));
        };
        let mut status = [0; 4];
        match rustix::net::recv(control, &mut status, RecvFlags::DONTWAIT) {
            Ok((_, 4)) => Ok(Some(ExitStatus::from_raw(i32::from_le_bytes(status)))),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Ok(_) => Err(broker_ended()),
            Err(error) => Err(error.into()),
        }
    }

    /// Kills the process.
    pub fn kill(&mut self) {
        self.control = None;
    }
}

/// Sends a message with descriptors.
fn send(socket: BorrowedFd<'_>, message: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Errno::INVAL.into());
    }
    rustix::io::retry_on_intr(|| {
        let message = [IoSlice::new(message)];
        rustix::net::sendmsg(socket, &message, &mut control, SendFlags::NOSIGNAL)
    })?;
    Ok(())
}

/// Receives a message and its descriptors. An empty message means that the other side has closed.
fn receive(socket: BorrowedFd<'_>) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let mut bytes = vec![0; MAX_MESSAGE];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = rustix::io::retry_on_intr(|| {
        let mut message = [IoSliceMut::new(&mut bytes)];
        rustix::net::recvmsg(socket, &mut message, &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    bytes.truncate(received.bytes);
    Ok((bytes, descriptors))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_broker_that_has_ended() {
        let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let (own_end, broker_end) =
            rustix::net::socketpair(AddressFamily::UNIX, kind, flags, None).unwrap();
        drop(broker_end);
        let socket = Mutex::new(own_end);
        let broker = BrokerClient { socket };
        let error = broker.open_log().unwrap_err().to_string();
        assert!(error.contains("the broker process has ended"), "{error}");
    }
}
