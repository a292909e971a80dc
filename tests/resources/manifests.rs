//! Manifests of skills: the files that they list, the files that they leave out, and their limits.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;

use rustix::fs::{CWD, FileType, Mode};
use skillhost::{OverLimit, ResourceError, SkillFiles};

use super::{MIB, host, left_out, manifest, names, paths, read, resources, sha256};
use crate::support::block_on;
use crate::support::folders::{CANARY, Folders};

#[test]
fn manifest_has_all_files_and_skill_md_start() {
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
    // The paths are sorted by their bytes, so `Z` comes before `big.bin`, and `docs-2` before
    // `docs/`.
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
fn leaves_out_and_names_unreadable_files() {
    let folders = Folders::new();
    let skill = folders.root.join("a");
    folders.write("a/SKILL.md", "x");
    folders.write("a/docs/real.md", "real");
    let link = |target: &str, name: &str| symlink(target, skill.join(name)).unwrap();
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
    rustix::fs::mknodat(CWD, skill.join("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    fs::hard_link(folders.outside.join("canary.txt"), skill.join("hard")).unwrap();
    fs::write(skill.join(OsStr::from_bytes(b"not-\xff-utf8")), "x").unwrap();
    fs::write(skill.join("line\nfeed"), "x").unwrap();
    fs::write(skill.join("back\\slash"), "x").unwrap();
    fs::write(skill.join("..\\up"), "x").unwrap();
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
        let seen = read(&resources, path).unwrap_err();
        match error {
            Some(error) => assert_eq!(seen, error, "{path}"),
            None => assert!(
                matches!(seen, ResourceError::Unreadable(_)),
                "{path}: {seen:?}"
            ),
        }
        assert!(!seen.to_string().contains(CANARY), "{path}");
    }
}

#[test]
fn manifest_over_a_limit_names_the_limit() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "x");
    for number in 0..511 {
        folders.write(&format!("a/{number}"), "x");
    }
    let resources = resources(&folders);
    let seen = manifest(&resources);
    assert_eq!((seen.files.len(), seen.over), (512, None));
    folders.write("a/docs/one-more", "x");
    let assert_over_limit = |folders: &Folders, limit| {
        let resources = host(folders).skill_resources().unwrap();
        let seen = manifest(&resources);
        assert_eq!((paths(&seen), seen.over), (vec!["SKILL.md"], Some(limit)));
        assert_eq!(seen.files[0].sha256, Some(sha256(b"x")));
        assert_eq!(seen.skill_md.as_deref(), Some("x"));
    };
    assert_over_limit(&folders, OverLimit::Files);

    let folders = Folders::new();
    folders.write("a/SKILL.md", "x");
    folders.write("a/big", vec![0; 16 * MIB - 1]);
    let resources = host(&folders).skill_resources().unwrap();
    assert_eq!(manifest(&resources).over, None);
    folders.write("a/more", "y");
    assert_over_limit(&folders, OverLimit::Bytes);
    // A listing without digests does not limit the size of the files.
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
    assert_over_limit(&folders, OverLimit::Depth);

    let folders = Folders::new();
    folders.write("a/SKILL.md", "x");
    // The folder `0` has 128 dangling links. It and 128 links to it are 129 paths to those links.
    fs::create_dir(folders.root.join("a/0")).unwrap();
    for number in 0..128 {
        symlink("none", folders.root.join(format!("a/0/{number}"))).unwrap();
        symlink("0", folders.root.join(format!("a/to-{number}"))).unwrap();
    }
    assert_over_limit(&folders, OverLimit::Entries);
}

#[test]
fn manifest_with_nested_folder_links_stops_at_limit() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "x");
    // Twelve links from each level to the next: 12^20 paths to one file.
    for level in 0..20 {
        fs::create_dir(folders.root.join(format!("a/{level}"))).unwrap();
        for number in 0..12 {
            let link = folders.root.join(format!("a/{level}/{number}"));
            symlink(format!("../{}", level + 1), link).unwrap();
        }
    }
    folders.write("a/20/f", "x");
    let resources = resources(&folders);
    let seen = manifest(&resources);
    assert!(seen.over.is_some(), "{seen:?}");
}

#[test]
fn manifest_has_start_of_readable_skill_md() {
    for (name, bytes, path, start) in [
        ("other", &b"x"[..], "other", None),
        ("SKILL.md", b"---\nname: a\n---\n\xff", "SKILL.md", None),
        ("SKILL.md", b"x", "SKILL.md", Some("x")),
        ("SKILL.MD", b"x", "SKILL.md", Some("x")),
        ("skill.md", b"x", "SKILL.md", Some("x")),
    ] {
        let folders = Folders::new();
        folders.write(&format!("a/{name}"), bytes);
        let resources = resources(&folders);
        for seen in [
            manifest(&resources),
            block_on(resources.files("a")).unwrap(),
        ] {
            assert_eq!(
                (paths(&seen), seen.skill_md.as_deref()),
                (vec![path], start)
            );
        }
        assert!(block_on(resources.read("a", path)).is_ok(), "{name}");
    }
    // If the name SKILL.md has several spellings in a folder, only one file is listed as SKILL.md.
    let folders = Folders::new();
    folders.write("a/skill.md", "lower");
    folders.write("a/Skill.md", "mixed");
    let seen = manifest(&resources(&folders));
    assert_eq!(paths(&seen), ["SKILL.md", "skill.md"]);
    assert_eq!(seen.skill_md.as_deref(), Some("mixed"));
    // The start is cut before a partial character.
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
