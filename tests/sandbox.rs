//! The sandbox alone: a guest that passes raw strings to WASI reads nothing outside its folder,
//! and writes nowhere.

use std::fs;
use std::os::unix::fs::symlink;

use rustix::fs::{CWD, FileType, Mode};
use serde_json::json;
use skillhost::{CallError, Host, Limits, Load, Stop};

use crate::support::filter::{Answer, answer_statx_with};
use crate::support::folders::{CANARY, Folders};
use crate::support::{
    build, builder, builder_with_guests, call, model_text, run_in_own_process, runs_in_own_process,
};

fn host_with_guests(folders: &Folders) -> Host {
    build(builder_with_guests().skills(&folders.root))
}

fn hostile_folder() -> Folders {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "# A\n");
    folders.write("a/docs/inside.txt", "inside");
    folders.write("ab/secret.txt", CANARY);
    folders.write(".hidden/SKILL.md", CANARY);
    let skill = folders.root.join("a");
    symlink("docs/inside.txt", skill.join("link")).unwrap();
    symlink("../../outside", skill.join("out-dir")).unwrap();
    symlink("../../outside/canary.txt", skill.join("out-relative")).unwrap();
    symlink(
        folders.outside.join("canary.txt"),
        skill.join("out-absolute"),
    )
    .unwrap();
    symlink("/proc/self/root", skill.join("proc-root")).unwrap();
    symlink("/proc/self/environ", skill.join("environ")).unwrap();
    symlink("loop", skill.join("loop")).unwrap();
    symlink(&folders.outside, folders.root.join("linked-skill")).unwrap();
    rustix::fs::mknodat(CWD, skill.join("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    folders
}

#[test]
fn guest_without_checks_reads_nothing_outside_its_folder() {
    let folders = hostile_folder();
    let host = host_with_guests(&folders);
    let outside = folders.outside.join("canary.txt");
    let outside = outside.to_str().unwrap();
    let paths = [
        "../ab/secret.txt",
        "docs/../../ab/secret.txt",
        "../../outside/canary.txt",
        "../../../../../../../../../../etc/passwd",
        "/etc/passwd",
        outside,
        "//etc/passwd",
        "out-dir/canary.txt",
        "out-dir/",
        "out-relative",
        "out-absolute",
        "proc-root/etc/passwd",
        "environ",
        "/proc/self/environ",
        "..",
        "../",
        "docs/../..",
        "/skills/a/SKILL.md",
        "..\\ab\\secret.txt",
        "loop",
        "fifo",
        "",
    ];
    for path in paths {
        for tool in ["raw_read", "raw_stat", "raw_list"] {
            let arguments = json!({"skill_name": "a", "path": path});
            let outcome = call(&host, tool, arguments);
            // Attributes of a FIFO inside are harmless, because they do not open it.
            let harmless = tool == "raw_stat" && path == "fifo";
            assert!(harmless || outcome.is_err(), "{tool} {path:?}: {outcome:?}");
        }
    }
    // Files inside are readable.
    for (path, content) in [
        ("docs/inside.txt", "inside"),
        ("link", "inside"),
        ("docs/../SKILL.md", "# A\n"),
    ] {
        let arguments = json!({"skill_name": "a", "path": path});
        assert_eq!(model_text(&host, "raw_read", arguments), content);
    }
}

#[test]
fn guard_works_without_statx() {
    if !runs_in_own_process() {
        return run_in_own_process("sandbox::guard_works_without_statx", "without statx");
    }
    answer_statx_with(Answer::Unknown);
    let folders = hostile_folder();
    fs::hard_link(
        folders.outside.join("canary.txt"),
        folders.root.join("a/linked"),
    )
    .unwrap();
    let host = host_with_guests(&folders);
    let read = |path: &str| {
        let arguments = json!({"skill_name": "a", "path": path});
        model_text(&host, "raw_read", arguments)
    };
    for (path, expected) in [
        ("docs/inside.txt", "inside"),
        ("link", "inside"),
        ("fifo", "unsupported"),
        ("linked", "too-many-links"),
        ("out-relative", "not-permitted"),
    ] {
        assert_eq!(read(path), expected, "{path}");
    }
    let host = build(builder().skills("/"));
    let arguments = json!({"skill_name": "dev", "file_path": "shm"});
    assert_eq!(
        model_text(&host, "read_file_in_skill", arguments),
        "ERROR: Cannot read file 'shm': lies on another mount"
    );
}

#[test]
fn link_reveals_no_host_path() {
    let folders = hostile_folder();
    let host = host_with_guests(&folders);
    let read = |path| {
        model_text(
            &host,
            "raw_readlink",
            json!({"skill_name": "a", "path": path}),
        )
    };
    assert_eq!(read("link"), "docs/inside.txt");
    for path in ["out-absolute", "proc-root", "environ", "../linked-skill"] {
        assert_eq!(read(path), "not-permitted", "{path}");
    }
}

#[test]
fn guest_cannot_write() {
    let folders = hostile_folder();
    let host = host_with_guests(&folders);
    for path in [
        "new.txt",
        "SKILL.md",
        "docs/new.txt",
        "../new.txt",
        "out-dir/new.txt",
    ] {
        let arguments = json!({"skill_name": "a", "path": path});
        assert_eq!(
            model_text(&host, "raw_create", arguments),
            "read-only",
            "{path}"
        );
    }
    assert_eq!(fs::read(folders.root.join("a/SKILL.md")).unwrap(), b"# A\n");
    assert_eq!(fs::read_dir(&folders.outside).unwrap().count(), 1);
}

#[test]
fn call_has_at_most_one_preopen() {
    let folders = hostile_folder();
    let host = host_with_guests(&folders);
    for (skill, mounts) in [
        ("a", "/skills/a"),
        ("none", ""),
        ("", ""),
        (".", ""),
        ("..", ""),
        ("../skills/a", ""),
        ("a/", ""),
        (".hidden", ""),
        ("linked-skill", ""),
    ] {
        let arguments = json!({"skill_name": skill, "path": ""});
        assert_eq!(
            model_text(&host, "raw_mounts", arguments),
            mounts,
            "{skill:?}"
        );
    }
}

#[test]
fn refuses_a_fifo_at_once() {
    let folders = hostile_folder();
    let host = host_with_guests(&folders);
    let arguments = json!({"skill_name": "a", "path": "fifo"});
    assert_eq!(model_text(&host, "raw_read", arguments), "unsupported");
    let arguments = json!({"skill_name": "a", "file_path": "fifo"});
    assert_eq!(
        model_text(&host, "read_file_in_skill", arguments),
        "ERROR: Cannot read file 'fifo': is not a regular file"
    );
}

/// Makes a host with changed limits, and a skill with a large and a small file.
fn limited(change: impl FnOnce(&mut Limits)) -> (Folders, Host) {
    let folders = Folders::new();
    folders.write("a/large.txt", "x".repeat(3 << 20));
    folders.write("a/small.txt", "small");
    let mut limits = Limits::default();
    change(&mut limits);
    let host = build(builder().skills(&folders.root).limits(limits));
    (folders, host)
}

fn stopped_by(host: &Host, file: &str) -> Option<Stop> {
    // This tool's guest copies the text into its memory.
    let arguments = json!({"skill_name": "a", "path": file});
    match call(host, "read_skill_file", arguments) {
        Ok(_) => None,
        Err(CallError::Stopped { stop, .. }) => Some(stop),
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn stops_answer_above_limit_and_next_call_works() {
    let (_folders, host) = limited(|limits| limits.output = 1 << 20);
    assert_eq!(stopped_by(&host, "large.txt"), Some(Stop::Output(1 << 20)));
    assert_eq!(stopped_by(&host, "small.txt"), None);
}

#[test]
fn stops_guest_above_memory_limit() {
    let (_folders, host) = limited(|limits| limits.memory = 2 << 20);
    assert_eq!(stopped_by(&host, "large.txt"), Some(Stop::Memory(2 << 20)));
    assert_eq!(stopped_by(&host, "small.txt"), None);
}

#[test]
fn next_call_reads_edited_file() {
    let folders = Folders::new();
    folders.write("a/note.txt", "before");
    let host = build(builder().skills(&folders.root));
    let arguments = json!({"skill_name": "a", "file_path": "note.txt"});
    assert_eq!(
        model_text(&host, "read_file_in_skill", arguments.clone()),
        "before"
    );
    folders.write("a/note.txt", "after");
    assert_eq!(model_text(&host, "read_file_in_skill", arguments), "after");
}

/// A component that writes to 1,000 addresses of its memory, to a table and to a global, and
/// returns the sum of the values that were there.
const WRITES: &str = r#"(component
  (core module $m
    (memory 128)
    (data (i32.const 0) "\01")
    (data (i32.const 4194304) "\01")
    (table 8000 funcref)
    (elem declare func $f)
    (global $g (mut i32) (i32.const 1))
    (func $f (export "found") (result i32) (local $at i32) (local $found i32)
      (local.set $found (i32.add (global.get $g)
        (i32.eqz (ref.is_null (table.get (i32.const 7000))))))
      (global.set $g (i32.const 99))
      (table.set (i32.const 7000) (ref.func $f))
      (loop $places
        (local.set $found (i32.add (local.get $found) (i32.load (local.get $at))))
        (i32.store (local.get $at) (i32.const 77))
        (local.set $at (i32.add (local.get $at) (i32.const 8192)))
        (br_if $places (i32.lt_u (local.get $at) (i32.const 8192000))))
      local.get $found))
  (core instance $i (instantiate $m))
  (func (export "found") (result u32) (canon lift (core func $i "found"))))"#;

#[test]
fn call_sees_no_memory_of_earlier_call() {
    let folders = Folders::new();
    fs::write(
        folders.outside.join("found.wasm"),
        wat::parse_str(WRITES).unwrap(),
    )
    .unwrap();
    let mut load = Load::default();
    // All calls use the same slot.
    load.calls = 1;
    load.calls_per_tool = Some(1);
    let host = build(builder().tools(&folders.outside).load(load));
    for _ in 0..5 {
        // The global and two bytes of data are 1 at the start, and the rest is 0.
        assert_eq!(model_text(&host, "found", json!({})), "3");
    }
}
