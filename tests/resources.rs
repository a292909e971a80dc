//! Skills' files as resources: what is read, what is left out, and what is
//! refused. A resource is read in a sandbox, as a tool's call is.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use skillhost::{
    AuditMode, CallError, Contents, EntryKind, Grant, Host, Limits, OverLimit, ResourceError,
    SKILL_RESOURCES, SkillFiles, SkillResources, Stop,
};

use crate::support::folders::{CANARY, Folders};
use crate::support::{block_on, build, builder};

const MIB: usize = 1 << 20;

fn host(folders: &Folders) -> Host {
    build(builder().skills(&folders.root))
}

fn resources(folders: &Folders) -> SkillResources {
    host(folders).skill_resources().unwrap()
}

fn read(resources: &SkillResources, path: &str) -> Result<Contents, ResourceError> {
    block_on(resources.read("a", path))
}

fn manifest(resources: &SkillResources) -> SkillFiles {
    block_on(resources.manifest("a")).unwrap()
}

fn paths(files: &SkillFiles) -> Vec<&str> {
    files.files.iter().map(|file| &*file.path).collect()
}

fn left_out(files: &SkillFiles) -> Vec<(&str, &str)> {
    let named = files.left_out.iter();
    let mut named: Vec<_> = named.map(|out| (&*out.path, &*out.reason)).collect();
    named.sort_unstable();
    named
}

/// Names of a folder; those of folders end in a slash.
fn names(resources: &SkillResources, path: Option<&str>) -> Vec<String> {
    let directory = block_on(resources.directory("a", path)).unwrap();
    let name = |entry: skillhost::DirectoryEntry| match entry.kind {
        EntryKind::File { .. } => entry.name,
        EntryKind::Directory => entry.name + "/",
    };
    directory.entries.into_iter().map(name).collect()
}

fn sha256(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn every_byte_of_a_file_is_read_as_it_is() {
    let folders = Folders::new();
    let all: Vec<u8> = (0..=255).collect();
    let text = |text: &str| Contents::Text(text.to_owned());
    let cases = [
        ("SKILL.md", "# A\n".as_bytes(), text("# A\n")),
        ("empty", b"", text("")),
        ("bom.txt", "\u{feff}x\r\n".as_bytes(), text("\u{feff}x\r\n")),
        ("nul.txt", b"a\0b", text("a\0b")),
        ("docs/deep/er/städte.md", "ä".as_bytes(), text("ä")),
        ("a b%20+&=.txt", b"x", text("x")),
        ("all.bin", &all, Contents::Binary(all.clone())),
        ("latin1.txt", b"\xe4", Contents::Binary(vec![0xe4])),
        ("cut.txt", b"\xc3", Contents::Binary(vec![0xc3])),
    ];
    for (path, bytes, _) in &cases {
        folders.write(&format!("a/{path}"), bytes);
    }
    let resources = resources(&folders);
    for (path, bytes, contents) in cases {
        let seen = read(&resources, path);
        assert_eq!(seen, Ok(contents.clone()), "{path}");
        assert_eq!(contents.into_bytes(), bytes, "{path}");
    }
}

#[test]
fn a_manifest_has_every_file_with_size_and_digest_and_the_start_of_skill_md() {
    let folders = Folders::new();
    let big: Vec<u8> = (0..3 * MIB).map(|at| (at % 251) as u8).collect();
    let files: [(&str, &[u8]); 7] = [
        ("SKILL.md", b"---\nname: a\n---\n"),
        ("big.bin", &big),
        ("docs/a.md", b"x"),
        ("docs/sub/SKILL.md", b"nested"),
        ("docs-2", b""),
        (".hidden", b"h"),
        ("Z", b"z"),
    ];
    for (path, bytes) in files {
        folders.write(&format!("a/{path}"), bytes);
    }
    fs::create_dir(folders.root.join("a/empty")).unwrap();
    let resources = resources(&folders);
    let seen = manifest(&resources);
    // By bytes: capitals first, and `docs-2` before what is in `docs`.
    let sorted = [
        ".hidden",
        "SKILL.md",
        "Z",
        "big.bin",
        "docs-2",
        "docs/a.md",
        "docs/sub/SKILL.md",
    ];
    assert_eq!(paths(&seen), sorted);
    for file in &seen.files {
        let (_, bytes) = files.iter().find(|(path, _)| *path == file.path).unwrap();
        assert_eq!(file.size, bytes.len() as u64, "{}", file.path);
        assert_eq!(file.sha256, Some(sha256(bytes)), "{}", file.path);
    }
    assert_eq!(seen.skill_md.as_deref(), Some("---\nname: a\n---\n"));
    assert_eq!((seen.over, seen.left_out_count), (None, 0));

    let listed = block_on(resources.files("a")).unwrap();
    assert_eq!(paths(&listed), sorted);
    assert!(listed.files.iter().all(|file| file.sha256.is_none()));
    let size = |files: &SkillFiles| files.files.iter().map(|file| file.size).sum::<u64>();
    assert_eq!(size(&listed), size(&seen));
    assert_eq!(listed.skill_md, seen.skill_md);
}

#[test]
fn a_directory_has_its_own_entries_and_nothing_below_them() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "x");
    folders.write("a/docs/b.md", "x");
    folders.write("a/docs/a.md", "x");
    folders.write("a/docs/deep/c.md", "x");
    fs::create_dir(folders.root.join("a/empty")).unwrap();
    let resources = resources(&folders);
    assert_eq!(names(&resources, None), ["SKILL.md", "docs/", "empty/"]);
    let docs = ["a.md", "b.md", "deep/"];
    assert_eq!(names(&resources, Some("docs")), docs);
    assert_eq!(names(&resources, Some("docs/deep")), ["c.md"]);
    assert_eq!(names(&resources, Some("empty")), [] as [&str; 0]);
    let at = |path| block_on(resources.directory("a", Some(path)));
    assert_eq!(at("SKILL.md"), Err(ResourceError::NotADirectory));
    assert_eq!(at("SKILL.md/x"), Err(ResourceError::NotFound));
    assert_eq!(at("none"), Err(ResourceError::NotFound));
    assert_eq!(at(".."), Err(ResourceError::Outside));
    assert_eq!(at("docs/../.."), Err(ResourceError::Outside));
}

#[test]
fn what_cannot_be_read_is_left_out_and_named() {
    let folders = Folders::new();
    let a = folders.root.join("a");
    folders.write("a/SKILL.md", "x");
    folders.write("a/docs/real.md", "real");
    let link = |target: &str, name: &str| symlink(target, a.join(name)).unwrap();
    link("docs/real.md", "to-file");
    link("docs", "to-folder");
    link("to-file", "to-link");
    link("..", "up");
    link(".", "self");
    link("../../outside/canary.txt", "outside");
    link(folders.outside.to_str().unwrap(), "outside-folder");
    link("/etc/passwd", "absolute");
    link("none", "dangling");
    link("loop-2", "loop-1");
    link("loop-1", "loop-2");
    rustix::fs::mknodat(CWD, a.join("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    fs::hard_link(folders.outside.join("canary.txt"), a.join("hard")).unwrap();
    fs::write(a.join(OsStr::from_bytes(b"not-\xff-utf8")), "x").unwrap();
    fs::write(a.join("line\nfeed"), "x").unwrap();
    fs::write(a.join("back\\slash"), "x").unwrap();
    fs::write(a.join("..\\up"), "x").unwrap();
    let resources = resources(&folders);
    let seen = manifest(&resources);
    assert_eq!(
        paths(&seen),
        [
            "SKILL.md",
            "docs/real.md",
            "to-file",
            "to-folder/real.md",
            "to-link"
        ]
    );
    assert_eq!(
        left_out(&seen),
        [
            ("", "name-not-utf-8"),
            ("..\\up", "name-backslash"),
            ("absolute", "outside"),
            ("back\\slash", "name-backslash"),
            ("dangling", "not-found"),
            ("fifo", "not-regular"),
            ("hard", "hard-linked"),
            ("line\nfeed", "name-control"),
            ("loop-1", "symlink-loop"),
            ("loop-2", "symlink-loop"),
            ("outside", "outside"),
            ("outside-folder", "outside"),
            ("self", "symlink-loop"),
            ("up", "outside"),
        ]
    );
    assert_eq!(seen.left_out_count, 14);
    let entries = [
        "SKILL.md",
        "docs/",
        "self/",
        "to-file",
        "to-folder/",
        "to-link",
    ];
    assert_eq!(names(&resources, None), entries);
    for (path, error) in [
        ("outside", Some(ResourceError::Outside)),
        ("outside-folder/canary.txt", Some(ResourceError::Outside)),
        ("absolute", Some(ResourceError::Outside)),
        ("up/outside/canary.txt", Some(ResourceError::Outside)),
        ("dangling", Some(ResourceError::NotFound)),
        ("docs", Some(ResourceError::IsDirectory)),
        ("line\nfeed", Some(ResourceError::Outside)),
        ("hard", None),
        ("fifo", None),
        ("loop-1", None),
    ] {
        let start = Instant::now();
        let seen = read(&resources, path).unwrap_err();
        match error {
            Some(error) => assert_eq!(seen, error, "{path}"),
            None => assert!(
                matches!(seen, ResourceError::Unreadable(_)),
                "{path}: {seen:?}"
            ),
        }
        assert!(!seen.to_string().contains(CANARY), "{path}");
        assert!(start.elapsed() < Duration::from_secs(5), "{path}");
    }
}

#[test]
fn no_path_reads_outside_the_skill() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "x");
    folders.write("b/SKILL.md", CANARY);
    let resources = resources(&folders);
    let absolute = folders.outside.join("canary.txt");
    for path in [
        "..",
        "../b/SKILL.md",
        "docs/../../b/SKILL.md",
        "..\\b\\SKILL.md",
        "/etc/passwd",
        "C:/x",
        "\0",
        "",
        absolute.to_str().unwrap(),
    ] {
        assert_eq!(
            read(&resources, path),
            Err(ResourceError::Outside),
            "{path}"
        );
    }
    for skill in [
        "",
        ".",
        "..",
        "../skills/b",
        "a/..",
        "b/../b",
        "A",
        "none",
        "a\0",
    ] {
        let seen = block_on(resources.read(skill, "SKILL.md"));
        assert_eq!(seen, Err(ResourceError::UnknownSkill), "{skill}");
    }
}

#[test]
fn a_file_of_any_kind_is_read_up_to_the_limit_on_answers() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "x");
    folders.write("a/text", vec![b'x'; 16 * MIB]);
    folders.write("a/binary", vec![0xff; 16 * MIB]);
    folders.write("a/more", vec![b'x'; 16 * MIB + 1]);
    folders.write("a/huge", "");
    let huge = fs::File::options()
        .write(true)
        .open(folders.root.join("a/huge"));
    huge.unwrap().set_len(1 << 40).unwrap();
    let resources = resources(&folders);
    assert_eq!(read(&resources, "text").unwrap().len(), 16 * MIB);
    let binary = read(&resources, "binary").unwrap();
    assert!(matches!(&binary, Contents::Binary(bytes) if bytes.len() == 16 * MIB));
    for path in ["more", "huge"] {
        let too_large = Err(ResourceError::TooLarge(16 * MIB));
        assert_eq!(read(&resources, path), too_large, "{path}");
    }

    let mut limits = Limits::default();
    limits.output = 1000;
    let host = build(builder().skills(&folders.root).limits(limits));
    folders.write("a/text", vec![b'x'; 1000]);
    folders.write("a/binary", vec![0xff; 1000]);
    folders.write("a/more", vec![0xff; 1001]);
    let resources = host.skill_resources().unwrap();
    assert_eq!(read(&resources, "text").unwrap().len(), 1000);
    assert_eq!(read(&resources, "binary").unwrap().len(), 1000);
    assert_eq!(read(&resources, "more"), Err(ResourceError::TooLarge(1000)));
    let grant = host.grants().pop().unwrap();
    assert_eq!((&*grant.tool, grant.limits.output), (SKILL_RESOURCES, 1000));
}

#[test]
fn a_skill_at_the_limits_has_a_manifest_and_one_over_them_says_which() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "x");
    for number in 0..511 {
        folders.write(&format!("a/{number}"), "x");
    }
    let resources = resources(&folders);
    let seen = manifest(&resources);
    assert_eq!((seen.files.len(), seen.over), (512, None));
    folders.write("a/docs/one-more", "x");
    let over = |folders: &Folders, limit| {
        let resources = host(folders).skill_resources().unwrap();
        let seen = manifest(&resources);
        assert_eq!((paths(&seen), seen.over), (vec!["SKILL.md"], Some(limit)));
        assert_eq!(seen.files[0].sha256, Some(sha256(b"x")));
        assert_eq!(seen.skill_md.as_deref(), Some("x"));
    };
    over(&folders, OverLimit::Files);

    let folders = Folders::new();
    folders.write("a/SKILL.md", "x");
    folders.write("a/big", vec![0; 16 * MIB - 1]);
    let resources = host(&folders).skill_resources().unwrap();
    assert_eq!(manifest(&resources).over, None);
    folders.write("a/more", "y");
    over(&folders, OverLimit::Bytes);
    // For a listing without digests it does not matter how large they are.
    let listed = block_on(resources.files("a")).unwrap();
    assert_eq!(
        (paths(&listed), listed.over),
        (vec!["SKILL.md", "big", "more"], None)
    );

    let folders = Folders::new();
    folders.write("a/SKILL.md", "x");
    let deepest = vec!["d"; 31].join("/");
    folders.write(&format!("a/{deepest}/f"), "x");
    let resources = host(&folders).skill_resources().unwrap();
    assert_eq!(manifest(&resources).files.len(), 2);
    folders.write(&format!("a/{deepest}/d/f"), "x");
    over(&folders, OverLimit::Depth);

    let folders = Folders::new();
    folders.write("a/SKILL.md", "x");
    // 64 ways to a folder of 64 names that lead nowhere, and the way there.
    fs::create_dir(folders.root.join("a/0")).unwrap();
    for number in 0..64 {
        symlink("none", folders.root.join(format!("a/0/{number}"))).unwrap();
        symlink("0", folders.root.join(format!("a/to-{number}"))).unwrap();
    }
    over(&folders, OverLimit::Entries);
}

#[test]
fn folders_of_links_to_folders_of_links_end_at_a_limit() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "x");
    // Twelve ways from each level to the next: 12^20 paths to one file.
    for level in 0..20 {
        fs::create_dir(folders.root.join(format!("a/{level}"))).unwrap();
        for way in 0..12 {
            let link = folders.root.join(format!("a/{level}/{way}"));
            symlink(format!("../{}", level + 1), link).unwrap();
        }
    }
    folders.write("a/20/f", "x");
    let resources = resources(&folders);
    let start = Instant::now();
    let seen = manifest(&resources);
    assert!(seen.over.is_some(), "{seen:?}");
    assert!(
        start.elapsed() < Duration::from_secs(5),
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn a_skill_is_read_as_it_is_at_each_call() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "one");
    let resources = resources(&folders);
    let before = manifest(&resources);
    assert_eq!(resources.skills(), ["a"]);
    folders.write("a/SKILL.md", "two");
    folders.write("a/new", "x");
    folders.write("b/SKILL.md", "b");
    let after = manifest(&resources);
    assert_ne!(before.files[0].sha256, after.files[0].sha256);
    assert_eq!(after.skill_md.as_deref(), Some("two"));
    assert_eq!(paths(&after), ["SKILL.md", "new"]);
    assert_eq!(resources.skills(), ["a", "b"]);
    fs::remove_dir_all(folders.root.join("a")).unwrap();
    assert_eq!(
        block_on(resources.manifest("a")),
        Err(ResourceError::UnknownSkill)
    );
    assert_eq!(resources.skills(), ["b"]);
}

#[test]
fn skill_md_that_is_missing_spelled_otherwise_or_no_text_has_no_start() {
    for (name, bytes) in [
        ("other", &b"x"[..]),
        ("SKILL.MD", b"x"),
        ("skill.md", b"x"),
        ("SKILL.md", b"---\nname: a\n---\n\xff"),
    ] {
        let folders = Folders::new();
        folders.write(&format!("a/{name}"), bytes);
        let seen = manifest(&resources(&folders));
        assert_eq!((paths(&seen), seen.skill_md.as_deref()), (vec![name], None));
    }
    // Cut where half a character would be.
    let folders = Folders::new();
    let long = "x".to_owned() + &"ä".repeat(100_000);
    folders.write("a/SKILL.md", &long);
    let resources = resources(&folders);
    for seen in [
        manifest(&resources),
        block_on(resources.files("a")).unwrap(),
    ] {
        let start = seen.skill_md.unwrap();
        assert_eq!(start.len(), (65 << 10) - 1);
        assert!(long.starts_with(&start));
    }
}

#[test]
fn resources_of_a_skill_that_is_not_granted_are_not_read_whether_or_not_it_is_there() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "x");
    folders.write("b/SKILL.md", CANARY);
    let grant = Grant::new().skills(["a"]).unwrap();
    let host = build(
        builder()
            .skills(&folders.root)
            .grant(SKILL_RESOURCES, grant),
    );
    let resources = host.skill_resources().unwrap();
    assert_eq!(resources.skills(), ["a"]);
    assert!(block_on(resources.manifest("a")).is_ok());
    for skill in ["b", "none"] {
        let denied = || ResourceError::NotGranted;
        assert_eq!(block_on(resources.read(skill, "SKILL.md")), Err(denied()));
        assert_eq!(block_on(resources.directory(skill, None)), Err(denied()));
        assert_eq!(block_on(resources.files(skill)), Err(denied()));
        assert_eq!(block_on(resources.manifest(skill)), Err(denied()));
    }
    // A grant of another tool says nothing about this one.
    let grant = Grant::new().skills(["a"]).unwrap();
    let host = build(builder().skills(&folders.root).grant("get_skill", grant));
    let resources = host.skill_resources().unwrap();
    assert!(block_on(resources.read("b", "SKILL.md")).is_ok());
}

#[test]
fn a_hard_link_is_read_where_the_operator_allows_it() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "x");
    fs::hard_link(folders.root.join("a/SKILL.md"), folders.root.join("a/two")).unwrap();
    let seen = manifest(&resources(&folders));
    assert_eq!((paths(&seen), seen.left_out_count), (vec![], 2));
    let grant = Grant::new().hard_links(true);
    let host = build(
        builder()
            .skills(&folders.root)
            .grant(SKILL_RESOURCES, grant),
    );
    let seen = manifest(&host.skill_resources().unwrap());
    assert_eq!(paths(&seen), ["SKILL.md", "two"]);
}

#[test]
fn an_operator_can_switch_resources_off_and_no_agent_can_call_them() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "x");
    let off = build(builder().skills(&folders.root).disable(SKILL_RESOURCES));
    let none = build(builder().skills(&folders.root).without_embedded_tools());
    let on = host(&folders);
    for host in [&off, &none] {
        assert!(host.skill_resources().is_none());
        assert!(
            host.grants()
                .iter()
                .all(|grant| grant.tool != SKILL_RESOURCES)
        );
    }
    for host in [&off, &none, &on] {
        let names = host.definitions().into_iter().map(|tool| tool.name);
        assert!(!names.into_iter().any(|name| name == SKILL_RESOURCES));
        let arguments = json!({"skill_name": "a", "operation": "files"});
        let called = block_on(host.call(SKILL_RESOURCES, arguments));
        assert!(
            matches!(called, Err(CallError::UnknownTool { .. })),
            "{called:?}"
        );
    }
}

#[test]
fn limits_stop_what_reads_resources_too() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "x");
    folders.write("a/big", vec![b'x'; 8 * MIB]);
    let mut limits = Limits::default();
    limits.memory = 4 * MIB;
    let grant = Grant::new().limits(limits);
    let host = build(
        builder()
            .skills(&folders.root)
            .grant(SKILL_RESOURCES, grant),
    );
    let resources = host.skill_resources().unwrap();
    let stopped = Err(ResourceError::Stopped(Stop::Memory(4 * MIB)));
    assert_eq!(read(&resources, "big"), stopped);
    assert_eq!(read(&resources, "SKILL.md").unwrap().len(), 1);
}

#[test]
fn every_read_of_a_resource_is_recorded() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "secret");
    let log = folders.outside.join("audit.jsonl");
    let builder = builder().skills(&folders.root);
    let host = build(builder.audit(&log, AuditMode::Required));
    let resources = host.skill_resources().unwrap().with_id("7");
    read(&resources, "SKILL.md").unwrap();
    read(&resources, "none").unwrap_err();
    manifest(&resources);
    let text = fs::read_to_string(log).unwrap();
    assert!(!text.contains("secret"), "{text}");
    let records = text.lines().map(|line| serde_json::from_str(line).unwrap());
    let records: Vec<Value> = records.collect();
    let expected = [
        (json!("SKILL.md"), "output", Value::Null),
        (json!("none"), "failed", json!("not-found")),
        (Value::Null, "output", Value::Null),
    ];
    assert_eq!(records.len(), expected.len(), "{text}");
    for (record, (path, outcome, reason)) in records.iter().zip(expected) {
        assert_eq!(record["tool"], SKILL_RESOURCES);
        assert_eq!(
            (&record["id"], &record["skill"]),
            (&json!("7"), &json!("a"))
        );
        assert_eq!((&record["path"], &record["reason"]), (&path, &reason));
        assert_eq!(record["outcome"], outcome);
    }
}
