//! The broker: a process that starts before this one is confined. The broker has a process sandbox
//! of its own, which allows more.
//!
//! The confined process asks the broker, over a pair of sockets, to do what its own sandbox
//! forbids: open a folder that replaced a configured one, start a compiler process, or write the
//! new folder of `--output-dir`, for example. The policy is fixed before the sandbox is applied,
//! and the broker checks each request against the policy. `process` is the broker's side.
//!
//! The first message is the policy. Each later message is a request, which may carry descriptors.
//! An answer is four bytes in little-endian order: a number or an error code. It may carry a
//! descriptor.

mod process;

use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
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
use skillhost_helper::{Kind, Message, read_message, write_message};

pub use process::{ConfinedBroker, run};

/// The argument that starts the program as a broker.
pub const ARGUMENT: &str = "--broker";

/// The maximum size of the policy, in bytes: enough for about 4,000 paths of the maximum length.
const MAX_POLICY_BYTES: usize = 16 << 20;

/// The maximum size of a request, in bytes. Guards against: a confined process that fills the
/// broker's memory.
const MAX_REQUEST_BYTES: usize = 64 << 10;

/// The size of an answer, in bytes.
const ANSWER_BYTES: usize = size_of::<i32>();

/// The maximum number of descriptors in a message: three streams and a socket.
const MAX_DESCRIPTORS: usize = 4;

/// The policy of the broker: what it may open, start and write. This is the first message to the
/// broker.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct BrokerPolicy {
    /// The folders and files that the broker opens and watches.
    pub paths: Vec<AllowedPath>,
    /// A folder with files that are named by their SHA-256 in hex. The broker opens such a file for
    /// a client that knows the name, but does not let the client list the folder.
    pub blobs: Option<AllowedPath>,
    /// The parent of the folders of skills, which have names such as `sha256-HEX-NAME`. The broker
    /// opens these folders and everything in them, but does not let the client list the parent.
    pub skills: Option<AllowedPath>,
    /// The new folder that the broker creates and writes files into.
    pub output: Option<EncodedPath>,
    /// The audit log that the broker opens.
    pub log: Option<EncodedPath>,
    /// The consent file, to which the broker appends lines.
    pub consent: Option<EncodedPath>,
    /// The file of requests for packages, to which the broker appends lines.
    pub package_request_file: Option<EncodedPath>,
    /// The Unix socket. The broker removes its file when the confined process ends.
    pub socket: Option<EncodedPath>,
    /// The only command-line argument of child processes. It names their task.
    pub child_task: String,
    /// The environment variables that child processes may get.
    pub child_variables: Vec<String>,
    /// The maximum time that a child process may run.
    pub child_time: Duration,
}

/// A path that is encoded as bytes, because some paths are not UTF-8.
#[derive(Debug, Serialize, Deserialize)]
pub struct EncodedPath(#[serde(with = "bytes")] pub PathBuf);

/// A folder or file that the broker opens and watches.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AllowedPath {
    /// The path. Each request resolves it again.
    #[serde(with = "bytes")]
    pub path: PathBuf,
    /// True if the broker also opens the targets of symlinks that are directly in the folder.
    pub follows_links: bool,
    /// The broker follows only symlinks in the path that belong to these users. `None` allows the
    /// symlinks of all users.
    pub link_owners: Option<Vec<u32>>,
    /// The real path of a folder that must contain the target of `path`. `/` allows any target.
    #[serde(with = "bytes")]
    pub within: PathBuf,
}

/// Encodes paths as bytes.
mod bytes {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    use std::path::{Path, PathBuf};

    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(path.as_os_str().as_bytes())
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<PathBuf, D::Error> {
        let bytes = <&[u8]>::deserialize(from)?;
        Ok(OsStr::from_bytes(bytes).into())
    }
}

/// A request to the broker.
#[derive(Debug, Serialize, Deserialize)]
enum Request {
    /// Open the file of the `O_PATH` descriptor in the message.
    Open,
    /// Watch a folder for these inotify events. The descriptors are an inotify instance and the
    /// folder.
    Watch { events: u32 },
    /// Open or create the audit log.
    OpenLog,
    /// Append a line to the consent file.
    AppendConsent { line: String },
    /// Append a line to the file of requests for packages.
    AppendPackageLine { line: String },
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
    /// The control socket, over which the broker sends the exit status. Closing this socket kills
    /// the process.
    control: Option<OwnedFd>,
}

impl BrokerClient {
    /// Starts the broker process. `program` must call [`run`] when its only argument is
    /// [`ARGUMENT`].
    ///
    /// # Errors
    ///
    /// Fails if the process cannot be started, or the policy is too large.
    pub fn start(program: &Path, policy: &BrokerPolicy) -> anyhow::Result<Self> {
        let start = || -> anyhow::Result<OwnedFd> {
            let message = postcard::to_stdvec(policy)?;
            ensure!(
                message.len() <= MAX_POLICY_BYTES,
                "the paths of {} folders and files take {} bytes, but the maximum is {MAX_POLICY_BYTES}; \
                 configure fewer folders or shorter paths",
                policy.paths.len(),
                message.len()
            );
            let (own_end, broker_end) = socket_pair()?;
            skillhost_helper::command(program)
                .arg(ARGUMENT)
                .stdin(Stdio::from(broker_end))
                .stdout(Stdio::null())
                // Ctrl-C on a terminal must reach only the confined process.
                .process_group(0)
                .spawn()?;
            send(own_end.as_fd(), Kind::Request, &message, &[])?;
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
    /// Fails if the file is in no allowed folder or cannot be opened.
    pub fn open(&self, handle: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        self.request_file(&Request::Open, &[handle])
    }

    /// Adds a watch for a folder to an inotify instance. Returns the watch's descriptor, a number.
    ///
    /// # Errors
    ///
    /// Fails if the folder is in no allowed folder or cannot be watched.
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
    /// Fails if the policy has no audit log, or the log cannot be opened.
    pub fn open_log(&self) -> io::Result<OwnedFd> {
        self.request_file(&Request::OpenLog, &[])
    }

    /// Appends a line to the consent file.
    ///
    /// # Errors
    ///
    /// Fails if the policy has no consent file, the line does not record consent, the broker has
    /// already written too many lines, or the line cannot be written.
    pub fn append_consent(&self, line: &str) -> io::Result<()> {
        let line = line.to_owned();
        self.request(&Request::AppendConsent { line }, &[])
            .map(drop)
    }

    /// Appends a line to the file of requests for packages.
    ///
    /// # Errors
    ///
    /// Fails if the policy has no such file, the line is not a request, the broker has already
    /// written too many requests, or the line cannot be written.
    pub fn append_package_request(&self, line: &str) -> io::Result<()> {
        let line = line.to_owned();
        self.request(&Request::AppendPackageLine { line }, &[])?;
        Ok(())
    }

    /// Starts a child process with these streams as its stdin, stdout and stderr.
    ///
    /// # Errors
    ///
    /// Fails if the policy forbids an environment variable, too many child processes run, or the
    /// process cannot be started.
    pub fn start_child(
        &self,
        environment: Vec<(String, String)>,
        streams: [OwnedFd; 3],
    ) -> io::Result<BrokeredChild> {
        let (control, broker_end) = socket_pair()?;
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
    /// Fails if the policy has no output folder, or the folder cannot be created.
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

    /// Sends a request, and returns the descriptor of its answer.
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
        let message = postcard::to_stdvec(request).map_err(io::Error::other)?;
        if message.len() > MAX_REQUEST_BYTES {
            return Err(Errno::NAMETOOLONG.into());
        }
        let detect_broker_end = |error: io::Error| match error.kind() {
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof => {
                broker_ended()
            }
            _ => error,
        };
        let socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        send(socket.as_fd(), Kind::Request, &message, descriptors).map_err(detect_broker_end)?;
        let (answer, mut opened) =
            receive(socket.as_fd(), ANSWER_BYTES).map_err(detect_broker_end)?;
        let Message { kind, bytes } = answer.ok_or_else(broker_ended)?;
        let number = bytes.try_into().map_err(|_| ErrorKind::InvalidData)?;
        match (kind, i32::from_le_bytes(number)) {
            (Kind::Failure, code) => Err(io::Error::from_raw_os_error(code)),
            (_, number) => Ok((number, opened.pop())),
        }
    }
}

/// Returns the error for a request that is sent after the broker has ended.
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
        // `PEEK` leaves the status in the socket, for the next call.
        let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK;
        match rustix::net::recv(control, &mut status, flags) {
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

/// Creates a pair of connected sockets.
fn socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (kind, flags) = (SocketType::STREAM, SocketFlags::CLOEXEC);
    let pair = rustix::net::socketpair(AddressFamily::UNIX, kind, flags, None)?;
    Ok(pair)
}

/// Sends a message with descriptors.
fn send(
    socket: BorrowedFd<'_>,
    kind: Kind,
    message: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let to = SocketWriter {
        socket,
        descriptors,
    };
    write_message(to, kind, message)
}

/// Receives a message and its descriptors. Fails if the message is larger than `max_bytes`. The
/// message is `None` if the other side has closed its end.
fn receive(
    socket: BorrowedFd<'_>,
    max_bytes: usize,
) -> io::Result<(Option<Message>, Vec<OwnedFd>)> {
    let mut from = SocketReader {
        socket,
        descriptors: Vec::new(),
    };
    let message = read_message(&mut from, max_bytes)?;
    Ok((message, from.descriptors))
}

/// A writer to a socket. It sends the descriptors with the first bytes.
struct SocketWriter<'a> {
    socket: BorrowedFd<'a>,
    descriptors: &'a [BorrowedFd<'a>],
}

impl Write for SocketWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let rights = SendAncillaryMessage::ScmRights(self.descriptors);
        if !self.descriptors.is_empty() && !control.push(rights) {
            return Err(Errno::INVAL.into());
        }
        let bytes = [IoSlice::new(bytes)];
        let sent = rustix::net::sendmsg(self.socket, &bytes, &mut control, SendFlags::NOSIGNAL)?;
        self.descriptors = &[];
        Ok(sent)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A reader of a socket. It collects the descriptors that arrive with the bytes.
struct SocketReader<'a> {
    socket: BorrowedFd<'a>,
    descriptors: Vec<OwnedFd>,
}

impl Read for SocketReader<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut bytes = [IoSliceMut::new(bytes)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let received = rustix::net::recvmsg(self.socket, &mut bytes, &mut control, flags)?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                self.descriptors.extend(rights);
            }
        }
        // Keep one more than the maximum, so that the caller sees that there were too many.
        self.descriptors.truncate(MAX_DESCRIPTORS + 1);
        Ok(received.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_after_end_of_broker_says_that_broker_has_ended() {
        let (own_end, broker_end) = socket_pair().unwrap();
        drop(broker_end);
        let socket = Mutex::new(own_end);
        let broker = BrokerClient { socket };
        let error = broker.open_log().unwrap_err().to_string();
        assert!(error.contains("the broker process has ended"), "{error}");
    }
}
