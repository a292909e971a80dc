//! The broker's own side: checks each request, and does what it asks for. It is confined
//! too, as far as one can be that opens and starts: it writes in and below the folders that
//! the output folder and the audit log lie in, removes files in that of the Unix socket, and
//! reaches no network.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Component, Path, PathBuf};
use std::process::{Child, Command, Stdio};
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

use super::{Allowed, AllowedFolder, LogPath, OutputFolder, Request, SocketPath, receive, send};
use crate::{Profile, SocketFile, Wall, link_targets};

/// Most child processes at a time. Guards against: a confined process that starts them
/// without end.
const MAX_CHILDREN: usize = 16;

/// The time between looks whether a child has ended.
const PATIENCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 2_000_000,
};

/// The time that a child has beyond its own: the process that asked says so first.
const GRACE: Duration = Duration::from_secs(1);

/// The flags with which each step of a path is opened.
const STEP: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// How a folder is opened to make something in it.
const FOLDER: OFlags = STEP.union(OFlags::DIRECTORY);

/// The events that may be watched for.
const EVENTS: WatchFlags = WatchFlags::ALL_EVENTS.union(WatchFlags::ONLYDIR);

/// Runs the broker: answers requests on stdin until the other side is closed.
/// `is_skill_md` tells the names of files that make their folder a skill.
///
/// # Errors
///
/// If it cannot be set up.
pub fn run(is_skill_md: fn(&OsStr) -> bool) -> anyhow::Result<()> {
    let stdin = io::stdin();
    let (message, _) = receive(stdin.as_fd())?;
    if message.is_empty() {
        // Whoever started it has failed, and says so itself.
        return Ok(());
    }
    let allowed: Allowed = serde_json::from_slice(&message).context("cannot begin")?;
    let program = std::env::current_exe()?;
    let mut wall = Wall::default();
    if let Some(OutputFolder(output)) = &allowed.output {
        wall = wall.make_files(parent(output));
    }
    if let Some(LogPath(log)) = &allowed.log {
        wall = wall.make_files(parent(log));
    }
    let mut socket = None;
    if let Some(SocketPath(path)) = &allowed.socket {
        socket = SocketFile::at(path).ok();
        wall = wall.remove_files(parent(path));
    }
    wall.raise(Profile::Broker)?;
    let mut office = Office {
        allowed,
        program,
        children: Arc::default(),
        output: None,
        linked: Vec::new(),
        is_skill_md,
    };
    let served = office.serve(stdin.as_fd());
    // Whoever asked is gone, by whatever end.
    drop(socket);
    Ok(served?)
}

/// Returns the folder that a path's last name lies in.
fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

/// Returns a path that leads to what this process has open.
fn link_to(own: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", own.as_raw_fd())
}

/// Returns the path of what is open, without symlinks. For a descriptor of another mount
/// namespace, it is the path there.
fn path_of(open: BorrowedFd<'_>) -> io::Result<PathBuf> {
    let path = rustix::fs::readlink(format!("/proc/self/fd/{}", open.as_raw_fd()), Vec::new())?;
    Ok(OsString::from_vec(path.into_bytes()).into())
}

/// Opens a path of the operator's, through whatever links it has.
fn open_place(path: &Path) -> Option<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).ok()
}

/// Opens what lies below a folder, step by step, and follows no link. `openat2` would do so at
/// once, and is not allowed with each version of Landlock.
fn open_below(place: OwnedFd, below: &Path) -> io::Result<OwnedFd> {
    below
        .components()
        .try_fold(place, |place, step| match step {
            Component::Normal(name) => Ok(rustix::fs::openat(&place, name, STEP, Mode::empty())?),
            _ => Err(Errno::ACCESS.into()),
        })
}

/// The attributes that identify a file.
#[derive(PartialEq, Eq)]
struct Identity {
    kind: FileType,
    device: (u32, u32),
    inode: u64,
    /// The number of the mount, if the kernel tells it.
    mount: Option<u64>,
}

impl Identity {
    /// Returns that of an open file. Waits for no file system: a hostile one may be beneath it.
    fn of(open: BorrowedFd<'_>) -> io::Result<Self> {
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let wanted = StatxFlags::TYPE | StatxFlags::INO | StatxFlags::MNT_ID;
        let found = rustix::fs::statx(open, "", flags, wanted)?;
        let has_mount = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::MNT_ID);
        Ok(Self {
            kind: FileType::from_raw_mode(found.stx_mode.into()),
            device: (found.stx_dev_major, found.stx_dev_minor),
            inode: found.stx_ino,
            mount: has_mount.then_some(found.stx_mnt_id),
        })
    }
}

/// What a request led to.
enum Answer {
    Done,
    Opened(OwnedFd),
    Number(i32),
}

/// The state of the broker.
struct Office {
    allowed: Allowed,
    program: PathBuf,
    children: Arc<AtomicUsize>,
    output: Option<OwnedFd>,
    /// The folders that links in allowed folders led to when they were last looked at.
    linked: Vec<PathBuf>,
    is_skill_md: fn(&OsStr) -> bool,
}

impl Office {
    /// Answers requests until the other side is closed.
    fn serve(&mut self, asker: BorrowedFd<'_>) -> io::Result<()> {
        use io::ErrorKind::{BrokenPipe, ConnectionReset};
        loop {
            match self.serve_next(asker) {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                // It ended with a request in flight, or did not read the last answer.
                Err(error) if matches!(error.kind(), BrokenPipe | ConnectionReset) => {
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Answers a request. Returns false if the other side is closed.
    fn serve_next(&mut self, asker: BorrowedFd<'_>) -> io::Result<bool> {
        let (message, descriptors) = receive(asker)?;
        if message.is_empty() {
            return Ok(false);
        }
        let answered = serde_json::from_slice(&message)
            .map_err(io::Error::from)
            .and_then(|request| self.answer(request, descriptors));
        let (number, opened) = match answered {
            Ok(Answer::Done) => (0, None),
            Ok(Answer::Opened(opened)) => (0, Some(opened)),
            Ok(Answer::Number(number)) => (number, None),
            Err(error) => {
                let code = error.raw_os_error().unwrap_or(Errno::INVAL.raw_os_error());
                (-code, None)
            }
        };
        let opened = opened.as_ref().map(|opened| opened.as_fd());
        send(asker, &number.to_le_bytes(), opened.as_slice())?;
        Ok(true)
    }

    fn answer(&mut self, request: Request, descriptors: Vec<OwnedFd>) -> io::Result<Answer> {
        match request {
            Request::Open => {
                let [handle] = take(descriptors)?;
                self.open(handle.as_fd()).map(Answer::Opened)
            }
            Request::Watch { events } => {
                let [inotify, folder] = take(descriptors)?;
                self.watch(inotify.as_fd(), folder.as_fd(), events)
                    .map(Answer::Number)
            }
            Request::OpenLog => self.open_log().map(Answer::Opened),
            Request::Start { environment } => self
                .start(thread::Builder::new(), environment, take(descriptors)?)
                .map(|()| Answer::Done),
            Request::MakeOutput => self.make_output().map(|()| Answer::Done),
            Request::CreateOutput { path } => {
                self.create_output(Path::new(&path)).map(Answer::Opened)
            }
        }
    }

    /// Opens a regular file or a folder anew, for reading. Waits for nobody who holds a lease
    /// of it.
    fn open(&mut self, asked: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        let own = self.own_handle(asked)?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        Ok(rustix::fs::open(link_to(&own), flags, Mode::empty())?)
    }

    /// Watches a folder. Landlock does not keep a process from watching any folder that its
    /// user may read.
    fn watch(
        &mut self,
        inotify: BorrowedFd<'_>,
        asked: BorrowedFd<'_>,
        events: u32,
    ) -> io::Result<i32> {
        let own = self.own_handle(asked)?;
        let events = WatchFlags::from_bits_retain(events) & EVENTS;
        Ok(rustix::fs::inotify::add_watch(
            inotify,
            link_to(&own),
            events,
        )?)
    }

    /// Opens, without rights, the regular file or folder that a descriptor leads to, if it lies
    /// in a folder that is allowed.
    ///
    /// The descriptor is the confined process's word for a path: it may come from another mount
    /// namespace, where another file has that path. The path is walked here, and what it leads
    /// to must be the same file of the same mount.
    fn own_handle(&mut self, asked: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        let path = path_of(asked)?;
        let (place, below) = self.place_of(&path).ok_or(Errno::ACCESS)?;
        let own = open_below(place, &below)?;
        let found = Identity::of(own.as_fd())?;
        let is_ordinary = found.kind.is_file() || found.kind.is_dir();
        match is_ordinary && found == Identity::of(asked)? {
            true => Ok(own),
            false => Err(Errno::ACCESS.into()),
        }
    }

    /// Opens the audit log by its name. Whoever asked checks whose it is.
    fn open_log(&self) -> io::Result<OwnedFd> {
        let LogPath(log) = self.allowed.log.as_ref().ok_or(Errno::ACCESS)?;
        let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE | OFlags::CLOEXEC;
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        Ok(rustix::fs::open(log, flags, Mode::RUSR | Mode::WUSR)?)
    }

    /// Returns the folder or file that is allowed now and has this path, which has no symlinks,
    /// or has it below; and the rest of the path.
    fn place_of(&mut self, path: &Path) -> Option<(OwnedFd, PathBuf)> {
        let folders = self.allowed.folders.iter();
        let folders: Vec<_> = folders
            .filter_map(|folder| {
                let place = open_place(&folder.path)?;
                let real = path_of(place.as_fd()).ok()?;
                let stays = real.starts_with(&folder.within);
                stays.then_some((folder, real, place))
            })
            .collect();
        let rest = |real: &Path| path.strip_prefix(real).ok().map(Path::to_owned);
        let is_linked = |linked: &[PathBuf]| linked.iter().any(|real| path.starts_with(real));
        // A root may have thousands of links, and all are looked at. A link that has gone
        // meanwhile opens nothing that it did not lead to before.
        if !folders.iter().any(|(_, real, _)| path.starts_with(real)) && !is_linked(&self.linked) {
            let with_links = folders.iter().filter(|(folder, ..)| folder.follows_links);
            let targets = |(folder, real, _): &(&AllowedFolder, PathBuf, OwnedFd)| {
                link_targets(real, folder.depth, self.is_skill_md)
            };
            self.linked = with_links.flat_map(targets).collect();
        }
        let mut configured = folders.into_iter();
        let configured = configured.find_map(|(_, real, place)| Some((place, rest(&real)?)));
        configured.or_else(|| {
            let real = self.linked.iter().find(|real| path.starts_with(real))?;
            // The path may lead elsewhere by now.
            let place =
                open_place(real).filter(|it| path_of(it.as_fd()).is_ok_and(|at| at == *real));
            Some((place?, rest(real)?))
        })
    }

    fn start(
        &self,
        thread: thread::Builder,
        environment: Vec<(String, String)>,
        [input, output, errors, control]: [OwnedFd; 4],
    ) -> io::Result<()> {
        let is_known = |name: &String| self.allowed.variables.contains(name);
        if !environment.iter().all(|(name, _)| is_known(name)) {
            return Err(Errno::ACCESS.into());
        }
        // Whatever else it is could make this process wait.
        if Identity::of(control.as_fd())?.kind != FileType::Socket {
            return Err(Errno::INVAL.into());
        }
        let place = Place::take(&self.children).ok_or(Errno::AGAIN)?;
        let mut command = Command::new(&self.program);
        command
            .arg(&self.allowed.task)
            .env_clear()
            .envs(environment)
            .stdin(Stdio::from(input))
            .stdout(Stdio::from(output))
            .stderr(Stdio::from(errors));
        let until = Instant::now() + self.allowed.time + GRACE;
        let (started, result) = std::sync::mpsc::channel();
        // The child ends with the thread that starts it.
        thread.spawn(move || {
            let _place = place;
            let spawned = command.spawn();
            // The child alone has its streams now.
            drop(command);
            match spawned {
                Ok(child) => {
                    let _ = started.send(Ok(()));
                    watch(child, &control, until);
                }
                Err(error) => drop(started.send(Err(error))),
            }
        })?;
        result.recv().unwrap_or(Err(Errno::AGAIN.into()))
    }

    fn make_output(&mut self) -> io::Result<()> {
        let OutputFolder(folder) = self.allowed.output.as_ref().ok_or(Errno::ACCESS)?;
        std::fs::DirBuilder::new().mode(0o777).create(folder)?;
        self.output = Some(rustix::fs::openat(CWD, folder, FOLDER, Mode::empty())?);
        Ok(())
    }

    /// Makes a new file in the output folder, and the folders above it. Follows no link.
    fn create_output(&self, path: &Path) -> io::Result<OwnedFd> {
        let names: Option<Vec<_>> = path
            .components()
            .map(|part| match part {
                Component::Normal(name) => Some(name),
                _ => None,
            })
            .collect();
        let names = names.unwrap_or_default();
        let Some((file, above)) = names.split_last() else {
            return Err(Errno::ACCESS.into());
        };
        let mut folder = self.output.as_ref().ok_or(Errno::ACCESS)?.try_clone()?;
        for name in above {
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

/// A child process's place among those that run. It is free again when this is dropped,
/// also if the process does not start.
struct Place(Arc<AtomicUsize>);

impl Place {
    /// Takes one, if there is one.
    fn take(taken: &Arc<AtomicUsize>) -> Option<Self> {
        let before = taken.fetch_add(1, Ordering::SeqCst);
        let place = Self(Arc::clone(taken));
        (before < MAX_CHILDREN).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Takes the descriptors of a request, if they are as many as it needs.
fn take<const N: usize>(descriptors: Vec<OwnedFd>) -> io::Result<[OwnedFd; N]> {
    descriptors
        .try_into()
        .map_err(|_| io::Error::from(Errno::INVAL))
}

/// Waits for the end of a child, and reports its exit status. Ends it when its time is
/// over or the other side is closed.
fn watch(mut child: Child, control: &OwnedFd, until: Instant) {
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
        let mut closed = [PollFd::new(control, PollFlags::empty())];
        let is_closed = poll(&mut closed, Some(&PATIENCE)).is_ok_and(|ready| ready > 0);
        if is_closed || Instant::now() >= until {
            let _ = child.kill();
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    fn office() -> Office {
        Office {
            allowed: Allowed::default(),
            program: "/bin/true".into(),
            children: Arc::default(),
            output: None,
            linked: Vec::new(),
            is_skill_md: |_| false,
        }
    }

    #[test]
    fn an_asker_that_leaves_is_no_error() {
        // Before its request is answered, and before it has read the answer.
        for is_answered in [false, true] {
            let flags = SocketFlags::CLOEXEC;
            let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
            let (ours, its) = pair.unwrap();
            let request = serde_json::to_vec(&Request::OpenLog).unwrap();
            send(ours.as_fd(), &request, &[]).unwrap();
            if is_answered {
                receive(its.as_fd()).unwrap();
                send(its.as_fd(), &[0; 4], &[]).unwrap();
            }
            drop(ours);
            office().serve(its.as_fd()).unwrap();
        }
    }

    #[test]
    fn starts_that_fail_keep_no_place() {
        let office = office();
        let start = |thread| {
            let [input, output, errors] =
                [(); 3].map(|()| std::fs::File::open("/dev/null").unwrap().into());
            let (control, _) = std::os::unix::net::UnixStream::pair().unwrap();
            office.start(thread, Vec::new(), [input, output, errors, control.into()])
        };
        for _ in 0..=MAX_CHILDREN {
            // No thread gets so large a stack.
            start(thread::Builder::new().stack_size(usize::MAX / 4)).unwrap_err();
        }
        start(thread::Builder::new()).unwrap();
    }
}
