//! The broker: what it does for a confined process, and what it refuses.

use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixListener;
use std::process::ExitStatus;

use skillhost_confine::broker::{BrokeredChild, EncodedPath};
use skillhost_helper::{Kind, read_message, write_message};

use super::*;
use crate::support::UNREACHED;

/// Starts a broker that may open folders in `folder`.
fn broker(folder: &Path, policy: BrokerPolicy) -> BrokerClient {
    let allow = |path: &str, follows_links: bool| AllowedPath {
        path: folder.join(path),
        follows_links,
        link_owners: None,
        within: "/".into(),
    };
    let default_root = AllowedPath {
        within: folder.canonicalize().unwrap(),
        ..allow("default", false)
    };
    let followed_root = AllowedPath {
        within: folder.canonicalize().unwrap().join("here"),
        ..allow("here/links", true)
    };
    let tools = AllowedPath {
        link_owners: Some(vec![rustix::process::geteuid().as_raw()]),
        ..allow("sticky/tools", false)
    };
    let policy = BrokerPolicy {
        paths: vec![
            allow("root", false),
            allow("linked", true),
            default_root,
            followed_root,
            tools,
        ],
        child_task: skillhost::COMPILE_ARGUMENT.to_owned(),
        child_variables: vec!["ALLOWED".to_owned()],
        ..policy
    };
    BrokerClient::start(Path::new(env!("CARGO_BIN_EXE_skillhost")), &policy).unwrap()
}

/// Opens a path with `O_PATH`.
fn handle(path: PathBuf) -> OwnedFd {
    rustix::fs::open(path, OFlags::PATH, Mode::empty()).unwrap()
}

/// A program folder, and a broker for folders in it.
struct Setup {
    program: Program,
    broker: BrokerClient,
}

impl Setup {
    /// Writes these files. The folder `linked` has a symlink to `target`.
    fn new(files: &[&str]) -> Self {
        let program = Program::new();
        for path in files {
            program.write(path, path);
        }
        fs::create_dir_all(program.folder.path().join("linked")).unwrap();
        symlink("../target", program.folder.path().join("linked/skill")).unwrap();
        let broker = broker(program.folder.path(), BrokerPolicy::default());
        Self { program, broker }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.program.folder.path().join(path)
    }

    fn open(&self, path: &str) -> std::io::Result<OwnedFd> {
        self.broker.open(handle(self.at(path)).as_fd())
    }

    #[track_caller]
    fn assert_denied(&self, path: &str) {
        let error = self.open(path).unwrap_err();
        let denied = Errno::ACCESS.raw_os_error();
        assert_eq!(error.raw_os_error(), Some(denied), "{path}");
    }
}

#[test]
fn followed_links_stay_in_the_required_folder() {
    let setup = Setup::new(&["here/target/a", "elsewhere/b", "here/links/c"]);
    symlink("../target", setup.at("here/links/in")).unwrap();
    symlink("../../elsewhere", setup.at("here/links/out")).unwrap();
    for path in ["here/links/c", "here/target/a"] {
        assert!(setup.open(path).is_ok(), "{path}");
    }
    setup.assert_denied("elsewhere/b");
}

#[test]
fn opens_only_files_in_allowed_folders() {
    let setup = Setup::new(&[
        "root/a",
        "root/deep/b",
        "old/a",
        "target/d",
        "other/e",
        "rootless",
    ]);
    // This symlink allows nothing: only `linked` may have such symlinks.
    symlink("../old", setup.at("root/link")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        setup.at("root/pipe"),
        rustix::fs::FileType::Fifo,
        Mode::RUSR,
        0,
    )
    .unwrap();
    for path in [
        "root",
        "root/a",
        "root/deep",
        "root/deep/b",
        "target/d",
        "linked",
    ] {
        let opened = setup
            .open(path)
            .unwrap_or_else(|error| panic!("{path}: {error}"));
        let flags = rustix::fs::fcntl_getfl(&opened).unwrap();
        assert!(
            !flags.intersects(OFlags::WRONLY | OFlags::RDWR | OFlags::PATH),
            "{path}"
        );
    }
    for path in ["", "old/a", "other/e", "rootless", "root/pipe"] {
        setup.assert_denied(path);
    }
}

#[test]
fn watches_only_allowed_folders() {
    let setup = Setup::new(&["root/a", "target/d", "old/a"]);
    let inotify = rustix::fs::inotify::init(rustix::fs::inotify::CreateFlags::CLOEXEC).unwrap();
    let events = rustix::fs::inotify::WatchFlags::CREATE.bits();
    let watch = |path: &str| {
        let folder = handle(setup.at(path));
        setup.broker.watch(inotify.as_fd(), folder.as_fd(), events)
    };
    assert_ne!(watch("root").unwrap(), watch("target").unwrap());
    for path in ["", "old"] {
        assert!(watch(path).is_err(), "{path}");
    }
}

#[test]
fn opens_folders_that_replace_allowed_ones() {
    let setup = Setup::new(&["root/a", "new/c", "other/e"]);
    setup.open("root/a").unwrap();
    setup.assert_denied("new/c");
    fs::rename(setup.at("root"), setup.at("gone")).unwrap();
    setup.assert_denied("gone/a");
    fs::rename(setup.at("new"), setup.at("root")).unwrap();
    setup.open("root/c").unwrap();
    setup.assert_denied("gone/a");
    setup.assert_denied("other/e");
    symlink("../other", setup.at("linked/more")).unwrap();
    setup.open("other/e").unwrap();
}

#[test]
fn opens_no_targets_of_symlinks_below_roots() {
    let setup = Setup::new(&["old/a", "linked/author/skill/SKILL.md"]);
    for link in ["linked/author/link", "linked/author/skill/link"] {
        symlink(setup.at("old"), setup.at(link)).unwrap();
        setup.assert_denied("old/a");
    }
    symlink("../old", setup.at("linked/link")).unwrap();
    setup.open("old/a").unwrap();
}

#[test]
fn follows_only_links_of_trusted_users_to_tools() {
    let setup = Setup::new(&["sticky/tools/f", "next/tools/f", "other/e"]);
    setup.open("sticky/tools/f").unwrap();
    fs::remove_dir_all(setup.at("sticky/tools")).unwrap();
    symlink("../current/tools", setup.at("sticky/tools")).unwrap();
    symlink(setup.at("next"), setup.at("current")).unwrap();
    setup.open("next/tools/f").unwrap();
    setup.assert_denied("other/e");
    if !is_root() {
        return; // Only root can change the owner of a link; CI runs as root.
    }
    for link in ["current", "sticky/tools"] {
        let chown = |user| std::os::unix::fs::lchown(setup.at(link), Some(user), None).unwrap();
        chown(65_534);
        setup.assert_denied("next/tools/f");
        chown(0);
        setup.open("next/tools/f").unwrap();
    }
}

#[test]
fn default_folder_must_stay_in_current_folder() {
    let setup = Setup::new(&["default/f", "other/e"]);
    setup.open("default/f").unwrap();
    fs::rename(setup.at("default"), setup.at("moved")).unwrap();
    symlink("/usr", setup.at("default")).unwrap();
    setup.assert_denied("/usr/bin");
    fs::remove_file(setup.at("default")).unwrap();
    symlink("other", setup.at("default")).unwrap();
    setup.open("other/e").unwrap();
}

/// A process with its own mounts, in which one folder is mounted over another.
struct OtherMounts(Process);

impl OtherMounts {
    /// Starts the process. Returns `None` if this user cannot mount here.
    fn start(folder: &Path, over: &Path) -> Option<Self> {
        use std::os::unix::ffi::OsStrExt as _;
        use std::os::unix::process::CommandExt as _;
        let text = |path: &Path| std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap();
        let (folder, over) = (text(folder), text(over));
        let namespaces = if is_root() {
            libc::CLONE_NEWNS
        } else {
            libc::CLONE_NEWUSER | libc::CLONE_NEWNS
        };
        #[allow(unsafe_code, reason = "rustix has no call for it")]
        // SAFETY: the kernel only reads the strings.
        let bind = |from: &std::ffi::CStr, to: &std::ffi::CStr, flags| unsafe {
            libc::mount(
                from.as_ptr(),
                to.as_ptr(),
                std::ptr::null(),
                flags,
                std::ptr::null(),
            ) == 0
        };
        let mount = move || {
            #[allow(unsafe_code, reason = "rustix has no call for it")]
            // SAFETY: the call takes only a number.
            let is_mounted = unsafe { libc::unshare(namespaces) } == 0
                && bind(c"none", c"/", libc::MS_REC | libc::MS_PRIVATE)
                && bind(&folder, &over, libc::MS_BIND);
            if is_mounted {
                Ok(())
            } else {
                Err(std::io::Error::last_os_error())
            }
        };
        // `cat` ends when its input is closed.
        let mut command = Command::new("cat");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        #[allow(
            unsafe_code,
            reason = "the child process sets up its mounts before it runs a program"
        )]
        // SAFETY: the closure only makes system calls, and allocates nothing.
        unsafe {
            command.pre_exec(mount);
        }
        match Process::try_start(&mut command) {
            Ok(process) => Some(Self(process)),
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                eprintln!("this user cannot mount folders: {error}");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Opens a path with `O_PATH`, as the process sees it.
    fn handle(&self, path: &Path) -> OwnedFd {
        let root = PathBuf::from(format!("/proc/{}/root", self.0.pid));
        handle(root.join(path.strip_prefix("/").unwrap()))
    }
}

#[test]
fn opens_no_file_of_other_mounts() {
    let program = Program::new();
    for path in [
        "root/both",
        "root/deep/both",
        "linked/both",
        "secret/both",
        "secret/deep/both",
        "secret/only",
    ] {
        program.write(path, path);
    }
    let at = |path: &str| program.folder.path().join(path);
    let Some(others) = OtherMounts::start(&at("secret"), &at("root")) else {
        return;
    };
    let broker = broker(program.folder.path(), BrokerPolicy::default());
    let inotify = rustix::fs::inotify::init(rustix::fs::inotify::CreateFlags::CLOEXEC).unwrap();
    let events = rustix::fs::inotify::WatchFlags::CREATE.bits();
    for path in [
        // On the other mounts, these paths lead to other files.
        "root",
        "root/both",
        "root/deep",
        "root/deep/both",
        "root/only",
        // These are the same files on another mount.
        "linked",
        "linked/both",
    ] {
        let foreign = others.handle(&at(path));
        let shown = fs::read_link(format!("/proc/self/fd/{}", foreign.as_raw_fd())).unwrap();
        assert_eq!(shown, at(path), "the path shows the mount");
        let opened = broker.open(foreign.as_fd());
        assert!(opened.is_err(), "{path}");
        let watched = broker.watch(inotify.as_fd(), foreign.as_fd(), events);
        assert!(watched.is_err(), "{path}");
        if path != "root/only" {
            broker.open(handle(at(path)).as_fd()).unwrap();
        }
    }
}

#[test]
fn does_not_wait_for_leased_files() {
    let program = Program::new();
    program.write("root/a", "text");
    let file = program.folder.path().join("root/a");
    let leased = fs::File::options().write(true).open(&file).unwrap();
    for (command, value) in [
        // `F_SETSIG`, which libc does not define. The kernel signals that a process waits for the
        // lease; this signal does nothing.
        (10, libc::SIGURG),
        (libc::F_SETLEASE, libc::F_WRLCK),
    ] {
        #[allow(unsafe_code, reason = "rustix has no call for it")]
        // SAFETY: the call takes only numbers.
        let result = unsafe { libc::fcntl(leased.as_raw_fd(), command, value) };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    }
    let policy = BrokerPolicy {
        log: Some(EncodedPath(file.clone())),
        ..BrokerPolicy::default()
    };
    let broker = broker(program.folder.path(), policy);
    let opens = || [broker.open(handle(file.clone()).as_fd()), broker.open_log()];
    for result in opens() {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    }
    drop(leased);
    for result in opens() {
        result.unwrap();
    }
}

/// Waits until a child process ends.
fn wait(child: &mut BrokeredChild) -> ExitStatus {
    let mut status = None;
    wait_until("the child has not ended", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    status.unwrap()
}

/// Starts a child process. Returns it with its stdin and its output.
fn start_child(
    broker: &BrokerClient,
    variables: Vec<(String, String)>,
) -> std::io::Result<(BrokeredChild, std::io::PipeWriter, std::io::PipeReader)> {
    let (child_stdin, stdin) = std::io::pipe()?;
    let (output, child_stdout) = std::io::pipe()?;
    let child_stderr = child_stdout.try_clone()?;
    let streams = [child_stdin.into(), child_stdout.into(), child_stderr.into()];
    Ok((broker.start_child(variables, streams)?, stdin, output))
}

#[test]
fn starts_only_allowed_task_within_limits() {
    let program = Program::new();
    let broker_with_limit = |time| {
        let policy = BrokerPolicy {
            child_time: time,
            ..BrokerPolicy::default()
        };
        broker(program.folder.path(), policy)
    };
    let [short, long] = [Duration::from_millis(200), UNREACHED].map(broker_with_limit);
    let variables = |name: &str| vec![(name.to_owned(), "1".to_owned())];
    for name in ["LD_PRELOAD", "SKILLHOST_COMPILED_FUNCTIONS", "PATH"] {
        let error = start_child(&short, variables(name)).unwrap_err();
        let denied = Errno::ACCESS.raw_os_error();
        assert_eq!(error.raw_os_error(), Some(denied), "{name}");
    }
    // The child reads a component and reports an error.
    let (mut child, mut stdin, mut output) = start_child(&long, variables("ALLOWED")).unwrap();
    write_message(&mut stdin, Kind::Request, b"not a component").unwrap();
    let message = read_message(&mut output, 4096).unwrap().unwrap();
    assert_eq!(message.kind, Kind::Failure);
    assert!(!message.bytes.is_empty());
    drop(stdin);
    assert!(wait(&mut child).success());
    // The child waits for input until its time is over, or it is killed.
    for (broker, is_killed) in [(&short, false), (&long, true)] {
        let (mut child, _stdin, mut output) = start_child(broker, Vec::new()).unwrap();
        if is_killed {
            child.kill();
        }
        let status = wait(&mut child);
        assert_eq!(output.read_to_string(&mut String::new()).unwrap(), 0);
        assert_eq!(status.code(), None);
    }
    let started: Vec<_> = (0..17).map(|_| start_child(&long, Vec::new())).collect();
    assert_eq!(started.iter().filter(|result| result.is_ok()).count(), 16);
}

#[test]
fn opens_only_the_audit_log_by_name() {
    let program = Program::new();
    let at = |path: &str| program.folder.path().join(path);
    let without_log = broker(program.folder.path(), BrokerPolicy::default());
    assert!(without_log.open_log().is_err());
    let policy = BrokerPolicy {
        log: Some(EncodedPath(at("log"))),
        ..BrokerPolicy::default()
    };
    let broker = broker(program.folder.path(), policy);
    for rotated in ["log.1", "log.2"] {
        drop(broker.open_log().unwrap());
        let mode = fs::metadata(at("log")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        // Two descriptors append in turn, as those of two processes would.
        let mut logs = [(); 2].map(|()| fs::File::from(broker.open_log().unwrap()));
        for (log, part) in [(0, "log"), (1, "."), (0, &rotated[4..])] {
            logs[log].write_all(part.as_bytes()).unwrap();
        }
        assert_eq!(fs::read_to_string(at("log")).unwrap(), rotated);
        fs::rename(at("log"), at(rotated)).unwrap();
    }
    symlink("log.1", at("log")).unwrap();
    assert!(broker.open_log().is_err());
    assert_eq!(fs::read_to_string(at("log.1")).unwrap(), "log.1");
}

#[test]
fn writes_only_new_files_in_output_folder() {
    let program = Program::new();
    program.write("there/file", "old");
    let at = |path: &str| program.folder.path().join(path);
    let writer = |folder: &str| {
        let policy = BrokerPolicy {
            output: Some(EncodedPath(at(folder))),
            ..BrokerPolicy::default()
        };
        broker(program.folder.path(), policy)
    };
    assert!(
        broker(program.folder.path(), BrokerPolicy::default())
            .create_output_folder()
            .is_err()
    );
    assert!(writer("there").create_output_folder().is_err());
    let broker = writer("out");
    assert!(broker.create_output_file("early").is_err());
    broker.create_output_folder().unwrap();
    for path in ["", ".", "..", "../file", "/tmp/file", "a/../../file"] {
        assert!(broker.create_output_file(path).is_err(), "{path}");
    }
    symlink("../there", at("out/link")).unwrap();
    for path in ["link/new", "link/folder/new"] {
        assert!(broker.create_output_file(path).is_err(), "{path}");
    }
    for path in ["file", "deep/er/file"] {
        let file = broker.create_output_file(path).unwrap();
        fs::File::from(file).write_all(b"new").unwrap();
        assert_eq!(fs::read_to_string(at("out").join(path)).unwrap(), "new");
        assert!(broker.create_output_file(path).is_err(), "{path}");
    }
    assert_eq!(fs::read_to_string(at("there/file")).unwrap(), "old");
    assert_eq!(fs::read_dir(at("there")).unwrap().count(), 1);
}

#[test]
fn broker_is_confined_too() {
    let program = program();
    let mut client = Client::start(program.folder.path(), &["--skills", "skills"], NEWEST);
    let result = client.call("read_skill", json!({"skill_name": "a"}));
    assert_eq!(result["isError"], false, "{result}");
    let id = client.pid();
    let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
    let brokers: Vec<u32> = children
        .split_whitespace()
        .map(|id| id.parse().unwrap())
        .collect();
    assert_eq!(brokers.len(), 1);
    wait_until_confined(brokers[0], "the broker");
    client.end();
}

#[test]
fn accepts_thousands_of_long_paths() {
    let program = Program::new();
    program.write("root/a", "text");
    let root = program.folder.path().join("root");
    let start = |count: usize| {
        let long = root.join("long-name/".repeat(380));
        let paths = (0..count).map(|number| long.join(number.to_string()));
        let paths = paths.chain([root.clone()]).map(|path| AllowedPath {
            path,
            follows_links: false,
            link_owners: None,
            within: "/".into(),
        });
        let policy = BrokerPolicy {
            paths: paths.collect(),
            ..BrokerPolicy::default()
        };
        BrokerClient::start(Path::new(env!("CARGO_BIN_EXE_skillhost")), &policy)
    };
    let broker = start(4_000).unwrap();
    broker.open(handle(root.join("a")).as_fd()).unwrap();
    let error = format!("{:#}", start(4_500).unwrap_err());
    let message = "the paths of 4501 folders and files take 17";
    assert!(error.contains(message), "{error}");
}

#[test]
fn concurrent_requests_get_their_own_files() {
    const THREADS: usize = 10;
    let program = Program::new();
    for number in 0..THREADS {
        program.write(&format!("root/{number}"), "text");
    }
    let broker = broker(program.folder.path(), BrokerPolicy::default());
    let (broker, root) = (&broker, &program.folder.path().join("root"));
    thread::scope(|threads| {
        for number in 0..THREADS {
            threads.spawn(move || {
                let expected = handle(root.join(number.to_string()));
                let inode = |file: &OwnedFd| rustix::fs::fstat(file).unwrap().st_ino;
                for _ in 0..200 {
                    let opened = broker.open(expected.as_fd()).unwrap();
                    assert_eq!(inode(&opened), inode(&expected), "another thread's file");
                }
            });
        }
    });
}

/// Returns the numbers of the descriptors of a process.
fn descriptors(process: &Path) -> Vec<String> {
    let entries = fs::read_dir(process.join("fd")).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn children_inherit_only_three_streams() {
    // Runs alone, because a child inherits files that other tests open.
    if !runs_in_own_process() {
        return run_in_own_process(
            "process_sandbox::broker::children_inherit_only_three_streams",
            "with descriptors of its own",
        );
    }
    // Expects the three streams, and descriptors that this process inherited from the test runner,
    // because nothing closes those here.
    let this_process = Path::new("/proc/self");
    let is_inherited = |name: &String| {
        let info = fs::read_to_string(this_process.join("fdinfo").join(name)).unwrap_or_default();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
        flags.is_some_and(|flags| flags & OFlags::CLOEXEC.bits() == 0)
    };
    let mut expected = descriptors(this_process);
    expected.retain(is_inherited);
    let program = Program::new();
    let socket = program.folder.path().join("socket");
    let _listener = UnixListener::bind(&socket).unwrap();
    let policy = BrokerPolicy {
        child_time: TIMEOUT,
        // The broker keeps this file open.
        socket: Some(EncodedPath(socket)),
        ..BrokerPolicy::default()
    };
    let broker = broker(program.folder.path(), policy);
    let start = || start_child(&broker, Vec::new()).unwrap();
    // Both children wait for input.
    for (_child, stdin, _output) in [start(), start()].as_slice() {
        let inode = rustix::fs::fstat(stdin).unwrap().st_ino;
        let pipe = PathBuf::from(format!("pipe:[{inode}]"));
        let reads_pipe = |process: &PathBuf| {
            fs::read_link(process.join("fd/0")).is_ok_and(|stdin| stdin == pipe)
        };
        let processes = fs::read_dir("/proc").unwrap();
        let mut processes = processes.map(|process| process.unwrap().path());
        let process = processes.find(reads_pipe).expect("the child runs");
        // The dynamic loader opens files for a moment.
        wait_until(
            &format!("other descriptors than {expected:?} are open"),
            || descriptors(&process) == expected,
        );
    }
}
