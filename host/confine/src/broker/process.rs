//! The broker process: checks each request against the policy, and carries out those that the
//! policy allows.
//!
//! The broker is confined too. It may read any file, because it opens files for the other process.
//! It may write only in the folders that hold the output folder, the audit log, the consent file
//! and the requests for packages, and remove files only in the folder of the Unix socket. It may
//! not use the network.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Component, Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::WatchFlags;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, StatxFlags};
use rustix::io::Errno;
use rustix::net::SendFlags;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::process::{PidfdFlags, getppid, pidfd_open};
use skillhost_helper::{Kind, OWN_PROGRAM, TORN_CONSENT, append_line};

use super::{
    AllowedPath, BrokerPolicy, EncodedPath, MAX_POLICY_BYTES, MAX_REQUEST_BYTES, Request, receive,
    send,
};
use crate::{ProcessSandbox, Profile, SocketFile, link_targets};

/// The maximum number of child processes that run at the same time. Guards against: a confined
/// process that starts more and more of them.
const MAX_CHILDREN: usize = 16;

/// The maximum number of lines of consent that the broker writes. Guards against: a confined
/// process that fills the disk, or records consent to a huge number of origins.
const MAX_CONSENTS: usize = 100;

/// The maximum number of requests for packages that the broker writes. Guards against: a confined
/// process that fills the disk.
const MAX_PACKAGE_REQUESTS: usize = 100;

/// The maximum size of a request for a package, in bytes.
const MAX_PACKAGE_REQUEST_BYTES: usize = 8 << 10;

/// The maximum length of a component's name in a line of consent, in bytes.
const MAX_CONSENT_NAME_BYTES: usize = 64;

/// The maximum time to send or receive one message. Guards against: a confined process that does
/// not read an answer, or sends only a part of a request.
const MAX_MESSAGE_TIME: Duration = Duration::from_secs(10);

/// The interval at which the broker checks whether a child process has ended.
const POLL_INTERVAL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 2_000_000,
};

/// The time that a child process gets beyond its limit, so that the process that requested the
/// child reports the timeout first.
const GRACE: Duration = Duration::from_secs(1);

/// The maximum number of symlinks that are followed in a path: the kernel's own limit.
const MAX_LINKS: usize = 40;

/// The flags with which each name of a path is opened.
const STEP: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The flags with which a folder is opened to create something in it.
const FOLDER: OFlags = STEP.union(OFlags::DIRECTORY);

/// The inotify events that a confined process may watch for.
const EVENTS: WatchFlags = WatchFlags::ALL_EVENTS.union(WatchFlags::ONLYDIR);

/// Runs the broker: answers requests on stdin until the other side closes its end.
///
/// # Errors
///
/// Fails if the broker cannot confine itself, or its socket fails.
pub fn run() -> anyhow::Result<()> {
    match ConfinedBroker::start()? {
        Some(broker) => broker.serve(),
        None => Ok(()),
    }
}

/// A broker that has read its policy and confined itself.
pub struct ConfinedBroker {
    process: BrokerProcess,
    socket: Option<SocketFile>,
    /// The process that started this one, or `None` if it has ended already.
    host: Option<OwnedFd>,
}

impl ConfinedBroker {
    /// Reads the policy from stdin, and confines this process. Returns `None` if the other side has
    /// closed its end.
    ///
    /// # Errors
    ///
    /// Fails if the policy cannot be read, or the broker cannot confine itself.
    pub fn start() -> anyhow::Result<Option<Self>> {
        let host = getppid().map(|host| pidfd_open(host, PidfdFlags::empty()));
        let host = host
            .transpose()
            .context("cannot watch the process that started the broker")?;
        for timeout in [Timeout::Recv, Timeout::Send] {
            set_socket_timeout(io::stdin(), timeout, Some(MAX_MESSAGE_TIME))?;
        }
        let (message, _) = receive(io::stdin().as_fd(), MAX_POLICY_BYTES)?;
        let Some(message) = message else {
            // The process that started the broker has failed, and reports that itself.
            return Ok(None);
        };
        let policy: BrokerPolicy =
            postcard::from_bytes(&message.bytes).context("cannot read the policy of the broker")?;
        let mut sandbox = ProcessSandbox::default();
        if let Some(EncodedPath(output)) = &policy.output {
            sandbox = sandbox.allow_create_files(parent(output));
        }
        if let Some(EncodedPath(log)) = &policy.log {
            sandbox = sandbox.allow_create_files(parent(log));
        }
        for EncodedPath(file) in policy.consent.iter().chain(&policy.package_request_file) {
            sandbox = sandbox.allow_create_files(parent(file));
        }
        let mut socket = None;
        if let Some(EncodedPath(path)) = &policy.socket {
            socket = SocketFile::open(path).ok();
            sandbox = sandbox.allow_remove_files(parent(path));
        }
        sandbox.apply(Profile::Broker)?;
        let process = BrokerProcess {
            policy,
            program: OWN_PROGRAM.as_ref(),
            children: Arc::default(),
            output: None,
            consents: 0,
            package_requests: 0,
            last_match: 0,
            link_targets: Vec::new(),
        };
        Ok(Some(Self {
            process,
            socket,
            host,
        }))
    }

    /// Answers requests on stdin until the other side closes its end.
    ///
    /// # Errors
    ///
    /// Fails if the socket fails.
    pub fn serve(mut self) -> anyhow::Result<()> {
        let host = self.host.as_ref().map(OwnedFd::as_fd);
        let served = self.process.serve(io::stdin().as_fd(), host);
        // The confined process, which listened on the Unix socket, has ended. Remove the socket's
        // file.
        drop(self.socket);
        Ok(served?)
    }
}

/// Returns the parent of a path, or `.` for a single name.
fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

/// Returns a path by which the file of a descriptor can be opened again.
fn descriptor_path(descriptor: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", descriptor.as_raw_fd())
}

/// Returns the path of an open file, without symlinks. If the descriptor is from another mount
/// namespace, this is the path in that namespace.
fn real_path(descriptor: BorrowedFd<'_>) -> io::Result<PathBuf> {
    let link = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
    let path = rustix::fs::readlink(link, Vec::new())?;
    Ok(OsString::from_vec(path.into_bytes()).into())
}

impl AllowedPath {
    /// Opens the path as it is now, without access to its content (`O_PATH`).
    ///
    /// Returns the handle and its path without symlinks. Returns `None` if the path cannot be
    /// opened or its target is not allowed.
    pub fn open(&self) -> Option<(OwnedFd, PathBuf)> {
        let handle = match &self.link_owners {
            Some(users) => open_path_with_owners(&self.path, users),
            None => open_path(&self.path),
        }?;
        let real = real_path(handle.as_fd()).ok()?;
        let is_inside = real.starts_with(&self.within);
        is_inside.then_some((handle, real))
    }
}

/// Opens a path from the policy as a handle without access to its content (`O_PATH`). Follows
/// symlinks.
fn open_path(path: &Path) -> Option<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).ok()
}

/// Opens a path like [`open_path`], but follows only symlinks that belong to these users.
fn open_path_with_owners(path: &Path, users: &[u32]) -> Option<OwnedFd> {
    let start = |path: &Path| open_path(Path::new(if path.is_absolute() { "/" } else { "." }));
    let steps = |path: &Path| -> Vec<OsString> {
        let steps = path.components().rev();
        steps
            .filter(|step| matches!(step, Component::Normal(_) | Component::ParentDir))
            .map(|step| step.as_os_str().to_owned())
            .collect()
    };
    let (mut folder, mut ahead) = (start(path)?, steps(path));
    let mut links = 0;
    while let Some(step) = ahead.pop() {
        let found = rustix::fs::openat(&folder, step, STEP, Mode::empty()).ok()?;
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let wanted = StatxFlags::TYPE | StatxFlags::UID;
        let status = rustix::fs::statx(&found, "", flags, wanted).ok()?;
        if FileType::from_raw_mode(status.stx_mode.into()) != FileType::Symlink {
            folder = found;
            continue;
        }
        links += 1;
        if links > MAX_LINKS || !users.contains(&status.stx_uid) {
            return None;
        }
        let target = rustix::fs::readlinkat(&found, "", Vec::new()).ok()?;
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        if target.is_absolute() {
            folder = start(&target)?;
        }
        ahead.extend(steps(&target));
    }
    Some(folder)
}

/// Opens a path below a folder, name by name. Follows no symlinks.
///
/// A single `openat2` would do the same, but the filter of system calls allows `openat2` only with
/// newer versions of Landlock.
fn open_below(folder: OwnedFd, below: &Path) -> io::Result<OwnedFd> {
    below
        .components()
        .try_fold(folder, |folder, step| match step {
            Component::Normal(name) => Ok(rustix::fs::openat(&folder, name, STEP, Mode::empty())?),
            _ => Err(Errno::ACCESS.into()),
        })
}

/// The attributes that identify a file.
#[derive(PartialEq, Eq)]
struct Identity {
    kind: FileType,
    device: (u32, u32),
    inode: u64,
    /// The number of the mount, or `None` if the kernel does not report it.
    mount: Option<u64>,
}

impl Identity {
    /// Returns the identity of an open file. Does not wait for the file's file system, which may be
    /// a hostile one that never answers.
    fn of(descriptor: BorrowedFd<'_>) -> io::Result<Self> {
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let wanted = StatxFlags::TYPE | StatxFlags::INO | StatxFlags::MNT_ID;
        let status = rustix::fs::statx(descriptor, "", flags, wanted)?;
        let has_mount = StatxFlags::from_bits_retain(status.stx_mask).contains(StatxFlags::MNT_ID);
        Ok(Self {
            kind: FileType::from_raw_mode(status.stx_mode.into()),
            device: (status.stx_dev_major, status.stx_dev_minor),
            inode: status.stx_ino,
            mount: has_mount.then_some(status.stx_mnt_id),
        })
    }
}

/// The answer to a request.
enum Answer {
    Done,
    Opened(OwnedFd),
    Number(i32),
}

/// The state of the broker process.
struct BrokerProcess {
    policy: BrokerPolicy,
    /// The program of child processes.
    program: &'static Path,
    /// The number of child processes that run.
    children: Arc<AtomicUsize>,
    /// The output folder, once it is created.
    output: Option<OwnedFd>,
    /// The number of lines of consent that were written.
    consents: usize,
    /// The number of requests for packages that were written.
    package_requests: usize,
    /// The index of the allowed path that held the last requested path.
    last_match: usize,
    /// The targets of symlinks in allowed folders, from the last search.
    link_targets: Vec<PathBuf>,
}

impl BrokerProcess {
    /// Answers requests until the other side closes its end, or the process `host` ends.
    ///
    /// Escaped code can keep the other end open even after its process has ended: it can send that
    /// socket in a message that is never received. So the broker also watches `host`.
    fn serve(&mut self, client: BorrowedFd<'_>, host: Option<BorrowedFd<'_>>) -> io::Result<()> {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof, WouldBlock};
        loop {
            let host = host.as_ref().unwrap_or(&client);
            let mut polled = [
                PollFd::new(&client, PollFlags::IN),
                PollFd::new(host, PollFlags::IN),
            ];
            rustix::io::retry_on_intr(|| poll(&mut polled, None))?;
            if polled[0].revents().is_empty() {
                return Ok(());
            }
            match self.serve_next(client) {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                // The client ended during a request, or does not read an answer in time.
                Err(error)
                    if matches!(
                        error.kind(),
                        BrokenPipe | ConnectionReset | UnexpectedEof | WouldBlock
                    ) =>
                {
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Answers one request. Returns `false` if the other side has closed its end.
    fn serve_next(&mut self, client: BorrowedFd<'_>) -> io::Result<bool> {
        let (message, descriptors) = receive(client, MAX_REQUEST_BYTES)?;
        let Some(message) = message else {
            return Ok(false);
        };
        let result = postcard::from_bytes(&message.bytes)
            .map_err(io::Error::other)
            .and_then(|request| self.answer(request, descriptors));
        let (kind, number, opened) = match result {
            Ok(Answer::Done) => (Kind::Answer, 0, None),
            Ok(Answer::Opened(opened)) => (Kind::Answer, 0, Some(opened)),
            Ok(Answer::Number(number)) => (Kind::Answer, number, None),
            Err(error) => {
                let code = error.raw_os_error().unwrap_or(Errno::INVAL.raw_os_error());
                (Kind::Failure, code, None)
            }
        };
        let opened = opened.as_ref().map(|opened| opened.as_fd());
        send(client, kind, &number.to_le_bytes(), opened.as_slice())?;
        Ok(true)
    }

    fn answer(&mut self, request: Request, descriptors: Vec<OwnedFd>) -> io::Result<Answer> {
        match request {
            Request::Open => {
                let [handle] = exact_descriptors(descriptors)?;
                self.open(handle.as_fd()).map(Answer::Opened)
            }
            Request::Watch { events } => {
                let [inotify, folder] = exact_descriptors(descriptors)?;
                self.watch(inotify.as_fd(), folder.as_fd(), events)
                    .map(Answer::Number)
            }
            Request::OpenLog => self.open_log().map(Answer::Opened),
            Request::AppendConsent { line } => self.append_consent(&line).map(|()| Answer::Done),
            Request::AppendPackageLine { line } => {
                self.append_package_request(&line).map(|()| Answer::Done)
            }
            Request::Start { environment } => self
                .start(
                    thread::Builder::new(),
                    environment,
                    exact_descriptors(descriptors)?,
                )
                .map(|()| Answer::Done),
            Request::CreateOutputFolder => self.create_output_folder().map(|()| Answer::Done),
            Request::CreateOutputFile { path } => self
                .create_output_file(Path::new(&path))
                .map(Answer::Opened),
        }
    }

    /// Opens a regular file or a folder for reading. Fails at once if another process holds a lease
    /// on the file.
    fn open(&mut self, handle: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        let reopened = self.reopen_allowed(handle)?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        Ok(rustix::fs::open(
            descriptor_path(&reopened),
            flags,
            Mode::empty(),
        )?)
    }

    /// Watches a folder. The confined process cannot do this itself: Landlock does not restrict
    /// watching, so the filter of system calls forbids watching any folder.
    fn watch(
        &mut self,
        inotify: BorrowedFd<'_>,
        handle: BorrowedFd<'_>,
        events: u32,
    ) -> io::Result<i32> {
        let reopened = self.reopen_allowed(handle)?;
        let events = WatchFlags::from_bits_retain(events) & EVENTS;
        Ok(rustix::fs::inotify::add_watch(
            inotify,
            descriptor_path(&reopened),
            events,
        )?)
    }

    /// Opens the regular file or folder of a descriptor again, as an `O_PATH` handle. Fails if the
    /// file is in no allowed folder.
    ///
    /// The broker uses the confined process's descriptor only to find the file's path. The
    /// descriptor may be from another mount namespace, where the path leads to another file. So the
    /// broker opens the path itself, and checks that this is the same file on the same mount.
    fn reopen_allowed(&mut self, handle: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        let path = real_path(handle)?;
        let found = self.allowed_folder_of(&path);
        let found = found.or_else(|| self.folder_of_blob(&path));
        let found = found.or_else(|| self.folder_of_skill(&path));
        let (folder, below) = found.ok_or(Errno::ACCESS)?;
        let reopened = open_below(folder, &below)?;
        let identity = Identity::of(reopened.as_fd())?;
        let is_ordinary = identity.kind.is_file() || identity.kind.is_dir();
        if !is_ordinary || identity != Identity::of(handle)? {
            return Err(Errno::ACCESS.into());
        }
        Ok(reopened)
    }

    /// Opens the audit log by its path. The confined process checks the log's owner.
    fn open_log(&self) -> io::Result<OwnedFd> {
        let EncodedPath(log) = self.policy.log.as_ref().ok_or(Errno::ACCESS)?;
        open_to_append(log)
    }

    /// Appends a line to the consent file. The confined process has no descriptor of the file, so
    /// it can neither change nor remove lines.
    fn append_consent(&mut self, line: &str) -> io::Result<()> {
        let EncodedPath(consent) = self.policy.consent.as_ref().ok_or(Errno::ACCESS)?;
        if !is_consent(line) {
            return Err(Errno::INVAL.into());
        }
        if self.consents >= MAX_CONSENTS {
            return Err(Errno::DQUOT.into());
        }
        self.consents += 1;
        let mut file = File::from(open_to_append(consent)?);
        append_line(&mut file, TORN_CONSENT, line)
    }

    /// Appends a line to the file of requests for packages, as [`Self::append_consent`] does.
    fn append_package_request(&mut self, line: &str) -> io::Result<()> {
        let EncodedPath(requests) = self
            .policy
            .package_request_file
            .as_ref()
            .ok_or(Errno::ACCESS)?;
        if !is_package_request(line) {
            return Err(Errno::INVAL.into());
        }
        if self.package_requests >= MAX_PACKAGE_REQUESTS {
            return Err(Errno::DQUOT.into());
        }
        self.package_requests += 1;
        let mut file = File::from(open_to_append(requests)?);
        append_line(&mut file, "", line)
    }

    /// Returns the allowed folder that contains `path`, and the rest of the path below this folder.
    /// For an allowed file, the rest is empty. `path` has no symlinks.
    fn allowed_folder_of(&mut self, path: &Path) -> Option<(OwnedFd, PathBuf)> {
        let rest = |real: &Path| path.strip_prefix(real).ok().map(Path::to_owned);
        let mut linked = Vec::new();
        let paths = &self.policy.paths;
        // Start at the last match: a client asks for many files of one folder, then of the next.
        let (before, after) = paths.split_at(self.last_match.min(paths.len()));
        // Keep only one folder open at a time, because there may be more folders than a process can
        // have open.
        for (index, folder) in after.iter().chain(before).enumerate() {
            let Some((handle, real)) = folder.open() else {
                continue;
            };
            if let Some(below) = rest(&real) {
                self.last_match = (before.len() + index) % paths.len();
                return Some((handle, below));
            }
            if folder.follows_links {
                linked.push((real, &folder.within));
            }
        }
        let has_path = |target: &PathBuf| path.starts_with(target);
        // A root may have thousands of symlinks, and a search visits all of them. So the search
        // runs only if no known target contains the path. A known target stays allowed after its
        // symlink is removed: the client could open it before anyway.
        if !self.link_targets.iter().any(has_path) {
            self.link_targets = linked
                .iter()
                .flat_map(|(folder, within)| {
                    let targets = link_targets(folder).into_iter();
                    targets.filter(move |target| target.starts_with(within))
                })
                .collect();
        }
        let target = self.link_targets.iter().find(|target| has_path(target))?;
        // The target may have been replaced by a symlink since the search.
        let handle = open_path(target)
            .filter(|handle| real_path(handle.as_fd()).is_ok_and(|real| real == *target))?;
        Some((handle, rest(target)?))
    }

    /// Returns the folder of files that are named by their SHA-256, and the file's name. Returns
    /// `None` if `path` is not the path of such a file.
    fn folder_of_blob(&self, path: &Path) -> Option<(OwnedFd, PathBuf)> {
        let (folder, real) = self.policy.blobs.as_ref()?.open()?;
        let name = path.strip_prefix(&real).ok()?;
        is_digest(name.as_os_str().as_bytes()).then(|| (folder, name.to_owned()))
    }

    /// Returns the folder of skills that are named by their SHA-256, and the rest of the path below
    /// this folder. Returns `None` if `path` is neither such a skill nor in one.
    fn folder_of_skill(&self, path: &Path) -> Option<(OwnedFd, PathBuf)> {
        let (folder, real) = self.policy.skills.as_ref()?.open()?;
        let below = path.strip_prefix(&real).ok()?;
        let skill = below.iter().next()?.as_bytes().strip_prefix(b"sha256-")?;
        let (digest, name) = skill.split_at_checked(64)?;
        (is_digest(digest) && name.starts_with(b"-")).then(|| (folder, below.to_owned()))
    }

    /// Starts a child process from a new thread, which supervises the process. If the thread ends,
    /// the kernel kills the process.
    fn start(
        &self,
        thread: thread::Builder,
        environment: Vec<(String, String)>,
        [stdin, stdout, stderr, control]: [OwnedFd; 4],
    ) -> io::Result<()> {
        let is_allowed = |name: &String| self.policy.child_variables.contains(name);
        if !environment.iter().all(|(name, _)| is_allowed(name)) {
            return Err(Errno::ACCESS.into());
        }
        // Sending the exit status to anything but a socket could block this process.
        if Identity::of(control.as_fd())?.kind != FileType::Socket {
            return Err(Errno::INVAL.into());
        }
        let slot = ChildSlot::acquire(&self.children).ok_or(Errno::AGAIN)?;
        let mut command = skillhost_helper::command(self.program);
        command
            .arg(&self.policy.child_task)
            .envs(environment)
            .stdin(Stdio::from(stdin))
            .stdout(Stdio::from(stdout))
            .stderr(Stdio::from(stderr));
        skillhost_helper::name_parent(&mut command);
        let deadline = Instant::now() + self.policy.child_time + GRACE;
        let (started, result) = std::sync::mpsc::channel();
        thread.spawn(move || {
            let _slot = slot;
            let spawned = command.spawn();
            // Close this process's copies of the child's streams.
            drop(command);
            match spawned {
                Ok(child) => {
                    let _ = started.send(Ok(()));
                    supervise(child, &control, deadline);
                }
                Err(error) => drop(started.send(Err(error))),
            }
        })?;
        result.recv().unwrap_or(Err(Errno::AGAIN.into()))
    }

    /// Creates and opens the output folder.
    fn create_output_folder(&mut self) -> io::Result<()> {
        let EncodedPath(folder) = self.policy.output.as_ref().ok_or(Errno::ACCESS)?;
        std::fs::DirBuilder::new().mode(0o777).create(folder)?;
        self.output = Some(rustix::fs::openat(CWD, folder, FOLDER, Mode::empty())?);
        Ok(())
    }

    /// Creates a file in the output folder, and the folders on the way to the file. Follows no
    /// symlink.
    fn create_output_file(&self, path: &Path) -> io::Result<OwnedFd> {
        let names: Option<Vec<_>> = path
            .components()
            .map(|part| match part {
                Component::Normal(name) => Some(name),
                _ => None,
            })
            .collect();
        let names = names.unwrap_or_default();
        let Some((file, parents)) = names.split_last() else {
            return Err(Errno::ACCESS.into());
        };
        let mut folder = self.output.as_ref().ok_or(Errno::ACCESS)?.try_clone()?;
        for name in parents {
            match rustix::fs::mkdirat(&folder, *name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            folder = rustix::fs::openat(&folder, *name, FOLDER, Mode::empty())?;
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o666);
        Ok(rustix::fs::openat(&folder, *file, flags, mode)?)
    }
}

/// Returns whether a name is a SHA-256 in hex.
fn is_digest(name: &[u8]) -> bool {
    let is_digit = |digit: &u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
    name.len() == 64 && name.iter().all(is_digit)
}

/// Opens a regular file for reading and appending by its path, which must not be a symlink. Creates
/// the file if it is missing.
fn open_to_append(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CLOEXEC | OFlags::NONBLOCK;
    loop {
        let opened = match rustix::fs::open(path, STEP, Mode::empty()) {
            // Opening a device can change its state.
            Ok(found) if !Identity::of(found.as_fd())?.kind.is_file() => Err(Errno::ACCESS),
            Ok(found) => rustix::fs::open(descriptor_path(&found), flags, Mode::empty()),
            Err(Errno::NOENT) => {
                let flags = flags | OFlags::CREATE | OFlags::EXCL;
                rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)
            }
            Err(error) => Err(error),
        };
        match opened {
            // Another process has created the file meanwhile: open that file.
            Err(Errno::EXIST) => {}
            opened => return Ok(opened?),
        }
    }
}

/// Returns whether a text is a line of consent as the host writes it: a SHA-256, an `https` origin,
/// and a name as a comment.
///
/// A single wrong line makes the host refuse the whole consent file. So this function accepts only
/// lines that the host accepts.
fn is_consent(line: &str) -> bool {
    let is_name = |name: &str| {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        name.len() <= MAX_CONSENT_NAME_BYTES && name.bytes().all(is_allowed)
    };
    let parts = || {
        let (digest, rest) = line.strip_suffix('\n')?.split_once(" https://")?;
        let (address, name) = rest.split_once(" # ")?;
        Some(is_digest(digest.as_bytes()) && is_host_and_port(address) && is_name(name))
    };
    parts().unwrap_or(false)
}

/// Returns whether a text is a host in lower case, with or without a port.
fn is_host_and_port(text: &str) -> bool {
    let is_port = |port: &str| {
        port.parse::<u16>()
            .is_ok_and(|it| it > 0 && it.to_string() == port)
    };
    if let Some((address, port)) = text.strip_prefix('[').and_then(|text| text.split_once(']')) {
        let port = port.strip_prefix(':');
        let is_whole = port.is_some() || text.ends_with(']');
        return is_whole && address.parse::<Ipv6Addr>().is_ok() && port.is_none_or(is_port);
    }
    let (host, port) = match text.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (text, None),
    };
    let is_allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
    let is_label = |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(is_allowed);
    let last = host.rsplit('.').next().unwrap_or_default();
    let is_number = last.bytes().all(|byte| byte.is_ascii_digit()) || last.starts_with("0x");
    let is_name = host.len() <= 253 && host.split('.').all(is_label) && !is_number;
    (is_name || host.parse::<Ipv4Addr>().is_ok()) && port.is_none_or(is_port)
}

/// Returns whether a text looks like a request for a package: one line of ASCII that begins and
/// ends like a JSON object of a request. Readers of the file check the rest.
fn is_package_request(line: &str) -> bool {
    // A line without its line break becomes `\n`, which fails the check below.
    let text = line.strip_suffix('\n').unwrap_or("\n");
    line.len() <= MAX_PACKAGE_REQUEST_BYTES
        && text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
        && text.starts_with("{\"request\":\"")
        && text.ends_with('}')
}

/// A child process's slot, one of [`MAX_CHILDREN`]. Dropping it releases the slot, even if the
/// process did not start.
struct ChildSlot(Arc<AtomicUsize>);

impl ChildSlot {
    /// Acquires a slot, or returns `None` if all are in use.
    fn acquire(in_use: &Arc<AtomicUsize>) -> Option<Self> {
        let before = in_use.fetch_add(1, Ordering::SeqCst);
        let slot = Self(Arc::clone(in_use));
        (before < MAX_CHILDREN).then_some(slot)
    }
}

impl Drop for ChildSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Returns the descriptors of a request as an array. Fails if there are more or fewer than `N`.
fn exact_descriptors<const N: usize>(descriptors: Vec<OwnedFd>) -> io::Result<[OwnedFd; N]> {
    descriptors
        .try_into()
        .map_err(|_| io::Error::from(Errno::INVAL))
}

/// Waits until a child process ends, and sends its exit status over the control socket. Kills the
/// child at the deadline, or when the other side closes the control socket.
fn supervise(mut child: Child, control: &OwnedFd, deadline: Instant) {
    loop {
        match child.try_wait() {
            Ok(None) => {}
            Ok(Some(status)) => {
                let status = status.into_raw().to_le_bytes();
                let _ =
                    rustix::net::send(control, &status, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
                return;
            }
            Err(_) => return,
        }
        let mut polled = [PollFd::new(control, PollFlags::empty())];
        let is_closed = poll(&mut polled, Some(&POLL_INTERVAL)).is_ok_and(|ready| ready > 0);
        if is_closed || Instant::now() >= deadline {
            let _ = child.kill();
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::Pid;

    use super::super::{ANSWER_BYTES, socket_pair};
    use super::*;

    fn broker() -> BrokerProcess {
        BrokerProcess {
            policy: BrokerPolicy::default(),
            program: Path::new("/bin/true"),
            children: Arc::default(),
            output: None,
            consents: 0,
            package_requests: 0,
            last_match: 0,
            link_targets: Vec::new(),
        }
    }

    #[test]
    fn search_for_allowed_folder_starts_at_last_match() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().canonicalize().unwrap().join(name);
        let mut broker = broker();
        for name in ["a", "b", "c"] {
            std::fs::create_dir(at(name)).unwrap();
            broker.policy.paths.push(AllowedPath {
                path: at(name),
                follows_links: false,
                link_owners: None,
                within: at(""),
            });
        }
        for (name, is_found, last_match) in [
            ("b/f", true, 1),
            ("b/g", true, 1),
            ("none", false, 1),
            ("c/f", true, 2),
            ("a/f", true, 0),
        ] {
            let found = broker.allowed_folder_of(&at(name));
            let below = found.map(|(_, below)| below);
            let expected = is_found.then(|| PathBuf::from(&name[2..]));
            assert_eq!((below, broker.last_match), (expected, last_match), "{name}");
        }
    }

    #[test]
    fn appends_limited_number_of_valid_consent_lines() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("consent");
        let mut broker = broker();
        let digest = "0123456789abcdef".repeat(4);
        let line = format!("{digest} https://example.org # a.wasm\n");
        broker.append_consent(&line).unwrap_err();
        broker.policy.consent = Some(EncodedPath(file.clone()));
        for wrong in [
            String::new(),
            "\n".to_owned(),
            line.trim_end().to_owned(),
            format!("\n{line}"),
            format!("{line}{line}"),
            line.replace("https", "http"),
            line.replace("example", "ex\u{e4}mple"),
            line[1..].to_owned(),
            format!("{}\n", line.trim_end().repeat(10)),
            line.to_uppercase(),
        ] {
            broker.append_consent(&wrong).unwrap_err();
        }
        let long = format!("{}.org", "a".repeat(64));
        for address in [
            "", "a b", "a/", "a/b", "a#b", "u@a.org", "a..b", ".a", "a.", "-.1", "a:", "a:0",
            "a:01", "a:65536", "a:1:2", "1.2.3", "0x7f", "a.1", "[::1", "::1", "[a]", "[::1]x",
            "[::1]:", "A.org", "a%2e", &long,
        ] {
            let wrong = line.replace("example.org", address);
            assert!(broker.append_consent(&wrong).is_err(), "{address}");
        }
        for name in ["a b", "a#b", "a/b", &"a".repeat(65)] {
            let wrong = line.replace("a.wasm", name);
            assert!(broker.append_consent(&wrong).is_err(), "{name}");
        }
        for address in [
            "a",
            "a-b.example:8443",
            "192.0.2.1",
            "[2001:db8::1]:65535",
            "x1.y2z",
            "a_b.7z",
        ] {
            assert!(
                is_consent(&line.replace("example.org", address)),
                "{address}"
            );
        }
        assert!(!file.exists());
        broker.append_consent(&line).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), line);
        let mode = std::os::unix::fs::MetadataExt::mode(&file.metadata().unwrap());
        assert_eq!(mode & 0o777, 0o600);
        for _ in 1..MAX_CONSENTS {
            broker.append_consent(&line).unwrap();
        }
        broker.append_consent(&line).unwrap_err();
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!(text, line.repeat(MAX_CONSENTS));
        // If the path is a symlink, nothing is written to its target.
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        broker.policy.consent = Some(EncodedPath(link));
        broker.consents = 0;
        broker.append_consent(&line).unwrap_err();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    }

    #[test]
    fn appends_limited_number_of_valid_package_requests() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("requests");
        let mut broker = broker();
        let line = "{\"request\":\"oci://registry.example/acme/csv:1\"}\n";
        broker.append_package_request(line).unwrap_err();
        broker.policy.package_request_file = Some(EncodedPath(file.clone()));
        for wrong in [
            String::new(),
            line.trim_end().to_owned(),
            format!("{line}{line}"),
            line.replace("csv", "cs\u{e4}"),
            line.replace("csv", "cs\u{1b}"),
            line.replace("request", "added"),
            line.replace('}', ""),
            line.replace("csv", &"x".repeat(MAX_PACKAGE_REQUEST_BYTES)),
        ] {
            broker.append_package_request(&wrong).unwrap_err();
        }
        assert!(!file.exists());
        for _ in 0..MAX_PACKAGE_REQUESTS {
            broker.append_package_request(line).unwrap();
        }
        broker.append_package_request(line).unwrap_err();
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!(text, line.repeat(MAX_PACKAGE_REQUESTS));
        let mode = std::os::unix::fs::MetadataExt::mode(&file.metadata().unwrap());
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn ends_torn_line_before_next_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        let mut broker = broker();
        broker.policy.consent = Some(EncodedPath(file.clone()));
        broker.policy.package_request_file = Some(EncodedPath(file.clone()));
        let consent = format!("{} https://a.org # a.wasm\n", "0123456789abcdef".repeat(4));
        for end in [1, 64, 74, consent.len() - 1] {
            std::fs::write(&file, &consent[..end]).unwrap();
            broker.append_consent(&consent).unwrap();
            let expected = format!("{} (torn)\n{consent}", &consent[..end]);
            assert_eq!(std::fs::read_to_string(&file).unwrap(), expected);
        }
        let request = "{\"request\":\"oci://registry.example/acme/csv:1\"}\n";
        std::fs::write(&file, &request[..20]).unwrap();
        broker.append_package_request(request).unwrap();
        let expected = format!("{}\n{request}", &request[..20]);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), expected);
    }

    #[test]
    fn opens_only_skills_named_by_digest() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let digest = "0123456789abcdef".repeat(4);
        let skill = format!("skills/sha256-{digest}-report");
        let inside = format!("{skill}/report/SKILL.md");
        let others = [
            format!("skills/sha256-{}-report/x", &digest[1..]),
            format!("skills/sha256-{}-report/x", digest.to_uppercase()),
            format!("skills/sha256-{digest}x/x"),
            format!("skills/{digest}-report/x"),
            "skills/x".to_owned(),
            "x".to_owned(),
        ];
        for name in [&inside].into_iter().chain(&others) {
            std::fs::create_dir_all(at(name).parent().unwrap()).unwrap();
            std::fs::write(at(name), "").unwrap();
        }
        std::os::unix::fs::symlink(at("x"), at(&format!("{skill}/link"))).unwrap();
        let mut broker = broker();
        let opens = |broker: &mut BrokerProcess, name: &str| {
            let handle = open_path(&at(name)).unwrap();
            broker.open(handle.as_fd()).is_ok()
        };
        assert!(!opens(&mut broker, &inside));
        broker.policy.skills = Some(AllowedPath {
            path: at("skills"),
            follows_links: false,
            link_owners: None,
            within: "/".into(),
        });
        for name in [&inside, &skill, &format!("{skill}/report")] {
            assert!(opens(&mut broker, name), "{name}");
        }
        assert!(!opens(&mut broker, "skills"));
        assert!(!opens(&mut broker, &format!("{skill}/link")));
        for name in &others {
            assert!(!opens(&mut broker, name), "{name}");
        }
    }

    #[test]
    fn opens_only_blobs_named_by_digest() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().canonicalize().unwrap().join(name);
        let (blob, other) = ("0123456789abcdef".repeat(4), "f".repeat(64));
        for name in [&*blob, "x", &other.to_uppercase(), &blob[1..]] {
            std::fs::write(at(name), name).unwrap();
        }
        std::os::unix::fs::symlink(at("x"), at(&other)).unwrap();
        std::fs::create_dir(at("sub")).unwrap();
        std::fs::write(at("sub").join(&blob), "").unwrap();
        let mut broker = broker();
        let opens = |broker: &mut BrokerProcess, name: &str| {
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let handle = rustix::fs::open(at(name), flags, Mode::empty()).unwrap();
            broker.open(handle.as_fd()).is_ok()
        };
        assert!(!opens(&mut broker, &blob));
        broker.policy.blobs = Some(AllowedPath {
            path: at(""),
            follows_links: false,
            link_owners: None,
            within: "/".into(),
        });
        assert!(opens(&mut broker, &blob));
        let in_folder = format!("sub/{blob}");
        for name in [
            "",
            "x",
            "sub",
            &in_folder,
            &blob[1..],
            &other,
            &other.to_uppercase(),
        ] {
            assert!(!opens(&mut broker, name), "{name}");
        }
    }

    #[test]
    fn broker_ends_when_its_host_ends() {
        let mut child = std::process::Command::new("/bin/true").spawn().unwrap();
        let host = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).unwrap();
        let (_client_end, broker_end) = socket_pair().unwrap();
        broker()
            .serve(broker_end.as_fd(), Some(host.as_fd()))
            .unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn ends_without_error_when_client_disconnects() {
        // The client disconnects before its request is answered, or with an unread answer.
        for is_answered in [false, true] {
            let (client_end, broker_end) = socket_pair().unwrap();
            let request = postcard::to_stdvec(&Request::OpenLog).unwrap();
            send(client_end.as_fd(), Kind::Request, &request, &[]).unwrap();
            if is_answered {
                receive(broker_end.as_fd(), MAX_REQUEST_BYTES).unwrap();
                send(broker_end.as_fd(), Kind::Answer, &[0; ANSWER_BYTES], &[]).unwrap();
            }
            drop(client_end);
            broker().serve(broker_end.as_fd(), None).unwrap();
        }
    }

    #[test]
    fn failed_starts_release_their_slots() {
        let broker = broker();
        let start = |thread| {
            let [stdin, stdout, stderr] =
                [(); 3].map(|()| std::fs::File::open("/dev/null").unwrap().into());
            let (control, _) = std::os::unix::net::UnixStream::pair().unwrap();
            broker.start(thread, Vec::new(), [stdin, stdout, stderr, control.into()])
        };
        for _ in 0..=MAX_CHILDREN {
            // No thread can get such a large stack.
            start(thread::Builder::new().stack_size(usize::MAX / 4)).unwrap_err();
        }
        start(thread::Builder::new()).unwrap();
    }
}
