//! Hostile folders: too large, too deep, or changing during a read. Each has a defined
//! answer in bounded time and memory.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use serde_json::{Value, json};
use skillhost::{CallError, Limits, Stop};

use crate::support::folders::{CANARY, Folders};
use crate::support::process::output;
use crate::support::{
    UNREACHED, build, builder, builder_with_guests, call, limits, model_text, run_in_own_process,
    runs_in_own_process,
};

/// Returns the peak memory of this process.
fn peak_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib: u64 = line
        .and_then(|line| line.split_whitespace().nth(1))
        .and_then(|number| number.parse().ok())
        .unwrap();
    kib << 10
}

/// Makes a folder of `entries` empty files.
fn fill(folder: &Path, entries: usize) {
    fs::create_dir_all(folder).unwrap();
    let folder = rustix::fs::open(folder, OFlags::DIRECTORY, Mode::empty()).unwrap();
    let flags = OFlags::CREATE | OFlags::WRONLY;
    for number in 0..entries {
        let name = number.to_string();
        drop(rustix::fs::openat(&folder, &*name, flags, Mode::RUSR).unwrap());
    }
}

/// Returns calls of the built-in tools on a skill of this name.
fn calls(skill: &str) -> [(&'static str, Value); 6] {
    [
        (
            "read_file_in_skill",
            json!({"skill_name": skill, "file_path": "SKILL.md"}),
        ),
        ("get_skill", json!({"skill_name": skill})),
        (
            "read_skill_file",
            json!({"skill_name": skill, "path": "SKILL.md"}),
        ),
        ("read_skill", json!({"skill_name": skill})),
        ("list_skills", json!({})),
        ("list_files_in_skill", json!({"skill_name": skill})),
    ]
}

fn shown(result: &Result<skillhost::Output, CallError>) -> String {
    match result {
        Ok(output) => output.text().chars().take(80).collect(),
        Err(error) => format!("{error:?}"),
    }
}

const ENTRIES: usize = 5000;

#[test]
fn answers_in_folder_with_more_entries_than_limit() {
    let folders = Folders::new();
    fill(&folders.root.join("full"), ENTRIES + 1);
    folders.write("full/file.txt", "found");
    folders.write("b/SKILL.md", "# B\n");
    let mut limits = Limits::default();
    limits.directory_entries = ENTRIES;
    let host = build(builder_with_guests().skills(&folders.root).limits(limits));
    for (tool, arguments) in calls("full") {
        let answer = call(&host, tool, arguments);
        let shown = shown(&answer);
        match answer {
            Ok(_) => assert_eq!(tool, "list_skills", "{shown}"),
            Err(CallError::Failed(_)) => {}
            Err(CallError::Stopped { stop, .. }) => {
                assert!(matches!(stop, Stop::DirectoryEntries(_)), "{shown}");
            }
            Err(_) => panic!("{tool}: {shown}"),
        }
    }
    // A listing of everything is refused when it becomes too long.
    let listed = model_text(
        &host,
        "raw_list",
        json!({"skill_name": "full", "path": "."}),
    );
    assert!(listed.contains("overflow"), "{}", listed.len());
    // A file is found by name, whatever the number of files beside it.
    let arguments = json!({"skill_name": "full", "file_path": "file.txt"});
    assert_eq!(model_text(&host, "read_file_in_skill", arguments), "found");
}

#[test]
fn too_many_skills_stop_only_the_listing() {
    let folders = Folders::new();
    for number in 0..500 {
        fs::create_dir(folders.root.join(number.to_string())).unwrap();
    }
    folders.write("7/SKILL.md", "# Seven\n");
    let mut limits = Limits::default();
    limits.directory_entries = 499;
    let host = build(builder().skills(&folders.root).limits(limits));
    match call(&host, "list_skills", json!({})) {
        Err(CallError::Stopped { stop, .. }) => assert_eq!(stop, Stop::DirectoryEntries(499)),
        other => panic!("{other:?}"),
    }
    let arguments = json!({"skill_name": "7"});
    assert_eq!(model_text(&host, "read_skill", arguments), "# Seven\n");
}

/// Nests `depth` folders, deeper than a path can reach.
fn dig(top: &Path, depth: usize) {
    let mut folder = rustix::fs::open(top, OFlags::DIRECTORY, Mode::empty()).unwrap();
    for _ in 0..depth {
        rustix::fs::mkdirat(&folder, "d", Mode::RWXU).unwrap();
        folder = rustix::fs::openat(&folder, "d", OFlags::DIRECTORY, Mode::empty()).unwrap();
    }
}

#[test]
fn descends_10000_folders_by_handle_not_path() {
    const DEPTH: usize = 10_000;
    let folders = Folders::new();
    folders.write("deep/SKILL.md", "# Deep\n\n[link](d/d/d)\n");
    dig(&folders.root.join("deep"), DEPTH);
    let all = skillhost::Grant::new().skills(["*"]).unwrap();
    let host = build(
        builder_with_guests()
            .skills(&folders.root)
            .grant("hostile.wasm", all)
            .limits(limits(UNREACHED)),
    );
    let arguments = json!({"skill_name": "deep", "path": "d"});
    let went = model_text(&host, "hostile_descend", arguments);
    assert_eq!(went, format!("went down {DEPTH}"));
    let path = "d/".repeat(DEPTH) + "file.txt";
    let arguments = json!({"skill_name": "deep", "path": path});
    let refused = model_text(&host, "raw_read", arguments);
    assert!(refused.contains("name-too-long"), "{refused}");
    let arguments = json!({"skill_name": "deep", "file_path": path});
    match call(&host, "read_file_in_skill", arguments) {
        Err(CallError::Failed(failure)) => {
            assert!(failure.message.len() < 50_000, "{}", failure.message.len());
        }
        other => panic!("{}", shown(&other)),
    }
    for (tool, arguments) in calls("deep") {
        assert!(call(&host, tool, arguments).is_ok(), "{tool}");
    }
    assert!(host.catalog().check("deep").unwrap().is_ok());
    // The standard library cannot remove this folder: it would keep all levels open at once.
    let removed = output(Command::new("rm").arg("-rf").arg(&folders.root));
    assert!(removed.status.success(), "{removed:?}");
}

#[test]
fn reads_a_sparse_terabyte_in_bounded_memory() {
    if !runs_in_own_process() {
        return run_in_own_process(
            "hostile_folders::reads_a_sparse_terabyte_in_bounded_memory",
            "alone",
        );
    }
    let folders = Folders::new();
    for name in ["SKILL.md", "file.txt"] {
        folders.write(&format!("huge/{name}"), "# Huge\n");
        let file = OpenOptions::new()
            .write(true)
            .open(folders.root.join("huge").join(name));
        file.unwrap().set_len(1 << 40).unwrap();
    }
    let host = build(builder_with_guests().skills(&folders.root));
    let before = peak_memory();
    let mut reads = vec![
        (
            "read_skill_file",
            json!({"skill_name": "huge", "path": "file.txt", "offset": 1, "limit": 5}),
        ),
        (
            "read_file_in_skill",
            json!({"skill_name": "huge", "file_path": "file.txt"}),
        ),
        (
            "raw_read",
            json!({"skill_name": "huge", "path": "file.txt"}),
        ),
    ];
    reads.extend(calls("huge"));
    for (tool, arguments) in reads {
        let answer = call(&host, tool, arguments.clone());
        let shown = shown(&answer);
        match &answer {
            // The limits on reads and answers bound the text.
            Ok(output) => assert!(output.text().len() <= 16 << 20, "{tool}: {shown}"),
            Err(CallError::Failed(failure)) => {
                assert!(failure.message.len() < 1000, "{tool}: {shown}")
            }
            Err(CallError::Stopped {
                stop: Stop::Memory(_) | Stop::Time(_),
                ..
            }) => {}
            Err(_) => panic!("{tool} {arguments}: {shown}"),
        }
    }
    // The guest's memory and the host's copy have at most 64 MiB each. Allows twice that.
    let grown = peak_memory() - before;
    assert!(grown < 4 * (64 << 20), "{grown} bytes");
}

/// Runs calls while the disk changes without pause, for a bounded time.
fn meanwhile(change: impl Fn() + Sync, mut calls: impl FnMut()) {
    /// Signals the end of the calls, even if one panics.
    struct Done<'a>(&'a AtomicBool);
    impl Drop for Done<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _done = Done(&done);
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                change();
            }
        });
        let end = Instant::now() + Duration::from_secs(1);
        let mut rounds = 0;
        while Instant::now() < end || rounds < 20 {
            calls();
            rounds += 1;
        }
    });
}

#[test]
fn bounds_reads_of_file_that_grows_and_shrinks() {
    const MOST: u64 = 300_000;
    let folders = Folders::new();
    let text = vec![b'x'; MOST as usize];
    folders.write("a/SKILL.md", &text);
    let path = folders.root.join("a/SKILL.md");
    let host = build(builder_with_guests().skills(&folders.root));
    let mut lengths = std::collections::BTreeSet::new();
    meanwhile(
        || {
            let file = OpenOptions::new().write(true).open(&path).unwrap();
            file.set_len(10).unwrap();
            (&file).write_all(&text[..1000]).unwrap();
            (&file).write_all(&text[1000..]).unwrap();
        },
        || {
            for (tool, arguments) in calls("a") {
                match call(&host, tool, arguments) {
                    Ok(output) => {
                        let text = output.text();
                        assert!(text.len() as u64 <= MOST + 100, "{tool}: {}", text.len());
                        // A range contains only zeroes between its truncation and the next write.
                        if tool == "read_file_in_skill" {
                            let is_expected = text.bytes().all(|byte| matches!(byte, b'x' | 0));
                            assert!(is_expected, "{tool}");
                            lengths.insert(text.len());
                        }
                    }
                    Err(CallError::Failed(_)) => {}
                    Err(other) => panic!("{tool}: {other:?}"),
                }
            }
        },
    );
    assert!(lengths.len() > 1, "the file never changed: {lengths:?}");
}

#[test]
fn reads_or_misses_skill_that_comes_and_goes() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "# A\n");
    let (here, away) = (folders.root.join("a"), folders.outside.join("a"));
    let host = build(builder().skills(&folders.root));
    let (mut found, mut missing) = (0, 0);
    meanwhile(
        || {
            fs::rename(&here, &away).unwrap();
            fs::rename(&away, &here).unwrap();
        },
        || {
            for (tool, arguments) in calls("a") {
                match call(&host, tool, arguments) {
                    Ok(output) => {
                        let record = output.record_json();
                        let expected = match tool {
                            "list_skills" => "skills",
                            "list_files_in_skill" => "entries",
                            _ => "# A",
                        };
                        assert!(record.contains(expected), "{tool}: {record}");
                        found += 1;
                    }
                    Err(CallError::Failed(failure)) => {
                        assert!(!failure.message.contains(CANARY), "{failure:?}");
                        missing += 1;
                    }
                    Err(other) => panic!("{tool}: {other:?}"),
                }
            }
        },
    );
    assert!(found > 0 && missing > 0, "{found} found, {missing} missing");
    let arguments = json!({"skill_name": "a"});
    assert_eq!(model_text(&host, "read_skill", arguments), "# A\n");
}

#[test]
fn root_that_is_removed_has_no_skills() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "# A\n");
    let host = build(builder().skills(&folders.root));
    fs::remove_dir_all(&folders.root).unwrap();
    for (tool, arguments) in calls("a") {
        match call(&host, tool, arguments) {
            Ok(output) => assert_eq!(
                (tool, output.record()),
                ("list_skills", json!({"skills": []}))
            ),
            Err(CallError::Failed(failure)) => {
                assert!(failure.message.contains("not"), "{tool}: {failure:?}");
            }
            Err(other) => panic!("{tool}: {other:?}"),
        }
    }
}

#[test]
fn reports_non_utf8_names_and_lists_the_rest() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "# A\n");
    let odd = OsStr::from_bytes(b"odd-\xff\xfe");
    fs::write(folders.root.join("a").join(odd), "odd").unwrap();
    fs::create_dir(folders.root.join(odd)).unwrap();
    fs::write(folders.root.join(odd).join("SKILL.md"), "# Odd\n").unwrap();
    let host = build(builder_with_guests().skills(&folders.root));
    let listing = host.catalog().list();
    let names: Vec<&str> = listing
        .skills
        .iter()
        .map(|skill| skill.name.as_str())
        .collect();
    assert_eq!(names, ["a"]);
    assert_eq!(listing.problems.len(), 1, "{:?}", listing.problems);
    assert!(listing.problems[0].contains("its name is not UTF-8"));
    for (tool, arguments) in calls("a") {
        assert!(call(&host, tool, arguments).is_ok(), "{tool}");
    }
    let listed = model_text(&host, "raw_list", json!({"skill_name": "a", "path": "."}));
    assert!(listed.contains("illegal-byte-sequence"), "{listed}");
    let arguments = json!({"skill_name": "a", "file_path": "odd-\u{fffd}\u{fffd}"});
    let error = call(&host, "read_file_in_skill", arguments).unwrap_err();
    assert!(error.model_text().contains("not found"), "{error:?}");
}
