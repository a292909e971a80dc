//! Calls with a copy-on-write view: what a guest can read and write, what is refused, and
//! that the disk stays unchanged.

use std::fs;
use std::future::poll_fn;
use std::os::unix::fs::symlink;
use std::pin::pin;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use skillhost::{FolderAccess, Grant, Host, Limits, Load};

use crate::fuzzing::bodies;
use crate::support::folders::{CANARY, Folders};
use crate::support::program::Program;
use crate::support::{block_on, build, builder, call, guests, model_text};

/// Makes the skill `a`, with symlinks that lead out of its folder.
fn folders() -> Folders {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "---\nname: a\ndescription: A.\n---\n# A\n");
    folders.write("a/data.txt", "hello");
    folders.write("a/sub/inner.txt", "inner");
    let skill = folders.root.join("a");
    symlink("../../outside/canary.txt", skill.join("out")).unwrap();
    symlink("/etc/passwd", skill.join("absolute")).unwrap();
    symlink("data.txt", skill.join("link")).unwrap();
    folders
}

fn view_grant(access: FolderAccess) -> Grant {
    Grant::new().skills(["a"]).unwrap().view(access)
}

/// Makes a host that runs scripts with this grant.
fn host(folders: &Folders, grant: Grant) -> Host {
    build(
        builder()
            .skills(&folders.root)
            .component(guests().join("scripted.wasm"))
            .grant("scripted.wasm", grant),
    )
}

fn copy_on_write(folders: &Folders) -> Host {
    host(folders, view_grant(FolderAccess::CopyOnWrite))
}

/// Runs a script: see `tests/guests/scripted/src/script.rs`. Returns each line's result.
fn run(host: &Host, script: &[&str]) -> Vec<String> {
    let arguments = json!({"skill_name": "a", "script": script.join("\n")});
    let lines = model_text(host, "scripted_run", arguments);
    // The host's list of changes follows the results.
    let lines = lines.lines().take(script.len());
    lines.map(str::to_owned).collect()
}

/// Checks the result of each line of a script.
fn check(host: &Host, cases: &[(&str, &str)]) {
    let script: Vec<&str> = cases.iter().map(|(line, _)| *line).collect();
    let lines = run(host, &script);
    for (index, (line, expected)) in cases.iter().enumerate() {
        assert_eq!(
            lines.get(index).map(String::as_str),
            Some(*expected),
            "{line}: {lines:#?}"
        );
    }
}

#[test]
fn next_call_sees_nothing_that_guest_wrote() {
    let folders = folders();
    let host = copy_on_write(&folders);
    for _ in 0..2 {
        check(
            &host,
            &[
                ("stat-at 0 new.txt -", "!no-entry"),
                ("open 2 0 new.txt rwc", "ok"),
                ("text 2 0 made", "ok"),
                ("open 3 0 data.txt rw", "ok"),
                ("open 4 0 link fr", "ok"),
                ("same 3 4", "true"),
                ("text 3 5 -world", "ok"),
                ("read 4 100 0", "hello-world"),
                ("unlink 0 data.txt", "ok"),
                ("open 5 0 data.txt r", "!no-entry"),
                ("read 4 100 0", "hello-world"),
                ("mkdir 0 sub/deeper", "ok"),
                ("rename 0 new.txt 1 moved.txt", "ok"),
                ("list 1", "moved.txt:f"),
                ("rename 0 sub 1 sub", "ok"),
                ("open 6 1 sub/inner.txt r", "ok"),
                ("read 6 100 0", "inner"),
                ("list 0", "SKILL.md:f absolute:l link:l out:l"),
            ],
        );
    }
    let on_disk = fs::read_to_string(folders.root.join("a/data.txt")).unwrap();
    assert_eq!(on_disk, "hello");
    assert!(folders.root.join("a/sub/inner.txt").exists());
    assert!(!folders.root.join("a/new.txt").exists());
}

#[test]
fn guest_starts_in_its_skill_with_empty_tmp() {
    let folders = folders();
    let arguments = json!({"skill_name": "a", "script": ""});
    for (access, mounts) in [
        (FolderAccess::CopyOnWrite, "/skills/a\n/tmp\nin /skills/a"),
        (FolderAccess::ReadOnly, "/skills/a\nin "),
    ] {
        let host = host(&folders, view_grant(access));
        assert_eq!(
            model_text(&host, "scripted_mounts", arguments.clone()),
            mounts
        );
    }
}

#[test]
fn answer_has_text_of_file_that_guest_wrote() {
    let folders = folders();
    let host = copy_on_write(&folders);
    let answer = |script: &str, file: &str| {
        let arguments = json!({"skill_name": "a", "script": script, "answer": file});
        call(&host, "scripted_run", arguments).map(|output| output.text().to_owned())
    };
    let made = answer("open 2 0 report.txt rwc\ntext 2 0 report", "report.txt");
    assert_eq!(made.unwrap(), "report");
    let changed = answer("open 2 0 data.txt rw\ntext 2 0 j", "link");
    assert_eq!(changed.unwrap(), "jello");
    assert_eq!(answer("", "data.txt").unwrap(), "hello");
    for (script, file, reason) in [
        ("unlink 0 data.txt", "data.txt", "not-found"),
        ("", "sub", "is-directory"),
        ("", "out", "outside"),
        ("symlink 0 up ../../outside/canary.txt", "up", "outside"),
        ("open 2 0 raw rwc\nwrite 2 0 255 3", "raw", "not-utf8"),
        ("open 2 0 large rwc\nsize 2 1048577", "large", "too-large"),
    ] {
        let refused = answer(script, file).unwrap_err();
        assert!(
            format!("{refused:?}").contains(reason),
            "{file}: {refused:?}"
        );
    }
}

#[test]
fn without_the_grant_every_write_is_refused() {
    let folders = folders();
    let host = host(&folders, Grant::new().skills(["a"]).unwrap());
    check(
        &host,
        &[
            ("open 2 0 new.txt rwc", "!read-only"),
            ("open 2 0 data.txt rw", "!read-only"),
            ("open 2 0 data.txt rt", "!read-only"),
            ("mkdir 0 new", "!read-only"),
            ("rmdir 0 sub", "!read-only"),
            ("unlink 0 data.txt", "!read-only"),
            ("rename 0 data.txt 0 b", "!read-only"),
            ("symlink 0 new data.txt", "!read-only"),
            ("link 0 data.txt - 0 new", "!read-only"),
            ("times-at 0 data.txt - 1 2", "!read-only"),
            ("open 2 0 data.txt r", "ok"),
            ("write 2 0 65 1", "!read-only"),
            ("append 2 65 1", "!read-only"),
            ("size 2 0", "!read-only"),
            ("list 1", "!no-handle"),
        ],
    );
}

#[test]
fn no_path_or_link_leads_out_of_view() {
    let folders = folders();
    let host = copy_on_write(&folders);
    check(
        &host,
        &[
            ("open 2 0 out fr", "!not-permitted"),
            ("open 2 0 out fwt", "!not-permitted"),
            ("open 2 0 absolute fr", "!not-permitted"),
            ("readlink 0 absolute", "!not-permitted"),
            ("stat-at 0 out f", "!not-permitted"),
            ("symlink 0 mine /etc/passwd", "!not-permitted"),
            ("symlink 0 mine ../../outside/canary.txt", "ok"),
            ("open 2 0 mine fr", "!not-permitted"),
            ("open 2 0 mine fwc", "!not-permitted"),
            ("mkdir 0 deep", "ok"),
            ("rename 0 out 0 deep/out", "ok"),
            ("open 2 0 deep/out fr", "!not-permitted"),
            ("rename 0 absolute 0 deep/absolute", "ok"),
            ("open 2 0 deep/absolute fr", "!not-permitted"),
            ("readlink 0 deep/absolute", "!not-permitted"),
            ("open 2 1 ../a/data.txt r", "!not-permitted"),
            ("open 2 0 ../outside/canary.txt r", "!not-permitted"),
            ("open 2 0 /data.txt r", "!not-permitted"),
            ("open 2 0 /new.txt rwc", "!not-permitted"),
            ("open 2 0 sub rd", "ok"),
            ("open 3 2 ../data.txt r", "!not-permitted"),
        ],
    );
    let everything = run(&host, &["tree 0", "tree 1"]).concat();
    assert!(!everything.contains(CANARY), "{everything}");
}

#[test]
fn guest_gets_error_at_each_limit_of_view() {
    let folders = folders();
    let host_with = |change: fn(&mut Limits)| {
        let mut limits = Limits::default();
        change(&mut limits);
        host(
            &folders,
            view_grant(FolderAccess::CopyOnWrite).limits(limits),
        )
    };
    let few_bytes = host_with(|limits| limits.view_bytes = 20_000);
    check(
        &few_bytes,
        &[
            ("open 2 0 large rwc", "ok"),
            ("write 2 0 65 10000", "ok"),
            ("write 2 10000 65 10000", "!insufficient-space"),
            ("pour 2 19000 65 4096", "!insufficient-space"),
            ("write 2 4000000000 65 1", "!insufficient-space"),
            ("size 2 4000000000", "!insufficient-space"),
            ("stat 2", "f 10000 1 today"),
            // Removed bytes can be used again.
            ("unlink 0 large", "ok"),
            ("open 2 0 other rwc", "ok"),
            ("write 2 0 65 15000", "ok"),
        ],
    );
    let few_files = host_with(|limits| limits.view_files = 3);
    check(
        &few_files,
        &[
            ("open 2 0 one rwc", "ok"),
            ("mkdir 0 two", "ok"),
            ("symlink 0 three one", "ok"),
            ("open 3 0 four rwc", "!insufficient-space"),
            ("stat-at 0 four -", "!no-entry"),
            ("unlink 0 three", "ok"),
            ("open 3 0 four rwc", "ok"),
        ],
    );
    let shallow = host_with(|limits| limits.view_depth = 2);
    check(
        &shallow,
        &[
            ("mkdir 0 a", "ok"),
            ("mkdir 0 a/b", "ok"),
            ("mkdir 0 a/b/c", "!name-too-long"),
            ("mkdir 1 x", "ok"),
            ("mkdir 1 x/y", "ok"),
            ("rename 1 x 0 a/x", "!name-too-long"),
            ("rename 1 x 0 x", "ok"),
            ("open 2 0 a/b/file rwc", "ok"),
        ],
    );
    // A link's target may be as long as a path.
    let link = |bytes: usize| format!("symlink 0 link{bytes} {}", "x".repeat(bytes));
    check(
        &copy_on_write(&folders),
        &[
            (&link(4095), "ok"),
            (&link(4096), "!name-too-long"),
            (&link(5000), "!name-too-long"),
            ("symlink 0 nul x\0y", "!invalid"),
        ],
    );
}

/// The guest gets only an error code, so the log names the limit.
#[test]
fn log_names_reached_limit_once() {
    let program = Program::new();
    program.write("skills/a/SKILL.md", "# A\n");
    let tools = guests();
    let grant = "[grants.\"scripted.wasm\"]\nskills = [\"a\"]\nview = \"copy-on-write\"\n\
                 limits = { view_files = 2, view_depth = 1 }\n";
    program.write("skillhost.toml", format!("tools = [{tools:?}]\n{grant}"));
    for (script, reached_limit) in [
        ("mkdir 0 a\nmkdir 0 b", None),
        (
            "mkdir 0 a\nmkdir 0 b\nmkdir 0 c\nmkdir 0 d",
            Some("view_files"),
        ),
        ("mkdir 0 a\nmkdir 0 a/b\nmkdir 0 a/b", Some("view_depth")),
    ] {
        let arguments = json!({"skill_name": "a", "script": script}).to_string();
        let options = ["--config", "skillhost.toml", "--log", "info"];
        let call = ["call", "scripted_run", &arguments];
        let run = program.run(&[&options[..], &call].concat());
        assert_eq!(run.code, 0, "{run:?}");
        let lines: Vec<&str> = (run.stderr.lines())
            .filter(|line| line.contains("view reached"))
            .collect();
        match reached_limit {
            None => assert!(lines.is_empty(), "{lines:?}"),
            Some(key) => {
                assert_eq!(lines.len(), 1, "{lines:?}");
                assert!(
                    lines[0].contains(&format!("the limit `{key}`")),
                    "{lines:?}"
                );
                assert!(lines[0].contains("scripted"), "{lines:?}");
            }
        }
    }
}

#[test]
fn views_share_the_memory_of_all_calls() {
    let folders = folders();
    let mut limits = Limits::default();
    (limits.memory, limits.view_bytes) = (2 << 20, 1 << 30);
    let mut load = Load::default();
    load.calls_memory = Some(8 << 20);
    let host = build(
        builder()
            .skills(&folders.root)
            .load(load)
            .limits(limits.clone())
            .component(guests().join("scripted.wasm"))
            .grant(
                "scripted.wasm",
                view_grant(FolderAccess::CopyOnWrite).limits(limits),
            ),
    );
    for _ in 0..3 {
        check(
            &host,
            &[
                ("open 2 0 large rwc", "ok"),
                ("size 2 8000000", "!insufficient-space"),
                ("size 2 100000", "ok"),
            ],
        );
    }
    assert_eq!(host.occupancy().memory, 0, "all memory is freed");
}

#[test]
fn refuses_special_files_and_hard_links() {
    let folders = folders();
    let skill = folders.root.join("a");
    fs::hard_link(skill.join("data.txt"), skill.join("linked")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        skill.join("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let host = copy_on_write(&folders);
    check(
        &host,
        &[
            ("open 2 0 linked r", "!too-many-links"),
            ("open 2 0 linked rwt", "!too-many-links"),
            ("rename 0 linked 0 mine", "!too-many-links"),
            ("open 2 0 fifo r", "!unsupported"),
            ("rename 0 fifo 0 mine", "!unsupported"),
            ("unlink 0 fifo", "ok"),
            ("unlink 0 linked", "ok"),
            ("open 2 0 linked rwc", "ok"),
            ("stat 2", "f 0 1 today"),
        ],
    );
    assert!(skill.join("fifo").exists() && skill.join("linked").exists());
}

#[test]
fn hostile_operations_leave_disk_unchanged() {
    let folders = folders();
    let before = bodies::view::disk::listing(&folders.root);
    let grant = || view_grant(FolderAccess::CopyOnWrite);
    let host = build(
        builder()
            .skills(&folders.root)
            .component(guests().join("scripted.wasm"))
            .component(guests().join("hostile.wasm"))
            .grant("scripted.wasm", grant())
            .grant("hostile.wasm", grant()),
    );
    for (tool, path, ending) in [
        ("create", "new.txt", "done"),
        ("create", "../new.txt", "not-permitted"),
        ("create_exclusively", "new.txt", "done"),
        ("create_exclusively", "data.txt", "exist"),
        ("truncate", "data.txt", "done"),
        ("truncate", "out", "not-permitted"),
        ("open_for_writing", "data.txt", "done"),
        ("open_for_changing", "sub", "done"),
        // Handles for reading cannot write.
        ("write", "data.txt", "bad-descriptor"),
        ("write_through_stream", "data.txt", "bad-descriptor"),
        ("append_through_stream", "data.txt", "bad-descriptor"),
        ("set_size", "data.txt", "bad-descriptor"),
        ("set_times", "data.txt", "done"),
        ("set_times_at", "data.txt", "done"),
        ("set_times_at", "out", "not-permitted"),
        ("rename", "data.txt", "done"),
        ("link", "data.txt", "done"),
        ("symlink", "data.txt", "done"),
        ("unlink", "out", "done"),
        ("make_folder", "", "done"),
        ("remove_folder", "", "no-entry"),
        ("sync", "data.txt", "done"),
        ("write_by_std", "data.txt", "done"),
    ] {
        let arguments = json!({"skill_name": "a", "path": path});
        let lines = model_text(&host, &format!("hostile_{tool}"), arguments);
        assert!(lines.contains(ending), "{tool} {path}: {lines}");
    }
    let deep = (1..200).map(|depth| format!("mkdir 0 {}x", "x/".repeat(depth - 1)));
    let gone = [
        "unlink 0 SKILL.md",
        "unlink 0 data.txt",
        "unlink 0 link",
        "unlink 0 out",
        "unlink 0 absolute",
        "unlink 0 sub/inner.txt",
        "rmdir 0 sub",
        "rename 0 x 1 y",
    ];
    let gone = gone.iter().map(|line| (*line).to_owned());
    let many = (0..11_000).map(|index| format!("open 2 1 file{index} wc"));
    let large = (0..100).map(|_| "append 2 65 1000000".to_owned());
    let rest = ["size 2 1000000000", "list 0"].map(str::to_owned);
    let script = deep.chain(gone).chain(many).chain(large).chain(rest);
    let script: Vec<String> = script.collect();
    let script: Vec<&str> = script.iter().map(String::as_str).collect();
    let lines = run(&host, &script);
    let failed = |code: &str| lines.iter().filter(|line| line.contains(code)).count();
    assert_eq!(failed("!name-too-long"), 1, "{:?}", &lines[..200]);
    // The view is at most 64 folders deep. Folder 65 is refused, so the others lack their parent.
    assert_eq!(failed("!no-entry"), 199 - 65);
    assert!(failed("!insufficient-space") > 1000);
    assert_eq!(lines.last().unwrap(), "");
    assert_eq!(bodies::view::disk::listing(&folders.root), before);
    check(
        &host,
        &[(
            "list 0",
            "SKILL.md:f absolute:l data.txt:f link:l out:l sub:d",
        )],
    );
}

/// A host call cannot be interrupted, so a long one must yield by itself.
#[test]
fn renaming_large_folder_yields() {
    let folders = folders();
    for number in 0..9_000 {
        folders.write(&format!("a/large/{number}"), "text");
    }
    let host = copy_on_write(&folders);
    let script = "rename 0 large 0 moved\nstat-at 0 moved/8999 -";
    let call = host.call("scripted_run", json!({"skill_name": "a", "script": script}));
    let now = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap();
    let (mut total, mut longest) = (Duration::ZERO, Duration::ZERO);
    let mut call = pin!(call);
    let output = block_on(poll_fn(|task| {
        let before = now();
        let polled = call.as_mut().poll(task);
        let turn = now() - before;
        total += turn;
        longest = longest.max(turn);
        polled
    }));
    let lines = output.unwrap().into_model_text();
    assert!(lines.starts_with("ok\nf"), "{lines}");
    assert!(longest < total / 3, "{longest:?} of {total:?}");
}

#[test]
fn random_operations_do_what_folder_on_disk_does() {
    // Xorshift with a fixed seed.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut operations = 0;
    while operations < 100_000 {
        let mut data = vec![0; 1600];
        for byte in &mut data {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *byte = (state >> 32) as u8;
        }
        bodies::view::run(&data);
        operations += bodies::view::operations(&data);
    }
}

#[test]
fn reads_and_shows_the_grant_of_a_view() {
    let config = |view: &str| {
        let text = format!("[grants.\"x.wasm\"]\n{view}");
        skillhost::Config::parse(&text, "skillhost.toml", std::path::Path::new("/etc"))
    };
    for view in ["", "view = \"read-only\"", "view = \"copy-on-write\""] {
        assert!(config(view).is_ok(), "{view}");
    }
    let error = format!("{:#}", config("view = \"write\"").unwrap_err());
    assert!(error.contains("line 2"), "{error}");
    assert!(error.contains("`read-only` or `copy-on-write`"), "{error}");
    let folders = folders();
    let host = copy_on_write(&folders);
    let grants: Vec<Value> = host
        .grants()
        .iter()
        .map(|grant| grant.view.name().into())
        .collect();
    assert!(grants.contains(&json!("copy-on-write")) && grants.contains(&json!("read-only")));
}
