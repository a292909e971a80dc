//! The process sandbox: when it is applied, what still works in it, and what the broker does.
//! `escapes/` tests what escaped code cannot do.

mod broker;

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::Signal;
use serde_json::json;
use skillhost_confine::broker::{AllowedPath, BrokerClient, BrokerPolicy};

use crate::support::filter::{Answer, answer_landlock_with, answer_seccomp_with};
use crate::support::folders::Folders;
use crate::support::mcp::{Client, NEWEST, session};
use crate::support::process::{Process, output};
use crate::support::program::{Program, author, command, finish, run_unprivileged};
use crate::support::watchdog::wait_until;
use crate::support::{run_in_own_process, runs_in_own_process};

/// The maximum wait of a test.
const TIMEOUT: Duration = Duration::from_secs(20);

const SKILL: &str = "---\nname: a\ndescription: A.\n---\nbody\n";

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Returns a program folder with one skill.
fn program() -> Program {
    let program = Program::new();
    program.write("skills/a/SKILL.md", SKILL);
    program
}

/// Returns the value of a field in `/proc/PID/task/*/status` for each thread of a process.
fn thread_status(pid: u32, field: &str) -> Vec<String> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    // A thread may have ended meanwhile.
    let status =
        threads.filter_map(|thread| fs::read_to_string(thread.unwrap().path().join("status")).ok());
    let value = |status: String| {
        let value = status.lines().find_map(|line| line.strip_prefix(field));
        value.unwrap().trim_start_matches(':').trim().to_owned()
    };
    status.map(value).collect()
}

#[test]
fn confines_each_thread_unless_turned_off() {
    let program = program();
    program.write(
        "off.toml",
        "skills = [\"skills\"]\n[process]\nconfine = \"off\"\n",
    );
    for (arguments, seccomp_mode) in [
        (&[][..], "2"),
        (&["--confine", "auto"], "2"),
        (&["--confine", "off"], "0"),
        (&["--config", "off.toml"], "0"),
        (&["--config", "off.toml", "--confine", "auto"], "2"),
    ] {
        let mut client = Client::start(program.folder.path(), arguments, NEWEST);
        let result = client.call("read_skill", json!({"skill_name": "a"}));
        assert_eq!(result["isError"], false, "{arguments:?}");
        let status = |field: &str| thread_status(client.pid(), field);
        assert!(status("Seccomp").len() > 3);
        assert!(
            status("Seccomp").iter().all(|value| value == seccomp_mode),
            "{arguments:?}"
        );
        if seccomp_mode != "0" {
            assert!(status("NoNewPrivs").iter().all(|value| value == "1"));
            // No capabilities, except those with which root opens other users' files.
            let test_capabilities = thread_status(std::process::id(), "CapEff");
            let test_capabilities = u64::from_str_radix(&test_capabilities[0], 16).unwrap();
            for kept in status("CapEff").iter().chain(&status("CapPrm")) {
                let kept = u64::from_str_radix(kept, 16).unwrap();
                assert_eq!(kept, test_capabilities & 0b110, "{arguments:?}");
            }
        }
        client.end();
    }
}

#[test]
fn required_sandbox_is_complete_or_start_fails() {
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
    if is_root() {
        assert_eq!(run.code, 4, "{run:?}");
        let error = "`confine = \"required\"`: running as root weakens";
        assert!(run.stderr.contains(error), "{run:?}");
    } else {
        assert_eq!((run.code, &*run.stdout), (0, "body\n"), "{run:?}");
    }
    let run = program.run(&[&call[..], &["--confine", "off"]].concat());
    assert_eq!((run.code, &*run.stderr), (0, ""), "{run:?}");
    // A configuration that was found in the current folder cannot set `confine`.
    let run = program.run(&["call", "read_skill", "skill_name=a"]);
    assert!(run.stderr.contains("`process` leads out of"), "{run:?}");
}

#[test]
fn confined_process_knows_machine_memory() {
    // The memory limit of a call is at most a quarter of the machine's memory.
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
fn logs_sandbox_parts_in_force() {
    let program = program();
    let call = ["--skills", "skills", "call", "read_skill", "skill_name=a"];
    let run = program.run(&call);
    assert_eq!((run.code, &*run.stderr), (0, ""), "{run:?}");
    let run = program.run(&[&["--log", "info"], &call[..]].concat());
    let parts = "this process is confined by ";
    assert!(run.stderr.contains(parts), "{run:?}");
    assert!(run.stderr.contains("a filter of system calls"), "{run:?}");
    let dropped = run.stderr.contains("capabilities dropped");
    assert_eq!(dropped, is_root(), "{run:?}");
    // A server also warns that root weakens the sandbox.
    let run = program.run_with(&["serve", "--skills", "skills"], &session(&[]));
    assert_eq!(run.code, 0, "{run:?}");
    let warns = run
        .stderr
        .contains("running as root weakens the process sandbox");
    assert_eq!(warns, is_root(), "{run:?}");
}

#[test]
fn replaced_root_keeps_working() {
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
        let arguments = json!({"skill_name": skill, "file_path": "deep/file"});
        wait_until(&format!("{skill} is not read"), || {
            let result = client.call("read_file_in_skill", arguments.clone());
            let is_read = result["isError"] == false;
            assert!(
                !is_read || result["content"][0]["text"] == skill,
                "{result}"
            );
            is_read
        });
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
fn replaced_tools_folder_keeps_working() {
    let program = program();
    let at = |path: &str| program.folder.path().join(path);
    for release in ["releases/1", "releases/2"] {
        fs::create_dir_all(at(release)).unwrap();
    }
    let guest = crate::support::guests().join("count_lines.wasm");
    fs::copy(guest, at("releases/2/count_lines.wasm")).unwrap();
    symlink("releases/1", at("tools")).unwrap();
    let arguments = ["--skills", "skills", "--tools", "tools"];
    let mut client = Client::start(program.folder.path(), &arguments, NEWEST);
    client.wait_for_components();
    symlink("releases/2", at("next")).unwrap();
    fs::rename(at("next"), at("tools")).unwrap();
    wait_until("the component is not loaded", || {
        let listed = client.request("tools/list", json!({}));
        listed.to_string().contains("count_lines")
    });
    client.end();
}

#[test]
fn knows_groups_after_account_files_were_replaced() {
    if !is_root() {
        return; // Only root can mount folders; CI runs as root.
    }
    let program = program();
    let at = |path: &str| program.folder.path().join(path);
    let replace = |file: &str, text: &str| {
        program.write("etc/next", text);
        fs::rename(at("etc/next"), at("etc").join(file)).unwrap();
    };
    replace("passwd", "root:x:0:0::/:\n");
    replace("group", "root:x:0:\n");
    fs::create_dir(at("tools")).unwrap();
    // The folder's group can write in the folder, and only root is in that group.
    fs::set_permissions(at("tools"), fs::Permissions::from_mode(0o775)).unwrap();
    let mut server = Command::new("unshare");
    server
        .args(["--mount", "sh", "-c"])
        .arg("mount --bind etc /etc && exec \"$0\" \"$@\"")
        .arg(env!("CARGO_BIN_EXE_skillhost"))
        .args(["serve", "--skills", "skills", "--tools", "tools"])
        .current_dir(program.folder.path())
        .env("SKILLHOST_CACHE", crate::support::cache())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut client = Client::start_command(server, NEWEST);
    client.wait_for_components();
    replace("passwd", "root:x:0:0::/:\nann:x:1000:1000::/:\n");
    replace("group", "root:x:0:\nann:x:1000:\n");
    let guest = |name: &str| crate::support::guests().join(name);
    fs::copy(guest("count_lines.wasm"), at("tools/count_lines.wasm")).unwrap();
    wait_until("the component is not loaded", || {
        let listed = client.request("tools/list", json!({}));
        listed.to_string().contains("count_lines")
    });
    replace("group", "root:x:0:ann\nann:x:1000:\n");
    fs::copy(guest("unchecked.wasm"), at("tools/unchecked.wasm")).unwrap();
    client.wait_until_logged("the group root can change");
    client.end();
}

#[test]
fn serves_many_long_roots_and_non_utf8_paths() {
    use std::os::unix::ffi::OsStrExt as _;
    let program = program();
    let odd = program
        .folder
        .path()
        .join(std::ffi::OsStr::from_bytes(b"odd\xff"));
    fs::rename(program.folder.path().join("skills"), &odd).unwrap();
    let mut arguments = vec![std::ffi::OsString::from("--skills"), odd.into()];
    let long = program.folder.path().join("long/".repeat(100));
    for number in 0..600 {
        let root = long.join(number.to_string());
        fs::create_dir_all(&root).unwrap();
        arguments.extend(["--skills".into(), root.into()]);
    }
    arguments.push("serve".into());
    let call = session(&[("read_skill", json!({"skill_name": "a"}))]);
    let run = program.run_with(&arguments, &call);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.stdout.contains("body"), "{run:?}");
}

#[test]
fn starts_helpers_after_program_file_was_replaced() {
    for confine in ["auto", "off"] {
        let program = program();
        let at = |path: &str| program.folder.path().join(path);
        fs::create_dir(at("tools")).unwrap();
        let binary = at("skillhost");
        // `cp` makes the copy, so that no child of this process inherits the file open for
        // writing: see `UnprivilegedCopy::new`.
        let copied = output(
            Command::new("cp")
                .arg(env!("CARGO_BIN_EXE_skillhost"))
                .arg(&binary),
        );
        assert!(copied.status.success(), "{copied:?}");
        let mut command = command(&binary);
        command
            .args(["serve", "--skills", "skills", "--tools", "tools"])
            .args(["--confine", confine])
            // An empty cache, so that components are compiled.
            .env("SKILLHOST_CACHE", at("cache"))
            .current_dir(program.folder.path());
        let mut client = Client::start_command(command, NEWEST);
        client.wait_for_components();
        // Helper processes have the name of the program.
        for child in client.children() {
            let name = format!("/proc/{}/comm", child.as_raw_nonzero());
            wait_until("a child has another name", || {
                fs::read_to_string(&name).is_ok_and(|name| name == "skillhost\n")
            });
        }
        program.script("other", "exit 1");
        fs::rename(at("other"), &binary).unwrap();
        let guest = crate::support::guests().join("count_lines.wasm");
        fs::copy(guest, at("tools/one.wasm")).unwrap();
        wait_until("the component is not loaded", || {
            let stderr = client.stderr();
            assert!(!stderr.contains("cannot load"), "{confine}: {stderr}");
            let listed = client.request("tools/list", json!({}));
            listed.to_string().contains("count_lines")
        });
        client.end();
    }
}

#[test]
fn reopens_renamed_audit_log() {
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
fn unconfined_processes_run_no_confined_code() {
    let program = program();
    let cache = program.folder.path().join("own-cache");
    let code_files = |folder: &str| {
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
        (code_files("."), code_files("confined"))
    };
    let (unconfined, confined) = call("auto");
    assert!(unconfined == 0 && confined > 0, "{unconfined} {confined}");
    // An unconfined process does not run the confined one's code.
    let (unconfined, _) = call("off");
    assert!(unconfined > 0);
    // A confined process runs what an unconfined one compiled.
    fs::remove_dir_all(cache.join("confined")).unwrap();
    assert_eq!(call("auto"), (unconfined, 0));
}

#[test]
fn creates_nothing_in_cache_others_can_write() {
    let program = program();
    let cache = program.folder.path().join("open-cache");
    fs::create_dir(&cache).unwrap();
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o777)).unwrap();
    for confine in ["auto", "off"] {
        for folder in [cache.clone(), cache.join("new")] {
            let arguments = ["call", "--skills", "skills", "--confine", confine];
            let mut command = program.command(&arguments);
            command.args(["read_skill", "skill_name=a"]);
            command.env("SKILLHOST_CACHE", &folder);
            let run = finish(command, "");
            assert_eq!((run.code, &*run.stdout), (0, "body\n"), "{run:?}");
            let warning = format!("the cache folder `{}` is not used: ", folder.display());
            assert!(run.stderr.contains(&warning), "{confine}: {run:?}");
            assert_eq!(fs::read_dir(&cache).unwrap().count(), 0, "{confine}");
        }
    }
}

#[test]
fn closes_inherited_descriptors() {
    let program = program();
    program.write("secret", "some text");
    let issuer = "skills = [\"skills\"]\n[http]\nresource = \"http://127.0.0.1/mcp\"\n\
                  [issuers.a]\nissuer = \"https://127.0.0.1:9\"\n\
                  jwks_url = \"https://127.0.0.1:9/keys\"\n\
                  [clients.a]\nclaims = { sub = \"a\" }\n";
    program.write("issuer.toml", issuer);
    let http = ["--http", "127.0.0.1:0", "--config", "issuer.toml"];
    for (arguments, processes, stays_open) in [
        (&["--skills", "skills"][..], 2, false),
        (&["--skills", "skills", "--confine", "off"], 1, true),
        // With the egress process.
        (&http, 3, false),
    ] {
        let mut command = Command::new("sh");
        command
            .args(["-c", "exec 3<secret 9<secret && exec \"$0\" \"$@\""])
            .args([env!("CARGO_BIN_EXE_skillhost"), "serve"])
            .args(arguments)
            .env("SKILLHOST_CACHE", crate::support::cache())
            .current_dir(program.folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut server = Process::start(&mut command);
        let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
        writeln!(server.stdin.as_mut().unwrap(), "{ping}").unwrap();
        // Waits for the answer or the address.
        server.first_line();
        let children = server.children().into_iter();
        let children = children.map(|child| child.as_raw_nonzero().get().unsigned_abs());
        let all: Vec<u32> = children.chain([server.pid]).collect();
        assert_eq!(all.len(), processes, "{arguments:?}");
        let secret = program.folder.path().canonicalize().unwrap().join("secret");
        for process in all {
            let has_secret = || {
                let files = fs::read_dir(format!("/proc/{process}/fd")).unwrap();
                let mut files = files.map(|file| fs::read_link(file.unwrap().path()));
                files.any(|file| file.is_ok_and(|file| file == secret))
            };
            // A process that has just started closes inherited descriptors after a moment.
            wait_until(&format!("wrong descriptors with {arguments:?}"), || {
                has_secret() == stays_open
            });
        }
        server.signal(Signal::TERM);
        assert!(server.wait().success());
    }
}

/// Waits until a process has confined itself after its start.
#[track_caller]
fn wait_until_confined(process: u32, name: &str) {
    let has = |field: &str, expected: &str| {
        let values = thread_status(process, field);
        values.iter().all(|value| value == expected)
    };
    wait_until(&format!("{name} is not confined"), || has("Seccomp", "2"));
    assert!(has("NoNewPrivs", "1"), "{name}");
    for kept in thread_status(process, "CapEff") {
        let kept = u64::from_str_radix(&kept, 16).unwrap();
        assert_eq!(kept & !0b110, 0, "{name}");
    }
}

#[test]
fn component_reader_is_confined_and_ends_with_parent() {
    let skillhost = Path::new(env!("CARGO_BIN_EXE_skillhost"));
    for (program, task) in [
        (skillhost, skillhost::COMPILE_ARGUMENT),
        (&author(), "--locate-frames"),
    ] {
        // The reader's parent is a shell, which prints the reader's id and waits for input.
        let mut shell = command(Path::new("sh"));
        shell
            .args(["-c", "exec 3<&0; \"$0\" \"$1\" <&3 & echo $!; wait"])
            .args([program.as_os_str(), task.as_ref()])
            .env("PATH", "/usr/bin:/bin");
        let mut shell = Process::start(&mut shell);
        let reader = shell.first_line().parse().unwrap();
        wait_until_confined(reader, task);
        let limit = |name: &str| -> Option<u64> {
            let limits = fs::read_to_string(format!("/proc/{reader}/limits")).unwrap();
            let line = limits.lines().find_map(|line| line.strip_prefix(name));
            line?.split_whitespace().next()?.parse().ok()
        };
        wait_until(&format!("no limit on the file size of {task}"), || {
            limit("Max file size") == Some(0)
        });
        assert!(limit("Max address space").is_some(), "{task}");
        shell.signal(Signal::KILL);
        // The output closes when the process ends.
        let mut output = [PollFd::new(
            shell.stdout.as_ref().unwrap(),
            PollFlags::empty(),
        )];
        let timeout = Timespec::try_from(TIMEOUT).unwrap();
        let closed = poll(&mut output, Some(&timeout));
        assert_eq!(closed, Ok(1), "{task} outlives its parent");
    }
}

#[test]
fn missing_part_warns_or_fails_when_required() {
    if !runs_in_own_process() {
        return run_in_own_process(
            "process_sandbox::missing_part_warns_or_fails_when_required",
            "on kernels without a part of the sandbox",
        );
    }
    let folders = Folders::new();
    let root = folders.root.to_str().unwrap();
    let call = |confine| ["--skills", root, "call", "--confine", confine, "none"];
    // Each function adds a filter that answers system calls as that kernel would. The newest
    // filter that answers a call decides.
    let kernels: [(fn(), &str); 3] = [
        (
            || answer_landlock_with(Answer::Unknown),
            "Landlock, which needs Linux 5.13 or newer\n",
        ),
        (
            || answer_landlock_with(Answer::Disabled),
            "Landlock, which is not enabled in this kernel\n",
        ),
        (
            || answer_seccomp_with(Answer::Forbidden),
            "Landlock, which is not enabled in this kernel, and the filter of system calls \
             (Operation not permitted (os error 1))\n",
        ),
    ];
    for (become_kernel, missing) in kernels {
        become_kernel();
        let run = run_unprivileged(&call("required"));
        let error = format!(
            "`confine = \"required\"`: the process sandbox is incomplete: missing {missing}"
        );
        assert!(run.code == 4 && run.stderr.contains(&error), "{run:?}");
        let run = Program::new().run(&call("auto"));
        let warning = format!("the process sandbox is incomplete: missing {missing}");
        assert!(run.code != 4 && run.stderr.contains(&warning), "{run:?}");
        // A process with an incomplete sandbox does not run or write confined processes' code.
        let program = program();
        let cache = program.folder.path().join("own-cache");
        let arguments = ["call", "--skills", "skills", "--confine", "auto"];
        let mut command = program.command(&arguments);
        command.args(["read_skill", "skill_name=a"]);
        command.env("SKILLHOST_CACHE", &cache);
        let run = finish(command, "");
        assert_eq!((run.code, &*run.stdout), (0, "body\n"), "{run:?}");
        let confined = fs::read_dir(cache.join("confined")).into_iter().flatten();
        assert_eq!(confined.count(), 0, "{missing}");
    }
}

#[test]
fn reads_linked_skills_and_home_without_broker() {
    let program = Program::new();
    program.write("elsewhere/linked/SKILL.md", "linked body");
    program.write("skills/group/plain/SKILL.md", "plain body");
    program.write("home/file", "text at home");
    let at = |path: &str| program.folder.path().join(path);
    symlink("../elsewhere/linked", at("skills/linked")).unwrap();
    let text = "skills = [{ path = \"skills\", follow_root_links = true, depth = 2 }]\n\
                home = \"home\"\n";
    program.write("c.toml", text);
    for (arguments, expected) in [
        (&["read_skill", "skill_name=linked"][..], "linked body"),
        (&["read_skill", "skill_name=plain"], "plain body"),
        (&["read_skill_file", "path=file"], "text at home"),
    ] {
        // A call without third-party tools starts no broker that could open them.
        let call = ["call", "--config", "c.toml"];
        let run = program.run(&[&call, arguments].concat());
        assert_eq!((run.code, run.stdout.trim_end()), (0, expected), "{run:?}");
    }
}

#[test]
fn call_is_recorded_if_log_is_renamed_meanwhile() {
    let program = program();
    let at = |path: &str| program.folder.path().join(path);
    program.write("log", "");
    fs::set_permissions(at("log"), fs::Permissions::from_mode(0o600)).unwrap();
    // The program confines itself, and then waits for this lock.
    let log = fs::File::open(at("log")).unwrap();
    log.lock().unwrap();
    let call = [
        "--skills",
        "skills",
        "--audit",
        "log",
        "call",
        "read_skill",
        "skill_name=a",
    ];
    let process = Process::start(&mut program.command(&call));
    let pid = process.pid;
    wait_until("the program is not confined", || {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        status.contains("\nSeccomp:\t2\n")
    });
    fs::rename(at("log"), at("log.1")).unwrap();
    drop(log);
    let output = process.output();
    assert_eq!(&*output.stdout, b"body\n", "{output:?}");
    let records = ["log.1", "log"].map(|name| fs::read_to_string(at(name)).unwrap_or_default());
    assert_eq!(
        records.concat().matches("\"outcome\":\"output\"").count(),
        1,
        "{records:?}"
    );
}

#[test]
fn compiles_third_party_components_when_confined() {
    let program = program();
    let guest = fs::read(crate::support::guests().join("scripted.wasm")).unwrap();
    program.write("tools/scripted.wasm", &guest);
    program.write("bad/cut.wasm", &guest[..5000]);
    program.write("c.toml", "grants.\"scripted.wasm\".skills = [\"*\"]\n");
    program.write("late.toml", "compile_time = \"1ms\"\n");
    let script = ["scripted_run", "skill_name=a", "script=stat-at 0 none -"];
    for (arguments, code, message) in [
        (
            &["--tools", "tools", "--config", "c.toml"][..],
            0,
            "!no-entry",
        ),
        (&["--tools", "bad"], 4, "cut.wasm"),
        (
            &["--tools", "tools", "--config", "late.toml"],
            4,
            "took longer than 1ms",
        ),
    ] {
        let runs = ["auto", "off"].map(|confine| {
            let call = ["call", "--skills", "skills", "--confine", confine];
            let mut command = program.command(&[&call, arguments, &script].concat());
            // An empty cache.
            let cache = tempfile::tempdir().unwrap();
            command.env("SKILLHOST_CACHE", cache.path());
            finish(command, "")
        });
        let [confined, unconfined] = runs;
        // On a slow machine, the program says that it compiles.
        let without_progress = |stderr: &str| -> Vec<String> {
            let lines = stderr
                .lines()
                .filter(|line| !line.starts_with("skillhost: compil"));
            lines.map(str::to_owned).collect()
        };
        assert_eq!(confined.code, code, "{arguments:?}: {confined:?}");
        let printed = format!("{}{}", confined.stdout, confined.stderr);
        assert!(printed.contains(message), "{arguments:?}: {confined:?}");
        assert_eq!(
            (confined.stdout, without_progress(&confined.stderr)),
            (unconfined.stdout, without_progress(&unconfined.stderr))
        );
    }
}
