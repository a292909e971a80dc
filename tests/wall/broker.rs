//! The broker outside of the wall: what it does for a confined process, and what not.

use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixListener;
use std::process::ExitStatus;

use skillhost_confine::broker::{BrokeredChild, SocketPath};

use super::*;

/// Starts a broker for a folder.
fn broker(folder: &Path, allowed: Allowed) -> Broker {
    let place = |path: &str, follows_links: bool| AllowedFolder {
        path: folder.join(path),
        follows_links,
        depth: 2,
        within: "/".into(),
    };
    let found = AllowedFolder {
        within: folder.canonicalize().unwrap(),
        ..place("found", false)
    };
    let allowed = Allowed {
        folders: vec![place("root", false), place("linked", true), found],
        task: skillhost::COMPILE_ARGUMENT.to_owned(),
        variables: vec!["ALLOWED".to_owned()],
        ..allowed
    };
    Broker::start(Path::new(env!("CARGO_BIN_EXE_skillhost")), &allowed).unwrap()
}

fn handle(path: PathBuf) -> OwnedFd {
    rustix::fs::open(path, OFlags::PATH, Mode::empty()).unwrap()
}

#[test]
fn the_broker_opens_what_lies_in_the_operators_folders_and_nothing_else() {
    let program = Program::new();
    for path in [
        "root/a",
        "root/deep/b",
        "old/a",
        "new/c",
        "target/d",
        "other/e",
        "rootless",
    ] {
        program.write(path, path);
    }
    let at = |path: &str| program.folder.path().join(path);
    fs::create_dir(at("linked")).unwrap();
    symlink("../target", at("linked/skill")).unwrap();
    // It opens nothing: only `linked` may have such links.
    symlink("../old", at("root/link")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        at("root/pipe"),
        rustix::fs::FileType::Fifo,
        Mode::RUSR,
        0,
    )
    .unwrap();
    let broker = broker(program.folder.path(), Allowed::default());
    let open = |path: &str| broker.open(handle(at(path)).as_fd());
    let denied = |path: &str| {
        let error = open(path).unwrap_err();
        assert_eq!(
            error.raw_os_error(),
            Some(Errno::ACCESS.raw_os_error()),
            "{path}"
        );
    };
    for path in [
        "root",
        "root/a",
        "root/deep",
        "root/deep/b",
        "target/d",
        "linked",
    ] {
        let opened = open(path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let flags = rustix::fs::fcntl_getfl(&opened).unwrap();
        assert!(
            !flags.intersects(OFlags::WRONLY | OFlags::RDWR | OFlags::PATH),
            "{path}"
        );
    }
    for path in ["", "old/a", "new/c", "other/e", "rootless", "root/pipe"] {
        denied(path);
    }
    // Another folder comes into the place.
    fs::rename(at("root"), at("gone")).unwrap();
    denied("gone/a");
    fs::rename(at("new"), at("root")).unwrap();
    open("root/c").unwrap();
    denied("gone/a");
    symlink("../other", at("linked/more")).unwrap();
    open("other/e").unwrap();
    // The links of a skill's author open nothing, however the document's name is spelled.
    for name in ["SKILL.md", "SKILL.MD", "skill.md", "Skill.md"] {
        program.write(&format!("linked/of-{name}/{name}"), SKILL);
        symlink("../../old", at(&format!("linked/of-{name}/link"))).unwrap();
        denied("old/a");
    }
    // A folder that nobody named must stay where it is.
    program.write("found/f", "");
    open("found/f").unwrap();
    fs::rename(at("found"), at("moved")).unwrap();
    symlink("/usr", at("found")).unwrap();
    denied("/usr/bin");
    fs::remove_file(at("found")).unwrap();
    symlink("other", at("found")).unwrap();
    open("other/e").unwrap();
    // What may be opened may be watched.
    let inotify = rustix::fs::inotify::init(rustix::fs::inotify::CreateFlags::CLOEXEC).unwrap();
    let events = rustix::fs::inotify::WatchFlags::CREATE.bits();
    let watch = |path: &str| broker.watch(inotify.as_fd(), handle(at(path)).as_fd(), events);
    assert_ne!(watch("root").unwrap(), watch("target").unwrap());
    for path in ["", "old", "gone"] {
        assert!(watch(path).is_err(), "{path}");
    }
}

/// A process whose mounts are its own: there one folder lies over another.
struct OtherMounts(Process);

impl OtherMounts {
    /// Starts it. `None` if this machine lets the user of the tests mount nothing.
    fn start(folder: &Path, over: &Path) -> Option<Self> {
        use std::os::unix::ffi::OsStrExt as _;
        use std::os::unix::process::CommandExt as _;
        let text = |path: &Path| std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap();
        let (folder, over) = (text(folder), text(over));
        let namespaces = match is_root() {
            true => libc::CLONE_NEWNS,
            false => libc::CLONE_NEWUSER | libc::CLONE_NEWNS,
        };
        #[allow(unsafe_code, reason = "rustix has no call for it")]
        // SAFETY: the kernel only reads the texts.
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
            // SAFETY: it takes a number alone.
            let done = unsafe { libc::unshare(namespaces) } == 0
                && bind(c"none", c"/", libc::MS_REC | libc::MS_PRIVATE)
                && bind(&folder, &over, libc::MS_BIND);
            match done {
                true => Ok(()),
                false => Err(std::io::Error::last_os_error()),
            }
        };
        // It ends with its input.
        let mut command = Command::new("cat");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        #[allow(
            unsafe_code,
            reason = "a process leaves its mounts before it runs a program"
        )]
        // SAFETY: it makes system calls, and allocates nothing.
        unsafe {
            command.pre_exec(mount);
        }
        match Process::try_start(&mut command) {
            Ok(process) => Some(Self(process)),
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                eprintln!("this machine lets nobody make mounts: {error}");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Opens a path, without rights, as that process sees it.
    fn handle(&self, path: &Path) -> OwnedFd {
        let root = PathBuf::from(format!("/proc/{}/root", self.0.pid));
        handle(root.join(path.strip_prefix("/").unwrap()))
    }
}

#[test]
fn broker_opens_no_file_of_other_mounts() {
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
    let broker = broker(program.folder.path(), Allowed::default());
    let inotify = rustix::fs::inotify::init(rustix::fs::inotify::CreateFlags::CLOEXEC).unwrap();
    let events = rustix::fs::inotify::WatchFlags::CREATE.bits();
    for path in [
        // Other files have these paths there.
        "root",
        "root/both",
        "root/deep",
        "root/deep/both",
        "root/only",
        // The same files, of another mount.
        "linked",
        "linked/both",
    ] {
        let there = others.handle(&at(path));
        let told = fs::read_link(format!("/proc/self/fd/{}", there.as_raw_fd())).unwrap();
        assert_eq!(told, at(path), "the path says nothing of the mount");
        let opened = broker.open(there.as_fd());
        assert!(opened.is_err(), "{path}");
        let watched = broker.watch(inotify.as_fd(), there.as_fd(), events);
        assert!(watched.is_err(), "{path}");
        if path != "root/only" {
            broker.open(handle(at(path)).as_fd()).unwrap();
        }
    }
}

#[test]
fn the_broker_waits_for_nobody_who_holds_a_lease_of_a_file() {
    let program = Program::new();
    program.write("root/a", "text");
    let file = program.folder.path().join("root/a");
    let leased = fs::File::options().write(true).open(&file).unwrap();
    for (command, value) in [
        // `F_SETSIG`, for which libc has no name. The kernel signals that somebody waits;
        // this signal does nothing.
        (10, libc::SIGURG),
        (libc::F_SETLEASE, libc::F_WRLCK),
    ] {
        #[allow(unsafe_code, reason = "rustix has no call for it")]
        // SAFETY: it takes numbers alone.
        let done = unsafe { libc::fcntl(leased.as_raw_fd(), command, value) };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    }
    let allowed = Allowed {
        log: Some(LogPath(file.clone())),
        ..Allowed::default()
    };
    let broker = broker(program.folder.path(), allowed);
    let opens = || [broker.open(handle(file.clone()).as_fd()), broker.open_log()];
    for refused in opens() {
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    }
    drop(leased);
    for opened in opens() {
        opened.unwrap();
    }
}

/// Waits for the end of a child process.
fn end_of(child: &mut BrokeredChild) -> ExitStatus {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        assert!(Instant::now() < until, "the child has not ended");
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn the_broker_starts_one_task_with_a_bound_and_ends_it() {
    let program = Program::new();
    let broker = |time| {
        let allowed = Allowed {
            time,
            ..Allowed::default()
        };
        broker(program.folder.path(), allowed)
    };
    let [brief, patient] = [Duration::from_millis(200), PATIENCE].map(broker);
    let variables = |name: &str| vec![(name.to_owned(), "1".to_owned())];
    let start_by = |broker: &Broker, variables| {
        let (input, ours) = std::io::pipe().unwrap();
        let (output, its) = std::io::pipe().unwrap();
        let errors = its.try_clone().unwrap();
        let streams = [input.into(), its.into(), errors.into()];
        let child = broker.start_child(variables, streams)?;
        std::io::Result::Ok((child, ours, output))
    };
    let start = |variables| start_by(&brief, variables);
    for name in ["LD_PRELOAD", "SKILLHOST_COMPILED_FUNCTIONS", "PATH"] {
        let error = start(variables(name)).unwrap_err();
        assert_eq!(
            error.raw_os_error(),
            Some(Errno::ACCESS.raw_os_error()),
            "{name}"
        );
    }
    // It reads a component, and says what is wrong with it.
    let (mut child, mut input, mut output) = start(variables("ALLOWED")).unwrap();
    input.write_all(b"no component").unwrap();
    drop(input);
    let mut said = String::new();
    output.read_to_string(&mut said).unwrap();
    assert!(!said.is_empty());
    let status = end_of(&mut child);
    assert_eq!(status.code(), Some(1), "{said}");
    // It waits for a component that never comes: its time ends it, or whoever asked.
    for (broker, is_killed) in [(&brief, false), (&patient, true)] {
        let (mut child, _input, mut output) = start_by(broker, Vec::new()).unwrap();
        let start = Instant::now();
        if is_killed {
            child.kill();
        }
        let status = end_of(&mut child);
        assert_eq!(output.read_to_string(&mut String::new()).unwrap(), 0);
        assert!(start.elapsed() < PATIENCE);
        assert_eq!(status.code(), None);
    }
    let running: Vec<_> = (0..17).map(|_| start(Vec::new())).collect();
    assert_eq!(running.iter().filter(|started| started.is_ok()).count(), 16);
}

#[test]
fn the_broker_opens_the_audit_log_by_its_name_and_no_other_file() {
    let program = Program::new();
    let at = |path: &str| program.folder.path().join(path);
    let without = broker(program.folder.path(), Allowed::default());
    assert!(without.open_log().is_err());
    let allowed = Allowed {
        log: Some(LogPath(at("log"))),
        ..Allowed::default()
    };
    let broker = broker(program.folder.path(), allowed);
    for rotated in ["log.1", "log.2"] {
        drop(broker.open_log().unwrap());
        let mode = fs::metadata(at("log")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        // Those of two processes, which append in turn.
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
fn the_broker_writes_new_files_in_one_new_folder() {
    let program = Program::new();
    program.write("there/file", "old");
    let at = |path: &str| program.folder.path().join(path);
    let writer = |folder: &str| {
        let allowed = Allowed {
            output: Some(OutputFolder(at(folder))),
            ..Allowed::default()
        };
        broker(program.folder.path(), allowed)
    };
    assert!(
        broker(program.folder.path(), Allowed::default())
            .make_output()
            .is_err()
    );
    assert!(writer("there").make_output().is_err());
    let broker = writer("out");
    assert!(broker.create_output("early").is_err());
    broker.make_output().unwrap();
    for path in ["", ".", "..", "../file", "/tmp/file", "a/../../file"] {
        assert!(broker.create_output(path).is_err(), "{path}");
    }
    symlink("../there", at("out/link")).unwrap();
    for path in ["link/new", "link/folder/new"] {
        assert!(broker.create_output(path).is_err(), "{path}");
    }
    for path in ["file", "deep/er/file"] {
        let file = broker.create_output(path).unwrap();
        fs::File::from(file).write_all(b"new").unwrap();
        assert_eq!(fs::read_to_string(at("out").join(path)).unwrap(), "new");
        assert!(broker.create_output(path).is_err(), "{path}");
    }
    assert_eq!(fs::read_to_string(at("there/file")).unwrap(), "old");
    assert_eq!(fs::read_dir(at("there")).unwrap().count(), 1);
}

#[test]
fn the_broker_of_a_server_is_confined_as_the_server_is() {
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
    wait_for_the_wall_of(brokers[0], "the broker");
    client.end();
}

#[test]
fn threads_that_ask_the_broker_at_once_get_their_own_files() {
    const THREADS: usize = 10;
    let program = Program::new();
    for number in 0..THREADS {
        program.write(&format!("root/{number}"), "text");
    }
    let broker = broker(program.folder.path(), Allowed::default());
    let (broker, root) = (&broker, &program.folder.path().join("root"));
    thread::scope(|threads| {
        for number in 0..THREADS {
            threads.spawn(move || {
                let own = handle(root.join(number.to_string()));
                let file = |of: &OwnedFd| rustix::fs::fstat(of).unwrap().st_ino;
                for _ in 0..200 {
                    let opened = broker.open(own.as_fd()).unwrap();
                    assert_eq!(file(&opened), file(&own), "another thread's file");
                }
            });
        }
    });
}

/// Returns the numbers of the descriptors of a process.
fn descriptors(process: &Path) -> Vec<String> {
    let names = fs::read_dir(process.join("fd")).unwrap();
    let names = names.map(|name| name.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn what_the_broker_starts_has_its_three_streams_and_nothing_else() {
    // By itself: other tests open files that a program inherits.
    if !is_again() {
        return again(
            "wall::broker::what_the_broker_starts_has_its_three_streams_and_nothing_else",
            "with descriptors of its own",
        );
    }
    // Its streams, and what whoever runs the tests left open: here nothing closes that.
    let own = Path::new("/proc/self");
    let is_kept = |name: &String| {
        let flags = fs::read_to_string(own.join("fdinfo").join(name)).unwrap_or_default();
        let flags = flags.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
        flags.is_some_and(|flags| flags & OFlags::CLOEXEC.bits() == 0)
    };
    let mut kept = descriptors(own);
    kept.retain(is_kept);
    let program = Program::new();
    let socket = program.folder.path().join("socket");
    let _listener = UnixListener::bind(&socket).unwrap();
    let allowed = Allowed {
        time: PATIENCE,
        // It holds the file.
        socket: Some(SocketPath(socket)),
        ..Allowed::default()
    };
    let broker = broker(program.folder.path(), allowed);
    let start = || {
        let (input, ours) = std::io::pipe().unwrap();
        let (output, its) = std::io::pipe().unwrap();
        let errors = its.try_clone().unwrap();
        let streams = [input.into(), its.into(), errors.into()];
        let child = broker.start_child(Vec::new(), streams).unwrap();
        (child, ours, output)
    };
    // Both wait for their input.
    for (_child, input, _output) in [start(), start()].as_slice() {
        let number = rustix::fs::fstat(input).unwrap().st_ino;
        let pipe = PathBuf::from(format!("pipe:[{number}]"));
        let reads = |process: &PathBuf| {
            fs::read_link(process.join("fd/0")).is_ok_and(|input| input == pipe)
        };
        let processes = fs::read_dir("/proc").unwrap();
        let mut processes = processes.map(|process| process.unwrap().path());
        let process = processes.find(reads).expect("it has been started");
        // The system's loader opens files for a moment.
        let until = Instant::now() + PATIENCE;
        while descriptors(&process) != kept {
            let has = descriptors(&process);
            assert!(Instant::now() < until, "it has {has:?}, not {kept:?}");
            thread::sleep(Duration::from_millis(2));
        }
    }
}
