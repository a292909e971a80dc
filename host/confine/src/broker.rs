//! The broker: a process that starts before the wall and stays outside. The confined
//! process asks it, over a pair of sockets, for what the wall cannot allow: a folder that
//! came into a configured folder's place, a compiling process, and the new folder of
//! `--output-dir`. It takes nothing on trust: what may be asked for is settled before the
//! wall. `process` has its own side.

mod process;

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
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

/// The longest message. Guards against: a confined process that fills the broker's memory.
/// The kernel takes a little more at once.
const MAX_MESSAGE: usize = 160 << 10;

/// Most descriptors of a message: three streams and a socket.
const MAX_DESCRIPTORS: usize = 4;

/// What the confined process may ask for.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Allowed {
    /// The folders and files to open in, by whatever their paths lead to at that time.
    pub folders: Vec<AllowedFolder>,
    /// The new folder to write files into.
    pub output: Option<OutputFolder>,
    /// The audit log.
    pub log: Option<LogPath>,
    /// The Unix socket that is removed at the end.
    pub socket: Option<SocketPath>,
    /// The task of child processes: the program's only argument.
    pub task: String,
    /// The names of the variables that their environment may have.
    pub variables: Vec<String>,
    /// The longest time that one may run.
    pub time: Duration,
}

/// The new folder of a call's files.
#[derive(Debug, Serialize, Deserialize)]
pub struct OutputFolder(#[serde(with = "bytes")] pub PathBuf);

/// The path of an audit log.
#[derive(Debug, Serialize, Deserialize)]
pub struct LogPath(#[serde(with = "bytes")] pub PathBuf);

/// The path of a Unix socket.
#[derive(Debug, Serialize, Deserialize)]
pub struct SocketPath(#[serde(with = "bytes")] pub PathBuf);

/// A folder, or a file, that the broker opens in.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AllowedFolder {
    /// Its path.
    #[serde(with = "bytes")]
    pub path: PathBuf,
    /// True if symlinks in it may lead elsewhere.
    pub follows_links: bool,
    /// The number of folders that such a symlink may lie below it.
    pub depth: usize,
    /// A folder, by its path without symlinks, that the path must lead into; `/` if it may
    /// lead anywhere.
    #[serde(with = "bytes")]
    pub within: PathBuf,
}

/// Paths as bytes: not each is UTF-8.
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
    /// To open what the descriptor beside it leads to.
    Open,
    /// To watch the folder of the second descriptor with the first.
    Watch { events: u32 },
    /// To open the audit log, or to make it.
    OpenLog,
    /// To start a child process, with the streams and the socket beside it.
    Start { environment: Vec<(String, String)> },
    /// To make the output folder.
    MakeOutput,
    /// To make a new file in it.
    CreateOutput { path: String },
}

/// The confined process's side of the broker.
#[derive(Debug)]
pub struct Broker {
    socket: Mutex<OwnedFd>,
}

/// A child process that the broker has started.
#[derive(Debug)]
pub struct BrokeredChild {
    /// Has the exit status once the process has ended. Closing it ends the process.
    control: Option<OwnedFd>,
}

impl Broker {
    /// Starts the broker. `program` is one that calls [`run`] when its only argument is
    /// [`ARGUMENT`].
    ///
    /// # Errors
    ///
    /// If it cannot be started.
    pub fn start(program: &Path, allowed: &Allowed) -> anyhow::Result<Self> {
        let start = || -> anyhow::Result<OwnedFd> {
            let (ours, its) = rustix::net::socketpair(
                AddressFamily::UNIX,
                SocketType::SEQPACKET,
                SocketFlags::CLOEXEC,
                None,
            )?;
            Command::new(program)
                .arg(ARGUMENT)
                .env_clear()
                .stdin(Stdio::from(its))
                .stdout(Stdio::null())
                // A terminal's Ctrl-C is for the process that it serves.
                .process_group(0)
                .spawn()?;
            let message = serde_json::to_vec(allowed)?;
            ensure!(
                message.len() <= MAX_MESSAGE,
                "the paths of {} folders are too long for one message",
                allowed.folders.len()
            );
            send(ours.as_fd(), &message, &[])?;
            Ok(ours)
        };
        let socket = start().context(
            "cannot start the process outside of the wall; `--confine off` does without it",
        )?;
        Ok(Self {
            socket: Mutex::new(socket),
        })
    }

    /// Opens a file or folder for reading by an `O_PATH` descriptor of it, if it lies in
    /// a folder that is allowed.
    ///
    /// # Errors
    ///
    /// If it does not, or the system refuses.
    pub fn open(&self, handle: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        self.ask(&Request::Open, &[handle])?
            .ok_or_else(|| Errno::BADMSG.into())
    }

    /// Watches a folder, if it lies in a folder that is allowed. Returns the number of the
    /// watch.
    ///
    /// # Errors
    ///
    /// If it does not, or the system refuses.
    pub fn watch(
        &self,
        inotify: BorrowedFd<'_>,
        folder: BorrowedFd<'_>,
        events: u32,
    ) -> io::Result<i32> {
        self.ask_number(&Request::Watch { events }, &[inotify, folder])
            .map(|(number, _)| number)
    }

    /// Opens the audit log to read and append, or makes it.
    ///
    /// # Errors
    ///
    /// If there is none to open, or the system refuses.
    pub fn open_log(&self) -> io::Result<OwnedFd> {
        self.ask(&Request::OpenLog, &[])?
            .ok_or_else(|| Errno::BADMSG.into())
    }

    /// Starts a child process on these streams: its stdin, stdout and stderr.
    ///
    /// # Errors
    ///
    /// If the environment is not allowed, too many run, or the system refuses.
    pub fn start_child(
        &self,
        environment: Vec<(String, String)>,
        streams: [OwnedFd; 3],
    ) -> io::Result<BrokeredChild> {
        let (ours, its) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )?;
        let [input, output, errors] = &streams;
        let descriptors = [input.as_fd(), output.as_fd(), errors.as_fd(), its.as_fd()];
        self.ask(&Request::Start { environment }, &descriptors)?;
        Ok(BrokeredChild {
            control: Some(ours),
        })
    }

    /// Makes the output folder.
    ///
    /// # Errors
    ///
    /// If there is none to make, or the system refuses.
    pub fn make_output(&self) -> io::Result<()> {
        self.ask(&Request::MakeOutput, &[]).map(drop)
    }

    /// Makes a new file in the output folder, and opens it for writing.
    ///
    /// # Errors
    ///
    /// If the path leads out, or the system refuses.
    pub fn create_output(&self, path: &str) -> io::Result<OwnedFd> {
        let path = path.to_owned();
        self.ask(&Request::CreateOutput { path }, &[])?
            .ok_or_else(|| Errno::BADMSG.into())
    }

    fn ask(
        &self,
        request: &Request,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<Option<OwnedFd>> {
        self.ask_number(request, descriptors)
            .map(|(_, opened)| opened)
    }

    /// Asks for something, and returns the answer: a number, and what was opened.
    fn ask_number(
        &self,
        request: &Request,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<(i32, Option<OwnedFd>)> {
        let message = serde_json::to_vec(request)?;
        let ended = |error: io::Error| match Errno::from_io_error(&error) {
            Some(Errno::PIPE | Errno::CONNRESET) => has_ended(),
            _ => error,
        };
        let socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        send(socket.as_fd(), &message, descriptors).map_err(ended)?;
        let (answer, mut opened) = receive(socket.as_fd()).map_err(ended)?;
        match <[u8; 4]>::try_from(&*answer).map(i32::from_le_bytes) {
            Ok(number @ 0..) => Ok((number, opened.pop())),
            Ok(code) => Err(io::Error::from_raw_os_error(-code)),
            Err(_) => Err(has_ended()),
        }
    }
}

/// Returns the error for requests after the broker has ended.
fn has_ended() -> io::Error {
    io::Error::other("the broker process has ended; restart skillhost")
}

impl BrokeredChild {
    /// Returns the exit status, if the process has ended.
    ///
    /// # Errors
    ///
    /// If the broker has ended, or the process was ended by [`Self::kill`].
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        let Some(control) = &self.control else {
            return Ok(Some(ExitStatus::from_raw(libc::SIGKILL)));
        };
        let mut status = [0; 4];
        match rustix::net::recv(control, &mut status, RecvFlags::DONTWAIT) {
            Ok((_, 4)) => Ok(Some(ExitStatus::from_raw(i32::from_le_bytes(status)))),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Ok(_) => Err(has_ended()),
            Err(error) => Err(error.into()),
        }
    }

    /// Ends the process.
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

/// Receives a message and its descriptors. An empty one is the end.
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
        let (ours, its) = rustix::net::socketpair(AddressFamily::UNIX, kind, flags, None).unwrap();
        drop(its);
        let socket = Mutex::new(ours);
        let broker = Broker { socket };
        let error = broker.open_log().unwrap_err().to_string();
        assert!(error.contains("the broker process has ended"), "{error}");
    }
}
