//! The wall around the program's process: when it is up, what still works behind it, and
//! what the broker does for whoever asks. What it keeps code from that has broken out is
//! tried in `attempts/`.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::Signal;
use serde_json::json;
use skillhost_confine::broker::{Allowed, AllowedFolder, Broker, LogPath, OutputFolder};

use crate::support::filter::{Answer, answer_landlock_with};
use crate::support::folders::Folders;
use crate::support::mcp::{Client, NEWEST, session};
use crate::support::process::Process;
use crate::support::program::{Program, command, finish, run_unprivileged};
use crate::support::{again, is_again};

/// The longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(20);

const SKILL: &str = "---\nname: a\ndescription: A.\n---\nbody\n";

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Returns a folder with a root of one skill.
fn program() -> Program {
    let program = Program::new();
    program.write("skills/a/SKILL.md", SKILL);
    program
}

/// Returns the values of a line in the status of each thread of a process.
fn of_threads(pid: u32, line: &str) -> Vec<String> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let status = threads.map(|thread| fs::read_to_string(thread.unwrap().path().join("status")));
    let value = |status: String| {
        let found = status.lines().find_map(|at| at.strip_prefix(line));
        found.unwrap().trim_start_matches(':').trim().to_owned()
    };
    status.map(|status| value(status.unwrap())).collect()
}

#[test]
fn each_thread_of_a_server_is_confined_unless_the_operator_says_otherwise() {
    let program = program();
    program.write(
        "off.toml",
        "skills = [\"skills\"]\n[process]\nconfine = \"off\"\n",
    );
    for (arguments, filters) in [
        (&[][..], "2"),
        (&["--confine", "auto"], "2"),
        (&["--confine", "off"], "0"),
        (&["--config", "off.toml"], "0"),
        (&["--config", "off.toml", "--confine", "auto"], "2"),
    ] {
        let mut client = Client::start(program.folder.path(), arguments, NEWEST);
        let result = client.call("read_skill", json!({"skill_name": "a"}));
        assert_eq!(result["isError"], false, "{arguments:?}");
        let has = |line: &str| of_threads(client.pid(), line);
        assert!(has("Seccomp").len() > 3);
        assert!(
            has("Seccomp").iter().all(|value| value == filters),
            "{arguments:?}"
        );
        if filters != "0" {
            assert!(has("NoNewPrivs").iter().all(|value| value == "1"));
            // Nothing, or root's right to open files of other users.
            for kept in has("CapEff").iter().chain(&has("CapPrm")) {
                let kept = u64::from_str_radix(kept, 16).unwrap();
                assert_eq!(kept & !0b110, 0, "{arguments:?}");
            }
        }
        client.end();
    }
}

#[test]
fn a_wall_that_is_required_is_whole_or_the_program_does_not_start() {
    let program = program();
    program.write(
        "skillhost.toml",
        "skills = [\"skills\"]\n[process]\nconfine = \"required\"\n",
    );
    let call = [
        "call",
        "--config",
        "./skillhost.toml",
        "read_skill",
        "skill_name=a",
    ];
    let run = program.run(&call);
    match is_root() {
        true => {
            assert_eq!(run.code, 4, "{run:?}");
            let why = "`confine = \"required\"`: this process runs as root";
            assert!(run.stderr.contains(why), "{run:?}");
        }
        false => assert_eq!((run.code, &*run.stdout), (0, "body\n"), "{run:?}"),
    }
    let run = program.run(&[&call[..], &["--confine", "off"]].concat());
    assert_eq!((run.code, &*run.stderr), (0, ""), "{run:?}");
    // A configuration that nobody named has no say.
    let run = program.run(&["call", "read_skill", "skill_name=a"]);
    assert!(run.stderr.contains("`process` reaches beyond"), "{run:?}");
}

#[test]
fn a_confined_process_knows_the_memory_of_the_machine() {
    // By default, a call may have a quarter of it at most.
    let program = program();
    for memory in ["257MiB", "1GiB", "4GiB"] {
        let text = format!("skills = [\"skills\"]\nlimits.memory = \"{memory}\"\n");
        program.write("skillhost.toml", text);
        let codes = ["off", "auto"].map(|confine| {
            let call = ["call", "--confine", confine, "read_skill", "skill_name=a"];
            program.run(&call).code
        });
        assert_eq!(codes[0], codes[1], "{memory}");
    }
}

#[test]
fn the_log_says_which_parts_of_the_wall_are_up() {
    let program = program();
    let call = ["--skills", "skills", "call", "read_skill", "skill_name=a"];
    let run = program.run(&call);
    assert_eq!((run.code, &*run.stderr), (0, ""), "{run:?}");
    let run = program.run(&[&["--log", "info"], &call[..]].concat());
    let parts = "this process is confined by ";
    assert!(run.stderr.contains(parts), "{run:?}");
    assert!(run.stderr.contains("a filter of system calls"), "{run:?}");
    // A server says besides that a wall holds root less well.
    let run = program.run_with(&["serve", "--skills", "skills"], &session(&[]));
    assert_eq!(run.code, 0, "{run:?}");
    let warns = run.stderr.contains("this process runs as root");
    assert_eq!(warns, is_root(), "{run:?}");
}

#[test]
fn a_root_that_is_replaced_by_another_link_goes_on_working() {
    let program = Program::new();
    for (release, skill) in [("1", "a"), ("2", "b"), ("3", "c")] {
        program.write(&format!("releases/{release}/{skill}/SKILL.md"), SKILL);
        program.write(&format!("releases/{release}/{skill}/deep/file"), skill);
    }
    let at = |path: &str| program.folder.path().join(path);
    symlink("releases/1", at("skills")).unwrap();
    let mut client = Client::start(program.folder.path(), &["--skills", "skills"], NEWEST);
    for (release, skill) in [("1", "a"), ("2", "b"), ("3", "c")] {
        symlink(format!("releases/{release}"), at("next")).unwrap();
        fs::rename(at("next"), at("skills")).unwrap();
        let until = Instant::now() + PATIENCE;
        let arguments = json!({"skill_name": skill, "file_path": "deep/file"});
        loop {
            let result = client.call("read_file_in_skill", arguments.clone());
            if result["isError"] == false {
                assert_eq!(result["content"][0]["text"], skill);
                break;
            }
            assert!(Instant::now() < until, "{result}");
            thread::sleep(Duration::from_millis(50));
        }
        let listed = client.call("list_skills", json!({}));
        let listed = listed["content"][0]["text"].as_str().unwrap().to_owned();
        assert!(
            listed.contains(&format!("\"name\":\"{skill}\"")),
            "{listed}"
        );
    }
    client.end();
}

#[test]
fn a_root_whose_path_is_not_utf8_and_many_roots_are_served() {
    use std::os::unix::ffi::OsStrExt as _;
    let program = program();
    let odd = program
        .folder
        .path()
        .join(std::ffi::OsStr::from_bytes(b"odd\xff"));
    fs::rename(program.folder.path().join("skills"), &odd).unwrap();
    let mut arguments = vec![std::ffi::OsString::from("--skills"), odd.into()];
    for number in 0..100 {
        let root = program
            .folder
            .path()
            .join(format!("a-root-with-a-name-{number}"));
        fs::create_dir(&root).unwrap();
        arguments.extend(["--skills".into(), root.into()]);
    }
    arguments.push("serve".into());
    let call = session(&[("read_skill", json!({"skill_name": "a"}))]);
    let run = program.run_with(&arguments, &call);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.stdout.contains("body"), "{run:?}");
}

/// Starts a broker for a folder.
fn broker(folder: &Path, allowed: Allowed) -> Broker {
    let place = |path: &str, follows_links: bool| AllowedFolder {
        path: folder.join(path),
        follows_links,
        depth: 2,
    };
    let allowed = Allowed {
        folders: vec![place("root", false), place("linked", true)],
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
    // What may be opened may be watched.
    let inotify = rustix::fs::inotify::init(rustix::fs::inotify::CreateFlags::CLOEXEC).unwrap();
    let events = rustix::fs::inotify::WatchFlags::CREATE.bits();
    let watch = |path: &str| broker.watch(inotify.as_fd(), handle(at(path)).as_fd(), events);
    assert_ne!(watch("root").unwrap(), watch("target").unwrap());
    for path in ["", "old", "gone"] {
        assert!(watch(path).is_err(), "{path}");
    }
}

#[test]
fn the_broker_starts_one_task_with_a_bound_and_ends_it() {
    let program = Program::new();
    let allowed = Allowed {
        time: Duration::from_millis(200),
        ..Allowed::default()
    };
    let broker = broker(program.folder.path(), allowed);
    let variables = |name: &str| vec![(name.to_owned(), "1".to_owned())];
    let start = |variables| {
        let (input, ours) = std::io::pipe().unwrap();
        let (output, its) = std::io::pipe().unwrap();
        let errors = its.try_clone().unwrap();
        let streams = [input.into(), its.into(), errors.into()];
        let child = broker.start_child(variables, streams)?;
        std::io::Result::Ok((child, ours, output))
    };
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
    let until = Instant::now() + PATIENCE;
    let status = loop {
        assert!(Instant::now() < until);
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None => thread::sleep(Duration::from_millis(2)),
        }
    };
    assert_eq!(status.code(), Some(1), "{said}");
    // It waits for a component that never comes: its time ends it, or whoever asked.
    for is_killed in [false, true] {
        let (mut child, _input, mut output) = start(Vec::new()).unwrap();
        if is_killed {
            child.kill();
        }
        assert_eq!(output.read_to_string(&mut String::new()).unwrap(), 0);
        let status = loop {
            match child.try_wait().unwrap() {
                Some(status) => break status,
                None => thread::sleep(Duration::from_millis(2)),
            }
        };
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
        let mut log = fs::File::from(broker.open_log().unwrap());
        log.write_all(rotated.as_bytes()).unwrap();
        assert_eq!(fs::read_to_string(at("log")).unwrap(), rotated);
        fs::rename(at("log"), at(rotated)).unwrap();
    }
    symlink("log.1", at("log")).unwrap();
    assert!(broker.open_log().is_err());
    assert_eq!(fs::read_to_string(at("log.1")).unwrap(), "log.1");
}

#[test]
fn a_server_goes_on_with_an_audit_log_that_was_renamed() {
    let program = program();
    let at = |path: &str| program.folder.path().join(path);
    let arguments = ["--skills", "skills", "--audit", "audit.jsonl"];
    let mut client = Client::start(program.folder.path(), &arguments, NEWEST);
    for rotated in ["1", "2"] {
        let result = client.call("read_skill", json!({"skill_name": "a"}));
        assert_eq!(result["isError"], false, "{result}");
        assert!(
            fs::read_to_string(at("audit.jsonl"))
                .unwrap()
                .contains("read_skill")
        );
        fs::rename(at("audit.jsonl"), at(rotated)).unwrap();
    }
    client.end();
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
fn what_a_confined_process_compiles_is_run_by_confined_ones_alone() {
    let program = program();
    let cache = program.folder.path().join("own-cache");
    let code = |folder: &str| {
        let files = fs::read_dir(cache.join(folder)).into_iter().flatten();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.ends_with(".cwasm")).count()
    };
    let call = |confine: &str| {
        let arguments = ["call", "--skills", "skills", "--confine", confine];
        let mut command = program.command(&arguments);
        command.args(["read_skill", "skill_name=a"]);
        command.env("SKILLHOST_CACHE", &cache);
        let run = finish(command, "");
        assert_eq!(run.code, 0, "{run:?}");
        (code("."), code("confined"))
    };
    let (open, confined) = call("auto");
    assert!(open == 0 && confined > 0, "{open} {confined}");
    // It does not run what is there already.
    let (open, _) = call("off");
    assert!(open > 0);
    // What was compiled without a wall serves behind it too.
    fs::remove_dir_all(cache.join("confined")).unwrap();
    assert_eq!(call("auto"), (open, 0));
}

#[test]
fn a_confined_process_keeps_nothing_that_its_starter_left_open() {
    let program = program();
    program.write("secret", "some text");
    for (confine, is_open) in [("auto", false), ("off", true)] {
        let mut command = Command::new("sh");
        command
            .args(["-c", "exec 9<secret && exec \"$0\" \"$@\""])
            .arg(env!("CARGO_BIN_EXE_skillhost"))
            .args(["serve", "--skills", "skills", "--confine", confine])
            .env("SKILLHOST_CACHE", crate::support::cache())
            .current_dir(program.folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut server = Process::start(&mut command);
        let mut input = server.stdin.take().unwrap();
        writeln!(
            input,
            "{}",
            json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})
        )
        .unwrap();
        let mut output = BufReader::new(server.stdout.take().unwrap());
        assert_ne!(output.read_line(&mut String::new()).unwrap(), 0);
        let id = server.pid;
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
        let children = children.split_whitespace().map(|id| id.parse().unwrap());
        let secret = program.folder.path().canonicalize().unwrap().join("secret");
        for process in children.chain([id]) {
            let files = fs::read_dir(format!("/proc/{process}/fd")).unwrap();
            let mut files = files.map(|file| fs::read_link(file.unwrap().path()));
            let has = files.any(|file| file.is_ok_and(|file| file == secret));
            assert_eq!(has, is_open, "{confine}");
        }
        drop(input);
        assert!(server.output().status.success());
    }
}

/// Waits for what comes by itself, in bounded time.
#[track_caller]
fn wait_for(what: &str, mut has_come: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !has_come() {
        assert!(Instant::now() < until, "there is no {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Waits until a process is confined: it confines itself after its start.
#[track_caller]
fn wait_for_the_wall_of(process: u32, whose: &str) {
    let has = |line: &str, value: &str| of_threads(process, line).iter().all(|it| it == value);
    wait_for(&format!("wall of {whose}"), || has("Seccomp", "2"));
    assert!(has("NoNewPrivs", "1"), "{whose}");
    for kept in of_threads(process, "CapEff") {
        let kept = u64::from_str_radix(&kept, 16).unwrap();
        assert_eq!(kept & !0b110, 0, "{whose}");
    }
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

#[test]
fn what_reads_a_strangers_component_is_confined_limited_and_ends_with_its_parent() {
    for task in [skillhost::COMPILE_ARGUMENT, "--locate-frames"] {
        // A shell is its parent, and says its number. It waits for its input.
        let mut shell = command(Path::new("sh"));
        shell
            .args(["-c", "exec 3<&0; \"$0\" \"$1\" <&3 & echo $!; wait"])
            .args([env!("CARGO_BIN_EXE_skillhost"), task])
            .env("PATH", "/usr/bin:/bin");
        let mut shell = Process::start(&mut shell);
        let reader = shell.first_line().parse().unwrap();
        wait_for_the_wall_of(reader, task);
        let limit = |of: &str| -> Option<u64> {
            let limits = fs::read_to_string(format!("/proc/{reader}/limits")).unwrap();
            let line = limits.lines().find_map(|line| line.strip_prefix(of));
            line?.split_whitespace().next()?.parse().ok()
        };
        wait_for(&format!("limit of files of {task}"), || {
            limit("Max file size") == Some(0)
        });
        assert!(limit("Max address space").is_some(), "{task}");
        shell.signal(Signal::KILL);
        // Nobody has its output open any more.
        let mut output = [PollFd::new(
            shell.stdout.as_ref().unwrap(),
            PollFlags::empty(),
        )];
        let patience = Timespec::try_from(PATIENCE).unwrap();
        let closed = poll(&mut output, Some(&patience));
        assert_eq!(closed, Ok(1), "{task} outlives its parent");
    }
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
            "wall::what_the_broker_starts_has_its_three_streams_and_nothing_else",
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
    let allowed = Allowed {
        time: PATIENCE,
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

#[test]
fn a_wall_that_lacks_a_part_is_a_warning_and_where_it_is_required_an_error() {
    if !is_again() {
        return again(
            "wall::a_wall_that_lacks_a_part_is_a_warning_and_where_it_is_required_an_error",
            "on a kernel without Landlock",
        );
    }
    let folders = Folders::new();
    answer_landlock_with(Answer::Unknown);
    let root = folders.root.to_str().unwrap();
    let call = |confine| ["--skills", root, "call", "--confine", confine, "none"];
    let run = run_unprivileged(&call("required"));
    let why = "`confine = \"required\"`: missing is Landlock";
    assert!(run.code == 4 && run.stderr.contains(why), "{run:?}");
    let run = Program::new().run(&call("auto"));
    let warning = "this process is not confined in full: missing is Landlock";
    assert!(run.code != 4 && run.stderr.contains(warning), "{run:?}");
}
